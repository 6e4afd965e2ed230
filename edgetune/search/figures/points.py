"""From a trace to the markers of its figures: readings of one point together, two workloads as pairs, the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

from edgetune.artifacts.plan import Plan
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.errors import InputError
from edgetune.search.figures.paired import background_of, pair_points, partner_of
from edgetune.search.figures.point import SearchPoint, mean_of, point_of, search_point_of
from edgetune.search.problem import PAIRS, Judgement, judge, validate


def problem_of(trace: Trace) -> Problem | None:
    """Return the problem that the trace says it is of; ``None`` where it does not say, or nothing sensible."""
    told = trace.header.conditions.get("problem")
    if not isinstance(told, Mapping):
        return None
    names = {field.name for field in fields(Problem)}
    try:
        epochs = tuple((int(size), float(number)) for size, number in told.get("epochs_to_target") or ())
        given = {name: value for name, value in told.items() if name in names and value is not None}
        problem = Problem(**{**given, "epochs_to_target": epochs})
        validate(problem)
    except (TypeError, ValueError, InputError):
        return None
    if problem.kind == "accuracy" and not {row.batch_size for row in trace.rows} <= set(dict(epochs)):
        return None
    return problem


def points_of(trace: Trace, problem: Problem | None) -> list[SearchPoint]:
    """Return what the search measured, in the order of the first step of each."""
    readings: dict[Point, list[TraceRow]] = {}
    for row in trace.rows:
        readings.setdefault(point_of(row), []).append(row)
    if problem is not None and problem.kind in PAIRS:
        return _pairs(problem, trace, readings)
    return [_alone(problem, point, rows) for point, rows in readings.items()]


def table_points(rows: Iterable[ProfileRow], trace: Trace, problem: Problem | None) -> list[SearchPoint]:
    """Return the rows of a table that the search could choose from, judged as the search would."""
    if problem is None or not trace.rows:
        return []
    asked = {(row.workload, row.task) for row in trace.rows}
    fine = [row for row in rows if (row.workload, row.task) in asked and row.status == "ok" and row.minibatch_s]
    if problem.kind in PAIRS:
        return pair_points(problem, background_of(trace, problem), {row.point: row for row in fine})
    if problem.kind == "accuracy":
        fine = [row for row in fine if row.batch_size in dict(problem.epochs_to_target)]
    return [search_point_of(row, judge(problem, row), ()) for row in {row.point: row for row in fine}.values()]


def answer_of(trace: Trace, plan: Plan | None, points: Sequence[SearchPoint]) -> SearchPoint | None:
    """Return the answer: the plan's, else the point with which the trace ends as the best; ``None`` without any."""
    if plan is not None:
        asked = plan.configuration
        size = asked.infer_batch_size or asked.batch_size
        same = (s for s in points if s.point.mode == asked.mode and s.point.batch_size == size)
        return next(same, None)
    best = trace.rows[-1].best if trace.rows else None
    if best is None:
        return None
    near = 1e-9 * abs(best)
    fitting = [
        s for s in points if s.status == "within" and s.objective is not None and abs(s.objective - best) <= near
    ]
    return min(fitting, key=lambda s: (-s.second, s.power_w or 0.0), default=None)


def bests(trace: Trace) -> set[int]:
    """Return the steps with which a search found something better than before."""
    before = (None, *(row.best for row in trace.rows))
    return {row.step for last, row in zip(before, trace.rows, strict=False) if row.best not in (last, None)}


def _alone(problem: Problem | None, point: Point, rows: Sequence[TraceRow]) -> SearchPoint:
    last = next((row for row in reversed(rows) if row.minibatch_s is not None), rows[-1])
    row, steps = mean_of(rows), tuple(row.step for row in rows)
    # the trace knows more than can be worked out again: measured energy, and the mean of all readings
    judgement = Judgement(last.objective, last.feasible)
    if problem is not None and row.minibatch_s is not None:
        judgement = replace(judgement, violations=judge(problem, row).violations)
    known = all(row.source == "known" for row in rows)
    return replace(search_point_of(row, judgement, steps), point=point, known=known)


def _pairs(problem: Problem, trace: Trace, readings: Mapping[Point, Sequence[TraceRow]]) -> list[SearchPoint]:
    """Return the pairs both of whose halves were measured, in the order in which they were complete."""
    background = background_of(trace, problem)
    found = []
    for point in pair_points(problem, background, {point: mean_of(rows) for point, rows in readings.items()}):
        rows = [*readings[point.point], *readings[partner_of(point.point, background)]]
        steps = tuple(sorted({row.step for row in rows}))
        found.append(replace(point, steps=steps, known=all(row.source == "known" for row in rows)))
    return sorted(found, key=lambda point: point.steps[-1])
