"""Why nothing measured solves the problem, and which budget would have been met.

"Infeasible" alone sends people away with nothing. What they can use: which constraint failed, by how little at the
nearest point, and the option that would accept it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.trace import Trace
from edgetune.errors import InfeasibleError, InputError
from edgetune.search.problem import PAIRS, Judgement, Violation, needs_power
from edgetune.search.strategies.strategy import PointResult
from edgetune.units import format_si

MORE_POINTS = ", or more points"
"""End of a hint where not everything has been measured."""


class NothingFeasibleError(InfeasibleError):
    """No measured point meets every budget. ``trace`` holds every step, so that what was measured is not lost."""

    def __init__(self, message: str, hint: str, trace: Trace | None = None) -> None:
        super().__init__(message, hint)
        self.trace = trace


class NoPowerError(InputError):
    """Power matters to the problem and no point has a power figure. ``trace`` holds every step."""

    def __init__(self, message: str, hint: str, trace: Trace | None = None) -> None:
        super().__init__(message, hint)
        self.trace = trace


def explain(
    problem: Problem, outcomes: Sequence[PointResult], *, complete: bool, trace: Trace
) -> NothingFeasibleError | NoPowerError:
    """Return the error that says why none of these measured points is an answer.

    Args:
        problem: What was to be solved.
        outcomes: Of every point measured or known, of two workloads of pairs (of halves where no pair is whole); none
            of them is sure to be feasible.
        complete: Whether these are all the points there are, so that the answer is final.
        trace: The steps, to travel with the error.
    """
    more = "" if complete else MORE_POINTS
    unsure = [result for result in outcomes if result.judgement.feasible]
    if unsure:
        return _not_sure(problem, unsure, trace)
    measured = [result for result in outcomes if result.minibatch_s is not None]
    if measured and needs_power(problem) and not any(result.power_w for result in measured):
        spared = [result for result in measured if not result.judgement.violations]
        if spared:
            return _no_power(problem, spared[-1].judgement.unknown or "no power was measured", trace)
    broken = [result.judgement for result in outcomes if result.judgement.violations]
    if broken:
        return _nearest(problem, broken, len(outcomes), complete=complete, trace=trace)
    return _nothing_judged(problem, outcomes, more=more, trace=trace)


def _nearest(
    problem: Problem, broken: Sequence[Judgement], count: int, *, complete: bool, trace: Trace
) -> NothingFeasibleError:
    """Return the error that names what the nearest point breaks, and the option that would accept it.

    What other points break is wished for too: without that, points that do no more than break it would be denied.
    """
    judgement = min(broken, key=lambda judgement: max(v.value / v.limit for v in judgement.violations))
    nearest, is_half = judgement.violations, problem.kind in PAIRS and judgement.objective is None
    which, every = ("offered", "all ") if complete else ("measured", "")
    among = f" of {every}{count}" if count > 1 else ""
    named = {violation.constraint for violation in nearest}
    others = {v.constraint: v for each in broken for v in each.violations if v.constraint not in named}
    wishes = [_wish(problem, violation) for violation in nearest]
    wishes += ["keeps up" if name == "rate" else _wish(problem, others[name]) for name in sorted(others)]
    facts = " and ".join(_fact(violation) for violation in nearest)
    options = " ".join(_option(problem, violation) for violation in nearest)
    options += " at least, for only one of the two workloads was measured there" if is_half else ""
    message = f"no {which} point {' and '.join(wishes)}; the nearest{among} {facts}"
    return NothingFeasibleError(message, f"{options}{'' if complete else MORE_POINTS}", trace)


def _nothing_judged(
    problem: Problem, outcomes: Sequence[PointResult], *, more: str, trace: Trace
) -> NothingFeasibleError | NoPowerError:
    """Return the error for outcomes of which none could be judged."""
    measured = [result for result in outcomes if result.minibatch_s is not None]
    reasons = [result.judgement.unknown for result in outcomes if result.judgement.unknown]
    alone = f"measure one of the points by itself with edgetune profile{more}"
    if any(result.judgement.unknown is None for result in measured):
        if reasons:
            message = f"in no mode could both workloads be measured; the last failure: {reasons[-1]}"
            return NothingFeasibleError(message, alone, trace)
        message = "the search ended before both workloads had been measured in one mode"
        return NothingFeasibleError(message, "give it more points or more time", trace)
    if measured:
        return _no_power(problem, reasons[-1], trace)
    if not outcomes:
        return NothingFeasibleError("the search ended before anything was measured", "give it more time", trace)
    last = f"; the last: {reasons[-1]}" if reasons else ""
    return NothingFeasibleError(
        f"none of the {len(outcomes)} measurements succeeded{last}",
        alone,
        trace,
    )


def _no_power(problem: Problem, reason: str, trace: Trace) -> NoPowerError:
    wanted = "a power budget" if problem.power_budget_w is not None else "energy"
    return NoPowerError(
        f"{wanted} cannot be checked, for no measured point has a power figure ({reason})",
        "give a table or a device that has power, or search for throughput without a power budget",
        trace,
    )


def _not_sure(problem: Problem, unsure: Sequence[PointResult], trace: Trace) -> NothingFeasibleError:
    """Return the error for readings within the budget whose interval is not."""
    power_w = min(result.power_w or math.inf for result in unsure)
    limit_w = (problem.power_budget_w or math.inf) * (1 - problem.margin)
    message = f"{power_w:.4g} W was read where at most {limit_w:.4g} W are allowed, too near for a reading that wavers"
    return NothingFeasibleError(
        message, "more --max-points, to measure it more often, or a higher --power-budget", trace
    )


def _wish(problem: Problem, violation: Violation) -> str:
    """Return what a point was to do, e.g. ``draws at most 9 W``."""
    margin = f" (with {problem.margin:.3g} of the budget kept free)" if problem.margin else ""
    if violation.constraint == "power":
        return f"draws at most {violation.limit:.4g} W{margin}"
    if violation.constraint == "latency":
        return f"answers within {format_si(violation.limit, 's')}{margin}"
    if violation.constraint == "room":
        return "leaves room for a background minibatch between two batches"
    return f"keeps up (a minibatch within {format_si(violation.limit, 's')})"


def _fact(violation: Violation) -> str:
    """Return what the nearest point did instead, e.g. ``draws 12.3 W``."""
    if violation.constraint == "power":
        return f"draws {violation.value:.4g} W"
    if violation.constraint == "latency":
        return f"answers within {format_si(violation.value, 's')}"
    if violation.constraint == "room":
        return f"leaves {format_si(violation.limit, 's')} where it takes {format_si(violation.value, 's')}"
    return f"takes {format_si(violation.value, 's')} per minibatch"


def _option(problem: Problem, violation: Violation) -> str:
    """Return the option that would accept the point, rounded to the side that does."""
    kept = 1 - problem.margin
    if violation.constraint == "power":
        return f"--power-budget {_round_up(violation.value / kept):g}W"
    if violation.constraint == "latency":
        return f"--latency-budget {_round_up(violation.value / kept * 1e3):g}ms"
    if violation.constraint == "room":
        return "a lower --arrival-rate, or larger --batch-sizes of the urgent workload"
    rate = (problem.arrival_rate_per_s or 0.0) * violation.limit / violation.value
    written = f"{_round_down(rate):g}/s"
    return (
        f"an --arrival-rate below {written}" if problem.kind in PAIRS else f"--arrival-rate {written}"
    )  # room as well


def _round_up(value: float) -> float:
    """Return ``value`` rounded up to a whole number, or to two digits below ten."""
    step = _step(value)
    return round(math.ceil(value / step - 1e-9) * step, 12)


def _round_down(value: float) -> float:
    step = _step(value)
    return round(math.floor(value / step + 1e-9) * step, 12)


def _step(value: float) -> float:
    return 1.0 if value >= 10 else float(10.0 ** (math.floor(math.log10(value)) - 1))
