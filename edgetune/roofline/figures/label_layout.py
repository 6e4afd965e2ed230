"""Room on paper: where words go so that they hide neither a marker, nor a line, nor other words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_RINGS_PT = (0.0, 6.0, 13.0, 22.0, 34.0, 48.0)
"""How much farther than side by side a label may move away from its point; a thin line then leads to it."""
_DIRECTIONS = ((1.0, -0.6), (1.0, 0.6), (-1.0, 0.6), (-1.0, -0.6), (0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0),
               (0.6, 1.0), (-0.6, 1.0), (0.6, -1.0), (-0.6, -1.0))  # fmt: skip
_LINE_PT = 3.0
"""Distance between the points by which a line is kept free."""
_TOUCH_PT = 4.0
"""Nearer to a marker words seem to be its own; their own they are 1.5 away from."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""


@dataclass(slots=True)
class LabelLayout:
    """What of the paper is taken: curves and markers, which words must not hide; words, which lines must not cross.

    Words that touch another marker than their own, or whose line crosses it, seem to be its words: they do so only
    where there is no other room.
    """

    inside: Box
    taken: list[Box]
    words: list[Box]
    markers: list[Box]

    def place(
        self, at: tuple[float, float], half: tuple[float, float], radius_pt: float
    ) -> tuple[tuple[float, float], bool] | None:
        """Take the nearest free box of this half width and height.

        Returns:
            Its centre relative to the point, in points, and whether a line leads there; ``None`` without room.
        """
        own = (at[0] - radius_pt, at[1] - radius_pt, at[0] + radius_pt, at[1] + radius_pt)
        others = [_grown(marker) for marker in self.markers if not _overlap(marker, own)]
        return self._place(at, half, radius_pt, others) or self._place(at, half, radius_pt, [])

    def _place(
        self, at: tuple[float, float], half: tuple[float, float], radius_pt: float, untouched: Sequence[Box]
    ) -> tuple[tuple[float, float], bool] | None:
        wide, high = half
        for ring in _RINGS_PT:
            for right, above in _DIRECTIONS:
                across, up = right * (radius_pt + wide + 1.5 + ring), above * (radius_pt + high + 1.5 + ring)
                x, y = at[0] + across, at[1] + up
                box = (x - wide - 1.0, y - high - 1.0, x + wide + 1.0, y + high + 1.0)
                lead = along([at, (x, y)], self.inside) if ring else []
                taken = [*self.taken, *self.markers, *self.words, *untouched]
                if not within(box, self.inside) or _any_overlap([box], taken):
                    continue
                if not _any_overlap(lead, [*self.words, *untouched]):
                    self.taken += [piece for piece in lead if not _overlap(piece, box)]
                    self.words.append(box)
                    return (across, up), ring > 0
        return None


def _grown(box: Box) -> Box:
    return box[0] - _TOUCH_PT, box[1] - _TOUCH_PT, box[2] + _TOUCH_PT, box[3] + _TOUCH_PT


def _any_overlap(boxes: Sequence[Box], others: Sequence[Box]) -> bool:
    return any(_overlap(box, other) for box in boxes for other in others)


def along(line: Sequence[tuple[float, float]], inside: Box) -> list[Box]:
    """Return small boxes along a line."""
    boxes = []
    for (x0, y0), (x1, y1) in pairwise(line):
        steps = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / _LINE_PT))
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
            if within((x, y, x, y), inside):
                boxes.append((x - 0.5, y - 0.5, x + 0.5, y + 0.5))
    return boxes


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def within(box: Box, frame: Box) -> bool:
    """Return whether a box lies wholly in another."""
    return frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
