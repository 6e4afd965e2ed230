"""A front: time (or another objective) rightwards, power upwards, the modes that no other beats joined by steps.

power |   o
      |   |_  o     o
      |     |__o
      |        |____o  8c 1036/726/2133 b16
      +--------------- time per sample

Both axes are logarithmic, where zero is not on them: points of equal energy are then on one diagonal.

Boxes of many values, one row for each group, in a panel for each of several conditions.

bulk   |---[  |  x  ]------|  o     9 of 30 late
masa   |-[ | x]---| o               0 of 30 late
       +------------------- response

A box holds the middle half with the median in it and the mean beside it; whiskers end at the 1st and 99th percentiles;
rings are the shortest and the longest.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from edgetune.plotting.labels import Label, note_left_out, plain_text, write_labels
from edgetune.plotting.style import BLACK, BLUE, VERMILLION, Figure, pareto_front, scale_axis
from edgetune.stats import percentile
from edgetune.visible import cut_in_middle, visible

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


_FACE = "#cfe3f1"
_NAME_CHARACTERS = 28
_ROW_IN, _HEAD_IN, _PANEL_IN, _MOST_COLUMNS, _TALL_IN = 0.25, 0.85, 2.7, 4, 8.8
PERCENTS = {"whislo": 1, "q1": 25, "med": 50, "q3": 75, "whishi": 99}
"""What each part of a box is, per cent."""


def box_grid(panels: int, rows: int) -> tuple[int, int, tuple[float, float]] | None:
    """Return lines, columns and size, inches, of so many panels; ``None`` where they would not be readable."""
    height = _HEAD_IN + _ROW_IN * max(rows, 2)
    lines = max(int(_TALL_IN / height), 1)
    columns = -(-panels // lines) if panels > 2 * lines else min(panels, 2)
    if columns > _MOST_COLUMNS:
        return None
    lines = -(-panels // columns)
    return lines, columns, (3.2 + _PANEL_IN * columns, 0.6 + lines * height)


def draw_boxes(axes: Any, groups: Mapping[str, Sequence[float]], beside: Sequence[str] = (), *, none: str) -> None:
    """Draw a box for each group, the first on top.

    Args:
        axes: The panel.
        groups: Values by name; a group without values has a word in place of its box.
        beside: What to write at the right of each.
        none: That word.
    """
    for row, (values, place) in enumerate(zip(groups.values(), range(len(groups))[::-1], strict=True)):
        if values:
            _draw_box(axes, place, sorted(values))
        else:
            axes.text(0.02, place, none, transform=axes.get_yaxis_transform(), va="center", fontsize=7.0,
                      color=VERMILLION)  # fmt: skip
        if beside:
            axes.text(1.01, place, beside[row], transform=axes.get_yaxis_transform(), va="center", fontsize=7.0)
    names = [cut_in_middle(visible(name), _NAME_CHARACTERS) for name in groups]
    axes.set_yticks(range(len(groups)), names[::-1])
    axes.set_ylim(-0.6, len(groups) - 0.4)
    axes.grid(False, axis="y")


def _draw_box(axes: Any, place: float, ordered: Sequence[float]) -> None:
    axes.bxp(
        [{name: percentile(ordered, percent) for name, percent in PERCENTS.items()}], positions=[place], widths=0.6,
        orientation="horizontal", showfliers=False, patch_artist=True, manage_ticks=False,
        boxprops={"facecolor": _FACE, "edgecolor": BLUE}, medianprops={"color": BLACK, "linewidth": 1.6},
        whiskerprops={"color": BLUE}, capprops={"color": BLUE},
    )  # fmt: skip
    axes.plot([], [], color=BLACK, label="median", marker="|", linestyle="none", markersize=9, markeredgewidth=1.6)
    axes.scatter([], [], s=90, marker="s", facecolors=_FACE, edgecolors=BLUE, label="middle half (box)")
    axes.plot([], [], color=BLUE, label="1st to 99th\npercentile (whiskers)", linewidth=1.0)
    mean = sum(ordered) / len(ordered)
    axes.plot(mean, place, "D", color=VERMILLION, markersize=4, label="mean", zorder=4, linestyle="none")
    axes.plot(
        [ordered[0], ordered[-1]], [place, place], "o", color=BLACK, fillstyle="none", markersize=4.5, zorder=4,
        clip_on=False, label="shortest and longest", linestyle="none",
    )  # fmt: skip
