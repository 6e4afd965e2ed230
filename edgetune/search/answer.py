"""From the best point a search found to the plan that other commands read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.plan import KIND, VERSION, Configuration, HalfFigures, Plan, PlanFigures, SearchSummary
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.search.history import FeasiblePoint, half_of
from edgetune.search.offered import offered_space
from edgetune.search.pairs import background_minibatches
from edgetune.search.problem import energy_per_minibatch_j, peak_latency_s


def plan_of(header: Header, problem: Problem, best: FeasiblePoint, search: SearchSummary) -> Plan:
    """Return the plan whose answer is the best measured point."""
    believed = PlanFigures(best.suggestion.predicted_minibatch_s, best.suggestion.predicted_power_w)
    alone = best.background is None
    return Plan(
        header=header,
        problem=problem,
        configuration=_configuration(problem, best),
        measured=_alone(problem, best.row) if alone else _together(problem, best),
        search=search,
        predicted=believed if alone and believed != PlanFigures() else None,
    )


def unmeasured_plan(
    problem: Problem,
    points: Iterable[Point],
    *,
    seed: int,
    why: str,
    inputs: Mapping[str, Any] | None = None,
    conditions: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the plan of the board's maximum mode, for when there is no time to measure; it says that it is not.

    The mode is that with every knob highest, at the largest batch size in training, and the smallest in inference,
    where a request then waits for no other.
    """
    space = offered_space(problem, points)
    size_sign = -1 if space.points[0].task == "infer" else 1
    top = max(space.points, key=lambda p: (sum(p.mode.knobs().values()), size_sign * p.batch_size))
    data_warning = DataWarning(
        "not-measured", f"{why}; nothing is known of its time and power: measure it before relying on it"
    )
    header = Header.new(KIND, VERSION, inputs=inputs, conditions=conditions, warnings=(data_warning,))
    alone = Configuration(top.mode, batch_size=top.batch_size)
    together = Configuration(top.mode, infer_batch_size=top.batch_size)
    return Plan(
        header,
        problem,
        alone if space.background is None else together,
        PlanFigures(),
        SearchSummary("auto", 0, seed),
    )


def _configuration(problem: Problem, best: FeasiblePoint) -> Configuration:
    row, background = best.row, best.background
    if background is None:
        return Configuration(row.mode, batch_size=row.batch_size)
    k = background_minibatches(problem, half_of(row), background.minibatch_s or 0.0)
    if problem.kind == "train+infer":
        return Configuration(
            row.mode, infer_batch_size=row.batch_size, train_batch_size=background.batch_size, train_minibatches=k
        )
    return Configuration(
        row.mode, infer_batch_size=row.batch_size, background_batch_size=background.batch_size, background_minibatches=k
    )


def _alone(problem: Problem, row: ProfileRow) -> PlanFigures:
    time_s = float(row.minibatch_s or 0.0)
    return PlanFigures(
        minibatch_s=time_s,
        power_w=None if row.power_w is None else float(row.power_w),
        latency_s=peak_latency_s(problem, row.batch_size, time_s) if problem.kind == "infer" else None,
        throughput_per_s=row.batch_size / time_s,
        energy_j=energy_per_minibatch_j(row),
    )


def _together(problem: Problem, best: FeasiblePoint) -> PlanFigures:
    """Return the figures of two workloads: the larger power, the urgent one's latency, the background's throughput."""
    row, background = best.row, best.background
    assert background is not None
    halves = [HalfFigures(half.minibatch_s, half.power_w, energy_per_minibatch_j(half)) for half in (row, background)]
    powers = [float(half.power_w) for half in halves if half.power_w is not None]
    return PlanFigures(
        power_w=max(powers) if len(powers) == len(halves) else None,
        latency_s=peak_latency_s(problem, row.batch_size, float(row.minibatch_s or 0.0)),
        throughput_per_s=best.objective,
        infer=halves[0],
        train=halves[1] if problem.kind == "train+infer" else None,
        background=None if problem.kind == "train+infer" else halves[1],
    )
