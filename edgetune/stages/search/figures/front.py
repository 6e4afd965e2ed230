"""The front of a search: time against power of every measured point, and the Pareto front among them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from edgetune.artifacts.plan import Plan
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.trace import Trace
from edgetune.errors import InputError
from edgetune.plotting.captions import legend_beside, note_left_out, set_title
from edgetune.plotting.labels import Label, write_labels
from edgetune.plotting.style import BLACK, GREY, Figure, new_figure, pareto_front, spread_out
from edgetune.stages.search.figures.marks import (
    STANDINGS,
    Scale,
    answer_lines,
    budgets_shown,
    draw_budgets,
    draw_markers,
    scale_of,
    title_of,
)
from edgetune.stages.search.figures.points import (
    SearchPoint,
    answer_of,
    bests,
    lone_halves,
    points_of,
    problem_of,
    table_points,
)
from edgetune.stages.search.figures.steps import trace_figure

_MANY = 60
"""Number of measured points from which markers are small."""
_MOST_NUMBERS = 24
"""Largest number of labelled points; more labels and their lines would hide the points."""
_CROWD = 3000
"""Number of table points from which they are drawn smaller and as an image, so that files stay small."""
_LOG_ABOVE = 4.0
"""Ratio of slowest to fastest from which the time axis is logarithmic: searches end among the fast points."""
_PAD = 0.05
"""Share of the span of an axis left free at either end."""
_AREA_PT2, _SMALL_PT2, _RING_PT2 = 34.0, 14.0, 110.0


def front_figure(trace: Trace, *, plan: Plan | None = None, table_rows: Iterable[ProfileRow] = ()) -> Figure:
    """Return the figure of time per sample (or the problem's other objective) against power.

    Points are numbered by their step, of two workloads by the step that completed the pair; of many only those that
    were once the best, and if these are many too, only the answer. Those known from earlier are hollow. Points that
    miss latency, rate or room are drawn and are on neither front: these are of what power alone decides. Without any
    power figure it is the figure of the steps, for there is nothing to trade time against.

    Args:
        trace: The search.
        plan: Its answer; ``None`` takes the best of the trace.
        table_rows: All points that could be measured, if known: drawn faint, with the true front, unless all were
            measured. Points far from the measured points, the budgets and that front lie outside the figure.

    Raises:
        InputError: the trace has no steps.
        DeviceError: matplotlib is missing.
    """
    if not trace.rows:
        raise InputError("the trace has no steps to draw", "was the search stopped before its first point?")
    problem = problem_of(trace)
    points, table = points_of(trace, problem), table_points(table_rows, trace, problem)
    scale = scale_of(problem, [point.objective for point in points if point.objective is not None])
    shown, offered = _placed(points, scale), _placed(table, scale)
    if not shown:
        return trace_figure(trace)
    with new_figure((8.0, 4.6)) as figure:
        axes = figure.subplots()
        if {point.point for point in offered} - {point.point for point in shown}:
            _draw_table(axes, offered, scale)
        _draw_front(axes, shown, scale, color=BLACK, linewidth=1.2, label="Pareto front found", zorder=2.5)
        area_pt2 = _SMALL_PT2 if len(shown) > _MANY else _AREA_PT2
        draw_markers(axes, ((point.status, point.known, _at(point, scale)) for point in shown), area_pt2)
        draw_budgets(axes, problem, scale)
        answer = answer_of(trace, plan, points)
        if answer is not None and answer in shown:
            _draw_answer(axes, answer, scale)
        _note_the_rest(axes, points, len(shown), lone_halves(trace, problem, points), answer)
        _finish(axes, [*(_at(point, scale) for point in shown), *_front(offered, scale)], scale, problem)
        note_left_out(figure, _outside(axes, [_at(point, scale) for point in offered]))
        set_title(axes, *title_of(trace))
        legend_beside(figure, [axes])
        figure.draw_without_rendering()
        write_labels(axes, _marks(shown, bests(trace), scale, answer))
    return figure


def _outside(axes: Any, places: Sequence[tuple[float, float]]) -> list[str]:
    """Return the note of how many points of the table lie beyond the axes, and where."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    beyond = [(x, y) for x, y in places if not (left <= x <= right and low <= y <= high)]
    if not beyond:
        return []
    across, up = (f"{min(values):.4g} to {max(values):.4g}" for values in zip(*beyond, strict=True))
    what = f"{len(beyond)} of {len(places)} offered points lie beyond the axes"
    return [f"{what}: {axes.get_xlabel()} from {across}, {axes.get_ylabel()} from {up}"]


def _placed(points: Sequence[SearchPoint], scale: Scale) -> list[SearchPoint]:
    """Return the points that the figure can show."""
    measured = (point for point in points if point.power_w is not None and point.objective is not None)
    return [point for point in measured if all(map(math.isfinite, _at(point, scale)))]


def _at(point: SearchPoint, scale: Scale) -> tuple[float, float]:
    assert point.objective is not None
    assert point.power_w is not None
    return scale.shown(point.objective), point.power_w


def _draw_table(axes: Any, points: Sequence[SearchPoint], scale: Scale) -> None:
    """Draw all points that could be measured, fainter the more there are, and their front."""
    if not points:
        return
    crowd = len(points) > _CROWD
    missing = sum(not point.trades for point in points)
    for trades, colour, label in (
        (True, "#d6d6d6" if crowd else "#c4c4c4", f"offered ({len(points)})"),
        (False, "#e6c8d9", f"of these {missing} miss\nlatency, rate or room"),
    ):
        places = [_at(point, scale) for point in points if point.trades is trades]
        if places or trades:
            axes.scatter(
                [x for x, _ in places], [y for _, y in places], s=2.5 if crowd else 5, linewidths=0, color=colour,
                label=label, rasterized=crowd, zorder=1 if trades else 0.9,
            )  # fmt: skip
    _draw_front(axes, points, scale, color=GREY, linewidth=1.0, linestyle=(0, (4, 1.5)), label="true front", zorder=2)


def _draw_front(axes: Any, points: Sequence[SearchPoint], scale: Scale, **style: Any) -> None:
    front = _front(points, scale)
    if front:
        axes.plot(*zip(*front, strict=True), drawstyle="steps-post", **style)


def _front(points: Sequence[SearchPoint], scale: Scale) -> list[tuple[float, float]]:
    """Return the Pareto front of the points; it is drawn as steps, because no mode lies between two modes."""
    sign = 1.0 if scale.less_is_better else -1.0
    placed = (_at(point, scale) for point in points if point.trades)
    return [(sign * x, y) for x, y in pareto_front((sign * x, y) for x, y in placed)]


def _draw_answer(axes: Any, answer: SearchPoint, scale: Scale) -> None:
    value, power_w = _at(answer, scale)
    figures = f"{scale.written(value)}, {power_w:.3g} W"
    axes.scatter(
        value, power_w, s=_RING_PT2, marker="o", facecolors="none", edgecolors=BLACK, linewidths=1.6, zorder=4,
        label="\n".join((*answer_lines(answer), figures)),
    )  # fmt: skip


def _note_the_rest(
    axes: Any, points: Sequence[SearchPoint], placed: int, lone: int, answer: SearchPoint | None
) -> None:
    """Name in the legend the points that the figure cannot show."""
    failed = [point.steps[-1] for point in points if point.status == "failed"]
    rest = len(points) - placed - len(failed)
    label, colour, marker = STANDINGS["failed"]
    if failed:
        steps = ", ".join(map(str, failed[:5])) + (" ..." if len(failed) > 5 else "")
        axes.scatter(
            [], [], color=colour, marker=marker, s=_AREA_PT2, label=f"{label}: step{'s' * (len(failed) > 1)} {steps}"
        )
    notes = [f"{rest} without power: not shown"] if rest else []
    notes += [f"{lone} half-measured pair{'s' * (lone > 1)}: not shown"] if lone else []
    if answer is None:
        notes.append("no answer: nothing within budget")
    elif answer.power_w is None:
        notes.append("\n".join((*answer_lines(answer), "without power: not shown")))
    for note in notes:
        axes.plot([], [], linestyle="none", label=note)


def _finish(axes: Any, points: Sequence[tuple[float, float]], scale: Scale, problem: Problem | None) -> None:
    """Name the axes and let them span these points and the budgets."""
    axes.set_xlabel(scale.label)
    axes.set_ylabel("mean power (W)")
    across, up = budgets_shown(problem, scale)
    for axis, values, budgets, above in (
        (axes.xaxis, [x for x, _ in points], across, _LOG_ABOVE), (axes.yaxis, [y for _, y in points], up, 10.0),
    ):  # fmt: skip
        low, high = min([*values, *budgets]), max([*values, *budgets])
        if spread_out(axis, [low, high], above=above):
            pad = (high / low) ** _PAD
            limits = (low / pad, high * pad)
        else:
            pad = _PAD * (high - low) or 0.2 * abs(high) or 1.0
            limits = (low - pad, high + pad)
        getattr(axes, f"set_{axis.axis_name}lim")(*limits)


def _marks(points: Sequence[SearchPoint], once_best: set[int], scale: Scale, answer: SearchPoint | None) -> list[Label]:
    """Return all points, those to number first of all the answer: all measured ones, once the best, or it alone."""
    measured = [point for point in points if not point.known]
    rises = [point for point in measured if once_best & set(point.steps)]
    last = [point for point in measured if point is answer]
    numbered = next((some for some in (measured, rises) if len(some) <= _MOST_NUMBERS), last)
    first = [*last, *rises]
    marks = []
    for point in sorted(points, key=lambda point: (first.index(point) if point in first else len(first), point.steps)):
        area_pt2 = _RING_PT2 if point is answer else (_SMALL_PT2 if len(points) > _MANY else _AREA_PT2)
        marks.append(Label(*_at(point, scale), area_pt2**0.5 / 2, str(point.steps[-1]) if point in numbered else ""))
    return marks
