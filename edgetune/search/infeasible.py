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
from edgetune.search.problem import Judgement, Violation
from edgetune.units import format_si


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
    problem: Problem, judgements: Sequence[Judgement], *, complete: bool, trace: Trace
) -> NothingFeasibleError | NoPowerError:
    """Return the error that says why none of these measured points is an answer.

    Args:
        problem: What was to be solved.
        judgements: Of every point measured or known; none of them is feasible.
        complete: Whether these are all the points there are, so that the answer is final.
        trace: The steps, to travel with the error.
    """
    broken = [judgement for judgement in judgements if judgement.violations]
    more = "" if complete else ", or more points"
    if broken:
        nearest = min(broken, key=lambda judgement: max(v.value / v.limit for v in judgement.violations))
        count = f"none of the {len(judgements)} points measured" if not complete else "no mode there is"
        failed = " and ".join(_wish(violation) for violation in nearest.violations)
        found = " and ".join(_fact(violation) for violation in nearest.violations)
        options = " ".join(_option(problem, violation) for violation in nearest.violations)
        return NothingFeasibleError(f"{count} {failed}; the nearest {found}", f"{options}{more}", trace)
    if any(judgement.objective is not None for judgement in judgements) or _all_lack_power(judgements):
        return NoPowerError(
            "no measured point has a power figure; a power budget or an energy objective cannot be checked",
            "give a table or a device that has power, or search without --power-budget",
            trace,
        )
    reasons = [judgement.unknown for judgement in judgements if judgement.unknown]
    last = f"; the last: {reasons[-1]}" if reasons else ""
    return NothingFeasibleError(
        f"none of the {len(judgements)} measurements succeeded{last}",
        f"try one of the points by itself with edgetune profile{more}",
        trace,
    )


def _all_lack_power(judgements: Sequence[Judgement]) -> bool:
    return bool(judgements) and all(judgement.unknown == "no power was measured" for judgement in judgements)


def _wish(violation: Violation) -> str:
    """Return what a point was to do, e.g. ``draws at most 9 W``."""
    if violation.constraint == "power":
        return f"draws at most {violation.limit:.4g} W"
    if violation.constraint == "latency":
        return f"answers within {format_si(violation.limit, 's')}"
    return f"keeps up (a minibatch within {format_si(violation.limit, 's')})"


def _fact(violation: Violation) -> str:
    """Return what the nearest point did instead, e.g. ``draws 12.3 W``."""
    if violation.constraint == "power":
        return f"draws {violation.value:.4g} W"
    if violation.constraint == "latency":
        return f"answers within {format_si(violation.value, 's')}"
    return f"takes {format_si(violation.value, 's')} per minibatch"


def _option(problem: Problem, violation: Violation) -> str:
    """Return the option that would accept the point, rounded to the side that does."""
    kept = 1 - problem.margin
    if violation.constraint == "power":
        return f"--power-budget {_round_up(violation.value / kept):g}W"
    if violation.constraint == "latency":
        return f"--latency-budget {_round_up(violation.value / kept * 1e3):g}ms"
    rate = (problem.arrival_rate_per_s or 0.0) * violation.limit / violation.value
    return f"--arrival-rate {_round_down(rate):g}/s"


def _round_up(value: float) -> float:
    """Return ``value`` rounded up to a whole number, or to two digits below ten."""
    step = _step(value)
    return round(math.ceil(value / step - 1e-9) * step, 12)


def _round_down(value: float) -> float:
    step = _step(value)
    return round(math.floor(value / step + 1e-9) * step, 12)


def _step(value: float) -> float:
    return 1.0 if value >= 10 else float(10.0 ** (math.floor(math.log10(value)) - 1))
