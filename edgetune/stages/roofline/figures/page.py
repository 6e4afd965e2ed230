"""Rooflines in a report: every figure, with descriptions of its points, and tables of the points."""

from collections.abc import Sequence
from functools import partial

from edgetune.artifacts.roofline import Roof
from edgetune.plotting.page import SectionWriter
from edgetune.stages.roofline.balance import efficiency
from edgetune.stages.roofline.figures.figure_data import (
    LETTERS,
    NO_ENERGY,
    FigureData,
    brief_names,
    figure_data_of,
    has_energy,
    percent,
    roof_names,
)
from edgetune.stages.roofline.figures.points import PlacedNetwork, RooflinePoint
from edgetune.stages.roofline.figures.roofs import roof_figure
from edgetune.units import format_si


def describe_point(point: RooflinePoint, roof_name: str) -> str:
    """Return the description of a point, one fact per line: name, place, rate, efficiency, bounds."""
    what = f"{point.network}, batch {point.batch_size}"
    if point.layer is not None:
        what = f"{point.layer} ({point.op})\nof {what}"
    return "\n".join(
        [what, roof_name, f"intensity {point.flop_per_byte:.3g} FLOP/byte", *_figure_lines(point), _bound(point)]
    )


def _figure_lines(point: RooflinePoint) -> list[str]:
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
    if point.bound is None:
        return _ABOVE
    if point.energy_bound is None:
        return f"bound by {point.bound} in time"
    if point.energy_bound == point.bound:
        return f"bound by {point.bound} in time and in energy"
    return f"bound by {point.bound} in time, by {point.energy_bound} in energy"


_ABOVE = "above the roof"
_COLUMNS = ("FLOP/byte>", "time>", "rate>", "efficiency>", "bound in time>", "bound in energy>")


def write_rooflines(
    out: SectionWriter, roofs: Sequence[Roof], networks: Sequence[PlacedNetwork] = (), *,
    layers_of: PlacedNetwork | None = None, device: str = "", simulated: bool = False, notes: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write what ``roof_figure`` draws, and tables of points.

    Args:
        out: Takes figures and tables.
        roofs, networks, layers_of, device, simulated: As for ``roof_figure``.
        notes: Sentences to write beneath, e.g. of ``roofline.statements``.

    Raises:
        InputError: There is neither a roof nor a network.
        DeviceError: matplotlib is missing.
    """
    data = figure_data_of(roofs, networks, layers_of, device, simulated=simulated)
    words = _words(data)
    with_energy = has_energy(data.shown)
    out.figure(
        partial(roof_figure, roofs, networks, layers_of=layers_of, device=device, simulated=simulated),
        "rooflines of time and energy" if with_energy else "roofline of time",
        words,
    )
    if not with_energy:
        out.note(NO_ENERGY)
    _write_tables(out, data)
    for note in notes:
        out.note(note)


def _words(data: FigureData) -> dict[str, str]:
    """Return the descriptions of the points of networks and layers."""
    points = [point for each in data.series for point in each.points]
    layers = () if data.layers is None else data.layers.points
    names = roof_names([*data.shown, *(point.roof for point in layers[:1])])
    return {
        f"{letter}{number}": describe_point(point, names[point.roof])
        for letter, found in (("n", points), ("l", layers))
        for number, point in enumerate(found)
    }


def _write_tables(out: SectionWriter, data: FigureData) -> None:
    """Write the table of networks, and the table of layers, which is folded."""
    names = brief_names(data.shown)
    points = [point for each in data.series for point in each.points]
    if points:
        out.heading("networks")
        rows = [[point.network, point.batch_size, names[point.roof], *_figures(point)] for point in points]
        out.table(("network", "batch>", "roof>", *_COLUMNS), rows)
    if data.layers is None:
        return
    left = data.layers.without_place
    rows = [
        [f"{point.layer}{f' ({LETTERS[index]})' if index < len(LETTERS) else ''}", point.op or "",
         percent(point.share or 0.0), *_figures(point)]
        for index, point in enumerate(data.layers.points)
    ]  # fmt: skip
    out.table(
        ("layer", "operators>", "share of time>", *_COLUMNS), rows, opened=False,
        title=f"{len(data.layers.points)} layers, the largest share of the time first",
    )  # fmt: skip
    if left:
        out.note(f"{left} more have no FLOP and take {percent(data.layers.without_place_share)} of the time.")


def _figures(point: RooflinePoint) -> list[str]:
    predicted = "" if point.measured else " (predicted)"
    efficiency = "" if point.flops_per_j is None else format_si(point.flops_per_j, "FLOP/J")
    rate = format_si(point.flops_per_s, "FLOP/s")
    time = format_si(point.seconds, "s") + predicted
    return [f"{point.flop_per_byte:.3g}", time, rate, efficiency, point.bound or _ABOVE, point.energy_bound or ""]
