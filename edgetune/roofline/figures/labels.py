"""Words beside points, each where it hides neither a marker, nor a line, nor other words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT_PT = 7.5
_RINGS_PT = (0.0, 6.0, 13.0, 22.0, 34.0, 48.0)
"""How much farther than side by side a label may move away from its point; a thin line then leads to it."""
_DIRECTIONS = ((1.0, -0.6), (1.0, 0.6), (-1.0, 0.6), (-1.0, -0.6), (0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0),
               (0.6, 1.0), (-0.6, 1.0), (0.6, -1.0), (-0.6, -1.0))  # fmt: skip
_LINE_PT = 3.0
"""Distance between the points by which a line is kept free."""

_MARGIN_IN = 0.2
"""Paper left above and below a legend."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""


@dataclass(frozen=True, slots=True)
class Label:
    """Words for a point in the units of the axes; without words, a point that must stay visible.

    Args:
        x, y: The point.
        radius_pt: Half the width of its marker.
        text: What to write; may be empty.
        bold: Whether it counts more than others.
    """

    x: float
    y: float
    radius_pt: float
    text: str = ""
    bold: bool = False


def plain_text(words: str, longest: int = 0) -> str:
    """Return words as matplotlib writes them literally, on one line; a long name loses its middle."""
    line = " ".join(words.split())
    if longest and len(line) > longest:
        head = longest // 3
        line = f"{line[:head]}…{line[head - longest + 1 :]}"
    return line.replace("$", r"\$")


def folded(phrases: str, width: int = 30) -> str:
    """Return phrases as lines of a legend, broken between phrases rather than between a number and its unit."""
    import textwrap

    kept = ", ".join(phrase.replace(" ", "\N{NO-BREAK SPACE}") for phrase in plain_text(phrases).split(", "))
    return textwrap.fill(kept, width)


def make_room(figure: Figure) -> None:
    """Make a figure taller where the legend beside it is."""
    if figure.legends:
        figure.draw_without_rendering()
        tall_in = figure.legends[0].get_window_extent().height / figure.dpi
        figure.set_figheight(max(figure.get_figheight(), tall_in + _MARGIN_IN))


def write_labels(
    figure: Figure, axes: Any, labels: Sequence[Label], lines: Sequence[Sequence[tuple[float, float]]]
) -> int:
    """Write each label beside its point; earlier ones choose first. Return how many found no room and were left out.

    Axes limits must be final, for places are sought on paper.

    Args:
        figure, axes: Where.
        labels: Points with or without words.
        lines: Curves in the units of the axes that words should not cross.
    """
    figure.draw_without_rendering()
    to_pt = 72.0 / figure.dpi
    frame = axes.get_window_extent()
    inside: Box = (frame.x0 * to_pt, frame.y0 * to_pt, frame.x1 * to_pt, frame.y1 * to_pt)
    centres = [_on_paper(axes, (label.x, label.y), to_pt) for label in labels]
    markers = [(x - label.radius_pt, y - label.radius_pt, x + label.radius_pt, y + label.radius_pt)
               for label, (x, y) in zip(labels, centres, strict=True)]  # fmt: skip
    crossed = [piece for line in lines for piece in _along([_on_paper(axes, at, to_pt) for at in line], inside)]
    paper = _Paper(inside, [*markers, *crossed], [])
    left_out = 0
    for label, centre in zip(labels, centres, strict=True):
        if not label.text or not _within((*centre, *centre), inside):
            continue
        wide, high = _size(axes, label)
        found = paper.place(centre, (to_pt * wide / 2, to_pt * high / 2), label.radius_pt)
        if found is None:
            left_out += 1
        else:
            _write(axes, label, found[0], leads=found[1])
    return left_out


def _on_paper(axes: Any, point: tuple[float, float], to_pt: float) -> tuple[float, float]:
    x, y = axes.transData.transform(point)
    return to_pt * float(x), to_pt * float(y)


def _along(line: Sequence[tuple[float, float]], inside: Box) -> list[Box]:
    """Return small boxes along a line."""
    boxes = []
    for (x0, y0), (x1, y1) in pairwise(line):
        steps = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / _LINE_PT))
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
            if _within((x, y, x, y), inside):
                boxes.append((x - 0.5, y - 0.5, x + 0.5, y + 0.5))
    return boxes


@dataclass(slots=True)
class _Paper:
    """What of the paper is taken: markers and curves, which words must not hide; words, which lines must not cross."""

    inside: Box
    taken: list[Box]
    words: list[Box]

    def place(
        self, at: tuple[float, float], half: tuple[float, float], radius_pt: float
    ) -> tuple[tuple[float, float], bool] | None:
        """Take the nearest free box of this half width and height.

        Returns:
            Its centre relative to the point, in points, and whether a line leads there; ``None`` without room.
        """
        wide, high = half
        for ring in _RINGS_PT:
            for right, above in _DIRECTIONS:
                across, up = right * (radius_pt + wide + 1.5 + ring), above * (radius_pt + high + 1.5 + ring)
                x, y = at[0] + across, at[1] + up
                box = (x - wide - 1.0, y - high - 1.0, x + wide + 1.0, y + high + 1.0)
                lead = _along([at, (x, y)], self.inside) if ring else []
                if not _within(box, self.inside) or _any_overlap([box], self.taken + self.words):
                    continue
                if not _any_overlap(lead, self.words):
                    self.taken += [piece for piece in lead if not _overlap(piece, box)]
                    self.words.append(box)
                    return (across, up), ring > 0
        return None


def _any_overlap(boxes: Sequence[Box], others: Sequence[Box]) -> bool:
    return any(_overlap(box, other) for box in boxes for other in others)


def _size(axes: Any, label: Label) -> tuple[float, float]:
    """Return width and height of the words, in pixels."""
    text = axes.text(label.x, label.y, label.text, fontsize=FONT_PT, weight=_weight(label))
    extent = text.get_window_extent()
    text.remove()
    return float(extent.width), float(extent.height)


def _write(axes: Any, label: Label, offset: tuple[float, float], *, leads: bool) -> None:
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-", "color": "#555555", "linewidth": 0.5, "shrinkA": 0.5, "shrinkB": label.radius_pt}
    text = axes.annotate(
        label.text, (label.x, label.y), xytext=offset, textcoords="offset points", ha="center", va="center",
        fontsize=FONT_PT, weight=_weight(label), color="#222222", zorder=6, arrowprops=line if leads else None,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )  # fmt: skip
    text.set_in_layout(False)


def _weight(label: Label) -> str:
    return "bold" if label.bold else "normal"


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _within(box: Box, frame: Box) -> bool:
    return frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
