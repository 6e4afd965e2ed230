"""Which strategy searches: the one named, ``roofline`` when none is, or what ``auto`` finds fitting, and why.

    time for...            the answer serves...        auto takes
    nothing                                            the board's maximum mode, which is not measured
    some measurements      this problem                roofline
    some measurements      budgets that will change    pareto

Modes that only their names tell apart have no order to search along: every point is looked at.

This is the practitioner's matrix of Fulcrum (2025), with this project's strategies in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.errors import InputError
from edgetune.units import format_duration

if TYPE_CHECKING:
    from edgetune.artifacts.problem import Problem
    from edgetune.cli.candidates import Candidates

DEFAULT = "roofline"
OF_NAMES = "exhaustive"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """A strategy and why it was taken; ``name`` is ``None`` where there is no time to measure anything."""

    name: str | None
    why: str


def choose_strategy(
    name: str | None, candidates: Candidates, problem: Problem, *, time_budget_s: float | None, reusable: bool
) -> StrategyChoice:
    """Return the strategy to search with.

    Args:
        name: As written; ``auto`` looks at the time there is, ``None`` takes the default.
        candidates: What there is to measure, and how long a point takes.
        problem: What is searched for; a strategy that does not solve it says so itself.
        time_budget_s: How long the search may take, s; ``None`` for as long as it takes.
        reusable: Whether the measured points are to answer other budgets too.

    Raises:
        InputError: an unknown strategy, or ``reusable`` with another strategy than ``pareto``.
    """
    from edgetune.search.strategies import find_strategy

    if name in (None, AUTO) and _has_names_only(candidates, problem):
        return StrategyChoice(OF_NAMES, "the modes have names, which have no order, so that every point is looked at")
    if name != AUTO:
        if reusable and name not in (None, "pareto"):
            raise InputError(f"--reusable: {name} searches for one budget only", "--strategy pareto, or leave it out")
        chosen = name or ("pareto" if reusable else DEFAULT)
        find_strategy(chosen)
        return StrategyChoice(chosen, "as asked" if name else "the default")
    if time_budget_s is not None:
        point_s = _point_s(candidates)
        if time_budget_s < point_s:
            why = f"{format_duration(time_budget_s)} is no time to measure: a point takes {format_duration(point_s)}"
            return StrategyChoice(None, why)
    if reusable:
        return StrategyChoice("pareto", "its points will answer other budgets too")
    most = find_strategy(DEFAULT).default_max_points(problem)
    return StrategyChoice(DEFAULT, f"there is time for its {most} points or what fits of them")


def _has_names_only(candidates: Candidates, problem: Problem) -> bool:
    """Return whether the modes offered are told apart by their names alone."""
    from edgetune.search.space import offered_space

    named = any(point.mode.power_mode is not None for point in candidates.points)
    return named and offered_space(problem, candidates.points).named is not None


def _point_s(candidates: Candidates) -> float:
    """Return how long measuring a point is expected to take, s; a look-up takes none."""
    if candidates.expect is None or candidates.free:
        return 0.0
    return (candidates.expect().duration_s or 0.0) / max(len(candidates.points), 1)
