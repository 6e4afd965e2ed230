"""Places labels beside points, each without overlap with markers, lines and other labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

FONT_PT = 7.5
_RINGS_PT = (0.0, 6.0, 13.0, 22.0, 34.0, 48.0, 66.0, 90.0)
"""Distances of a label from its place beside the point, in the order tried; from the second on a line leads to it."""
_DIRECTIONS = ((1.0, -0.6), (1.0, 0.6), (-1.0, 0.6), (-1.0, -0.6), (0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0),
               (0.6, 1.0), (-0.6, 1.0), (0.6, -1.0), (-0.6, -1.0))  # fmt: skip
_LINE_PT = 3.0
"""Distance between the points by which a line is kept free."""
_TOUCH_PT = 4.0
"""A label nearer than this to a marker seems to belong to it; its distance from its own marker is 1.5."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""


@dataclass(slots=True)
class LabelLayout:
    """The occupied boxes: curves and markers, which a label must not hide, and labels, which no line may cross.

    A label touches another marker than its own, or its line crosses one, only if there is no other room, because it
    would then seem to belong to that marker.
    """

    inside: Box
    taken: list[Box]
    words: list[Box]
    markers: list[Box]

    def place(
        self, at: tuple[float, float], half: tuple[float, float], radius_pt: float,
        directions: Sequence[tuple[float, float]] = _DIRECTIONS,
    ) -> tuple[tuple[float, float], bool] | None:  # fmt: skip
        """Take the nearest free box of this half width and height, of equally near ones in the first direction.

        Returns:
            Its centre relative to the point, in points, and whether a line leads there; ``None`` without room.
        """
        own = (at[0] - radius_pt, at[1] - radius_pt, at[0] + radius_pt, at[1] + radius_pt)
        zone = _grown(own, _RINGS_PT[-1] + 2 * max(half) + _TOUCH_PT)
        words, markers = _near(self.words, zone), _near(self.markers, zone)
        taken = [*_near(self.taken, zone), *markers, *words]
        others = [_grown(marker) for marker in markers if not _overlap(marker, own)]
        boxes = [(ring, *direction) for ring in _RINGS_PT for direction in directions]
        for untouched in (others, []):
            for ring, right, above in boxes:
                across, up = (
                    way * (radius_pt + size + 1.5 + ring) for way, size in zip((right, above), half, strict=True)
                )
                x, y = at[0] + across, at[1] + up
                box = _grown((x, y, x, y), half[0] + 1.0, half[1] + 1.0)
                if not _within(box, self.inside) or _any_overlap([box], taken) or _any_overlap([box], untouched):
                    continue
                lead = _along([at, (x, y)], self.inside) if ring else []
                if not _any_overlap(lead, words) and not _any_overlap(lead, untouched):
                    self.taken += [piece for piece in lead if not _overlap(piece, box)]
                    self.words.append(box)
                    return (across, up), ring > 0
        return None


def _grown(box: Box, wide_pt: float = _TOUCH_PT, high_pt: float | None = None) -> Box:
    high_pt = wide_pt if high_pt is None else high_pt
    return box[0] - wide_pt, box[1] - high_pt, box[2] + wide_pt, box[3] + high_pt


def _near(boxes: Sequence[Box], zone: Box) -> list[Box]:
    return [box for box in boxes if _overlap(box, zone)]


def _any_overlap(boxes: Sequence[Box], others: Sequence[Box]) -> bool:
    return any(_overlap(box, other) for box in boxes for other in others)


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


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _within(box: Box, frame: Box) -> bool:
    """Return whether a box lies wholly in another."""
    return frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]


@dataclass(frozen=True, slots=True)
class Label:
    """A text for a point in the units of the axes; without a text, a point that must stay visible.

    Args:
        x, y: The point.
        radius_pt: Half the width of its marker.
        text: What to write; may be empty.
        weight: Of the text, ``bold`` where it counts more than others.
    """

    x: float
    y: float
    radius_pt: float
    text: str = ""
    weight: str = "normal"


def write_labels(
    axes: Any, labels: Sequence[Label], lines: Sequence[Sequence[tuple[float, float]]] = (), *,
    toward: tuple[float, float] | None = None,
) -> list[Label]:  # fmt: skip
    """Write each label beside its point; earlier ones choose first. Return those that found no room.

    The figure must be laid out and the limits of the axes must be final.

    Args:
        axes: The axes to write on.
        labels: Points with or without texts.
        lines: Curves in the units of the axes that texts should not cross.
        toward: Where there is most room: the direction to try first; ``None`` tries below at the right.
    """
    to_pt = 72.0 / axes.figure.dpi
    frame = axes.get_window_extent()
    inside: Box = (frame.x0 * to_pt, frame.y0 * to_pt, frame.x1 * to_pt, frame.y1 * to_pt)
    centres = [_on_paper(axes, (label.x, label.y), to_pt) for label in labels]
    markers = [(x - label.radius_pt, y - label.radius_pt, x + label.radius_pt, y + label.radius_pt)
               for label, (x, y) in zip(labels, centres, strict=True)]  # fmt: skip
    crossed = [piece for line in lines for piece in _along([_on_paper(axes, at, to_pt) for at in line], inside)]
    layout = LabelLayout(inside, crossed, [], markers)
    right, above = toward or (0.0, 0.0)
    directions = sorted(_DIRECTIONS, key=lambda way: -(right * way[0] + above * way[1]))
    lost = []
    for label, centre in zip(labels, centres, strict=True):
        if not label.text or not _within((*centre, *centre), inside):
            continue
        found = layout.place(centre, _half_size_pt(axes, label, to_pt), label.radius_pt, directions)
        if found is None:
            lost.append(label)
        else:
            _write(axes, label, found[0], leads=found[1])
    return lost


def _on_paper(axes: Any, point: tuple[float, float], to_pt: float) -> tuple[float, float]:
    x, y = axes.transData.transform(point)
    return to_pt * float(x), to_pt * float(y)


def _half_size_pt(axes: Any, label: Label, to_pt: float) -> tuple[float, float]:
    text = axes.text(label.x, label.y, label.text, fontsize=FONT_PT, weight=label.weight)
    extent = text.get_window_extent()
    text.remove()
    return to_pt * float(extent.width) / 2, to_pt * float(extent.height) / 2


def _write(axes: Any, label: Label, offset: tuple[float, float], *, leads: bool) -> None:
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-", "color": "#555555", "linewidth": 0.5, "shrinkA": 0.5, "shrinkB": label.radius_pt}
    text = axes.annotate(
        label.text, (label.x, label.y), xytext=offset, textcoords="offset points", ha="center", va="center",
        fontsize=FONT_PT, weight=label.weight, color="#222222", zorder=6, arrowprops=line if leads else None,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )  # fmt: skip
    text.set_in_layout(False)
