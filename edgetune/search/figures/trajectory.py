"""The way of a search through the grid of modes: which settings it tried, in which order, and where it ended.

Each panel shows two knobs. Their settings are evenly spaced, so that every cell of the grid has the same room, and
steps that differ only in other knobs stand side by side in one cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Point
from edgetune.artifacts.trace import Trace
from edgetune.drawing import BLACK, legend_beside, set_title, styled
from edgetune.errors import InputError
from edgetune.search.figures.captions import answer_lines, title_of
from edgetune.search.figures.grid import Grid, TrajectoryPoint, grid_of, positions
from edgetune.search.figures.markers import draw_markers
from edgetune.search.figures.numbers import Mark, write_numbers
from edgetune.search.figures.paired import background_of, point_statuses
from edgetune.search.figures.point import PointStatus, point_of
from edgetune.search.figures.points import answer_of, bests, points_of, problem_of
from edgetune.search.problem import PAIRS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MANY = 24
"""Points from which only those that were the best so far, the last so many, are numbered and joined."""
_PANEL_PT = (225.0, 150.0)
"""About how much paper the cells of a panel have."""
_MOST_STRETCH = 1.5
_INSIDE_PT = 9.0
"""Diameter of a marker from which its number stands inside."""


def trajectory_figure(trace: Trace, *, plan: Plan | None = None, offered: Iterable[Point] = ()) -> Figure:
    """Return the figure of a search's way through the modes.

    Steps are numbered and joined by arrows in their order; of more than 24 points only those that were the best so
    far. The knob with the most settings is across in every panel. Where one knob alone varies, its panel has the
    steps upwards. The halves of two workloads are steps of their own; the background's have a row beside the batch
    sizes.

    Args:
        trace: The search.
        plan: Its answer; ``None`` takes the best of the trace.
        offered: The points it could choose from, where known: their settings make the grid.

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
    with styled():
        from matplotlib.figure import Figure

        columns = min(len(grid.panels), 2)
        lines = -(-len(grid.panels) // columns)
        size = (2.6 + 3.8 * stretch * columns, 0.8 + 2.9 * stretch * lines)
        figure = Figure(figsize=size, layout="constrained")
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
        for axes, marks in zip(panels, beside, strict=False):
            write_numbers(figure, axes, marks)
    return figure


def _stretch(grid: Grid, visits: Sequence[TrajectoryPoint]) -> float:
    """Return how much larger than usual the panels are, so that the numbers of all steps fit into markers."""
    if not all(visit.numbered for visit in visits):
        return 1.0
    smallest_pt = min(positions(grid, *names, visits, _PANEL_PT)[1] for names in grid.panels)
    return min(max(1.001 * _INSIDE_PT / smallest_pt, 1.0), _MOST_STRETCH)


def _draw_panel(
    axes: Any,
    grid: Grid,
    names: tuple[str, str],
    visits: Sequence[TrajectoryPoint],
    *,
    answer: tuple[Point, str] | None,
    stretch: float,
) -> list[Mark]:
    """Draw one panel and return the markers whose numbers are still to be written beside them."""
    places, size_pt = positions(grid, *names, visits, (stretch * _PANEL_PT[0], stretch * _PANEL_PT[1]))
    _draw_grid(axes, grid, *names)
    draw_markers(axes, ((v.status, v.known, places[v.step]) for v in visits), size_pt**2)
    _draw_way(axes, [visit for visit in visits if visit.numbered], places, size_pt)
    for visit in visits:
        if answer is not None and visit.point == answer[0]:
            _draw_answer(axes, places[visit.step], size_pt, answer[1])
    if size_pt >= _INSIDE_PT:
        return []
    return [Mark(*places[v.step], size_pt / 2, str(v.step) if v.numbered else "") for v in visits]


def _visits(trace: Trace, status: dict[Point, PointStatus]) -> list[TrajectoryPoint]:
    """Return the measured points in the order of their first steps; of many only those once the best are numbered."""
    first: dict[Point, TrajectoryPoint] = {}
    rose = set(sorted(bests(trace))[-_MANY:])
    many = len({point_of(row) for row in trace.rows if row.source == "measured"}) > _MANY
    for row in trace.rows:
        point, known = point_of(row), row.source == "known"
        numbered = not known and (not many or row.step in rose)
        if point not in first or (numbered and not first[point].numbered):
            first[point] = TrajectoryPoint(point, row.step, status[point], known, numbered)
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
    """Join the steps by arrows and, where markers are large enough, write their numbers inside."""
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-|>,head_width=0.18,head_length=0.36", "color": "#666666", "linewidth": 0.7}
    reach = {"shrinkA": size_pt / 2, "shrinkB": size_pt / 2, "connectionstyle": "arc3,rad=0.12"}
    for start, end in pairwise(way):
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
    """Say in the legend what the numbers are and what is left out."""
    left = len(visits) - len(shown)
    many = any(not visit.numbered and not visit.known for visit in shown)
    notes = ["numbers: steps with a new best" if many else "numbers: steps"]
    notes += [f"{left} known before: not shown"] if left else []
    notes += [] if has_answer else ["no answer: nothing within budget"]
    for note in notes:
        axes.plot([], [], linestyle="none", label=note)
