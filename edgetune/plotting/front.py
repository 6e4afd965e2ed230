"""A front: time (or another objective) rightwards, power upwards, the modes that no other beats joined by steps.

power |   o
      |   |_  o     o
      |     |__o
      |        |____o  8c 1036/726/2133 b16
      +--------------- time per sample

Both axes are logarithmic, where zero is not on them: points of equal energy are then on one diagonal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from edgetune.plotting.captions import note_left_out, plain_text
from edgetune.plotting.labels import Label, write_labels
from edgetune.plotting.style import Figure, pareto_front, scale_axis

Place = tuple[float, float]
POWER = "mean power (W)"
LEGEND = "on the front: cores (c),\nCPU/GPU/memory MHz,\nbatch size (b)"
"""What the labels of a front mean; for a legend."""
_LONGEST = 48
_NAMED = 6
"""Most labels without room that the note names."""


def scale_front(axes: Any, label: str, places: Sequence[Place]) -> None:
    """Name both axes of a front and let them show all places."""
    for axis, name, values in zip((axes.xaxis, axes.yaxis), (label, POWER), zip(*places, strict=True), strict=True):
        scale_axis(axis, name, values, above=1.0)


def front_of(places: Iterable[Place], *, less_is_better: bool = True) -> list[Place]:
    """Return the Pareto front of places, from the left or, where more is better, from the right."""
    sign = 1.0 if less_is_better else -1.0
    return [(sign * x, y) for x, y in pareto_front((sign * x, y) for x, y in places)]


def draw_front(axes: Any, front: Sequence[Place], **style: Any) -> None:
    """Draw a front as steps, because no mode lies between two modes."""
    if front:
        axes.plot(*zip(*front, strict=True), drawstyle="steps-post", **style)


def label_front(
    figure: Figure, panels: Mapping[Any, Sequence[Label]], fronts: Mapping[Any, Sequence[Place]],
    notes: Sequence[str] = (), *, less_is_better: bool = True,
) -> None:  # fmt: skip
    """Write the labels of fronts where there is room, and below the figure its notes and which labels are left out.

    Args:
        figure: The figure, complete but for these.
        panels: By axes, all points: those with a text that are named, the most important first.
        fronts: By axes, the front, which no label should cross.
        notes: What else the figure leaves out.
        less_is_better: Whether the free corner is at the left.
    """
    toward = (-1.0 if less_is_better else 1.0, -0.5)
    for last in (False, True):  # the note takes room from the panels, so that labels are placed anew beside it
        before = {axes: set(axes.texts) for axes in panels}
        figure.draw_without_rendering()
        lost = [
            label for axes, labels in panels.items()
            for label in write_labels(axes, labels, [_steps(fronts[axes])], toward=toward)
        ]  # fmt: skip
        count = sum(bool(label.text) for labels in panels.values() for label in labels)
        which = f": {', '.join(label.text for label in lost)}" if len(lost) <= _NAMED else ""
        told = f"{len(lost)} of {count} labels have no room{which}"
        note_left_out(figure, [*notes, *([told] if lost else [])])
        for axes in panels if lost and not last else ():
            for text in set(axes.texts) - before[axes]:
                text.remove()
        if not lost:
            return


def ordered(front: Sequence[Place]) -> list[Place]:
    """Return the places of a front so that the first few are spread over all of it: both ends, the middle, quarters."""
    last = len(front) - 1
    order = sorted(range(len(front)), key=lambda place: (place not in (0, last), -(place & -place)))
    return [front[place] for place in order]


def mode_label(short: str, batch_size: int) -> str:
    """Return the label of a point of a front: its mode, from ``Mode.short``, and its batch size."""
    return plain_text(f"{short} b{batch_size}".strip(), _LONGEST)


def _steps(front: Sequence[Place]) -> list[Place]:
    """Return the corners of a front drawn as steps."""
    corners = [corner for (_, y), (right, below) in pairwise(front) for corner in ((right, y), (right, below))]
    return [*front[:1], *corners]
