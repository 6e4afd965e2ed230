"""From the steps of a trace to the points that figures show: readings of one point together, two workloads as pairs.

A point measured twice is one marker. Of two workloads a marker is a pair, a mode and a batch size of the urgent one
in which both were measured; a half whose partner was not measured is no marker, and is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean
from typing import Literal

from edgetune.artifacts.mode import KNOBS
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.errors import InputError
from edgetune.search.ledger import half_of
from edgetune.search.pairs import Half, half_violations, judge_pair
from edgetune.search.problem import PAIRS, Judgement, Violation, judge, objective_of, validate
from edgetune.search.space import Background

Standing = Literal["within", "over", "late", "unknown", "failed"]
"""Within all budgets; over the power budget; over another one; cannot be judged; not measured."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One measured point, of two workloads one pair, as figures show it.

    Args:
        point: Mode and batch size, of the urgent workload where there are two.
        steps: The steps that measured it, ascending; of a pair those of both halves; none for a row of a table.
        objective: Larger is better, as in the trace; ``None`` where it cannot be told.
        power_w: Mean over its readings; of a pair the larger half's; ``None`` when not measured.
        standing: What became of it.
        known: Measured before the search.
        trades: Breaks no constraint but those on power and on the objective itself, so that it is part of the choice
            between the two.
        second: What decides between equal objectives, larger is better.
    """

    point: Point
    steps: tuple[int, ...]
    objective: float | None
    power_w: float | None
    standing: Standing
    known: bool = False
    trades: bool = True
    second: float = 0.0


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


def point_of(row: TraceRow) -> Point:
    """Return what a step measured."""
    return _row_of(row).point


def spots_of(trace: Trace, problem: Problem | None) -> list[Spot]:
    """Return what the search measured, in the order of the first step of each."""
    readings: dict[Point, list[TraceRow]] = {}
    for row in trace.rows:
        readings.setdefault(point_of(row), []).append(row)
    if problem is not None and problem.kind in PAIRS:
        return _pairs(problem, background_of(trace, problem), readings)
    return [_alone(problem, point, rows) for point, rows in readings.items()]


def table_spots(rows: Iterable[ProfileRow], trace: Trace, problem: Problem | None) -> list[Spot]:
    """Return the rows of a table that the search could choose from, judged as the search would."""
    if problem is None or not trace.rows:
        return []
    asked = {(row.workload, row.task) for row in trace.rows}
    fine = [row for row in rows if (row.workload, row.task) in asked and row.status == "ok" and row.minibatch_s]
    if problem.kind in PAIRS:
        readings = {row.point: [_step_of(row)] for row in fine}
        return [replace(spot, steps=()) for spot in _pairs(problem, background_of(trace, problem), readings)]
    if problem.kind == "accuracy":
        fine = [row for row in fine if row.batch_size in dict(problem.epochs_to_target)]
    return [_spot(problem, row, judge(problem, row), ()) for row in {row.point: row for row in fine}.values()]


def background_of(trace: Trace, problem: Problem) -> Background | None:
    """Return the workload without a deadline, of two; ``None`` where no step measured it."""
    task = "train" if problem.kind == "train+infer" else "infer"
    for row in trace.rows:
        named = problem.background in (None, row.workload)
        if row.task == task and named and problem.background_batch_size in (None, row.batch_size):
            return Background(row.workload, row.task, row.batch_size)
    return None


def is_background(background: Background | None, point: Point) -> bool:
    """Return whether a point is the background workload's half."""
    return background == Background(point.workload, point.task, point.batch_size)


def lone_halves(trace: Trace, problem: Problem | None, spots: Sequence[Spot]) -> int:
    """Return how many points of two workloads were measured without their partner; 0 for one workload."""
    if problem is None or problem.kind not in PAIRS:
        return 0
    paired, background = {spot.point for spot in spots}, background_of(trace, problem)
    modes = {point.mode for point in paired}
    points = {point_of(row) for row in trace.rows}
    lone = {p for p in points - paired if not (is_background(background, p) and p.mode in modes)}
    return len(lone)


def standings(trace: Trace, problem: Problem | None, spots: Sequence[Spot]) -> dict[Point, Standing]:
    """Return what became of every measured point; of two workloads a half stands as the best pair it is part of."""
    found: dict[Point, Standing] = {}
    background = None if problem is None or problem.kind not in PAIRS else background_of(trace, problem)
    for row in trace.rows:
        point = point_of(row)
        if problem is None or problem.kind not in PAIRS:
            continue
        half = None if row.minibatch_s is None else Half(row.batch_size, row.minibatch_s, row.power_w)
        side = "background" if is_background(background, point) else "urgent"
        broken = half_violations(problem, **{side: half}) if half else []
        found[point] = "failed" if half is None else (_broken(broken) or "unknown")
    for spot in spots:
        found[spot.point] = spot.standing
        if background is not None and problem is not None:
            partner = Point(background.workload, background.task, background.batch_size, spot.point.mode)
            if spot.standing == "within" or found.get(partner) == "unknown":
                found[partner] = spot.standing
    return found


def answer_of(trace: Trace, plan: Plan | None, spots: Sequence[Spot]) -> Spot | None:
    """Return the answer: the plan's, else the point with which the trace ends as the best; ``None`` without any."""
    if plan is not None:
        asked = plan.configuration
        size = asked.infer_batch_size or asked.batch_size
        same = (s for s in spots if s.point.mode == asked.mode and s.point.batch_size == size)
        return next(same, None)
    best = trace.rows[-1].best if trace.rows else None
    if best is None:
        return None
    near = 1e-9 * abs(best)
    fitting = [
        s for s in spots if s.standing == "within" and s.objective is not None and abs(s.objective - best) <= near
    ]
    return min(fitting, key=lambda s: (-s.second, s.power_w or 0.0), default=None)


def bests(trace: Trace) -> set[int]:
    """Return the steps with which a search found something better than before."""
    before = (None, *(row.best for row in trace.rows))
    return {row.step for last, row in zip(before, trace.rows, strict=False) if row.best not in (last, None)}


def _alone(problem: Problem | None, point: Point, rows: Sequence[TraceRow]) -> Spot:
    last = next((row for row in reversed(rows) if row.minibatch_s is not None), rows[-1])
    row, steps = _mean(rows), tuple(row.step for row in rows)
    # the trace knows more than can be worked out again: measured energy, and the mean of all readings
    judgement = Judgement(last.objective, last.feasible)
    if problem is not None and row.minibatch_s is not None:
        judgement = replace(judgement, violations=judge(problem, row).violations)
    known = all(row.source == "known" for row in rows)
    return replace(_spot(problem, row, judgement, steps), point=point, known=known)


def _pairs(problem: Problem, background: Background | None, readings: Mapping[Point, Sequence[TraceRow]]) -> list[Spot]:
    """Return the pairs both of whose halves were measured, in the order in which they were complete."""
    if background is None:
        return []
    answering = [point for point in readings if point.task == "infer"]
    others = [p for p in answering if (p.workload, p.task) != (background.workload, background.task)]
    found = []
    for point in others or answering:  # a network may share the board with itself
        partner = Point(background.workload, background.task, background.batch_size, point.mode)
        halves = [_mean(readings[half]) for half in (point, partner) if half in readings]
        if len(halves) < 2 or any(half.minibatch_s is None for half in halves):
            continue
        judgement = judge_pair(problem, half_of(halves[0]), half_of(halves[1]))
        powers = [half.power_w for half in halves if half.power_w is not None]
        rows = [*readings[point], *readings[partner]]
        row = replace(halves[0], power_w=max(powers) if len(powers) == 2 else None)
        spot = _spot(problem, row, judgement, tuple(sorted({row.step for row in rows})))
        found.append(replace(spot, known=all(row.source == "known" for row in rows)))
    return sorted(found, key=lambda spot: max(spot.steps))


def _spot(problem: Problem | None, row: ProfileRow, judgement: Judgement, steps: tuple[int, ...]) -> Spot:
    broken = {violation.constraint for violation in judgement.violations}
    traded = {"power"} | ({"latency"} if problem is not None and objective_of(problem) == "latency" else set())
    standing: Standing = "unknown"
    if row.minibatch_s is None or row.status != "ok":
        standing = "failed"
    elif judgement.feasible is not None:
        standing = "within" if judgement.feasible else (_broken(judgement.violations) or "over")
    return Spot(
        row.point,
        steps,
        judgement.objective,
        row.power_w,
        standing,
        trades=broken <= traded,
        second=judgement.second,
    )


def _broken(violations: Sequence[Violation]) -> Standing | None:
    if not violations:
        return None
    return "over" if any(violation.constraint == "power" for violation in violations) else "late"


def _mean(rows: Sequence[TraceRow]) -> ProfileRow:
    """Return the mean of the readings of one point, without those that failed."""
    fine = [row for row in rows if row.minibatch_s is not None]
    if not fine:
        return replace(_row_of(rows[-1]), status="failed")
    powers = [row.power_w for row in fine if row.power_w is not None]
    return replace(
        _row_of(fine[-1]),
        minibatch_s=fmean(row.minibatch_s or 0.0 for row in fine),
        power_w=fmean(powers) if len(powers) == len(fine) else None,
    )


def _row_of(row: TraceRow) -> ProfileRow:
    mode = {name: getattr(row, name) for name in KNOBS}
    return ProfileRow(row.workload, row.task, row.batch_size, row.minibatch_s, power_w=row.power_w, **mode)


def _step_of(row: ProfileRow) -> TraceRow:
    mode = {name: getattr(row, name) for name in KNOBS}
    return TraceRow(0, row.workload, row.task, row.batch_size, minibatch_s=row.minibatch_s, power_w=row.power_w, **mode)
