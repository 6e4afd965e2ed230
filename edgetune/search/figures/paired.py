"""Two workloads in figures: which half belongs to which, the pairs they make, and what became of each half.

A marker is a pair, a mode and a batch size of the urgent workload in which both were measured; a half whose partner
was not measured is no marker, and is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.trace import Trace
from edgetune.search.figures.point import PointStatus, SearchPoint, broken_by, point_of, search_point_of
from edgetune.search.history import half_of
from edgetune.search.pairs import Half, half_violations, judge_pair
from edgetune.search.problem import PAIRS
from edgetune.search.space import Background


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


def partner_of(point: Point, background: Background | None) -> Point:
    """Return the background workload's half in the mode of an urgent one."""
    assert background is not None
    return Point(background.workload, background.task, background.batch_size, point.mode)


def pair_points(problem: Problem, background: Background | None, rows: Mapping[Point, ProfileRow]) -> list[SearchPoint]:
    """Return the pairs both of whose halves were measured, without steps."""
    if background is None:
        return []
    answering = [point for point in rows if point.task == "infer"]
    others = [p for p in answering if (p.workload, p.task) != (background.workload, background.task)]
    found = []
    for point in others or answering:  # a network may share the board with itself
        halves = [rows[half] for half in (point, partner_of(point, background)) if half in rows]
        if len(halves) < 2 or not all(half.minibatch_s for half in halves):
            continue
        judgement = judge_pair(problem, half_of(halves[0]), half_of(halves[1]))
        powers = [half.power_w for half in halves if half.power_w is not None]
        row = replace(halves[0], power_w=max(powers) if len(powers) == 2 else None)
        found.append(search_point_of(row, judgement, ()))
    return found


def lone_halves(trace: Trace, problem: Problem | None, spots: Sequence[SearchPoint]) -> int:
    """Return how many points of two workloads were measured without their partner; 0 for one workload."""
    if problem is None or problem.kind not in PAIRS:
        return 0
    paired, background = {point.point for point in spots}, background_of(trace, problem)
    modes = {point.mode for point in paired}
    points = {point_of(row) for row in trace.rows}
    lone = {p for p in points - paired if not (is_background(background, p) and p.mode in modes)}
    return len(lone)


def point_statuses(trace: Trace, problem: Problem | None, points: Sequence[SearchPoint]) -> dict[Point, PointStatus]:
    """Return what became of every measured point; of two workloads a half stands as the best pair it is part of."""
    found: dict[Point, PointStatus] = {}
    if problem is None or problem.kind not in PAIRS:
        return {spot.point: spot.status for spot in points}
    background = background_of(trace, problem)
    for row in trace.rows:
        point = point_of(row)
        half = Half(row.batch_size, row.minibatch_s, row.power_w) if row.minibatch_s else None
        side = "background" if is_background(background, point) else "urgent"
        found[point] = "failed" if half is None else broken_by(half_violations(problem, **{side: half})) or "unknown"
    for spot in points:
        found[spot.point] = spot.status
        if background is not None:
            partner = partner_of(spot.point, background)
            if spot.status == "within" or found.get(partner) == "unknown":
                found[partner] = spot.status
    return found
