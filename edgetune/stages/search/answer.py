"""The result of a search: the plan of its best point, or the error that says why nothing measured solves the problem.

The error names the constraint that failed, by how little it failed at the nearest point, and the option that would
accept that point.

The ranking of the measured points of a search: the answer, the points nearest to it, and why each of them lost.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.plan import Configuration, HalfFigures, Plan, PlanFigures, SearchSummary
from edgetune.artifacts.problem import COLUMN_BUDGETS, Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.repeats import energy_per_minibatch_j, mean_minibatch_s, tokens_per_j
from edgetune.artifacts.trace import Trace
from edgetune.errors import InfeasibleError, InputError
from edgetune.stages.search.history import JudgedPoint, SearchHistory, half_of
from edgetune.stages.search.problem import (
    PAIRS,
    Judgement,
    Violation,
    background_minibatches,
    is_continuous,
    late_of,
    needs_power,
    objective_of,
    pair_power_w,
    peak_latency_s,
)
from edgetune.stages.search.strategy import PointResult
from edgetune.units import format_si


def plan_of(header: Header, problem: Problem, best: JudgedPoint, search: SearchSummary) -> Plan:
    """Return the plan whose answer is the best measured point."""
    believed = PlanFigures(best.suggestion.predicted_minibatch_s, best.suggestion.predicted_power_w)
    return Plan(
        header=header,
        problem=problem,
        configuration=configuration_of(problem, best),
        measured=plan_figures(problem, best),
        search=search,
        predicted=believed if best.background is None and believed != PlanFigures() else None,
    )


def configuration_of(problem: Problem, point: JudgedPoint) -> Configuration:
    """Return the mode and batch sizes of a measured point."""
    row, background = point.row, point.background
    if background is None:
        return Configuration(row.mode, batch_size=row.batch_size)
    k = (
        background_minibatches(problem, half_of(row), half_of(background).minibatch_s) or None
    )  # continuous ones overlap
    if problem.kind == "train+infer":
        return Configuration(
            row.mode, infer_batch_size=row.batch_size, train_batch_size=background.batch_size, train_minibatches=k
        )
    return Configuration(
        row.mode, infer_batch_size=row.batch_size, background_batch_size=background.batch_size, background_minibatches=k
    )


def plan_figures(problem: Problem, point: JudgedPoint) -> PlanFigures:
    """Return the figures of a measured point."""
    return _alone(problem, point.row) if point.background is None else _together(problem, point)


def _alone(problem: Problem, row: ProfileRow) -> PlanFigures:
    time_s, late_s = float(mean_minibatch_s(row) or 0.0), late_of(row)
    return PlanFigures(
        minibatch_s=time_s,
        power_w=None if row.power_w is None else float(row.power_w),
        latency_s=peak_latency_s(problem, row.batch_size, late_s or time_s) if problem.kind == "infer" else None,
        throughput_per_s=row.batch_size / time_s,
        energy_j=energy_per_minibatch_j(row),
        ttft_p95_s=row.ttft_p95_s,
        token_p95_s=row.token_p95_s,
        tokens_per_s=row.tokens_per_s,
        tokens_per_j=tokens_per_j(row),
        memory_peak_bytes=row.memory_peak_bytes,
        minibatch_p95_s=late_s,
    )


def _together(problem: Problem, best: JudgedPoint) -> PlanFigures:
    """Return the figures of two workloads: the larger power, the urgent one's latency, the background's throughput."""
    row, background = best.row, best.background
    assert background is not None
    halves = [
        HalfFigures(mean_minibatch_s(half), half.power_w, energy_per_minibatch_j(half), late_of(half))
        for half in (row, background)
    ]
    return PlanFigures(
        power_w=pair_power_w(half_of(row), half_of(background)),
        latency_s=peak_latency_s(problem, row.batch_size, half_of(row).latest_s),
        throughput_per_s=best.objective,
        infer=halves[0],
        train=halves[1] if problem.kind == "train+infer" else None,
        background=None if problem.kind == "train+infer" else halves[1],
    )


MORE_POINTS = ", or more points"
"""Ending of a hint if unmeasured points are left."""


class NothingFeasibleError(InfeasibleError):
    """No measured point meets every budget. ``trace`` holds every step, so that what was measured is not lost."""

    trace: Trace | None = None


class NoPowerError(InputError):
    """Power matters to the problem and no point has a power figure. ``trace`` holds every step."""

    trace: Trace | None = None


def explain(
    problem: Problem, outcomes: Sequence[PointResult], *, complete: bool, trace: Trace
) -> NothingFeasibleError | NoPowerError:
    """Return the error that says why none of these measured points is an answer.

    Args:
        problem: What was to be solved.
        outcomes: Results of all measured or known points, none surely feasible; for two workloads of pairs, or of
            halves if no pair is complete.
        complete: Whether all offered points have a result, so that the error is final.
        trace: The steps, which the error carries.
    """
    error = _error(problem, outcomes, "" if complete else MORE_POINTS)
    error.trace = trace
    return error


def unjudged_warning(problem: Problem, outcomes: Sequence[PointResult]) -> tuple[DataWarning, ...]:
    """Return the warning that measured points lack a figure of the problem, power above all; empty if none does."""
    unjudged = [each for each in outcomes if each.minibatch_s is not None and each.judgement.feasible is None]
    reasons = [each.judgement.unknown for each in unjudged if each.judgement.unknown]
    if not reasons:
        return ()
    no_power = needs_power(problem) and all(each.power_w is None for each in unjudged)
    lacks = "have no power" if no_power else f"lack a figure ({reasons[-1]})"
    advice = f"{len(reasons)} of {len(outcomes)} points {lacks}, so that they cannot be the answer"
    return (DataWarning("not-judged", advice, {"points": len(reasons)}),)


def _error(problem: Problem, outcomes: Sequence[PointResult], more: str) -> NothingFeasibleError | NoPowerError:
    unsure = [result for result in outcomes if result.judgement.feasible]
    if unsure:
        return _not_sure(problem, unsure)
    measured = [result for result in outcomes if result.minibatch_s is not None]
    if measured and needs_power(problem) and not any(result.power_w for result in measured):
        spared = [result for result in measured if not result.judgement.violations]
        if spared:
            return _no_power(problem, spared[-1].judgement.unknown or "no power was measured")
    broken = [result.judgement for result in outcomes if result.judgement.violations]
    if broken:
        error = _nearest(problem, broken, len(outcomes), more)
        error.message += "".join(f"; {each.advice}" for each in unjudged_warning(problem, outcomes))
        return error
    return _nothing_judged(problem, outcomes, more)


def _nothing_judged(
    problem: Problem, outcomes: Sequence[PointResult], more: str
) -> NothingFeasibleError | NoPowerError:
    """Return the error for outcomes of which none could be judged."""
    measured = [result for result in outcomes if result.minibatch_s is not None]
    reasons = [result.judgement.unknown for result in outcomes if result.judgement.unknown]
    alone = f"measure one of the points by itself with edgetune profile{more}"
    if any(result.judgement.unknown is None for result in measured):
        if reasons:
            message = f"in no mode could both workloads be measured; the last failure: {reasons[-1]}"
            return NothingFeasibleError(message, alone)
        message = "the search ended before both workloads had been measured in one mode"
        return NothingFeasibleError(message, "give it more points or more time")
    if measured and needs_power(problem) and not any(result.power_w for result in measured):
        return _no_power(problem, reasons[-1])
    if measured:
        message = f"no measured point can be judged; the last: {reasons[-1]}"
        return NothingFeasibleError(message, "give a table or a server that has this figure, or drop the budget")
    if not outcomes:
        return NothingFeasibleError("the search ended before anything was measured", "give it more time")
    last = f"; the last: {reasons[-1]}" if reasons else ""
    return NothingFeasibleError(f"none of the {len(outcomes)} measurements succeeded{last}", alone)


def _nearest(problem: Problem, broken: Sequence[Judgement], count: int, more: str) -> NothingFeasibleError:
    """Return the error that names the constraints broken by the nearest point, and the option that would accept it.

    The message also names constraints that only other points break, so that it holds for those points too.
    """
    judgement = min(broken, key=lambda judgement: max(v.value / v.limit for v in judgement.violations))
    is_half = problem.kind in PAIRS and judgement.objective is None
    which, every = ("measured", "") if more else ("offered", "all ")
    among = f" of {every}{count}" if count > 1 else ""
    named = {violation.constraint for violation in judgement.violations}
    others = {v.constraint: v for each in broken for v in each.violations if v.constraint not in named}
    wishes, facts, options = zip(*(_in_words(problem, violation) for violation in judgement.violations), strict=True)
    wishes += tuple("keeps up" if name == "rate" else _in_words(problem, others[name])[0] for name in sorted(others))
    hint = " ".join(options) + (" at least, for only one of the two workloads was measured there" if is_half else "")
    message = f"no {which} point {' and '.join(wishes)}; the nearest{among} {' and '.join(facts)}"
    return NothingFeasibleError(message, f"{hint}{more}")


def _no_power(problem: Problem, reason: str) -> NoPowerError:
    wanted = "energy" if problem.power_budget_w is None and problem.power_peak_budget_w is None else "a power budget"
    return NoPowerError(
        f"{wanted} cannot be checked, for no measured point has a power figure ({reason})",
        "give a table or a device that has power, or search for throughput without a power budget",
    )


def _not_sure(problem: Problem, unsure: Sequence[PointResult]) -> NothingFeasibleError:
    """Return the error for readings that are within the budget while their interval is not."""
    power_w = min(result.power_w or math.inf for result in unsure)
    limit_w = (problem.power_budget_w or math.inf) * (1 - problem.margin)
    message = f"{power_w:.4g} W was read where at most {limit_w:.4g} W are allowed, too near for a reading that wavers"
    return NothingFeasibleError(message, "more --max-points, to measure it more often, or a higher --power-budget")


def _in_words(problem: Problem, violation: Violation) -> tuple[str, str, str]:
    """Return the constraint, the nearest point's figure and the option that would accept that point, in words.

    The option is rounded to the side that accepts the point.
    """
    kept, value, limit = 1 - problem.margin, violation.value, violation.limit
    margin = f" (with {problem.margin:.3g} of the budget kept free)" if problem.margin else ""
    if (budget := COLUMN_BUDGETS.get(violation.constraint)) is not None:
        unit, factor = budget.written_in
        option = f"{budget.option} {_rounded(value / kept * factor, math.ceil):g}{unit}"
        wish, fact = (budget.words.format(budget.show(each)) for each in (limit, value))
        return f"{wish}{margin}", fact, option
    value_s, limit_s = format_si(value, "s"), format_si(limit, "s")
    if violation.constraint == "power":
        option = f"--power-budget {_rounded(value / kept, math.ceil):g}W"
        return f"draws at most {limit:.4g} W{margin}", f"draws {value:.4g} W", option
    if violation.constraint == "latency":
        option = f"--latency-budget {_rounded(value / kept * 1e3, math.ceil):g}ms"
        return f"answers within {limit_s}{margin}", f"answers within {value_s}", option
    if violation.constraint == "room" and is_continuous(problem):
        wish = f"leaves a background minibatch time within {limit_s}{margin}"
        return (
            wish,
            f"answers within {value_s} behind one",
            f"--latency-budget {_rounded(value / kept * 1e3, math.ceil):g}ms",
        )
    if violation.constraint == "room":
        wish = "leaves room for a background minibatch between two batches"
        option = "a lower --arrival-rate, or larger --batch-sizes of the urgent workload"
        return wish, f"leaves {limit_s} where it takes {value_s}", option
    rate = f"{_rounded((problem.arrival_rate_per_s or 0.0) * limit / value, math.floor):g}/s"
    option = f"an --arrival-rate below {rate}" if problem.kind in PAIRS else f"--arrival-rate {rate}"  # room as well
    return f"keeps up (a minibatch within {limit_s})", f"takes {value_s} per minibatch", option


def _rounded(value: float, to_whole: Callable[[float], int]) -> float:
    """Return ``value`` rounded up or down to a whole number, or to two digits below ten."""
    step = 1.0 if value >= 10 else 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(to_whole(value / step + (1e-9 if to_whole is math.floor else -1e-9)) * step, 12)


_COMPARATIVES = {"energy": "more energy", "energy-delay": "worse", "tokens-per-joule": "more energy"}
"""How a point loses by its objective; ``slower`` by the others."""
_TIMES = {"energy": "the energy", "energy-delay": "the energy-delay", "tokens-per-joule": "the energy"}
"""What a point takes a multiple of by its objective; the time by the others."""


@dataclass(frozen=True, slots=True)
class RankedPoint:
    """A measured point of a search.

    Args:
        configuration: Its mode and batch sizes.
        measured: Its figures.
        lost: Why it is not the answer, in a few words; ``None`` for the answer.
    """

    configuration: Configuration
    measured: PlanFigures
    lost: str | None


def rank_points(history: SearchHistory, count: int) -> tuple[RankedPoint, ...]:
    """Return the answer of a search and the measured points nearest to it, at most ``count`` in all.

    The distance of a point is the share by which its objective is worse than the answer's plus the largest share by
    which it exceeds a limit. A point that is faster than the answer and slightly over budget is near.
    """
    best, problem = history.best, history.problem
    if best is None:
        return ()

    def distance(point: JudgedPoint) -> tuple[float, ...]:
        over = max((violation.value / violation.limit - 1 for violation in point.judgement.violations), default=0.0)
        return max(excess_of(best, point), 0.0) + over, *point.rank()

    judged = [found for found in history.judged_points() if found.judgement.feasible is not None]
    others = [found for found in judged if found.row.point != best.row.point and found.judgement.objective is not None]
    return (
        RankedPoint(configuration_of(problem, best), plan_figures(problem, best), None),
        *(
            RankedPoint(configuration_of(problem, each), plan_figures(problem, each), _why(problem, best, each))
            for each in heapq.nsmallest(count - 1, others, key=distance)
        ),
    )


def excess_of(best: JudgedPoint, other: JudgedPoint) -> float:
    """Return the share by which the objective is worse than the best one; below zero if it is better."""
    if best.objective < 0:
        return other.objective / best.objective - 1
    return best.objective / other.objective - 1 if other.objective > 0 else math.inf


def _why(problem: Problem, best: JudgedPoint, other: JudgedPoint) -> str:
    """Return why a point is not the answer."""
    if other.judgement.violations:
        return ", ".join(map(_broken, other.judgement.violations))
    if not other.confirmed:
        return "power not sure"
    excess = excess_of(best, other)
    if excess > 0:
        comparative = _COMPARATIVES.get(objective_of(problem), "slower")
        if excess >= 1:
            times = _TIMES.get(objective_of(problem), "the time")
            return f"{1 + excess:.3g} times {times}" if math.isfinite(excess) else comparative
        return f"{'<0.1%' if excess < 0.0005 else f'{excess:.1%}'} {comparative}"
    later_s = best.judgement.second - other.judgement.second
    if later_s > 0:
        return f"tie, {format_si(later_s, 's')} later"
    ours_w, theirs_w = (plan_figures(problem, each).power_w or 0.0 for each in (best, other))
    return f"tie, {format_si(theirs_w - ours_w, 'W')} more" if theirs_w > ours_w else "tie"


def _broken(violation: Violation) -> str:
    """Return the constraint that a point breaks; the unit says which budget it exceeds."""
    if (budget := COLUMN_BUDGETS.get(violation.constraint)) is not None:
        return f"{budget.show(violation.value - violation.limit)} over {budget.option.lstrip('-')}"
    if violation.constraint in ("power", "latency"):
        unit = "W" if violation.constraint == "power" else "s"
        return f"{format_si(violation.value - violation.limit, unit)} over budget"
    return "cannot keep up" if violation.constraint == "rate" else "no time left"
