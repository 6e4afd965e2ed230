"""What a point of a roofline says of itself in words."""

from __future__ import annotations

from edgetune.artifacts.roofline import Roof
from edgetune.roofline.balance import efficiency
from edgetune.roofline.figures.clock_lines import Quantity
from edgetune.roofline.figures.figure_data import percent
from edgetune.roofline.figures.points import RooflinePoint
from edgetune.units import format_si


def describe_point(point: RooflinePoint, roof_name: str) -> str:
    """Return what a point is, one fact a line: what, where, how fast, how frugal, what bounds it."""
    what = f"{point.network}, batch {point.batch_size}"
    if point.layer is not None:
        what = f"{point.layer} ({point.op})\nof {what}"
    return "\n".join(
        [what, roof_name, f"intensity {point.flop_per_byte:.3g} FLOP/byte", *_figures(point), _bound(point)]
    )


def _figures(point: RooflinePoint) -> list[str]:
    roof = point.roof
    at_most = min(roof.flops_per_s, point.flop_per_byte * roof.bytes_per_s)
    how = "measured" if point.measured else "predicted"
    minibatch = "" if point.share is None else f", {percent(point.share)} of the minibatch"
    lines = [
        f"{format_si(point.flops_per_s, 'FLOP/s')} {how}, {percent(point.flops_per_s / at_most)} of the roof there",
        f"{format_si(point.seconds, 's')}{minibatch}",
    ]
    most = efficiency(roof, point.flop_per_byte)
    if point.flops_per_j is not None and most:
        how = "measured" if point.energy_measured else "predicted"
        share = percent(point.flops_per_j / most)
        lines.append(f"{format_si(point.flops_per_j, 'FLOP/J')} {how}, {share} of the roof there")
    return lines


def _bound(point: RooflinePoint) -> str:
    if point.energy_bound is None:
        return f"bound by {point.bound} in time"
    if point.energy_bound == point.bound:
        return f"bound by {point.bound} in time and in energy"
    return f"bound by {point.bound} in time, by {point.energy_bound} in energy"


def describe_constant(quantity: Quantity, roof: Roof, value: float) -> str:
    """Return what a quantity of a roof is, with its confidence interval."""
    error = quantity.error_of(roof)
    number = f"{value:.3g}" if quantity.factor else format_si(value, quantity.unit)
    interval = f" +-{error:.2g}" if error else ""
    unit = f" {quantity.unit}" if quantity.factor else ""
    return f"{quantity.label} {number}{interval}{unit}, {'measured' if roof.measured else 'inferred'}"
