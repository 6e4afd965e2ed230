"""Drawing into a page: logarithmic panels, curves and markers as SVG elements, coloured by the page's own style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from edgetune.visible import visible

TEXT_PX = 12.0
_LETTER = 0.66
"""Mean width of a letter of a bold sans-serif face, as a share of its size: that of DejaVu Sans, a wide one."""
_FEW_DECADES = 2.5
"""Axes of fewer powers of ten have ticks at 1, 2 and 5."""

_PLUS = ((-0.35, -1), (0.35, -1), (0.35, -0.35), (1, -0.35), (1, 0.35), (0.35, 0.35), (0.35, 1), (-0.35, 1),
         (-0.35, 0.35), (-1, 0.35), (-1, -0.35), (-0.35, -0.35))  # fmt: skip
_SHAPES: dict[str, tuple[tuple[float, float], ...]] = {
    "o": (),
    "s": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "^": ((0, -1.1), (1.05, 0.85), (-1.05, 0.85)),
    "D": ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
    "v": ((0, 1.1), (1.05, -0.85), (-1.05, -0.85)),
    "P": _PLUS,
    "X": tuple(((x - y) / math.sqrt(2), (x + y) / math.sqrt(2)) for x, y in _PLUS),
    "d": ((0, -1.2), (0.7, 0), (0, 1.2), (-0.7, 0)),
    "<": ((-1.1, 0), (0.85, -1.05), (0.85, 1.05)),
    ">": ((1.1, 0), (-0.85, -1.05), (-0.85, 1.05)),
}
"""Corners of markers of radius 1, y downwards, by their names in ``drawing.MARKERS``; a circle has none."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A panel of two logarithmic axes: its size in pixels, and what it spans across and upwards."""

    width: float
    height: float
    across: tuple[float, float]
    up: tuple[float, float]

    def place(self, point: tuple[float, float]) -> tuple[float, float]:
        """Return where a point is, in pixels from the left and from the top."""
        (left, right), (low, high) = self.across, self.up
        x = math.log(point[0] / left) / math.log(right / left)
        y = math.log(point[1] / low) / math.log(high / low)
        return round(self.width * x, 2), round(self.height * (1 - y), 2)


@dataclass(frozen=True, slots=True)
class LinearFrame(Frame):
    """A panel of two linear axes."""

    def place(self, point: tuple[float, float]) -> tuple[float, float]:
        """Return where a point is, in pixels from the left and from the top."""
        (left, right), (low, high) = self.across, self.up
        x, y = (point[0] - left) / (right - left), (point[1] - low) / (high - low)
        return round(self.width * x, 2), round(self.height * (1 - y), 2)


def element(parent: ET.Element, name: str, text: str = "", /, **attributes: object) -> ET.Element:
    """Add an element; ``_`` in names of attributes stands for ``-``, and ``class_`` for ``class``."""
    written = {key.rstrip("_").replace("_", "-"): printable(str(value)) for key, value in attributes.items()}
    found = ET.SubElement(parent, name, written)
    found.text = printable(text) or None
    return found


def printable(text: str) -> str:
    """Return text with its own line ends, and escapes for what a page cannot hold or show."""
    return "\n".join(map(visible, text.split("\n")))


def ticks(low: float, high: float) -> list[float]:
    """Return round values on a logarithmic axis."""
    steps = (1.0, 2.0, 5.0) if math.log10(high / low) < _FEW_DECADES else (1.0,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [value for decade in decades for step in steps if low <= (value := step * 10.0**decade) <= high]


def draw_axes(
    parent: ET.Element, frame: Frame, names: tuple[str, str], across: Sequence[tuple[float, str]],
    up: Sequence[tuple[float, str]],
) -> None:  # fmt: skip
    """Draw grid, ticks with their words, and the names of both axes."""
    element(parent, "rect", width=frame.width, height=frame.height, class_="frame")
    for value, words in across:
        x, _ = frame.place((value, frame.up[0]))
        element(parent, "line", x1=x, x2=x, y1=0, y2=frame.height, class_="grid")
        element(parent, "text", words, x=x, y=frame.height + 16, text_anchor="middle")
    for value, words in up:
        _, y = frame.place((frame.across[0], value))
        element(parent, "line", x1=0, x2=frame.width, y1=y, y2=y, class_="grid")
        element(parent, "text", words, x=-7, y=y + 4, text_anchor="end")
    element(parent, "text", names[0], x=frame.width / 2, y=frame.height + 34, text_anchor="middle")
    element(parent, "text", names[1], transform=f"translate(-52 {frame.height / 2}) rotate(-90)", text_anchor="middle")


def draw_curve(parent: ET.Element, frame: Frame, curve: Sequence[tuple[float, float]], **attributes: object) -> None:
    """Draw a line through points."""
    places = " ".join(f"{x},{y}" for x, y in map(frame.place, curve))
    element(parent, "polyline", points=places, fill="none", **attributes)


def draw_marker(
    parent: ET.Element, place: tuple[float, float], marker: str, radius: float, **attributes: object
) -> None:
    """Draw a marker at a place in pixels."""
    x, y = place
    if corners := _SHAPES[marker]:
        points = " ".join(f"{x + radius * right:.2f},{y + radius * down:.2f}" for right, down in corners)
        element(parent, "polygon", points=points, **attributes)
    else:
        element(parent, "circle", cx=x, cy=y, r=round(radius, 2), **attributes)


def text_size(text: str) -> tuple[float, float]:
    """Return about how wide and high a line of small print is, in pixels."""
    return _LETTER * TEXT_PX * len(text), 0.8 * TEXT_PX
