"""Chooses the strategy of a search, the named one or the default.

The default is ``exhaustive`` for a table, where a point costs a look-up, and ``roofline`` where points are measured, or
where options limit the points or give prior knowledge, as in a replay of a live search. Modes that differ only in their
names have no order to search along, so every point is examined.
"""

from dataclasses import dataclass

from edgetune.artifacts.problem import Problem
from edgetune.errors import InputError
from edgetune.stages.profiling.estimate import SweepEstimate
from edgetune.stages.search.space import offered_space
from edgetune.stages.search.strategies import STRATEGIES
from edgetune.workflows.search.candidates import Candidates
from edgetune.workflows.search.options import SearchOptions

DEFAULT = "roofline"
EXHAUSTIVE = "exhaustive"


@dataclass(frozen=True, slots=True)
class SearchEstimate:
    """The expected cost of a search.

    Args:
        strategy: Its name.
        offered: Number of candidates.
        points: Maximum number of measured points.
        described: Description of the candidates.
        simulated: Whether a model gives the figures.
        expected: Expected cost of these measurements; ``None`` for look-ups.
    """

    strategy: str
    offered: int
    points: int
    described: str
    simulated: bool
    expected: SweepEstimate | None


def choose_strategy(opts: SearchOptions, candidates: Candidates, problem: Problem) -> tuple[str, str]:
    """Return the strategy to search with, and why where it is neither the named one nor the default.

    Raises:
        InputError: the strategy is unknown.
    """
    if opts.strategy == "auto":
        raise InputError("--strategy auto was removed", "leave it out: the default suits tables and devices")
    if opts.strategy is not None:
        STRATEGIES.find(opts.strategy)
        return opts.strategy, ""
    named = any(point.mode.power_mode is not None for point in candidates.points)
    if named and offered_space(problem, candidates.points).named is not None:
        return EXHAUSTIVE, "the modes have names, which have no order, so that every point is looked at"
    looked_up = opts.device is None and opts.max_points is opts.time_budget is None and not opts.like
    return EXHAUSTIVE if looked_up else DEFAULT, ""
