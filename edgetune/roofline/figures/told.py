"""What a point of a roofline says of itself in words."""

from __future__ import annotations

from edgetune.artifacts.roofline import Roof
from edgetune.roofline.balance import efficiency
from edgetune.roofline.figures.scene import percent
from edgetune.roofline.figures.spots import Spot
from edgetune.units import format_si


def told(spot: Spot, roof_name: str) -> str:
    """Return what a point is, one fact a line: what, where, how fast, how frugal, what bounds it."""
    what = f"{spot.network}, batch {spot.batch_size}"
    if spot.layer is not None:
        what = f"{spot.layer} ({spot.op})\nof {what}"
    return "\n".join([what, roof_name, f"intensity {spot.flop_per_byte:.3g} FLOP/byte", *_figures(spot), _bound(spot)])


def _figures(spot: Spot) -> list[str]:
    roof = spot.roof
    at_most = min(roof.flops_per_s, spot.flop_per_byte * roof.bytes_per_s)
    how = "measured" if spot.measured else "predicted"
    minibatch = "" if spot.share is None else f", {percent(spot.share)} of the minibatch"
    lines = [
        f"{format_si(spot.flops_per_s, 'FLOP/s')} {how}, {percent(spot.flops_per_s / at_most)} of the roof there",
        f"{format_si(spot.seconds, 's')}{minibatch}",
    ]
    most = efficiency(roof, spot.flop_per_byte)
    if spot.flops_per_j is not None and most:
        how = "measured" if spot.energy_measured else "predicted"
        share = percent(spot.flops_per_j / most)
        lines.append(f"{format_si(spot.flops_per_j, 'FLOP/J')} {how}, {share} of the roof there")
    return lines


def _bound(spot: Spot) -> str:
    if spot.energy_bound is None:
        return f"bound by {spot.bound} in time"
    if spot.energy_bound == spot.bound:
        return f"bound by {spot.bound} in time and in energy"
    return f"bound by {spot.bound} in time, by {spot.energy_bound} in energy"


def told_roof(roof: Roof, name: str) -> str:
    """Return what a roof is."""
    return f"{name}: {format_si(roof.flops_per_s, 'FLOP/s')}, {format_si(roof.bytes_per_s, 'B/s')}"
