"""Numbers beside markers, each where it hides neither a marker nor another number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT_PT = 7.5
_DIGIT_PT = 0.64 * FONT_PT
"""Width of a digit of DejaVu Sans."""
_HEIGHT_PT = 0.76 * FONT_PT
_RINGS_PT = (0.0, 7.0, 14.0, 22.0, 32.0)
"""How much farther than side by side a number may move away from its marker; a thin line then leads to it."""
_DIRECTIONS = tuple(math.radians(angle) for angle in (45, 0, 315, 90, 270, 135, 180, 225))

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""


def write_numbers(
    figure: Figure, axes: Any, numbers: Sequence[tuple[float, float, str]], marks: Sequence[tuple[float, float]],
    *, radius_pt: float,
) -> int:  # fmt: skip
    """Write each number (x, y, text) beside its marker; earlier ones choose first; return how many had no room.

    ``marks`` are all markers that must stay visible, of this radius. Axes limits must be final, for places are sought
    on paper.
    """
    figure.draw_without_rendering()
    to_pt = 72.0 / figure.dpi

    def on_paper(x: float, y: float) -> tuple[float, float]:
        across, up = axes.transData.transform((x, y))
        return float(across) * to_pt, float(up) * to_pt

    frame = axes.get_window_extent()
    inside: Box = (frame.x0 * to_pt, frame.y0 * to_pt, frame.x1 * to_pt, frame.y1 * to_pt)
    taken: list[Box] = []
    for x, y in marks:
        left, low = on_paper(x, y)
        taken.append((left - radius_pt, low - radius_pt, left + radius_pt, low + radius_pt))
    lost = 0
    for x, y, text in numbers:
        place = _place(on_paper(x, y), text, radius_pt, inside, taken)
        if place is None:
            lost += 1
            continue
        box, (across, up) = place
        taken.append(box)
        _write(axes, (x, y), (across, up), text, leads=math.hypot(across, up) > radius_pt + _reach(text) + 3.0)
    return lost


def _place(
    at: tuple[float, float], text: str, radius_pt: float, inside: Box, taken: Sequence[Box]
) -> tuple[Box, tuple[float, float]] | None:
    """Return the nearest free box for a text, and its centre relative to the marker, in points."""
    wide, high = _DIGIT_PT * len(text) / 2, _HEIGHT_PT / 2
    for ring in _RINGS_PT:
        for angle in _DIRECTIONS:
            across = math.cos(angle) * (radius_pt + wide + 1.0 + ring)
            up = math.sin(angle) * (radius_pt + high + 1.0 + ring)
            x, y = at[0] + across, at[1] + up
            box = (x - wide - 0.8, y - high - 0.8, x + wide + 0.8, y + high + 0.8)
            if _within(box, inside) and not any(_overlap(box, other) for other in taken):
                return box, (across, up)
    return None


def _write(axes: Any, at: tuple[float, float], offset: tuple[float, float], text: str, *, leads: bool) -> None:
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-", "color": "#555555", "linewidth": 0.5, "shrinkA": 1.0, "shrinkB": 2.0}
    written = axes.annotate(
        text, at, xytext=offset, textcoords="offset points", ha="center", va="center_baseline", fontsize=FONT_PT,
        color="#222222", zorder=6, arrowprops=line if leads else None,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )  # fmt: skip
    written.set_in_layout(False)


def _reach(text: str) -> float:
    return math.hypot(_DIGIT_PT * len(text) / 2, _HEIGHT_PT / 2)


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _within(box: Box, frame: Box) -> bool:
    return frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
