"""Time and energy rooflines over one axis of intensity, with networks and layers beneath them.

    FLOP/s |      ____________       FLOP/J |          _______
           |    /|    o                     |     _--+-
           |  /  |  o                       |  _-    |  o
           |/____|_________                 |_-______|_______
             balance in time                    balance in energy

The two are drawn one above the other, so that a network stands at the same place across in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.roofline import Roof
from edgetune.drawing import BLACK, GREY, MARKERS, legend_beside, note_left_out, set_title, styled
from edgetune.roofline.figures.curves import (
    KINDS,
    Curve,
    brief_names,
    energy_curve,
    has_energy,
    roof_names,
    static_matters,
    time_curve,
)
from edgetune.roofline.figures.labels import Label, folded, lay_out, plain_text, write_labels
from edgetune.roofline.figures.scene import LETTERS, NO_ENERGY, Scene, letter_words, percent, point_words, scene_of
from edgetune.roofline.figures.spots import LayerSpots, Network, Spot, span
from edgetune.units import format_si

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (5, 1.4, 1, 1.4)), (0, (2.5, 1.2)), (0, (6, 1.2, 1, 1.2, 1, 1.2)))
_FAINT = "#d4d4d4"
_BALANCE_MARKERS = {"time": "d", "energy": "<", "dynamic": ">"}
_BALANCE_PT2 = 46.0
_NETWORK_PT2 = 52.0
_LEAST_PT2, _MOST_PT2 = 5.0, 110.0
_LIGHTEST, _DARKEST = 0.76, 0.15
"""Area of the marker, and grey, of a layer that takes no time and of the one that takes most; a grey of 0 is black."""
_LONGEST_NAME = 30
_JOINS = 3.0
"""Depth of the lines that join the batch sizes of a network: above all roofs, beneath all points."""


def roof_figure(
    roofs: Sequence[Roof],
    networks: Sequence[Network] = (),
    *,
    layers_of: Network | None = None,
    device: str = "",
    simulated: bool = False,
) -> Figure:
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
    scene = scene_of(roofs, networks, layers_of, device, simulated=simulated)
    with styled():
        from matplotlib.figure import Figure

        kinds = ("time", "energy") if has_energy(scene.shown) else ("time",)
        figure = Figure(figsize=(8.2, 7.6 if len(kinds) > 1 else 4.6), layout="constrained")
        panels = figure.subplots(len(kinds), sharex=True, squeeze=False)[:, 0]
        drawn = [_draw_panel(axes, kind, scene) for axes, kind in zip(panels, kinds, strict=True)]
        _name_roofs(panels[0], scene, with_energy=len(kinds) > 1)
        _name_networks(panels[0], scene, with_energy=len(kinds) > 1)
        if scene.layers is not None and layers_of is not None:
            names = brief_names(scene.shown)
            beneath = f",\n{folded(names[layers_of.placement.roof])}" if len(names) > 1 else ""
            _name_layers(panels[0], scene.layers, layers_of, beneath)
        if len(kinds) == 1:
            panels[0].plot([], [], linestyle="none", label=NO_ENERGY.replace(": ", ":\n"))
        legend_beside(figure, [panels[0]])
        set_title(panels[0], *map(plain_text, scene.title))
        panels[-1].set_xlabel("intensity (FLOP/byte)")
        note_left_out(figure, _layers_beyond(panels[0], scene.layers))
        lay_out(figure)
        for axes, (labels, lines) in zip(panels, drawn, strict=True):
            write_labels(figure, axes, labels, lines)
    return figure


def _layers_beyond(axes: Any, layers: LayerSpots | None) -> list[str]:
    """Return the note of how many layers lie beyond the axes, which show those that most of the time goes to."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    spots = () if layers is None else layers.spots
    beyond = [spot for spot in spots if not (left <= spot.flop_per_byte <= right and low <= spot.flops_per_s <= high)]
    share = percent(sum(spot.share or 0.0 for spot in beyond))
    return [f"{len(beyond)} of {len(spots)} layers, {share} of the time, lie beyond the axes"] if beyond else []


def _height(spot: Spot, kind: str) -> float | None:
    return spot.flops_per_s if kind == "time" else spot.flops_per_j


def _filled(spot: Spot, kind: str) -> bool:
    return spot.measured if kind == "time" else spot.energy_measured


def _draw_panel(axes: Any, kind: str, scene: Scene) -> tuple[list[Label], list[Curve]]:
    """Draw one panel; return the labels that are still to be written, and the curves they should not cross."""
    _set_scales(axes, kind)
    curves = _draw_roofs(axes, kind, scene)
    labels = _draw_balance(axes, kind, scene) + _draw_networks(axes, kind, scene)
    if scene.layers is not None:
        labels += _draw_layers(axes, kind, scene.layers)
    joined = [list(zip(*line.get_data(), strict=True)) for line in axes.lines if line.get_zorder() == _JOINS]
    heights = [y for curve in curves for _, y in curve]
    low, high = span([*heights, *(height for spot in scene.spots() if (height := _height(spot, kind)))], 1.0)
    axes.set_xlim(*scene.across)
    axes.set_ylim(low / 1.3, high * 2.2)
    return labels, [*curves, *joined]


def _set_scales(axes: Any, kind: str) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylabel("performance (FLOP/s)" if kind == "time" else "efficiency (FLOP/J)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_si(value, "").strip()))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())


def _draw_roofs(axes: Any, kind: str, scene: Scene) -> list[Curve]:
    """Draw the roofs; return the curves of those drawn in full."""
    curve_of = time_curve if kind == "time" else energy_curve
    for roof in scene.faint:
        if curve := curve_of(roof, *scene.across):
            axes.plot(*zip(*curve, strict=True), color=_FAINT, linewidth=0.7, zorder=1)
    curves = []
    for number, (roof, colour) in enumerate(scene.colours.items()):
        if curve := curve_of(roof, *scene.across):
            line = LINES[number % len(LINES)]
            axes.plot(*zip(*curve, strict=True), color=colour, linestyle=line, linewidth=1.6, zorder=2)
            curves.append(curve)
        if kind == "energy" and scene.with_dynamic and static_matters(roof):
            curve = energy_curve(roof, *scene.across, static=False)
            axes.plot(*zip(*curve, strict=True), color=colour, linestyle=":", linewidth=1.1, zorder=1.9)
            curves.append(curve)
    return curves


def _draw_balance(axes: Any, kind: str, scene: Scene) -> list[Label]:
    """Mark balance points on their curves, those that count with a thin line through both panels."""
    labels = []
    for roof, colour in scene.colours.items():
        for point in scene.balances(roof):
            if point.kind != "dynamic":
                line = (0, (1, 2)) if point.kind == "time" else (0, (4, 3))
                axes.axvline(point.flop_per_byte, color=colour, linewidth=0.6, linestyle=line, alpha=0.7, zorder=1.5)
            if (point.kind == "time") is not (kind == "time"):
                continue
            axes.scatter(
                point.flop_per_byte, point.height, s=_BALANCE_PT2, marker=_BALANCE_MARKERS[point.kind], color=colour,
                edgecolors="white", linewidths=0.7, zorder=3.5,
            )  # fmt: skip
            words = KINDS[point.kind].replace("\n", " ") + " " if len(scene.shown) == 1 else ""
            labels.append(Label(point.flop_per_byte, point.height, 3.8, f"{words}{point.flop_per_byte:.3g}", bold=True))
    return labels


def _draw_networks(axes: Any, kind: str, scene: Scene) -> list[Label]:
    """Draw networks, batch sizes of one joined by a line and numbered where there are several."""
    labels = []
    for number, each in enumerate(scene.series):
        spots = [spot for spot in each.spots if _height(spot, kind) is not None]
        places = [(spot.flop_per_byte, _height(spot, kind) or 0.0) for spot in spots]
        colour, marker = scene.colour(number), MARKERS[number % len(MARKERS)]
        if len(places) > 1:
            axes.plot(*zip(*places, strict=True), color=colour, linewidth=0.8, zorder=_JOINS)
        for spot, place in zip(spots, places, strict=True):
            face = colour if _filled(spot, kind) else "white"
            axes.scatter(
                *place, s=_NETWORK_PT2, marker=marker, facecolors=face, edgecolors=colour, linewidths=1.3, zorder=4
            )
        words = point_words(spots, places) if scene.worded else [""] * len(spots)
        labels += [Label(*place, 4.2, word) for place, word in zip(places, words, strict=True)]
    return labels


def _draw_layers(axes: Any, kind: str, layers: LayerSpots) -> list[Label]:
    """Draw layers, the largest share of the time last and thus on top, and letter the largest few."""
    labels = []
    placed = [(spot, height) for spot in layers.spots if (height := _height(spot, kind)) is not None]
    words = letter_words([(spot.flop_per_byte, height) for spot, height in placed])
    for (spot, height), letters in reversed(list(zip(placed, words, strict=True))):
        style = _layer_style(spot.share or 0.0, layers, filled=_filled(spot, kind))
        axes.scatter(spot.flop_per_byte, height, zorder=2.4, **style)
        labels.append(Label(spot.flop_per_byte, height, style["s"] ** 0.5 / 2, letters))
    return labels[::-1]


def _layer_style(share: float, layers: LayerSpots, *, filled: bool) -> dict[str, Any]:
    """Return size and shade of the marker of a layer that takes such a share of the time."""
    most = layers.spots[0].share
    part = share / most if most else 0.0
    grey = f"{_LIGHTEST + (_DARKEST - _LIGHTEST) * part:.3f}"
    style = {"s": _LEAST_PT2 + (_MOST_PT2 - _LEAST_PT2) * part, "marker": "o"}
    if filled:
        return style | {"facecolors": grey, "edgecolors": "white", "linewidths": 0.3}
    return style | {"facecolors": "none", "edgecolors": grey, "linewidths": 1.0}


def _name_roofs(axes: Any, scene: Scene, *, with_energy: bool) -> None:
    names = roof_names(scene.shown)
    for number, (roof, colour) in enumerate(scene.colours.items()):
        peaks = f"{format_si(roof.flops_per_s, 'FLOP/s')}, {format_si(roof.bytes_per_s, 'B/s')}"
        label = f"{folded(names[roof])}\n{peaks}"
        axes.plot([], [], color=colour, linestyle=LINES[number % len(LINES)], linewidth=1.6, label=label)
    if rest := len(scene.faint):
        axes.plot([], [], color=_FAINT, linewidth=0.9, label=f"{rest} other roof{'s' * (rest > 1)}")
    if with_energy and scene.with_dynamic:
        axes.plot([], [], color=BLACK, linestyle=":", linewidth=1.1, label="without static power")
    kinds = {point.kind for roof in scene.shown for point in scene.balances(roof)}
    for kind in (kind for kind in KINDS if kind in kinds):
        axes.scatter([], [], color=GREY, marker=_BALANCE_MARKERS[kind], s=_BALANCE_PT2, label=KINDS[kind])


def _name_networks(axes: Any, scene: Scene, *, with_energy: bool) -> None:
    for number in range(len(scene.series)):
        style = {"marker": MARKERS[number % len(MARKERS)], "color": scene.colour(number), "linewidths": 1.3}
        axes.scatter([], [], s=_NETWORK_PT2, label=folded(scene.series_name(number)), **style)
    spots = [*(spot for each in scene.series for spot in each.spots), *(scene.layers.spots if scene.layers else ())]
    filled = {_filled(spot, kind) for spot in spots for kind in ("time", "energy")[: 1 + with_energy]}
    notes = ["numbers: batch sizes"] if scene.numbered else []
    if False in filled:
        notes.append("filled: measured\nhollow: predicted" if True in filled else "hollow: predicted")
    for note in notes:
        axes.plot([], [], linestyle="none", label=note)


def _name_layers(axes: Any, layers: LayerSpots, network: Network, beneath: str) -> None:
    """Name the lettered layers beside two markers for size and shade, and say how many have no place."""
    of, most = network.placement, layers.spots[0].share if layers.spots else None
    at = f"batch {of.batch_size}" if of.point is None else f"{of.point}, batch {of.batch_size}"
    axes.plot([], [], linestyle="none", label=f"layers of {folded(of.workload)}\nat {at}{beneath}:")
    for share in (most / 4, most) if most else ():
        style = _layer_style(share, layers, filled=layers.spots[0].measured)
        axes.scatter([], [], label=f"{percent(share)} of the time", **style)
    named = zip(LETTERS, layers.spots, strict=False)
    lines = [f"{letter}  {plain_text(spot.layer or '', _LONGEST_NAME)}" for letter, spot in named]
    if lines:
        axes.plot([], [], linestyle="none", label="\n".join(lines))
    if layers.without_place:
        count = f"{layers.without_place} layer{'s' * (layers.without_place > 1)} without FLOP,"
        time = f"{percent(layers.without_place_share)} of the time: not shown"
        axes.plot([], [], linestyle="none", label=f"{count}\n{time}")
