"""The loop between a strategy and measurements: ask for a point, measure it, judge it, tell the strategy, record it.

The loop guarantees what strategies need not check: no point is asked for twice, the number of points is never exceeded,
and the answer is a measured point that keeps every budget. Where power readings scatter, some of the points measure the
best ones again until their interval keeps the budget too.

``BothHalves`` adapts strategies of one workload to two workloads: it measures each point they ask for as two halves.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from edgetune.artifacts import plan as plans
from edgetune.artifacts import trace as traces
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.mode import SETTINGS
from edgetune.artifacts.plan import Plan, SearchSummary
from edgetune.artifacts.problem import Problem, asked_budgets
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import EdgetuneError, InputError, NotRestoredError
from edgetune.stages.search.answer import explain, plan_of, unjudged_warning
from edgetune.stages.search.history import SearchHistory, usable
from edgetune.stages.search.problem import (
    PAIRS,
    Half,
    Judgement,
    half_violations,
    judge_pair,
    pair_power_w,
    runs_back_to_back,
    validate,
)
from edgetune.stages.search.space import Space, offered_space
from edgetune.stages.search.strategies import STRATEGIES
from edgetune.stages.search.strategy import (
    NO_HINTS,
    AsksMany,
    AskTell,
    GainForecast,
    Hints,
    PointResult,
    Strategy,
    Suggestion,
)


class BothHalves:
    """Adapts a strategy over points of the urgent workload to halves of pairs."""

    def __init__(self, inner: AskTell, space: Space, problem: Problem) -> None:
        self.inner, self._space, self._problem = inner, space, problem
        self._told: dict[Point, PointResult] = {}
        self._asked: Suggestion | None = None
        self._settled: set[Point] = set()

    def ask(self) -> Suggestion | None:
        """Return the next half of the point that the strategy asked for last, else a half of its next point."""
        while True:
            if self._asked is None:
                self._asked = self.inner.ask()
            if self._asked is None:
                return None
            point = self._asked.point
            if not self._settle(point):
                return self._half(self._asked, point if point not in self._told else self._space.partner(point))
            self._asked = None

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a half, and tell the strategy the points that it settles."""
        self._told[point] = result
        partner = self._space.partner(point)
        urgent = [p for p in self._told if p in self._space.levels and self._space.partner(p) == partner]
        for p in urgent if point == partner else [point]:
            self._settled.discard(p)
            self._settle(p)
        if self._asked is not None and self._asked.point in self._settled:
            self._asked = None

    def _settle(self, point: Point) -> bool:
        """Tell the strategy the result of a point once its halves determine it; return whether they do."""
        if point not in self._settled:
            result = self._outcome(point)
            if result is None:
                return False
            self._settled.add(point)
            self.inner.tell(point, result)
        return True

    def _outcome(self, point: Point) -> PointResult | None:
        """Return the result of a point; ``None`` while its halves do not determine it."""
        halves: list[Half | None] = []
        for point_of_half in (point, self._space.partner(point)):
            told = self._told.get(point_of_half)
            if told is None:
                halves.append(None)
            elif told.minibatch_s is None:
                return PointResult(Judgement(None, None, unknown=told.judgement.unknown))
            else:
                halves.append(Half(point_of_half.batch_size, told.minibatch_s, told.power_w, told.late_s))
        urgent, background = halves
        if urgent is not None and background is not None:
            judgement = judge_pair(self._problem, urgent, background)
            return PointResult(judgement, urgent.minibatch_s, pair_power_w(urgent, background))
        half = urgent or background
        if half is None:
            return None
        broken = half_violations(self._problem, urgent=urgent, background=background)
        return PointResult(Judgement(None, False, tuple(broken)), half.minibatch_s, half.power_w) if broken else None

    def _half(self, asked: Suggestion, point: Point) -> Suggestion:
        if point == asked.point:
            return asked
        return Suggestion(point, f"{asked.reason}; the background workload there")


Measure = Callable[[Point], ProfileRow]

RESERVED = 3
"""Points kept for measuring the best ones again, where readings waver; at most a third of all, but one."""


MORE = 10
"""Number of further measurements whose expected gain a search says."""
SOONEST, LITTLE = 0.8, 0.01
"""Share of a strategy's default number of points after which a search without ``max_points`` may end, and the expected
gain of ``MORE`` measurements at which it does."""


BACK_TO_BACK = DataWarning(
    "back-to-back",
    "no arrival rate was given: batches run back to back, and the latency is the time of one batch; "
    "with --arrival-rate the time that a batch takes to fill counts too",
)


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """The settings of a search.

    Args:
        strategy: Name of a strategy.
        kind: The strategy of that name, where it was looked up already: many searches need not look each time.
        max_points: Most points to measure; ``None`` takes the strategy's default, less the known points where the
            strategy ignores budgets. 0 answers from ``known`` alone.
        seed: Of the strategy's random choices.
        power_noise: Relative standard deviation of one power reading; 0 where a reading repeats exactly (a table).
        time_budget_s: Longest time of measurements and computation, s; ``None`` for no limit.
        at_once: Number of points that are asked for before any of them is measured, as for several boards.
        on_asked: Called with these points, so that boards begin to measure them at once.
        hints: Prior knowledge of network and device.
        known: Rows measured earlier; those of offered points are told first and not counted. Of several rows of
            one point the last counts, or all where readings waver; rows that cannot be judged are left aside, so that
            the point may be measured.
        on_step: Called with every step as it is made.
        inputs, conditions, warnings: For the headers of plan and trace.
        clock_s: Times the strategy's own computation and the measurements, s.
    """

    strategy: str
    max_points: int | None = None
    seed: int = 0
    kind: type[Strategy] | None = field(default=None, kw_only=True)
    power_noise: float = 0.0
    time_budget_s: float | None = None
    at_once: int = 1
    on_asked: Callable[[Sequence[Point]], None] = lambda _: None
    hints: Hints = NO_HINTS
    known: Sequence[ProfileRow] = ()
    on_step: Callable[[TraceRow], None] | None = None
    inputs: Mapping[str, Any] | None = None
    conditions: Mapping[str, Any] | None = None
    warnings: tuple[DataWarning, ...] = ()
    clock_s: Callable[[], float] = time.perf_counter

    def limit(self, problem: Problem, offered: int, known: int = 0) -> int:
        """Return the most measurements of the offered points; with noise a point may be measured repeatedly.

        Args:
            problem: What is searched for.
            offered: How many points are offered.
            known: How many of them were measured earlier: of a strategy that ignores budgets they answer this problem
                too, as ALS of Fulcrum (2025, section 5.2) is meant to.

        Raises:
            InputError: a number of points below 1, or below 0 where points are known.
        """
        kind = self.kind or STRATEGIES[self.strategy]
        wanted = kind.default_max_points(problem) if self.max_points is None else self.max_points
        if wanted is not None and wanted < (0 if self.known else 1):
            raise InputError(f"the number of points must be at least 1, not {wanted}", "e.g. --max-points 10")
        if wanted is None:
            return offered + (RESERVED if self.power_noise else 0)
        if self.max_points is None and kind.budget_free:
            wanted = max(wanted - known, 0)
        return wanted if self.power_noise else min(wanted, offered)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer of a search, every step to it, and every measured point."""

    plan: Plan
    trace: Trace
    history: SearchHistory


def start_strategy(space: Space, problem: Problem, settings: SearchSettings) -> AskTell:
    """Return the strategy at its start, adapted to two workloads where the problem has two.

    Raises:
        InputError: there is no such strategy, or it cannot solve the problem or tell the modes apart.
    """
    kind = settings.kind or STRATEGIES.find(settings.strategy)
    adapted = problem.kind in PAIRS and not kind.learns_halves
    if space.named is not None and not kind.takes_names:
        raise InputError(
            f"{settings.strategy} needs knobs with an order, and {', '.join(space.named.labels[:4])} are only names of "
            "modes",
            "--strategy exhaustive, random, tpe or gp; or add the clocks of each mode to the table",
        )
    budgets = [budget.option for budget in asked_budgets(problem)]
    counted = [*budgets, *(["--objective tokens-per-joule"] if problem.objective == "tokens-per-joule" else [])]
    if counted and not kind.judges_columns:
        able = [name for name in STRATEGIES if STRATEGIES[name].judges_columns]
        raise InputError(f"{settings.strategy} does not know {counted[0]}", f"--strategy {', '.join(able)}")
    strategy = kind(space, problem, seed=settings.seed, hints=replace(settings.hints, power_noise=settings.power_noise))
    return BothHalves(strategy, space, problem) if adapted else strategy


def run_search(
    problem: Problem, candidates: Iterable[Point] | Space, measure: Measure, settings: SearchSettings
) -> SearchResult:
    """Search for the best point within the problem's budgets, measuring as few points as the strategy needs.

    Args:
        problem: The objective and the budgets.
        candidates: The points to choose from (those of another task are ignored), or their space, where many
            problems share it.
        measure: Measures one point. A row that is not ``ok`` and an ``EdgetuneError`` are failures: told to the
            strategy with their reason, and counted. An error that leaves the device not restored ends the search.
        settings: The settings of the search.

    Raises:
        InputError: an invalid problem, no points to choose from, an unknown strategy, or no power figures
            (``NoPowerError``, with the trace).
        NothingFeasibleError: nothing measured is within the budgets; carries the trace.
    """
    validate(problem)
    space = candidates if isinstance(candidates, Space) else offered_space(problem, candidates)
    searcher, halves = start_strategy(space, problem, settings), space.halves
    noise = settings.power_noise
    history = SearchHistory(problem, space, settings.on_step, noise)
    for row in usable(problem, space, settings.known, repeated=noise > 0):
        searcher.tell(row.point, history.add(Suggestion(row.point, "known from earlier"), row, source="known"))
    known_points = len(history.steps)
    limit = settings.limit(problem, len(halves), known_points)
    soonest = math.inf if settings.max_points is not None else math.ceil(SOONEST * limit)
    loop = _Loop(settings, searcher, measure, halves, history, soonest)
    reserved = min(RESERVED, max(limit // 3, 1)) if noise else 0
    warnings = (*settings.warnings, *([BACK_TO_BACK] if runs_back_to_back(problem) else []))
    while (left := limit - loop.measured) > 0:
        next_s = loop.spent_s / max(loop.measured, 1)  # the mean of those before
        if settings.time_budget_s is not None and loop.spent_s + next_s > settings.time_budget_s:
            advice = "the time budget ended the search; with more time, more points would have been measured"
            warnings = (*warnings, DataWarning("time-over", advice, {"points": loop.measured, "spent_s": loop.spent_s}))
            break
        if left <= reserved and loop.confirm(left):
            continue
        if (loop.settled() or not loop.step(left)) and not loop.confirm(left):
            break
    judged = history.judged()
    warnings = (*warnings, *unjudged_warning(problem, judged))
    header = partial(Header.new, inputs=settings.inputs, warnings=warnings)
    asked = {"problem": plain(problem), "strategy": settings.strategy, "seed": settings.seed}
    conditions = {**(settings.conditions or {}), **asked}  # the plan has these in its body
    trace = Trace(header(traces.KIND, traces.VERSION, conditions=conditions), tuple(history.steps))
    if history.best is None:
        complete = len(history.outcomes) == len(halves)
        raise explain(problem, judged, complete=complete, trace=trace)
    summary = SearchSummary(settings.strategy, loop.measured, settings.seed, known_points, loop.expected_gain())
    plan_header = header(plans.KIND, plans.VERSION, conditions=settings.conditions)
    return SearchResult(plan_of(plan_header, problem, history.best, summary), trace, history)


@dataclass(slots=True)
class _Loop:
    """The loop, one turn at a time, and the time that the turns took."""

    settings: SearchSettings
    searcher: AskTell
    measure: Measure
    halves: Collection[Point]
    history: SearchHistory
    soonest: float
    spent_s: float = 0.0
    measured: int = 0

    def expected_gain(self) -> float | None:
        """Return the expected gain of ``MORE`` measurements; ``None`` if no point is left, or nobody says."""
        if len(self.history.outcomes) == len(self.halves) or not isinstance(self.searcher, GainForecast):
            return None
        return self.searcher.expected_gain(MORE)

    def settled(self) -> bool:
        """Return whether a point is feasible and more measurements are expected to gain too little to go on."""
        if self.measured < self.soonest or self.history.best is None:
            return False
        gain = self.expected_gain()
        return gain is not None and gain <= LITTLE

    def step(self, most: int) -> bool:
        """Ask for points, ``at_once`` but at most ``most``, measure and tell them; return whether one was left."""
        started_s = self.settings.clock_s()
        suggestions = self._ask(min(self.settings.at_once, most))
        strategy_s = (self.settings.clock_s() - started_s) / max(len(suggestions), 1)
        self.settings.on_asked([suggestion.point for suggestion in suggestions])
        for suggestion in suggestions:
            point = suggestion.point
            if point not in self.halves:
                raise RuntimeError(f"strategy {self.settings.strategy} asked for a point that was not offered: {point}")
            if point in self.history.outcomes:
                raise RuntimeError(f"strategy {self.settings.strategy} asked twice for {point}")
            self._measure(suggestion, strategy_s, len(suggestions))
        return bool(suggestions)

    def _ask(self, count: int) -> list[Suggestion]:
        """Return the next points: up to ``count`` of a strategy that can ask for several, else one."""
        if count > 1 and isinstance(self.searcher, AsksMany):
            return self.searcher.ask_many(count)
        suggestion = self.searcher.ask()
        return [] if suggestion is None else [suggestion]

    def confirm(self, left: int) -> bool:
        """Measure the best point again if its power is uncertain; return whether there was such a point."""
        point = self.history.doubtful(left)
        if point is None:
            return False
        reading = len(self.history.readings[point]) + 1
        self._measure(Suggestion(point, f"measured again: is its power surely within budget? reading {reading}"), 0.0)
        return True

    def _measure(self, suggestion: Suggestion, strategy_s: float, at_once: int = 1) -> None:
        point, started_s = suggestion.point, self.settings.clock_s()
        try:
            row = self.measure(point)
        except NotRestoredError:
            raise
        except EdgetuneError as error:
            row = ProfileRow(point.workload, point.task, point.batch_size, None, status="failed", reason=error.message)
            row = replace(row, **{name: getattr(point.mode, name) for name in SETTINGS})
        measurement_s = row.duration_s if row.duration_s is not None else self.settings.clock_s() - started_s
        self.spent_s += measurement_s / at_once + strategy_s
        self.measured += 1
        self.searcher.tell(point, self.history.add(suggestion, row, strategy_s=strategy_s, measurement_s=measurement_s))
