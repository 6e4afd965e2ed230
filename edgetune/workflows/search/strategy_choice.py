"""Chooses the strategy of a search: the named one, the default, or the choice of ``auto`` with its reason.

The default is ``exhaustive`` for a table, where a point costs a look-up, and ``roofline`` where points are measured, or
where options limit the points or give prior knowledge, as in a replay of a live search.

    time for...            auto takes
    nothing                the board's maximum mode, which is not measured
    some measurements      roofline

Modes that differ only in their names have no order to search along, so every point is examined.

Confirms the answer of a search by keeping it running: ``edgetune search --soak 5m``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.stages.profiling.estimate import SweepEstimate
from edgetune.stages.profiling.soak import soak_sentence
from edgetune.stages.search.answer import NothingFeasibleError
from edgetune.stages.search.driver import SearchResult, SearchSettings, run_search
from edgetune.stages.search.space import offered_space
from edgetune.stages.search.strategies import find_strategy
from edgetune.units import format_duration
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.search.candidates import Candidates
from edgetune.workflows.search.options import SearchOptions

DEFAULT = "roofline"
EXHAUSTIVE = "exhaustive"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """A strategy, ``None`` if there is no time to measure; ``why`` is empty for the named one and the default."""

    name: str | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class SearchEstimate:
    """The expected cost of a search.

    Args:
        strategy: Its name; ``None`` if there is no time to measure.
        offered: Number of candidates.
        points: Maximum number of measured points.
        described: Description of the candidates.
        simulated: Whether a model gives the figures.
        expected: Expected cost of measuring every candidate; ``None`` for look-ups.
        soak_s: How long the answer is kept running at the end, s.
    """

    strategy: str | None
    offered: int
    points: int
    described: str
    simulated: bool
    expected: SweepEstimate | None
    soak_s: float = 0.0

    @property
    def duration_s(self) -> float | None:
        """Duration of the maximum number of points and of one soak, s; ``None`` if unknown."""
        points_s = self._of_points(0.0 if self.expected is None else self.expected.duration_s)
        return None if points_s is None else points_s + self.soak_s

    @property
    def energy_j(self) -> float | None:
        """Their energy, J; ``None`` if unknown."""
        return self._of_points(0.0 if self.expected is None else self.expected.energy_j)

    def _of_points(self, whole: float | None) -> float | None:
        share = self.points / self.offered if self.offered else 0.0
        return None if whole is None else whole * share


def estimate_search(
    candidates: Candidates, problem: Problem, strategy: str | None, max_points: int | None, known: Sequence[ProfileRow]
) -> SearchEstimate:
    """Return the expected cost of a search, zero without a strategy; points of ``known`` rows are not measured."""
    offered, limit = len(candidates.points), 0
    if strategy is not None:
        settings = SearchSettings(strategy, max_points, kind=find_strategy(strategy), known=known)
        there = len({row.point for row in known} & set(candidates.points))
        limit = min(settings.limit(problem, offered, there), offered - there)
    return SearchEstimate(
        strategy,
        offered,
        limit,
        candidates.described,
        candidates.simulated,
        None if candidates.expect is None else candidates.expect(),
        candidates.soak_s or 0.0,
    )


def choose_strategy(
    opts: SearchOptions, candidates: Candidates, problem: Problem, time_budget_s: float | None
) -> StrategyChoice:
    """Return the strategy to search with.

    Args:
        opts: ``strategy`` as written: ``auto`` looks at the time there is, ``None`` takes the default.
        candidates: The candidates and their expected cost.
        problem: The problem; each strategy itself refuses problems that it does not solve.
        time_budget_s: Time limit of the search, s; ``None`` for none.

    Raises:
        InputError: the strategy is unknown.
    """
    name = opts.strategy
    if name in (None, AUTO) and _has_names_only(candidates, problem):
        return StrategyChoice(EXHAUSTIVE, "the modes have names, which have no order, so that every point is looked at")
    if name != AUTO:
        chosen = name or (EXHAUSTIVE if _asks_for_all(opts) else DEFAULT)
        find_strategy(chosen)
        return StrategyChoice(chosen)
    if time_budget_s is not None:
        point_s = _point_s(candidates)
        if time_budget_s < point_s:
            why = f"{format_duration(time_budget_s)} is no time to measure: a point takes {format_duration(point_s)}"
            return StrategyChoice(None, why)
    most = find_strategy(DEFAULT).default_max_points(problem)
    return StrategyChoice(DEFAULT, f"there is time for its {most} points or what fits of them")


def _has_names_only(candidates: Candidates, problem: Problem) -> bool:
    """Return whether the candidates' modes differ only in their names."""
    named = any(point.mode.power_mode is not None for point in candidates.points)
    return named and offered_space(problem, candidates.points).named is not None


def _asks_for_all(opts: SearchOptions) -> bool:
    """Return whether a table is searched, and no option limits the points or gives knowledge to save some by."""
    limits = (opts.max_points, opts.time_budget, opts.good_enough)
    return opts.device is None and all(limit is None for limit in limits) and not opts.like


def _point_s(candidates: Candidates) -> float:
    """Return the expected duration of measuring a point, s; 0 for a look-up."""
    if candidates.expect is None or candidates.free:
        return 0.0
    return (candidates.expect().duration_s or 0.0) / max(len(candidates.points), 1)


def confirmed(result: SearchResult, problem: Problem, candidates: Candidates, reporter: Reporter) -> SearchResult:
    """Return the best answer by the figures of its soak.

    Where a soak breaks a budget, throttles or falls behind the next best point, that one is kept running next.

    Raises:
        NothingFeasibleError: no measured point keeps the budgets over a soak.
    """
    if candidates.soak is None or candidates.soak_s is None:
        return result
    judged = [each for each in result.history.judged_points() if each.confirmed and each.judgement.feasible]
    rows = {each.row.point: each.row for each in judged}
    best, plan, soaked = result.history.best, result.plan, dict[object, ProfileRow]()
    while best is not None and (point := best.row.point) not in soaked:
        reporter.info(f"soak: {point.mode}, batch {point.batch_size}, for {format_duration(candidates.soak_s)}")
        rows[point] = soaked[point] = candidates.soak(point)
        reporter.info(_told(rows[point]))
        settings = SearchSettings(DEFAULT, max_points=0, known=tuple(rows.values()))
        try:
            found = run_search(problem, candidates.points, candidates.measure, settings)
        except NothingFeasibleError as error:
            error.trace = result.trace
            raise
        best, plan = found.history.best, found.plan
    same = plan.configuration == result.plan.configuration
    header = result.plan.header
    header = replace(header, conditions={**header.conditions, "soak_s": candidates.soak_s})
    predicted = result.plan.predicted if same else None
    return replace(result, plan=replace(plan, header=header, search=result.plan.search, predicted=predicted))


def _told(row: ProfileRow) -> str:
    """Return what a soak showed, and why it counts as none."""
    said = (soak_sentence(row), None if row.status == "ok" else row.reason)
    return "; ".join(filter(None, said))
