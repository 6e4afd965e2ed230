"""The panels of a page: time and energy one above the other, and intensity against batch size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from edgetune.plotting.labels import Box, LabelLayout, along
from edgetune.plotting.style import BLACK, COLOURS, MARKERS
from edgetune.roofline.figures.curves import (
    KINDS,
    Curve,
    balance_points,
    brief_names,
    energy_curve,
    has_energy,
    roof_names,
    static_matters,
    time_curve,
)
from edgetune.roofline.figures.figure_data import LETTERS, FigureData, letter_words, point_words
from edgetune.roofline.figures.point_text import describe_point
from edgetune.roofline.figures.points import RooflinePoint, span
from edgetune.roofline.figures.svg import Frame, draw_axes, draw_curve, draw_marker, element, text_size, ticks
from edgetune.units import format_si

DASHES = ("none", "9 4", "9 4 2 4", "5 3", "10 3 2 3 2 3")
BALANCE_MARKERS = {"time": "d", "energy": "<", "dynamic": ">"}
_WIDTH, _HEIGHT = 780.0, 310.0
_LEFT, _TOP, _BELOW, _RIGHT = 66.0, 10.0, 46.0, 14.0
_NETWORK_PX = 6.5
_MARGIN_PX, _CLOSE_PX = 8.0, 16.0
_LEAST_PX, _MOST_PX = 2.5, 10.0
_PALEST, _DARKEST = 0.25, 0.8
"""Radius of a layer that takes no time and of the one that takes most, and how dark they are."""

_BESIDE, _MOST_WORDS = 1.5, 0.45
"""Factor of room beside the batch sizes, and the largest share of the width that words on lines have to themselves."""


def css_colour(colour: str) -> str:
    """Return a colour as the page's style has it, where it is another on dark paper."""
    return {BLACK: "var(--ink)", "faint": "var(--faint)"}.get(colour) or f"var(--c{COLOURS.index(colour)})"


def roof_panels(parent: ET.Element, data: FigureData) -> None:
    """Draw time and, where there is energy, energy beneath it."""
    kinds = ("time", "energy") if has_energy(data.shown) else ("time",)
    svg = _sheet(parent, len(kinds), "rooflines of " + " and ".join(kinds))
    for row, kind in enumerate(kinds):
        _RoofPanel(data, kind, row).draw(svg)


def _sheet(parent: ET.Element, rows: int, label: str) -> ET.Element:
    size = f"0 0 {_LEFT + _WIDTH + _RIGHT} {rows * (_TOP + _HEIGHT + _BELOW)}"
    return element(parent, "svg", viewBox=size, role="group", aria_label=label)


def _panel(svg: ET.Element, row: int) -> ET.Element:
    return element(svg, "g", transform=f"translate({_LEFT} {_TOP + row * (_TOP + _HEIGHT + _BELOW)})")


def _inside(panel: ET.Element) -> ET.Element:
    """Return what holds all that must end at the frame."""
    return element(panel, "svg", width=_WIDTH, height=_HEIGHT)


class _RoofPanel:
    """One panel while it is drawn."""

    def __init__(self, data: FigureData, kind: str, row: int) -> None:
        self._scene, self._kind, self._row = data, kind, row
        curve_of = time_curve if kind == "time" else energy_curve
        self._curves = {roof: curve_of(roof, *data.across) for roof in (*data.shown, *data.faint)}
        heights = [y for roof in data.shown for _, y in self._curves[roof]]
        if kind == "energy" and data.with_dynamic:
            heights += [y for roof in data.shown for _, y in energy_curve(roof, *data.across, static=False)]
        heights += [height for point in data.points() if (height := self._height(point))]
        low, high = span(heights, 1.0)
        self._frame = Frame(_WIDTH, _HEIGHT, data.across, (low / 1.3, high * 2.2))
        self._labels: list[tuple[tuple[float, float], float, str]] = []
        self._crossed: list[Curve] = []

    def _height(self, point: RooflinePoint) -> float | None:
        return point.flops_per_s if self._kind == "time" else point.flops_per_j

    def draw(self, svg: ET.Element) -> None:
        """Draw all of it, what matters most last."""
        panel = _panel(svg, self._row)
        across = [(value, f"{value:g}") for value in ticks(*self._frame.across)]
        up = [(value, format_si(value, "").strip()) for value in ticks(*self._frame.up)]
        name = "performance (FLOP/s)" if self._kind == "time" else "efficiency (FLOP/J)"
        draw_axes(panel, self._frame, ("intensity (FLOP/byte)", name), across, up)
        inside = _inside(panel)
        self._draw_roofs(inside)
        layers = element(inside, "g")
        self._draw_balance(inside)
        self._draw_networks(inside)
        self._draw_layers(layers)
        write_words(inside, self._labels, self._crossed)

    def _draw_roofs(self, inside: ET.Element) -> None:
        for roof in self._scene.faint:
            if curve := self._curves[roof]:
                draw_curve(inside, self._frame, curve, stroke=css_colour("faint"))
        for number, (roof, colour) in enumerate(self._scene.colours.items()):
            style = {"stroke": css_colour(colour)}
            if curve := self._curves[roof]:
                self._crossed.append([self._frame.place(point) for point in curve])
                dashes = DASHES[number % len(DASHES)]
                draw_curve(inside, self._frame, curve, stroke_width=2, stroke_dasharray=dashes, **style)
            if self._kind == "energy" and self._scene.with_dynamic and static_matters(roof):
                curve = energy_curve(roof, *self._scene.across, static=False)
                self._crossed.append([self._frame.place(point) for point in curve])
                draw_curve(inside, self._frame, curve, stroke_width=1.4, stroke_dasharray="2 3", **style)

    def _draw_balance(self, inside: ET.Element) -> None:
        for roof, colour in self._scene.colours.items():
            for point in self._scene.balances(roof):
                x, y = self._frame.place((point.flop_per_byte, point.height))
                if point.kind != "dynamic":
                    style = {"stroke": css_colour(colour), "stroke_dasharray": "1 3" if point.kind == "time" else "5 4"}
                    element(inside, "line", x1=x, x2=x, y1=0, y2=_HEIGHT, stroke_opacity=0.7, **style)
                if (point.kind == "time") is (self._kind == "time"):
                    draw_marker(inside, (x, y), BALANCE_MARKERS[point.kind], 5.5, fill=css_colour(colour))
                    words = KINDS[point.kind].replace("\n", " ") + " " if len(self._scene.shown) == 1 else ""
                    self._labels.append(((x, y), 6.0, f"{words}{point.flop_per_byte:.3g}"))

    def _draw_networks(self, inside: ET.Element) -> None:
        names = roof_names(self._scene.shown)
        before = 0
        for number, each in enumerate(self._scene.series):
            colour, marker = css_colour(self._scene.colour(number)), MARKERS[number % len(MARKERS)]
            spots = [spot for spot in each.points if self._height(spot) is not None]
            points = [(spot.flop_per_byte, self._height(spot) or 0.0) for spot in spots]
            if len(points) > 1:
                draw_curve(inside, self._frame, points, stroke=colour)
            words = point_words(spots, points) if self._scene.worded else [""] * len(spots)
            for spot, point, word in zip(spots, points, words, strict=True):
                index = before + each.points.index(spot)
                group = self._point(inside, f"n{index}", describe_point(spot, names[spot.roof]), focus=True)
                measured = spot.measured if self._kind == "time" else spot.energy_measured
                style = {"fill": colour if measured else "var(--paper)", "stroke": colour, "stroke_width": 1.8}
                draw_marker(group, self._frame.place(point), marker, _NETWORK_PX, **style)
                self._labels.append((self._frame.place(point), _NETWORK_PX, word))
            before += len(each.points)

    def _draw_layers(self, inside: ET.Element) -> None:
        """Draw layers, the largest share of the time on top, the lettered ones reached by the keyboard."""
        layers = () if self._scene.layers is None else self._scene.layers.points
        most = layers[0].share if layers else None
        names = roof_names([*self._scene.shown, *(point.roof for point in layers[:1])])
        placed = [(point, height) for point in layers if (height := self._height(point)) is not None]
        words, labels = letter_words([(point.flop_per_byte, height) for point, height in placed]), []
        for index, (point, height) in reversed(list(enumerate(placed))):
            part = (point.share or 0.0) / most if most else 0.0
            place = self._frame.place((point.flop_per_byte, height))
            radius, darkness = _LEAST_PX + (_MOST_PX - _LEAST_PX) * part**0.5, _PALEST + (_DARKEST - _PALEST) * part
            group = self._point(
                inside, f"l{index}", describe_point(point, names[point.roof]), focus=index < len(LETTERS)
            )
            filled = point.measured if self._kind == "time" else point.energy_measured
            draw_marker(group, place, "o", radius, **_layer_style(darkness, filled=filled))
            labels.append((place, radius, words[index]))
        self._labels += reversed(labels)

    def _point(self, parent: ET.Element, name: str, words: str, *, focus: bool) -> ET.Element:
        """Return the group of a point, the same in both panels; the keyboard reaches the one of time."""
        keys = {"tabindex": 0} if focus and self._kind == "time" else {}
        group = element(parent, "g", class_="point", role="img", data_spot=name, **keys)
        element(group, "title", words)
        return group


def _layer_style(darkness: float, *, filled: bool) -> dict[str, object]:
    """Return the style of a layer's marker: a mixed grey, for see-through ones upon each other would look dark."""
    grey = f"color-mix(in srgb, var(--ink) {100 * darkness:.0f}%, var(--paper))"
    if filled:
        return {"fill": grey, "stroke": "var(--paper)"}
    return {"fill": grey, "fill_opacity": 0, "stroke": grey}


def write_words(
    inside: ET.Element, labels: Sequence[tuple[tuple[float, float], float, str]], lines: Sequence[Curve]
) -> None:
    """Write words beside places in pixels where they hide nothing; earlier ones choose first."""
    frame: Box = (0.0, 0.0, _WIDTH, _HEIGHT)
    crossed = [piece for line in lines for piece in along(line, frame)]
    markers = [(x - radius, y - radius, x + radius, y + radius) for (x, y), radius, _ in labels]
    layout = LabelLayout(frame, crossed, [], markers)
    for (x, y), radius, words in labels:
        wide, high = text_size(words)
        found = layout.place((x, y), (wide / 2, high / 2), radius) if words else None
        if found is None:
            continue
        (across, down), leads = found
        if leads:
            element(inside, "line", x1=x, y1=y, x2=x + across, y2=y + down, class_="lead")
        style = {"text_anchor": "middle", "class_": "word"}
        element(inside, "text", words, x=round(x + across, 1), y=round(y + down + 0.36 * high / 0.8, 1), **style)


def batch_panel(parent: ET.Element, data: FigureData) -> None:
    """Draw intensity against batch size, with the balance points of the roofs as lines across."""
    points = [(float(point.batch_size), point.flop_per_byte) for each in data.series for point in each.points]
    heights = _heights(data)
    batches = sorted({batch for batch, _ in points})
    up = span([*(height for _, height in points), *heights], 1.8)
    beside = _left_of_points(batches[-1] / batches[0] * _BESIDE, [words for _, words in heights.values()])
    frame = Frame(_WIDTH, _HEIGHT, (batches[0] / beside, batches[-1] * _BESIDE), up)
    panel = _panel(_sheet(parent, 1, "intensity against batch size"), 0)
    across, upwards = [(batch, f"{batch:g}") for batch in batches], [(value, f"{value:g}") for value in ticks(*up)]
    draw_axes(panel, frame, ("batch size (samples)", "intensity (FLOP/byte)"), across, upwards)
    inside = _inside(panel)
    _draw_heights(inside, frame, heights)
    names, index, seen = roof_names(data.shown), 0, set()
    for number, each in enumerate(data.series):
        if (each.workload, each.roof.precision) in seen:  # the clocks of another mode leave its intensity as it is
            index += len(each.points)
            continue
        seen.add((each.workload, each.roof.precision))
        colour, marker = css_colour(data.colour(number)), MARKERS[number % len(MARKERS)]
        draw_curve(inside, frame, [(point.batch_size, point.flop_per_byte) for point in each.points], stroke=colour)
        for point in each.points:
            group = element(inside, "g", class_="point", role="img", data_spot=f"n{index}")
            element(group, "title", describe_point(point, names[point.roof]))
            place = frame.place((point.batch_size, point.flop_per_byte))
            draw_marker(group, place, marker, _NETWORK_PX, fill=colour)
            index += 1


def _left_of_points(span_right: float, words: Sequence[str]) -> float:
    """Return the factor of room left of the first batch size: the widest of the words on lines end before its point.

    Args:
        span_right: The factor from the first batch size to the right end of the axis.
        words: On the lines; they begin at the left end.
    """
    wide_px = max((text_size(each)[0] for each in words), default=0.0) + 2 * _MARGIN_PX + _NETWORK_PX
    share = min(wide_px / _WIDTH, _MOST_WORDS)
    return max(_BESIDE, float(span_right ** (share / (1 - share))))


def _heights(data: FigureData) -> dict[float, tuple[str, str]]:
    """Return kind and words of each balance point."""
    names = brief_names(data.shown)
    found = {}
    for roof in data.shown:
        of = f", {names[roof]}" if len(data.shown) > 1 else ""
        for point in balance_points(roof):
            if point.kind != "dynamic":
                found[point.flop_per_byte] = point.kind, f"{KINDS[point.kind]} {point.flop_per_byte:.3g}{of}"
    return found


def _draw_heights(inside: ET.Element, frame: Frame, heights: Mapping[float, tuple[str, str]]) -> None:
    """Draw balance points as lines across, with their words upon them; of close ones side by side, if they fit.

    The words of the lowest of close ones are beneath it, where its line does not cross them.
    """
    before_px, left_px = math.inf, _MARGIN_PX
    places = [(frame.place((frame.across[0], height))[1], *of) for height, of in sorted(heights.items())]
    for index, (y, kind, words) in enumerate(places):
        above_px = places[index + 1][0] if index + 1 < len(places) else -math.inf
        beneath = y - above_px < _CLOSE_PX <= before_px - y
        dashes = "none" if kind == "time" else "6 4"
        element(inside, "line", x1=0, x2=_WIDTH, y1=y, y2=y, stroke="var(--ink)", stroke_dasharray=dashes)
        wide_px = text_size(words)[0] + 2 * _MARGIN_PX
        if before_px - y > _CLOSE_PX:
            left_px = _MARGIN_PX
        if left_px + wide_px <= _WIDTH:
            element(inside, "text", words, x=round(left_px), y=y + 13 if beneath else y - 4, class_="word")
        before_px, left_px = y, left_px + wide_px
