"""Boxes of many values, one row for each group, in a panel for each of several conditions.

bulk   |---[  |  x  ]------|  o     9 of 30 late
masa   |-[ | x]---| o               0 of 30 late
       +------------------- response

A box holds the middle half with the median in it and the mean beside it; whiskers end at the 1st and 99th percentiles;
rings are the shortest and the longest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgetune.plotting.style import BLACK, BLUE, VERMILLION
from edgetune.stats import percentile
from edgetune.visible import cut_in_middle, visible

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


def draw_boxes(
    axes: Any, groups: Mapping[str, Sequence[float]], beside: Sequence[str] = (), *, none: str, extreme: str = "longest"
) -> None:
    """Draw a box for each group, the first on top.

    Args:
        axes: The panel.
        groups: Values by name; a group without values has a word in place of its box.
        beside: What to write at the right of each.
        none: That word.
        extreme: What the largest value is called.
    """
    for row, (values, place) in enumerate(zip(groups.values(), range(len(groups))[::-1], strict=True)):
        if values:
            _draw_box(axes, place, sorted(values), extreme)
        else:
            axes.text(0.02, place, none, transform=axes.get_yaxis_transform(), va="center", fontsize=7.0,
                      color=VERMILLION)  # fmt: skip
        if beside:
            axes.text(1.01, place, beside[row], transform=axes.get_yaxis_transform(), va="center", fontsize=7.0)
    names = [cut_in_middle(visible(name), _NAME_CHARACTERS) for name in groups]
    axes.set_yticks(range(len(groups)), names[::-1])
    axes.set_ylim(-0.6, len(groups) - 0.4)
    axes.grid(False, axis="y")


def _draw_box(axes: Any, place: float, ordered: Sequence[float], extreme: str) -> None:
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
    label = "shortest and longest" if extreme == "longest" else f"best and {extreme}"
    axes.plot(
        [ordered[0], ordered[-1]], [place, place], "o", color=BLACK, fillstyle="none", markersize=4.5, zorder=4,
        clip_on=False, label=label, linestyle="none",
    )  # fmt: skip
