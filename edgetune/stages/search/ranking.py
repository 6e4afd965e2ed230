"""The ranking of the measured points of a search: the answer, the points nearest to it, and why each of them lost."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from edgetune.artifacts.column_budgets import COLUMN_BUDGETS
from edgetune.artifacts.plan import Configuration, PlanFigures
from edgetune.artifacts.problem import Problem
from edgetune.stages.search.answer import configuration_of, plan_figures
from edgetune.stages.search.history import JudgedPoint, SearchHistory
from edgetune.stages.search.problem import Violation, objective_of
from edgetune.units import format_si

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
