"""The trajectory of a search through the grid of modes: which settings it tried, in which order, and where it ended.

Each panel shows two knobs. Their settings are evenly spaced, so that every cell of the grid is equally large, and steps
that differ only in other knobs stand side by side in one cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Point
from edgetune.artifacts.trace import Trace
from edgetune.errors import InputError
from edgetune.plotting.captions import legend_beside, set_title
from edgetune.plotting.labels import Label, write_labels
from edgetune.plotting.style import BLACK, KNOB_LABELS, Figure, new_figure
from edgetune.stages.search.figures.marks import answer_lines, draw_markers, title_of
from edgetune.stages.search.figures.points import (
    PointStatus,
    answer_of,
    background_of,
    bests,
    is_background,
    point_of,
    point_statuses,
    points_of,
    problem_of,
)
from edgetune.stages.search.problem import PAIRS
from edgetune.stages.search.space import AXES, Background, axis_of_names, value_of

STEP = "step"
_BACKGROUND = -1.0
"""Placeholder for the batch size of the background workload, which is not searched; below every batch size."""
_LARGEST_PT = 13.0
_SMALLEST_PT = 2.5
_FILLED = 0.82
"""Share of a cell that holds steps; the rest separates cells."""


@dataclass(frozen=True, slots=True)
class TrajectoryPoint:
    """A measured point on the way of a search.

    Args:
        point: What was measured.
        step: The first step that measured it.
        status: Whether it keeps the budgets.
        known: Whether it was measured before the search.
        numbered: Whether its step is numbered.
        best: Whether it was the best so far.
    """

    point: Point
    step: int
    status: PointStatus
    known: bool
    numbered: bool
    best: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """The settings of each axis, ascending, and the panels: which axis is across and which upwards.

    ``names`` are those of the modes, where only names tell them apart; settings of such an axis are places among them.
    """

    values: Mapping[str, tuple[float, ...]]
    panels: tuple[tuple[str, str], ...]
    background: Background | None
    names: tuple[str, ...] = ()

    def place(self, visit: TrajectoryPoint, axis: str) -> int:
        """Return the place of a point among the settings of an axis."""
        value = float(visit.step) if axis == STEP else _setting(visit.point, axis, self.background, self.names)
        return self.values[axis].index(value)

    def label(self, axis: str) -> str:
        """Return the name of an axis with its unit."""
        if axis == "batch_size" and self.background is not None:
            return "workload and batch size (samples)"
        return axis if axis == STEP else KNOB_LABELS[axis]

    def written(self, axis: str, place: int) -> str:
        """Return the setting at a place, as beside its tick; of two workloads a batch size with its workload."""
        value = self.values[axis][place]
        if axis == "power_mode":
            return self.names[int(value)]
        if axis == "batch_size" and self.background is not None:
            second = "train" if self.background.task == "train" else "second"
            return f"{second} batch {self.background.batch_size}" if value == _BACKGROUND else f"infer batch {value:g}"
        if value == _BACKGROUND and axis != STEP:
            return "as found"
        return f"{value:.0f}" if value >= 100 else f"{value:g}"


def grid_of(
    visited: Sequence[Point], offered: Iterable[Point], background: Background | None, visits: Sequence[TrajectoryPoint]
) -> Grid:
    """Return the grid: an axis for each knob (and the batch size) that varies among points visited or offered."""
    points = [*visited, *offered]
    named = axis_of_names(points)
    names, axes = ((), AXES) if named is None else (named.labels, (*AXES, named.name))
    values = {name: tuple(sorted({_setting(point, name, background, names) for point in points})) for name in axes}
    values[STEP] = tuple(float(visit.step) for visit in visits) or (1.0,)
    varied = [name for name in axes if len(values[name]) > 1]
    if len(varied) < 2:
        alone = [*varied, *(name for name in ("gpu_mhz", *AXES) if value_of(visited[0], name) is not None)]
        return Grid(values, ((alone[0], STEP),), background, names)
    across = max(varied, key=lambda name: (name != "batch_size", len(values[name]), name == "gpu_mhz"))
    return Grid(values, tuple((across, name) for name in varied if name != across), background, names)


def positions(
    grid: Grid, across: str, up: str, visits: Sequence[TrajectoryPoint], paper_pt: tuple[float, float]
) -> tuple[dict[int, tuple[float, float]], float]:
    """Return the position of each step in a panel, and the diameter of markers that fit side by side, points."""
    cells: dict[tuple[int, int], list[int]] = {}
    for visit in visits:
        cells.setdefault((grid.place(visit, across), grid.place(visit, up)), []).append(visit.step)
    wide_pt, high_pt = paper_pt[0] / len(grid.values[across]), paper_pt[1] / len(grid.values[up])
    fullest = max(map(len, cells.values()), default=1)
    columns = _columns(fullest, wide_pt / high_pt)
    lines = math.ceil(fullest / columns)
    found: dict[int, tuple[float, float]] = {}
    for (x, y), steps in cells.items():
        wide = min(columns, len(steps))
        high = math.ceil(len(steps) / wide)
        for index, step in enumerate(steps):
            line, column = divmod(index, wide)
            right = _FILLED * (column - (wide - 1) / 2) / columns
            below = _FILLED * (line - (high - 1) / 2) / lines
            found[step] = (x + right, y - below)
    size_pt = 0.9 * _FILLED * min(wide_pt / columns, high_pt / lines)
    return found, min(max(size_pt, _SMALLEST_PT), _LARGEST_PT)


def _columns(count: int, aspect: float) -> int:
    """Return the number of columns that makes ``count`` markers largest in a cell of this width over height."""
    return max(range(1, count + 1), key=lambda columns: min(aspect / columns, 1 / math.ceil(count / columns)))


def _setting(point: Point, axis: str, background: Background | None, names: Sequence[str]) -> float:
    if axis == "power_mode":
        return float(names.index(point.mode.power_mode or ""))
    if axis == "batch_size" and is_background(background, point):
        return _BACKGROUND
    value = value_of(point, axis)
    return _BACKGROUND if value is None else float(value)


_MANY = 24
"""Number of points from which only the last of those that were the best so far are numbered."""
_MOST_ARROWS = 6
"""Steps with a new best that are joined to the one before; more arrows would hide the steps."""
_PANEL_PT = (225.0, 150.0)
"""Approximate size of the cells of a panel."""
_MOST_STRETCH = 1.5
_INSIDE_PT = 9.0
"""Diameter of a marker from which its number is written inside."""


def trajectory_figure(trace: Trace, *, plan: Plan | None = None, offered: Iterable[Point] = ()) -> Figure:
    """Return the figure of a search's path through the modes.

    Steps are numbered, of more than 24 points only those that were the best so far; arrows join the last few of these
    in their order. The knob with the most settings is across in every panel. Where one knob alone varies, its panel has
    the steps upwards. The halves of two workloads are steps of their own; the background's have a row beside the batch
    sizes.

    Args:
        trace: The search.
        plan: Its answer; ``None`` takes the best of the trace.
        offered: The points to choose from, if known: their settings make the grid.

    Raises:
        InputError: the trace has no steps.
        DeviceError: matplotlib is missing.
    """
    if not trace.rows:
        raise InputError("the trace has no steps to draw", "was the search stopped before its first point?")
    problem = problem_of(trace)
    points = points_of(trace, problem)
    answer = answer_of(trace, plan, points)
    visits = _visits(trace, point_statuses(trace, problem, points))
    shown = _shown(visits, None if answer is None else answer.point)
    asked = {(visit.point.workload, visit.point.task) for visit in visits}
    others = [point for point in offered if (point.workload, point.task) in asked]
    background = background_of(trace, problem) if problem is not None and problem.kind in PAIRS else None
    grid = grid_of([visit.point for visit in visits], others, background, shown)
    marked = None if answer is None else (answer.point, "\n".join(answer_lines(answer)))
    stretch = _stretch(grid, shown)
    columns = min(len(grid.panels), 2 if len(grid.panels) <= 4 else 3)
    lines = -(-len(grid.panels) // columns)
    size = (2.6 + 3.8 * stretch * columns, 0.8 + 2.9 * stretch * lines)
    with new_figure(size) as figure:
        panels = figure.subplots(lines, columns, squeeze=False).flatten()
        beside = [
            _draw_panel(axes, grid, names, shown, answer=marked, stretch=stretch)
            for axes, names in zip(panels, grid.panels, strict=False)
        ]
        for axes in panels[len(grid.panels) :]:
            axes.set_axis_off()
        _note(panels[0], visits, shown, has_answer=answer is not None)
        set_title(panels[0], *title_of(trace))
        legend_beside(figure, panels)
        figure.draw_without_rendering()
        for axes, labels in zip(panels, beside, strict=False):
            write_labels(axes, labels)
    return figure


def _stretch(grid: Grid, visits: Sequence[TrajectoryPoint]) -> float:
    """Return the factor that enlarges panels until the numbers of all steps fit into markers."""
    if not all(visit.numbered for visit in visits):
        return 1.0
    smallest_pt = min(positions(grid, *names, visits, _PANEL_PT)[1] for names in grid.panels)
    return min(max(1.001 * _INSIDE_PT / smallest_pt, 1.0), _MOST_STRETCH)


def _draw_panel(
    axes: Any, grid: Grid, names: tuple[str, str], visits: Sequence[TrajectoryPoint], *,
    answer: tuple[Point, str] | None, stretch: float,
) -> list[Label]:  # fmt: skip
    """Draw one panel and return the markers whose numbers are still to be placed beside them."""
    places, size_pt = positions(grid, *names, visits, (stretch * _PANEL_PT[0], stretch * _PANEL_PT[1]))
    _draw_grid(axes, grid, *names)
    draw_markers(axes, ((v.status, v.known, places[v.step], v.step - 1) for v in visits), size_pt**2)
    _draw_way(axes, [visit for visit in visits if visit.numbered], places, size_pt)
    for visit in visits:
        if answer is not None and visit.point == answer[0]:
            _draw_answer(axes, places[visit.step], size_pt, answer[1])
    if size_pt >= _INSIDE_PT:
        return []
    return [Label(*places[v.step], size_pt / 2, str(v.step) if v.numbered else "") for v in visits]


def _visits(trace: Trace, status: dict[Point, PointStatus]) -> list[TrajectoryPoint]:
    """Return the measured points in the order of their first steps; of many only those once the best are numbered."""
    first: dict[Point, TrajectoryPoint] = {}
    rose = set(sorted(bests(trace))[-_MANY:])
    many = len({point_of(row) for row in trace.rows if row.source == "measured"}) > _MANY
    for row in trace.rows:
        point, known = point_of(row), row.source == "known"
        numbered = not known and (not many or row.step in rose)
        if point not in first or (numbered and not first[point].numbered):
            first[point] = TrajectoryPoint(point, row.step, status[point], known, numbered, row.step in rose)
    return sorted(first.values(), key=lambda visit: visit.step)


def _shown(visits: Sequence[TrajectoryPoint], answer: Point | None) -> list[TrajectoryPoint]:
    """Return the points to show: without those known before where they are many and others were measured."""
    if len(visits) <= _MANY or all(visit.known for visit in visits):
        return list(visits)
    return [visit for visit in visits if not visit.known or visit.point == answer]


def _draw_grid(axes: Any, grid: Grid, across: str, up: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.grid(False)
    for name, axis, limits, line in (
        (across, axes.xaxis, axes.set_xlim, axes.axvline), (up, axes.yaxis, axes.set_ylim, axes.axhline),
    ):  # fmt: skip
        count = len(grid.values[name])
        limits(-0.5, count - 0.5)
        axis.set_label_text(grid.label(name))
        axis.set_tick_params(length=0, labelsize=8.0)
        for edge in range(1, count):
            line(edge - 0.5, color="#e4e4e4", linewidth=0.6, zorder=0.5)
        ticks = [int(tick) for tick in MaxNLocator(9, integer=True, min_n_ticks=1).tick_values(0, count - 1)]
        ticks = list(range(count)) if count <= 9 else [tick for tick in ticks if 0 <= tick < count]
        words = [grid.written(name, tick) for tick in ticks]
        axis.set_ticks(ticks, [word.replace(" ", "\n") for word in words] if axis is axes.xaxis else words)


def _draw_way(
    axes: Any, way: Sequence[TrajectoryPoint], places: Mapping[int, tuple[float, float]], size_pt: float
) -> None:
    """Join the last few steps with a new best by arrows; where markers are large enough, write numbers inside."""
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-|>,head_width=0.18,head_length=0.36", "color": "#666666", "linewidth": 0.7}
    reach = {"shrinkA": size_pt / 2, "shrinkB": size_pt / 2, "connectionstyle": "arc3,rad=0.12"}
    for start, end in pairwise([visit for visit in way if visit.best][-_MOST_ARROWS - 1 :]):
        axes.annotate(
            "", places[end.step], xytext=places[start.step], zorder=2, arrowprops={**line, **reach}
        ).set_in_layout(False)
    for visit in way if size_pt >= _INSIDE_PT else ():
        text, filled = str(visit.step), visit.status != "failed"
        axes.text(
            *places[visit.step], text, ha="center", va="center_baseline", weight="bold", zorder=5,
            fontsize=min(7.5, size_pt * (0.62 if len(text) < 3 else 0.44)), color="white" if filled else BLACK,
            path_effects=None if filled else [withStroke(linewidth=1.5, foreground="white")],
        ).set_in_layout(False)  # fmt: skip


def _draw_answer(axes: Any, place: tuple[float, float], size_pt: float, label: str) -> None:
    axes.scatter(*place, s=(size_pt + 5.0) ** 2, facecolors="none", edgecolors=BLACK, linewidths=1.6, zorder=4)
    axes.scatter([], [], s=90, facecolors="none", edgecolors=BLACK, linewidths=1.6, label=label)


def _note(axes: Any, visits: Sequence[TrajectoryPoint], shown: Sequence[TrajectoryPoint], *, has_answer: bool) -> None:
    """Explain in the legend the numbers and the omitted points."""
    left = len(visits) - len(shown)
    many = any(not visit.numbered and not visit.known for visit in shown)
    notes = ["numbers: steps with a new best" if many else "numbers: steps"]
    rises = sum(visit.best for visit in shown)
    arrows = f"the last {_MOST_ARROWS} of {rises - 1}" if rises > _MOST_ARROWS + 1 else "from best to best"
    notes += [f"arrows: {arrows}\nnew bests" if "last" in arrows else f"arrows: {arrows}"] if rises > 1 else []
    notes += [f"{left} known before: not shown"] if left else []
    notes += [] if has_answer else ["no answer: nothing within budget"]
    for note in notes:
        axes.plot([], [], linestyle="none", label=note)
