"""Time and energy rooflines over one axis of intensity, with networks and layers beneath them.

    FLOP/s |      ____________       FLOP/J |          _______
           |    /|    o                     |     _--+-
           |  /  |  o                       |  _-    |  o
           |/____|_________                 |_-______|_______
             balance in time                    balance in energy

The two are drawn one above the other, so that a network stands at the same place across in both.
"""

from collections.abc import Sequence
from typing import Any

from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.plotting.labels import (
    Label,
    folded,
    lay_out,
    legend_beside,
    note_left_out,
    plain_text,
    set_title,
    write_labels,
)
from edgetune.plotting.style import GREY, MARKERS, Figure, new_figure
from edgetune.stages.roofline.figures.figure_data import (
    KINDS,
    LETTERS,
    NO_ENERGY,
    Curve,
    FigureData,
    balance_points,
    brief_names,
    energy_curve,
    figure_data_of,
    has_energy,
    letter_words,
    percent,
    point_words,
    roof_names,
    time_curve,
)
from edgetune.stages.roofline.figures.points import LayerPoints, PlacedNetwork, RooflinePoint, span
from edgetune.units import format_si

LINES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (5, 1.4, 1, 1.4)), (0, (2.5, 1.2)), (0, (6, 1.2, 1, 1.2, 1, 1.2)))
_FAINT = "#d4d4d4"
_BALANCE_MARKERS = {"time": "d", "energy": "<"}
_BALANCE_PT2 = 46.0
_NETWORK_PT2 = 52.0
_LEAST_PT2, _MOST_PT2 = 5.0, 110.0
_LIGHTEST, _DARKEST = 0.76, 0.15
"""Area of the marker, and grey, of a layer that takes no time and of the one that takes most; a grey of 0 is black."""
_LONGEST_NAME = 30
_JOINS = 3.0
"""Depth of the lines that join the batch sizes of a network: above all roofs, beneath all points."""


def roofline_figure(roofline: Roofline) -> Figure:
    """Return the rooflines of a device alone; errors as ``roof_figure``."""
    return roof_figure(roofline.roofs, device=roofline.device, simulated=roofline.header.simulated)


def roof_figure(
    roofs: Sequence[Roof], networks: Sequence[PlacedNetwork] = (), *, layers_of: PlacedNetwork | None = None,
    device: str = "", simulated: bool = False,
) -> Figure:  # fmt: skip
    """Return the rooflines of a device with networks beneath them; time alone where no roof has energy.

    Measured points are filled, predicted ones hollow. Roofs of the networks are drawn in full, the others faint;
    without networks see ``key_roofs``.

    Args:
        roofs: The device's, of whatever modes and precisions.
        networks: What to place; batch sizes of one network beneath one roof are joined.
        layers_of: The network whose layers to draw, larger and darker with their share of the time.
        device: For the title.
        simulated: Whether any of it comes from a model rather than a device.

    Raises:
        InputError: there is neither a roof nor a network.
        DeviceError: matplotlib is missing.
    """
    data = figure_data_of(roofs, networks, layers_of, device, simulated=simulated)
    kinds = ("time", "energy") if has_energy(data.shown) else ("time",)
    with new_figure((8.2, 7.6 if len(kinds) > 1 else 4.6)) as figure:
        panels = figure.subplots(len(kinds), 1, sharex=True, squeeze=False)[:, 0]
        drawn = {axes: _draw_panel(axes, kind, data) for axes, kind in zip(panels, kinds, strict=True)}
        first = panels[0]
        _name_roofs(first, data)
        _name_networks(first, data, with_energy=len(kinds) > 1)
        if data.layers is not None and layers_of is not None:
            names = brief_names(data.shown)
            beneath = f",\n{folded(names[layers_of.placement.roof])}" if len(names) > 1 else ""
            _name_layers(first, data.layers, layers_of, beneath)
        if len(kinds) == 1:
            first.plot([], [], linestyle="none", label=NO_ENERGY.replace(": ", ":\n"))
        legend_beside(figure, [first])
        set_title(first, *map(plain_text, data.title))
        for axes, kind in zip(panels, kinds, strict=True):
            axes.set_ylabel("performance (FLOP/s, log)" if kind == "time" else "efficiency (FLOP/J, log)")
        panels[-1].set_xlabel("intensity (FLOP/byte, log)")
        note_left_out(figure, _layers_beyond(first, data.layers))
        lay_out(figure)
        for axes, (labels, lines) in drawn.items():
            write_labels(axes, labels, lines)
    return figure


def _layers_beyond(axes: Any, layers: LayerPoints | None) -> list[str]:
    """Return a note on the number of layers beyond the axes, which include the layers that take most of the time."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    points = () if layers is None else layers.points
    beyond = [
        point for point in points if not (left <= point.flop_per_byte <= right and low <= point.flops_per_s <= high)
    ]
    share = percent(sum(point.share or 0.0 for point in beyond))
    return [f"{len(beyond)} of {len(points)} layers, {share} of the time, lie beyond the axes"] if beyond else []


def _height(point: RooflinePoint, kind: str) -> float | None:
    return point.flops_per_s if kind == "time" else point.flops_per_j


def _filled(point: RooflinePoint, kind: str) -> bool:
    return point.measured if kind == "time" else point.energy_measured


def _draw_panel(axes: Any, kind: str, data: FigureData) -> tuple[list[Label], list[Curve]]:
    """Draw one panel; return its labels, which are written later, and the curves that they should not cross."""
    _set_scales(axes)
    curves = _draw_roofs(axes, kind, data)
    labels = _draw_balance(axes, kind, data) + _draw_networks(axes, kind, data)
    if data.layers is not None and data.layers.points:
        labels += _draw_layers(axes, kind, data.layers)
    joined = [list(zip(*line.get_data(), strict=True)) for line in axes.lines if line.get_zorder() == _JOINS]
    curve_of = time_curve if kind == "time" else energy_curve
    heights = [y for roof in data.colours for _, y in curve_of(roof, *data.across)] + [y for c in curves for _, y in c]
    low, high = span([*heights, *(height for point in data.points() if (height := _height(point, kind)))], 1.0)
    axes.set_xlim(*data.across)
    axes.set_ylim(low / 1.3, high * 2.2)
    return labels, [*curves, *joined]


def _set_scales(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_si(value, "").strip()))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())


def _draw_roofs(axes: Any, kind: str, data: FigureData) -> list[Curve]:
    """Draw the roofs; return the curves of those drawn in full."""
    curve_of = time_curve if kind == "time" else energy_curve
    for roof in data.faint:
        if curve := curve_of(roof, *data.across):
            gid = f"{kind}.point.{data.all_roofs.index(roof)}"
            axes.plot(*zip(*curve, strict=True), color=_FAINT, linewidth=0.7, zorder=1, gid=gid)
    curves = []
    for number, (roof, colour) in enumerate(data.colours.items()):
        if curve := curve_of(roof, *data.across):
            axes.plot(
                *zip(*curve, strict=True), color=colour, linestyle=LINES[number % len(LINES)], linewidth=1.6, zorder=2,
                gid=f"{kind}.point.{data.all_roofs.index(roof)}",
            )  # fmt: skip
            curves.append(curve)
    return curves


def _draw_balance(axes: Any, kind: str, data: FigureData) -> list[Label]:
    """Mark balance points on their curves; those in time and in energy have a thin line through both panels."""
    labels = []
    for roof, colour in data.colours.items():
        for point in balance_points(roof):
            line = (0, (1, 2)) if point.kind == "time" else (0, (4, 3))
            axes.axvline(point.flop_per_byte, color=colour, linewidth=0.6, linestyle=line, alpha=0.7, zorder=1.5)
            if point.kind != kind:
                continue
            axes.scatter(
                point.flop_per_byte, point.height, s=_BALANCE_PT2, marker=_BALANCE_MARKERS[point.kind], color=colour,
                edgecolors="white", linewidths=0.7, zorder=3.5,
            )  # fmt: skip
            words = f"{KINDS[point.kind]} " if len(data.shown) == 1 else ""
            labels.append(
                Label(point.flop_per_byte, point.height, 3.8, f"{words}{point.flop_per_byte:.3g}", weight="bold")
            )
    return labels


def _draw_networks(axes: Any, kind: str, data: FigureData) -> list[Label]:
    """Draw networks; the batch sizes of a network are joined by a line and, if there are several, written."""
    labels = []
    for number, each in enumerate(data.series):
        points = [p for p in each.points if _height(p, kind) is not None]
        places = [(point.flop_per_byte, _height(point, kind) or 0.0) for point in points]
        colour, marker = data.colour(number), MARKERS[number % len(MARKERS)]
        if len(places) > 1:
            axes.plot(*zip(*places, strict=True), color=colour, linewidth=0.8, zorder=_JOINS)
        for point, place in zip(points, places, strict=True):
            face = colour if _filled(point, kind) else "white"
            axes.scatter(
                *place, s=_NETWORK_PT2, marker=marker, facecolors=face, edgecolors=colour, linewidths=1.3, zorder=4,
                gid=f"{kind}.point.{point.key}",
            )  # fmt: skip
        words = point_words(points, places) if data.worded else [""] * len(points)
        labels += [Label(*place, 4.2, word) for place, word in zip(places, words, strict=True)]
    return labels


def _draw_layers(axes: Any, kind: str, layers: LayerPoints) -> list[Label]:
    """Draw layers, the largest last and so on top; the largest few have letters."""
    labels = []
    placed = [(point, height) for point in layers.points if (height := _height(point, kind)) is not None]
    words = letter_words([(point.flop_per_byte, height) for point, height in placed])
    for (point, height), letters in reversed(list(zip(placed, words, strict=True))):
        style = _layer_style(point.share or 0.0, layers, filled=_filled(point, kind))
        axes.scatter(point.flop_per_byte, height, zorder=2.4, gid=f"{kind}.point.{point.key}", **style)
        labels.append(Label(point.flop_per_byte, height, style["s"] ** 0.5 / 2, letters))
    return labels[::-1]


def _layer_style(share: float, layers: LayerPoints, *, filled: bool) -> dict[str, Any]:
    """Return the size and shade of the marker of a layer with a share of the time."""
    most = layers.points[0].share
    part = share / most if most else 0.0
    grey = f"{_LIGHTEST + (_DARKEST - _LIGHTEST) * part:.3f}"
    style = {"s": _LEAST_PT2 + (_MOST_PT2 - _LEAST_PT2) * part, "marker": "o"}
    if filled:
        return style | {"facecolors": grey, "edgecolors": "white", "linewidths": 0.3}
    return style | {"facecolors": "none", "edgecolors": grey, "linewidths": 1.0}


def _name_roofs(axes: Any, data: FigureData) -> None:
    names = roof_names(data.shown)
    for number, (roof, colour) in enumerate(data.colours.items()):
        peaks = f"{format_si(roof.flops_per_s, 'FLOP/s')}, {format_si(roof.bytes_per_s, 'B/s')}"
        label = f"{folded(names[roof])}\n{peaks}"
        axes.plot([], [], color=colour, linestyle=LINES[number % len(LINES)], linewidth=1.6, label=label)
    if rest := len(data.faint):
        axes.plot([], [], color=_FAINT, linewidth=0.9, label=f"{rest} other roof{'s' * (rest > 1)}")
    kinds = {point.kind for roof in data.shown for point in balance_points(roof)}
    for kind in (kind for kind in KINDS if kind in kinds):
        axes.scatter([], [], color=GREY, marker=_BALANCE_MARKERS[kind], s=_BALANCE_PT2, label=KINDS[kind])


def _name_networks(axes: Any, data: FigureData, *, with_energy: bool) -> None:
    for number in range(len(data.series)):
        style = {"marker": MARKERS[number % len(MARKERS)], "color": data.colour(number), "linewidths": 1.3}
        axes.scatter([], [], s=_NETWORK_PT2, label=folded(data.series_name(number)), **style)
    points = [*(point for each in data.series for point in each.points), *(data.layers.points if data.layers else ())]
    filled = {_filled(point, kind) for point in points for kind in ("time", "energy")[: 1 + with_energy]}
    notes = ["numbers: batch sizes"] if data.numbered else []
    if False in filled:
        notes.append("filled: measured\nhollow: predicted" if True in filled else "hollow: predicted")
    for note in notes:
        axes.plot([], [], linestyle="none", label=note)


def _name_layers(axes: Any, layers: LayerPoints, network: PlacedNetwork, beneath: str) -> None:
    """Add the names of lettered layers, two sample markers, and the number of layers without a place to the legend."""
    of, most = network.placement, layers.points[0].share if layers.points else None
    at = f"batch {of.batch_size}" if of.point is None else f"{of.point}, batch {of.batch_size}"
    axes.plot([], [], linestyle="none", label=f"layers of {folded(of.workload)}\nat {at}{beneath}:")
    for share in (most / 4, most) if most else ():
        style = _layer_style(share, layers, filled=layers.points[0].measured)
        axes.scatter([], [], label=f"{percent(share)} of the time", **style)
    named = zip(LETTERS, layers.points, strict=False)
    lines = [f"{letter}  {plain_text(point.layer or '', _LONGEST_NAME)}" for letter, point in named]
    if lines:
        axes.plot([], [], linestyle="none", label="\n".join(lines))
    if layers.without_place:
        count = f"{layers.without_place} layer{'s' * (layers.without_place > 1)} without FLOP,"
        time = f"{percent(layers.without_place_share)} of the time: not shown"
        axes.plot([], [], linestyle="none", label=f"{count}\n{time}")
