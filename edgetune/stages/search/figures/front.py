"""The front of a search: time against power of every measured point, and the Pareto front among them.

The figure of a search step by step: objectives, kept budgets, and the best so far.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.errors import InputError
from edgetune.plotting.front import LEGEND, draw_front, front_of, label_front, mode_label, ordered, scale_front
from edgetune.plotting.gantt import name_rows
from edgetune.plotting.labels import Label, legend_beside, set_title
from edgetune.plotting.style import BLACK, BLUE, GREY, VERMILLION, Figure, new_figure, scale_axis, time_unit
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
from edgetune.units import format_si

_MANY = 60
_LOST_PT = 7.0
"""Distance above its panel of the mark of a step without an objective, points."""
_STYLES: tuple[tuple[bool | None, str, str, str], ...] = (
    (True, "within budget", BLUE, "o"),
    (False, "over budget", VERMILLION, "s"),
    (None, "cannot be judged", GREY, "h"),
)


@dataclass(frozen=True, slots=True)
class _Scale:
    """The display of objectives (larger is better): negated where smaller is better."""

    label: str
    factor: float


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
    rows, powered = trace.rows, [row for row in trace.rows if row.power_w is not None]
    count = 2 if powered else 1
    with new_figure((7.0, 1.6 + 2.2 * count)) as figure:
        from matplotlib.ticker import MaxNLocator

        panels = figure.subplots(count, 1, sharex=True, squeeze=False).flatten()
        _draw_objective(panels[0], trace)
        if powered:
            _draw_power(panels[1], powered, trace.header.conditions.get("problem", {}))
        panels[-1].set_xlabel("step")
        beside = max(0.4, 0.01 * len(rows))
        panels[-1].set_xlim(1 - beside, len(rows) + beside)
        panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        set_title(panels[0], *title_of(trace))
        if any(row.objective is None for row in trace.rows):
            panels[0].set_title(panels[0].get_title(loc="left"), loc="left", pad=_LOST_PT + 9.0)
        legend_beside(figure, panels)
    return figure


def _scale_of(trace: Trace) -> _Scale:
    """Return the scale of the problem's objective; unscaled where the trace names no problem."""
    problem = trace.header.conditions.get("problem")
    if problem is None:
        return _Scale("objective (larger is better)", 1.0)
    if problem.get("kind") in PAIRS:
        return _Scale("background throughput (samples/s)", 1.0)
    accuracy = problem.get("kind") == "accuracy"
    objective = problem.get("objective") or {"train": "throughput", "accuracy": "time"}.get(problem.get("kind"))
    if objective == "throughput":
        return _Scale("throughput (samples/s)", 1.0)
    if objective == "tokens-per-joule":
        return _Scale("output tokens per joule", 1.0)
    if objective in ("energy", "energy-delay"):
        unit = "J" if objective == "energy" else "J s"
        return _Scale(
            f"{objective} to the target accuracy ({unit})" if accuracy else f"{objective} per sample ({unit})", -1.0
        )
    factor, unit = time_unit(max((abs(row.objective) for row in trace.rows if row.objective is not None), default=1.0))
    what = "time to the target accuracy, per sample" if accuracy else "peak latency"
    return _Scale(f"{what} ({unit})", -factor)


def _draw_objective(axes: Any, trace: Trace) -> None:
    from matplotlib.transforms import ScaledTranslation

    scale, problem = _scale_of(trace), trace.header.conditions.get("problem", {})
    rows = [row for row in trace.rows if row.objective is not None]
    _markers(axes, rows, [scale.factor * (row.objective or 0.0) for row in rows], many=len(trace.rows) > _MANY)
    best = [(row.step, scale.factor * row.best) for row in trace.rows if row.best is not None]
    if best:
        steps, values = zip(*best, strict=True)
        axes.plot(steps, values, color=BLACK, linewidth=1.1, drawstyle="steps-post", label="best so far", zorder=2)
    of_two = problem.get("kind") in PAIRS
    above = ScaledTranslation(0.0, _LOST_PT / 72, axes.get_figure().dpi_scale_trans)
    for lost, colour, label in (
        (
            [row.step for row in trace.rows if row.objective is None and not (of_two and row.minibatch_s)],
            GREY,
            "not measured",
        ),
        (
            [row.step for row in trace.rows if row.objective is None and of_two and row.minibatch_s],
            BLUE,
            "half of a pair",
        ),
    ):
        if lost:
            axes.plot(
                lost, [1.0] * len(lost), transform=axes.get_xaxis_transform() + above, clip_on=False, color=colour,
                marker="+", linestyle="none", markersize=7, label=label,
            )  # fmt: skip
    if scale.label.startswith("peak latency") and problem.get("latency_budget_s"):
        budget_s = problem["latency_budget_s"]
        value, margin = -scale.factor * budget_s, problem.get("margin", 0.0)
        draw_budget(axes.axhline, value, margin, format_si(budget_s, "s"))
    lines = [float(line.get_ydata()[0]) for line in axes.lines if str(line.get_label()).startswith(("budget", "less"))]
    scale_axis(axes.yaxis, scale.label, [*(scale.factor * (row.objective or 0.0) for row in rows), *lines])
    if not rows:
        axes.set_yticks([])


def _draw_power(axes: Any, rows: Sequence[TraceRow], problem: Any) -> None:
    _markers(axes, rows, [row.power_w or 0.0 for row in rows], many=len(rows) > _MANY)
    if problem.get("power_budget_w"):
        budget_w = problem["power_budget_w"]
        draw_budget(axes.axhline, budget_w, problem.get("margin", 0.0), f"{budget_w:g} W")
    budgets = [problem["power_budget_w"]] if problem.get("power_budget_w") else []
    scale_axis(axes.yaxis, "mean power (W)", [*(row.power_w or 0.0 for row in rows), *budgets])


def _markers(axes: Any, rows: Sequence[TraceRow], values: Sequence[float], *, many: bool) -> None:
    """Draw steps by their status: measured ones filled, those known from earlier hollow."""
    size = 12 if many else 38
    for feasible, label, colour, marker in _STYLES:
        for source in ("measured", "known"):
            chosen = [
                ((row.step, value), row.step - 1)
                for row, value in zip(rows, values, strict=True)
                if row.feasible is feasible and row.source == source
            ]
            if chosen:
                face = {"color": colour} if source == "measured" else {"facecolors": "none", "edgecolors": colour}
                known = ", known before" if source == "known" else ""
                places, steps = zip(*chosen, strict=True)
                style = {"s": size, "marker": marker, "label": f"{label}{known}", "zorder": 3}
                name_rows(axes.scatter(*zip(*places, strict=True), **style, **face), steps)


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
