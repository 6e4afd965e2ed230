"""The front of a search: time against power of every measured point, and the Pareto front among them.

The figure of a search step by step: objectives, kept budgets, and the best so far.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from edgetune.artifacts.plan import Plan
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.errors import InputError
from edgetune.plotting.front import LEGEND, draw_front, front_of, label_front, mode_label, ordered, scale_front
from edgetune.plotting.gantt import name_rows
from edgetune.plotting.labels import Label, legend_beside, set_title
from edgetune.plotting.style import BLACK, BLUE, GREY, Figure, new_figure, scale_axis
from edgetune.stages.search.figures.points import (
    STANDINGS,
    Scale,
    SearchPoint,
    answer_lines,
    answer_of,
    bests,
    budgets_shown,
    draw_budget,
    draw_budgets,
    draw_markers,
    lone_halves,
    points_of,
    problem_of,
    scale_of,
    table_points,
    title_of,
)
from edgetune.stages.search.problem import PAIRS

_MANY = 60
_LOST_PT = 7.0
"""Distance above its panel of the mark of a step without an objective, points."""


def _check_steps(trace: Trace) -> None:
    if not trace.rows:
        raise InputError("the trace has no steps to draw", "was the search stopped before its first point?")


def trace_figure(trace: Trace) -> Figure:
    """Return the figure of a trace: the objective of every step and the best so far, and power with its budget.

    Steps known from earlier are hollow; steps without an objective (failed, without power, or half of a pair) are marks
    above the panel, where no value of the axis can be read off. Budgets are drawn where the trace names its
    problem.

    Raises:
        InputError: the trace has no steps.
        DeviceError: matplotlib is missing.
    """
    _check_steps(trace)
    rows, count = trace.rows, 1 + any(row.power_w is not None for row in trace.rows)
    with new_figure((7.0, 1.6 + 2.2 * count)) as figure:
        from matplotlib.ticker import MaxNLocator

        panels = figure.subplots(count, 1, sharex=True, squeeze=False).flatten()
        problem = problem_of(trace)
        _draw_objective(panels[0], trace, problem)
        if count > 1:
            _draw_power(panels[1], trace, problem)
        panels[-1].set_xlabel("step")
        beside = max(0.4, 0.01 * len(rows))
        panels[-1].set_xlim(1 - beside, len(rows) + beside)
        panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        set_title(panels[0], *title_of(trace))
        if any(row.objective is None for row in trace.rows):
            panels[0].set_title(panels[0].get_title(loc="left"), loc="left", pad=_LOST_PT + 9.0)
        legend_beside(figure, panels)
    return figure


def _draw_objective(axes: Any, trace: Trace, problem: Problem | None) -> None:
    from matplotlib.transforms import ScaledTranslation

    rows = [row for row in trace.rows if row.objective is not None]
    scale = scale_of(problem, [row.objective or 0.0 for row in rows])
    values = [scale.shown(row.objective or 0.0) for row in rows]
    _markers(axes, trace, rows, values)
    best = [(row.step, scale.shown(row.best)) for row in trace.rows if row.best is not None]
    if best:
        axes.plot(*zip(*best, strict=True), color=BLACK, linewidth=1.1, drawstyle="steps-post", label="best so far")
    halves = problem is not None and problem.kind in PAIRS
    above = ScaledTranslation(0.0, _LOST_PT / 72, axes.get_figure().dpi_scale_trans)
    for of_pair, colour, label in ((False, GREY, "not measured"), (True, BLUE, "half of a pair")):
        lost = [r.step for r in trace.rows if r.objective is None and bool(halves and r.minibatch_s) is of_pair]
        if lost:
            axes.plot(
                lost, [1.0] * len(lost), transform=axes.get_xaxis_transform() + above, clip_on=False, color=colour,
                marker="+", linestyle="none", markersize=7, label=label,
            )  # fmt: skip
    budgets = budgets_shown(problem, scale)[0]
    for value in budgets:
        draw_budget(axes.axhline, value, 0.0 if problem is None else problem.margin, scale.written(value))
    scale_axis(axes.yaxis, scale.label, [*filter(math.isfinite, values), *budgets])
    if not rows:
        axes.set_yticks([])


def _draw_power(axes: Any, trace: Trace, problem: Problem | None) -> None:
    rows = [row for row in trace.rows if row.power_w is not None]
    powers_w = [row.power_w or 0.0 for row in rows]
    _markers(axes, trace, rows, powers_w)
    budgets = [] if problem is None or problem.power_budget_w is None else [problem.power_budget_w]
    for budget_w in budgets:
        draw_budget(axes.axhline, budget_w, 0.0 if problem is None else problem.margin, f"{budget_w:g} W")
    scale_axis(axes.yaxis, "mean power (W)", [*powers_w, *budgets])


def _markers(axes: Any, trace: Trace, rows: Sequence[TraceRow], values: Sequence[float]) -> None:
    """Draw steps by their status: measured ones filled, those known from earlier hollow."""
    found = {step: point.status for point in points_of(trace, problem_of(trace)) for step in point.steps}
    marks = (
        (found.get(row.step, "unknown"), row.source == "known", (row.step, value), row.step - 1)
        for row, value in zip(rows, values, strict=True)
    )
    draw_markers(axes, marks, 12 if len(trace.rows) > _MANY else 38)


_MOST_NUMBERS = 24
"""Largest number of labelled points; more labels and their lines would hide the points."""
_CROWD = 3000
"""Number of table points from which they are drawn smaller and as an image, so that files stay small."""
_AREA_PT2, _SMALL_PT2, _RING_PT2 = 34.0, 14.0, 110.0


def front_figure(trace: Trace, *, plan: Plan | None = None, table_rows: Iterable[ProfileRow] = ()) -> Figure:
    """Return the figure of time per sample (or the problem's other objective) against power.

    Points of the front carry their mode. Points are numbered by their step, of two workloads by the step that completed
    the pair; of many only those that were once the best, and if these are many too, only the answer. Those known from
    earlier are hollow. Points that miss latency, rate or room are drawn and are on neither front: these are of what
    power alone decides. Without any power figure it is the figure of the steps, for there is nothing to trade time
    against.

    Args:
        trace: The search.
        plan: Its answer; ``None`` takes the best of the trace. Where the trace is but one row of step 0, that is the
            answer of a search whose steps are not at hand.
        table_rows: All points that could be measured, if known: drawn behind, with the true front, unless all were
            measured.

    Raises:
        InputError: the trace has no steps.
        DeviceError: matplotlib is missing.
    """
    _check_steps(trace)
    problem = problem_of(trace)
    points, table = points_of(trace, problem), table_points(table_rows, trace, problem)
    scale = scale_of(problem, [point.objective for point in points if point.objective is not None])
    shown, offered = _placed(points, scale), _placed(table, scale)
    if not shown:
        return trace_figure(trace)
    with new_figure((8.0, 4.6)) as figure:
        axes = figure.subplots()
        if not {point.point for point in offered} - {point.point for point in shown}:
            offered = []
        _draw_table(axes, offered, scale)
        front = _front(shown, scale)
        if any(row.step for row in trace.rows):
            draw_front(axes, front, color=BLACK, linewidth=1.2, label="Pareto front found", zorder=2.5)
        area_pt2 = _SMALL_PT2 if len(shown) > _MANY else _AREA_PT2
        row_of = {row.step: place for place, row in enumerate(trace.rows)}
        draw_markers(axes, ((p.status, p.known, _at(p, scale), row_of[p.steps[-1]]) for p in shown), area_pt2)
        draw_budgets(axes, problem, scale)
        answer = answer_of(trace, plan, points)
        if answer is not None and answer in shown:
            _draw_answer(axes, answer, scale)
        _note_the_rest(axes, points, len(shown), lone_halves(trace, problem, points), answer)
        across, up = budgets_shown(problem, scale)
        places = [_at(point, scale) for point in (*shown, *offered)]
        x, y = places[0]
        scale_front(axes, scale.label, [*places, *((each, y) for each in across), *((x, each) for each in up)])
        set_title(axes, *title_of(trace, plan))
        axes.plot([], [], linestyle="none", label=LEGEND)
        legend_beside(figure, [axes])
        labels = _labels(shown, front, bests(trace), scale, answer)
        label_front(figure, {axes: labels}, {axes: front}, less_is_better=scale.less_is_better)
    return figure


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
        (True, "#a8a8a8", f"offered ({len(points)})"),
        (False, "#d9a9c4", f"of these {missing} miss\nlatency, rate or room"),
    ):
        chosen = [point for point in points if point.trades is trades]
        places = [_at(point, scale) for point in chosen]
        if places or trades:
            marks = axes.scatter(
                [x for x, _ in places], [y for _, y in places], s=4 if crowd else 9, linewidths=0, color=colour,
                label=label, rasterized=crowd, zorder=1 if trades else 0.9,
            )  # fmt: skip
            if not crowd:
                name_rows(marks, [_words(point, scale) for point in chosen])
    front = _front(points, scale)
    draw_front(axes, front, color=GREY, linewidth=1.0, linestyle=(0, (4, 1.5)), label="true front", zorder=2)


def _words(point: SearchPoint, scale: Scale) -> str:
    """Return the mode, batch size and figures of an offered point."""
    shown, power_w = _at(point, scale)
    return f"offered\n{point.point}\n{shown:.4g} {scale.unit}, {power_w:.3g} W"


def _front(points: Sequence[SearchPoint], scale: Scale) -> list[tuple[float, float]]:
    return front_of((_at(p, scale) for p in points if p.trades), less_is_better=scale.less_is_better)


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


def _labels(
    points: Sequence[SearchPoint], front: Sequence[tuple[float, float]], once_best: set[int], scale: Scale,
    answer: SearchPoint | None,
) -> list[Label]:  # fmt: skip
    """Return all points: those of the front with their modes, and with their steps all, those once the best, or one."""
    measured = [point for point in points if not point.known]
    rises = [point for point in measured if once_best & set(point.steps)]
    last = [point for point in measured if point is answer]
    numbered = next((some for some in (measured, rises) if len(some) <= _MOST_NUMBERS), last)
    by_place = {_at(point, scale): point for point in reversed(points) if point.trades}
    on_front = [by_place[place] for place in ordered(front)]
    first = list({id(point): point for point in (*last, *on_front, *rises, *points)}.values())
    labels = []
    for point in first:
        area_pt2 = _RING_PT2 if point is answer else (_SMALL_PT2 if len(points) > _MANY else _AREA_PT2)
        words = [f"{point.steps[-1]}"] if point in numbered and point.steps[-1] else []
        words += [mode_label(point.point.mode.short(), point.point.batch_size)] if point in on_front else []
        labels.append(Label(*_at(point, scale), area_pt2**0.5 / 2, ": ".join(words)))
    return labels
