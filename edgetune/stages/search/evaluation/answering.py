"""The answers of strategies: one search serves every problem where budgets are ignored, else one search per problem."""

from __future__ import annotations

import math
import random
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol, runtime_checkable

import numpy as np

from edgetune.artifacts.plan import Plan
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import late_minibatch_s, mean_minibatch_s
from edgetune.errors import InputError
from edgetune.stages.search.answer import NoPowerError, NothingFeasibleError
from edgetune.stages.search.driver import RESERVED, BothHalves, Measure, SearchSettings, run_search, start_strategy
from edgetune.stages.search.evaluation.cases import EvaluationCase
from edgetune.stages.search.evaluation.problems import (
    Array,
    Measured,
    ProblemSet,
    Rows,
    best_answers,
    excess_of,
    judge_answers,
)
from edgetune.stages.search.history import SearchHistory
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategies import STRATEGIES
from edgetune.stages.search.strategies.nn import Predictions
from edgetune.stages.search.strategy import Hints, Suggestion


@dataclass(frozen=True, slots=True)
class Contender:
    """A strategy, the most points it may measure per problem (``None`` for its default), and how many at once."""

    strategy: str
    max_points: int | None = None
    at_once: int = 1

    @property
    def measures_once(self) -> bool:
        """Whether the strategy ignores the budget while it measures, so that one search serves every problem."""
        return STRATEGIES.find(self.strategy).budget_free

    @property
    def predicts(self) -> bool:
        """Whether its predictions are answers too."""
        return issubclass(STRATEGIES.find(self.strategy), _Predicts)

    def settings(self, seed: int, noise: float, relatives: tuple[ProfileRow, ...]) -> SearchSettings:
        """Return the settings of its search; ``noise`` is the relative deviation of times, twice that of powers."""
        hints = Hints(relatives=relatives)
        return SearchSettings(self.strategy, self.max_points, seed, noise / 2, at_once=self.at_once, hints=hints)

    def __str__(self) -> str:
        return self.strategy if self.max_points is None else f"{self.strategy}:{self.max_points}"


def parse_contenders(text: str) -> list[Contender]:
    """Return the contenders in ``text``, e.g. ``roofline,gmd,random:250``.

    Raises:
        InputError: an unknown strategy, an invalid number of points, or a strategy named twice.
    """
    found = [_contender(word.strip()) for word in text.split(",") if word.strip()]
    if not found:
        raise InputError("no strategies to judge", "e.g. --strategies roofline,gmd,random:250")
    twice = next((contender for contender in found if found.count(contender) > 1), None)
    if twice is not None:
        raise InputError(f"{twice} is named twice", "name each once")
    return found


def _contender(word: str) -> Contender:
    name, colon, points = word.partition(":")
    STRATEGIES.find(name)
    if not colon:
        return Contender(name)
    if not points.isdecimal() or int(points) < 1:
        raise InputError(f"{word!r}: the number of points must be a whole number above zero", f"e.g. {name}:10")
    return Contender(name, int(points))


NEAR, NEARER = 0.03, 0.01
"""Excess of the points that ``points_to_3_percent`` and ``points_to_1_percent`` count up to, as shares."""

PREDICTED = "predicted"
"""Suffix of the name of a strategy whose predictions are taken as answers."""


@dataclass(frozen=True, slots=True, eq=False)
class StrategyAnswers:
    """The answers of one strategy to some problems.

    Args:
        variant: ``""``, or ``predicted`` where the answers are predictions and not measurements.
        rows: Row of each answer in the case's space; -1 where there was none.
        points: Measured points per problem; of strategies that measure once, in all.
        strategy_s: Computation of the strategy per problem, s; of strategies that measure once, an equal share.
        points_to_3_percent, points_to_1_percent: Points measured per problem until one of them was within 3 % and 1 %
            of the best; NaN for never, and where that was not computed.
    """

    variant: str
    rows: Rows
    points: Rows
    strategy_s: Array
    points_to_3_percent: Array
    points_to_1_percent: Array

    def take(self, which: Rows) -> StrategyAnswers:
        """Return the answers at these places, in this order."""
        return replace(self, **{field.name: getattr(self, field.name)[which] for field in fields(self)[1:]})

    @classmethod
    def joined(cls, parts: Sequence[StrategyAnswers]) -> StrategyAnswers:
        """Return the answers of one variant, one part after the other."""
        columns = ([getattr(part, field.name) for part in parts] for field in fields(cls)[1:])
        return cls(parts[0].variant, *map(np.concatenate, columns))

    @classmethod
    def none(cls, variant: str, count: int) -> StrategyAnswers:
        """Return so many problems without an answer, for which nothing was measured."""
        zeros, never = np.zeros(count), np.full(count, np.nan)
        return cls(variant, np.full(count, -1, dtype=np.intp), zeros.astype(np.intp), zeros, never, never)


@runtime_checkable
class _Predicts(Protocol):
    def predictions(self) -> Predictions: ...


def answer_once(
    case: EvaluationCase, contender: Contender, numbers: Rows, *, seed: int, noise: float
) -> list[StrategyAnswers]:
    """Measure once, without looking at any budget, and answer the problems ``numbers`` from what was measured.

    A strategy that has predictions answers from those too, as published; such an answer can break a budget. With noise,
    an answer is confirmed as in a search: the best point is measured again until its power is surely within budget.
    """
    measure = noisy(case.rows, noise, f"{seed} {case.family} {case.label}")
    searcher, history, own_s = _explore(case, contender, seed, measure)
    space, problems = case.space, case.problems.take(numbers)
    seen = {point: history.row(point) for point in history.readings}
    found = [("", Measured.of(space, seen))]
    if isinstance(searcher, _Predicts):
        sizes, background = found[0][1].batch_size, found[0][1].background_batch_size
        of = searcher.predictions()
        figures = of.minibatch_s, of.power_w, background, of.background_s, of.background_w
        found.append((PREDICTED, Measured(sizes, *figures)))
    count, share_s = len(history.steps), own_s / max(len(numbers), 1)
    near = _points_until_near(case, problems, [step.row.point for step in history.steps])
    never = np.full_like(near, np.nan)
    answers = [
        StrategyAnswers(
            variant, best_answers(known, problems).rows, np.full(len(numbers), count), np.full(len(numbers), share_s),
            *(never if variant else near),
        )
        for variant, known in found
    ]  # fmt: skip
    if noise:
        confirmed = [_confirmed(problems.problem(at), history, measure, noise / 2) for at in range(len(problems))]
        rows, extra = np.array(confirmed, dtype=np.intp).reshape(-1, 2).T
        answers[0] = replace(answers[0], rows=rows, points=count + extra)
    return answers


def _confirmed(problem: Problem, found: SearchHistory, measure: Measure, power_noise: float) -> tuple[int, int]:
    """Return the row of the answer to a problem, -1 for none, and how often a point was measured again for it."""
    space, history = found.space, SearchHistory(problem, found.space, power_noise=power_noise)
    for point, rows in found.readings.items():
        for row in rows:
            history.add(Suggestion(point, "known from earlier"), row, source="known")
    for left in range(RESERVED, 0, -1):
        doubtful = history.doubtful(left)
        if doubtful is None:
            break
        history.add(Suggestion(doubtful, "measured again"), measure(doubtful))
    best = history.best
    return -1 if best is None else space.rows[space.levels[best.row.point]], len(history.steps) - len(found.steps)


def answer_each(
    case: EvaluationCase, contender: Contender, numbers: Rows, *, seed: int, noise: float
) -> list[StrategyAnswers]:
    """Search anew for each of the problems ``numbers``; the seed depends on the problem, not on the strategy."""
    space, kind = case.space, STRATEGIES.find(contender.strategy)
    rows, points, own_s = (np.full(len(numbers), value) for value in (-1, 0, 0.0))
    near = np.full((2, len(numbers)), np.nan)
    for at, number in enumerate(numbers):
        name = f"{seed} {case.family} {case.label} {number}"
        settings = replace(contender.settings(zlib.crc32(name.encode()), noise, case.relatives), kind=kind)
        found, asked, own_s[at] = search_one(case, int(number), noisy(case.rows, noise, name), settings)
        rows[at], points[at] = -1 if found is None else space.rows[space.levels[found]], len(asked)
        near[:, [at]] = _points_until_near(case, case.problems.take(numbers[[at]]), asked)
    return [StrategyAnswers("", rows.astype(np.intp), points.astype(np.intp), own_s, *near)]


def _points_until_near(case: EvaluationCase, problems: ProblemSet, asked: Iterable[Point]) -> Array:
    """Return how many of the measured points it took to be near and nearer to the best, by the table's own figures.

    The shape is (2, problems); NaN says never.
    """
    best = best_answers(case.measured, problems).objective
    near, left = np.full((2, len(problems)), np.nan), np.flatnonzero(~np.isnan(best))
    for count, row in _completed(case.space, asked):
        some = problems.take(left)
        judged = judge_answers(case.measured, some, np.full(len(left), row))
        excess = np.where(judged.feasible, excess_of(some, judged.objective, best[left]), np.inf)
        for found, share in zip(near, (NEAR, NEARER), strict=True):
            found[left[(excess <= share) & np.isnan(found[left])]] = count
        left = left[np.isnan(near[1, left])]
        if not len(left):
            break
    return near


def _completed(space: Space, asked: Iterable[Point]) -> Iterator[tuple[int, int]]:
    """Yield the row of every point measured, and how many measurements that took; of a pair, once both halves are."""
    measured: set[Point] = set()
    waiting: list[Point] = []
    for count, point in enumerate(asked, 1):
        measured.add(point)
        waiting += [point] if point in space.levels else []
        ready = [each for each in waiting if space.background is None or space.partner(each) in measured]
        waiting = [each for each in waiting if each not in ready]
        yield from ((count, space.rows[space.levels[each]]) for each in ready)


def search_one(
    case: EvaluationCase, number: int, measure: Measure, settings: SearchSettings
) -> tuple[Point | None, list[Point], float]:
    """Return the answer to one problem, the measured points and the computation, s: a measurement is a look-up here."""
    started_s = time.perf_counter()
    try:
        result = run_search(case.problems.problem(number), case.space, measure, settings)
    except (NothingFeasibleError, NoPowerError) as error:  # that nothing measured has power is no reason to stop
        trace, found, own_s = error.trace, None, time.perf_counter() - started_s
    else:
        trace, own_s = result.trace, time.perf_counter() - started_s
        found = chosen_point(result.plan, case.space.points[0])
    return found, [] if trace is None else [step.row.point for step in trace.rows], own_s


def chosen_point(plan: Plan, first: Point) -> Point:
    """Return the point that a plan chooses, of the workload and task of ``first``."""
    chosen = plan.configuration
    size = chosen.batch_size or chosen.infer_batch_size or first.batch_size
    return replace(first, batch_size=size, mode=chosen.mode)


def require_solvers(cases: list[EvaluationCase], contenders: list[Contender]) -> None:
    """Refuse a strategy that does not solve these problems, before any is replayed.

    Raises:
        InputError: the strategy cannot solve the problems.
    """
    for contender in contenders:
        for case in cases[:1]:
            STRATEGIES.find(contender.strategy)(case.space, case.problems.problem(0), seed=0)


def noisy(rows: Mapping[Point, ProfileRow], noise: float, seed: str) -> Measure:
    """Return a function that measures a point; ``noise`` is the relative deviation of times, twice that of powers."""
    if not noise:
        return rows.__getitem__
    draws = random.Random(seed)
    return lambda point: perturbed(rows[point], draws.gauss(0, noise), draws.gauss(0, noise / 2))


def perturbed(row: ProfileRow, time_deviation: float, power_deviation: float) -> ProfileRow:
    """Return a row whose logarithms of time and power are off by these deviations."""
    return replace(
        row,
        minibatch_s=None if row.minibatch_s is None else row.minibatch_s * math.exp(time_deviation),
        minibatch_mean_s=None if row.minibatch_s is None else (mean_minibatch_s(row) or 0.0) * math.exp(time_deviation),
        minibatch_p95_s=None if row.minibatch_s is None else (late_minibatch_s(row) or 0.0) * math.exp(time_deviation),
        times_s=None,
        power_w=None if row.power_w is None else row.power_w * math.exp(power_deviation),
        energy_j=None,
    )


def _explore(
    case: EvaluationCase, contender: Contender, seed: int, measure: Measure
) -> tuple[object, SearchHistory, float]:
    """Run a strategy on a problem without budgets; return the strategy, its history and its computation time, s."""
    problem, space = case.problems.unbounded(), case.space
    settings = contender.settings(seed, 0.0, case.relatives)
    searcher, limit = start_strategy(space, problem, settings), settings.limit(problem, len(space.halves))
    history, own_s = SearchHistory(problem, space), 0.0
    while len(history.steps) < limit:
        started_s = time.perf_counter()
        suggestion = searcher.ask()
        own_s += time.perf_counter() - started_s
        if suggestion is None:
            break
        searcher.tell(suggestion.point, history.add(suggestion, measure(suggestion.point)))
    if not any(row.minibatch_s is not None for rows in history.readings.values() for row in rows):
        raise InputError(f"{contender} measured nothing in {case.table}", "give it more points")
    return searcher.inner if isinstance(searcher, BothHalves) else searcher, history, own_s
