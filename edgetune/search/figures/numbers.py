"""Numbers beside markers, each where it hides neither a marker nor another number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT_PT = 7.5
_DIGIT_PT = 0.64 * FONT_PT
"""Width of a digit of DejaVu Sans."""
_HEIGHT_PT = 0.76 * FONT_PT
_RINGS_PT = (0.0, 7.0, 14.0, 22.0, 32.0)
"""How much farther than side by side a number may move away from its marker; a thin line then leads to it."""
_DIRECTIONS = ((0.7, 1.0), (1.0, 0.0), (0.7, -1.0), (0.0, 1.0), (0.0, -1.0), (-0.7, 1.0), (-1.0, 0.0), (-0.7, -1.0))
"""Where a number may stand, the best first; its own marker ends where either share is 1."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker that must stay visible: its place in the units of the axes, its radius, and the number it gets."""

    x: float
    y: float
    radius_pt: float
    number: str = ""


def write_numbers(figure: Figure, axes: Any, marks: Sequence[Mark]) -> None:
    """Write the number of each marker beside it; earlier ones choose first, and one without room is left out.

    Axes limits must be final, for places are sought on paper.
    """
    if not marks:
        return
    figure.draw_without_rendering()
    to_pt = 72.0 / figure.dpi
    frame = axes.get_window_extent()
    inside: Box = (frame.x0 * to_pt, frame.y0 * to_pt, frame.x1 * to_pt, frame.y1 * to_pt)
    centres = [tuple(to_pt * axes.transData.transform((mark.x, mark.y))) for mark in marks]
    taken: list[Box] = [
        (x - mark.radius_pt, y - mark.radius_pt, x + mark.radius_pt, y + mark.radius_pt)
        for mark, (x, y) in zip(marks, centres, strict=True)
    ]
    for mark, centre in zip(marks, centres, strict=True):
        found = _place(centre, mark.number, mark.radius_pt, inside, taken) if mark.number else None
        if found is not None:
            box, offset, leads = found
            taken.append(box)
            _write(axes, mark, offset, leads=leads)


def _place(
    at: tuple[float, float], text: str, radius_pt: float, inside: Box, taken: Sequence[Box]
) -> tuple[Box, tuple[float, float], bool] | None:
    """Return the nearest free box, its centre relative to the marker, in points, and whether a line leads there."""
    wide, high = _DIGIT_PT * len(text) / 2, _HEIGHT_PT / 2
    for ring in _RINGS_PT:
        for right, above in _DIRECTIONS:
            across, up = right * (radius_pt + wide + 1.0 + ring), above * (radius_pt + high + 1.0 + ring)
            x, y = at[0] + across, at[1] + up
            box = (x - wide - 0.8, y - high - 0.8, x + wide + 0.8, y + high + 0.8)
            if _within(box, inside) and not any(_overlap(box, other) for other in taken):
                return box, (across, up), ring > 0
    return None


def _write(axes: Any, mark: Mark, offset: tuple[float, float], *, leads: bool) -> None:
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-", "color": "#555555", "linewidth": 0.5, "shrinkA": 1.0, "shrinkB": mark.radius_pt}
    written = axes.annotate(
        mark.number, (mark.x, mark.y), xytext=offset, textcoords="offset points", ha="center", va="center_baseline",
        fontsize=FONT_PT, color="#222222", zorder=6, arrowprops=line if leads else None,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )  # fmt: skip
    written.set_in_layout(False)


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _within(box: Box, frame: Box) -> bool:
    return frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
