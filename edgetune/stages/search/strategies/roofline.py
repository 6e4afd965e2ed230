"""Search guided by a small physical model of the board.

    measure --> fit time and power --> for every open point: chance of keeping the budgets x expected gain --> measure

Time is the largest of the times of arithmetic, memory, launches, data loading and a power cap; power is a static part
plus clocks times voltage squared, weighted by the utilisation of the blocks in the time model (``search.model``). Every
coefficient has a prior and an uncertainty; a smooth or a jagged discrepancy, or a step between two levels of a knob,
models the rest. Tables of other networks on the same board are explanations beside the physics. All are weighted by
their evidence, each scores the points, and the scores are averaged (``search.model.hypotheses``). The first point is
the middle of every knob (in inference with the smallest batch). The next two count for what they teach too, and so does
one after some points that brought little (every third until one keeps the budgets), as if power were irregular. The
search ends when no point has more than a negligible expected gain. The answer is the best point *measured*; a
prediction is never the answer.

Where power readings scatter, the search aims below the budget, at points that a few readings can confirm, and weights a
mean by its number of readings.

Two workloads: a model of each, fitted separately, and combined per pair.

    urgent points (mode, batch) --> model --.
                                            +--> per pair: chance of both budgets x expected gain --> measure one half
    background points (mode) -----> model --'

Two workloads in m modes with n batch sizes make m n pairs, and m n + m halves cover all of them. Every half counts as a
measurement, so of the most promising pair only the half likelier to rule it out is measured; a known half costs
nothing. The answer is a pair of which both halves were measured.
"""

import math
from copy import copy, deepcopy
from typing import ClassVar

import numpy as np

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.stages.search.model.beliefs import Belief, Beliefs, ColumnBeliefs, Halves, PointBeliefs
from edgetune.stages.search.model.coordinates import Array, Coordinates, OpenPoints, Rows, log_caps, relative_curves
from edgetune.stages.search.model.fit import mixed
from edgetune.stages.search.model.gain import BestPair, PairGain, Pairs, pair_gain, worth
from edgetune.stages.search.problem import EXPECTED_READINGS, Half, is_confirmed, judge, judge_pair, objective_of
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategy import NO_HINTS, DelegatingStrategy, Hints, PointResult, Suggestion

AFFORDABLE = 8_000
"""Largest number of points (or pairs) that are all scored for one suggestion; of more, half as many and their best."""
NEGLIGIBLE = 2e-5
"""Expected gain below which nothing more is measured, as a share of the best cost."""
NEGLIGIBLE_THROUGHPUT = 2e-4
"""Expected gain below which nothing more is measured, as a share of the best throughput."""
BOTH_UNKNOWN = 1.6
"""Divisor of the score of a pair of which both halves are unmeasured."""
FIRST_POINTS = 3
"""Number of points, with as many knobs or more and without relatives, that are chosen for what they teach too: but for
the first one, their scores are multiplied by the variances of time and power. Points near to the first teach least, and
seem safest."""
PROGRESS = 0.03
"""Least gain of a point that is no failure, a share of the cost."""
FAILURES, PATIENCE = 2, 4
"""Number of failures in a row before a point is chosen in doubt of the physics of power, and how many times as many are
needed after each such point once one keeps the budgets, or with fewer than ``FIRST_POINTS`` knobs."""
DRAWS = 400
"""Number of draws for the expected gain of more measurements."""
SHARE_AT_ONCE = 0.5
"""Most points that are asked for at once, as a share of those measured: with 1.3 times as many points a search is then
as good as one point at a time (``tests/benchmarks/search_tables.py --at-once 4``)."""
FILLING_SHARE = 0.8
"""Share of the latency budget that filling the first batch may take: the rest is for running it."""


class RooflineSearch(DelegatingStrategy):
    """The physical model, fitted anew after every measurement, chooses the next point, without random numbers."""

    name: ClassVar[str] = "roofline"
    judges_columns: ClassVar[bool] = True

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del seed
        kind = _RooflinePoints if space.background is None else _RooflinePairs
        self._search: _RooflinePoints | _RooflinePairs = kind(space, problem, hints)

    def expected_gain(self, count: int) -> float | None:
        """Return the gain to expect of so many more measurements, a share of the best objective."""
        return self._search.expected_gain(count)

    def ask_many(self, count: int) -> list[Suggestion]:
        """Return up to ``count`` points to measure at once; one of a start or of pairs."""
        if isinstance(self._search, _RooflinePoints):
            return self._search.ask_many(count)
        suggestion = self.ask()
        return [] if suggestion is None else [suggestion]


class _RooflinePoints:
    """Asks for points of one workload."""

    def __init__(self, space: Space, problem: Problem, hints: Hints) -> None:
        self._power_noise = hints.power_noise
        self._space, self._problem = space, problem
        self._batch_sizes = np.array([point.batch_size for point in space.points], dtype=float)
        self._beliefs = _beliefs(space, hints)
        self._candidates = OpenPoints(self._beliefs.coordinates, affordable=AFFORDABLE)
        self._columns = ColumnBeliefs(self._beliefs.coordinates)
        self._filling_s = (self._batch_sizes - 1) / (problem.arrival_rate_per_s or math.inf)
        self._close_slow_to_fill((problem.latency_budget_s or math.inf) * (1 - problem.margin))
        few = len(self._beliefs.coordinates.names) < FIRST_POINTS
        self._patience = FAILURES * (PATIENCE if few else 1)
        self._to_learn = 0 if few or len(self._beliefs.relatives.log_times) else FIRST_POINTS
        self._measured: dict[int, tuple[float, float, int]] = {}
        self._stale, self._failures, self._doubts = False, -1, 0  # the first point is no failure
        self._log_costs: dict[int, float] = {}

    def ask(self) -> Suggestion | None:
        """Return the point with the largest expected gain; ``None`` if every gain is negligible."""
        if not self._measured:
            return self._first()
        self._learn()
        found, best = self._candidates.best(self._score), self._best_log_cost()
        if found is None or (best is not None and found[1] < NEGLIGIBLE):
            return None
        if self._to_learn > 0 or self._in_doubt():
            found = self._candidates.best(self._lesson) or found
            return self._suggestion(found[0], "teaches most of those that may keep the budgets")
        if best is None:
            return self._suggestion(found[0], "likeliest to keep the budgets")
        return self._suggestion(found[0], f"most to gain, {100 * found[1]:.2g} % expected")

    def ask_many(self, count: int) -> list[Suggestion]:
        """Return up to ``count`` points, each chosen as if those before had given what was predicted of them.

        This is the kriging believer of Ginsbourger et al. (2010), Kriging is well-suited to parallelize optimization.
        Predictions from few measurements mislead, so that there are at most ``SHARE_AT_ONCE`` as many points as have
        been measured, and the first comes alone.
        """
        count = min(count, max(1, math.ceil(SHARE_AT_ONCE * len(self._measured))))
        self._learn()
        imagined = copy(self)
        imagined._measured, imagined._log_costs = dict(self._measured), dict(self._log_costs)
        imagined._candidates, imagined._beliefs = deepcopy(self._candidates), copy(self._beliefs)
        found: list[Suggestion] = []
        while len(found) < count and (suggestion := imagined.ask()) is not None:
            found.append(suggestion)
            row = ProfileRow.at(
                suggestion.point, suggestion.predicted_minibatch_s, power_w=suggestion.predicted_power_w
            )
            imagined.tell(row.point, PointResult(judge(self._problem, row), row.minibatch_s, row.power_w))
        return found

    def expected_gain(self, count: int) -> float | None:
        """Return the gain to expect of so many more measurements, a share of the best cost; ``None`` without a best.

        Times and powers of the most promising points are drawn from the beliefs, independently given the hypotheses.
        The search chooses each point with the results of the last, so that it does somewhat better.
        """
        best = self._best_log_cost()
        if best is None:
            return None
        self._learn()
        rows = self._candidates.top(self._score, count)
        if not len(rows):
            return 0.0
        of_time, of_power, belief = self._beliefs.parts(rows)
        random = np.random.default_rng(0)

        def drawn(weights: Array, means: Array, sds: Array) -> Array:
            which = random.choice(len(weights), size=DRAWS, p=weights)
            return np.asarray(means[which] + sds[which] * random.standard_normal((DRAWS, len(rows))))

        sure, times = np.zeros((DRAWS, len(rows))), drawn(of_time, belief.log_time[:, 0], belief.time_sd[:, 0])
        draws = Belief(times, sure, drawn(of_power, belief.log_power[0], belief.power_sd[0]), sure)
        found = worth(self._problem, draws, self._batch_sizes[rows], power_noise=self._power_noise)
        scores = found.score(best) * self._columns.chance(rows)
        return round(float(scores.max(axis=1).mean()), 6)

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a point; a failed one is never asked for again."""
        row, doubted = self._space.rows[self._space.levels[point]], self._in_doubt()
        self._candidates.close(row)
        self._to_learn -= 1
        if result.minibatch_s is None:
            return
        power_w = math.nan if result.power_w is None else result.power_w
        readings = self._measured[row][2] + 1 if row in self._measured else 1
        self._measured[row], self._stale = (result.minibatch_s, power_w, readings), True
        self._columns.tell(row, result.judgement.shares)
        objective = result.judgement.objective
        before = self._best_log_cost()
        self._log_costs.pop(row, None)
        sure = is_confirmed(self._problem, result.power_w, max(readings, EXPECTED_READINGS), self._power_noise)
        if result.judgement.feasible and sure and objective is not None:
            self._log_costs[row] = self._log_cost(row, objective)
            if objective_of(self._problem) == "latency":
                self._close_slow_to_fill(-objective)
        best = self._best_log_cost()
        better = best is not None and (before is None or best < before - PROGRESS)
        if readings > 1:
            return
        self._doubts += doubted
        self._failures = 0 if better or doubted else self._failures + 1

    def _in_doubt(self) -> bool:
        """Return whether so many points in a row brought little that one is chosen in doubt of the physics of power."""
        doubts = 0 if self._best_log_cost() is None else self._doubts
        return bool(self._failures >= self._patience * PATIENCE**doubts)

    def _log_cost(self, row: int, objective: float) -> float:
        """Return the log of the cost of a point: what the model predicts, of which the objective is the inverse."""
        if objective_of(self._problem) == "tokens-per-joule":  # the model predicts the energy of a request
            minibatch_s, power_w, _ = self._measured[row]
            return math.log(minibatch_s * power_w / self._batch_sizes[row])
        return -math.log(objective) if objective > 0 else math.log(-objective)

    def _close_slow_to_fill(self, latency_s: float) -> None:
        """Remove batches whose first request waits this long, s, before the batch is full: they cannot be better."""
        self._candidates.close_all(self._filling_s >= latency_s)

    def _first(self) -> Suggestion | None:
        """Return the middle of every knob, with the smallest batch where latency counts."""
        middle = np.full(len(self._candidates.coordinates.names), 0.5)
        if self._problem.kind == "infer" and objective_of(self._problem) != "throughput":
            middle[[name == "batch_size" for name in self._candidates.coordinates.names]] = 0.0
        row = self._candidates.nearest(middle)
        return None if row is None else self._suggestion(row, "the middle of every knob")

    def _learn(self) -> None:
        """Fit the model, if anything was measured since the last fit."""
        if not self._stale:
            return
        self._stale = False
        times_s, powers_w, readings = np.array(list(self._measured.values()), dtype=float).T
        self._beliefs.learn(np.array(list(self._measured), dtype=np.intp), times_s, powers_w, readings)

    def _score(self, rows: Rows) -> Array:
        return self._scored(rows, *self._beliefs.parts(rows))

    def _lesson(self, rows: Rows) -> Array:
        """Return the score times the variance of power, at first of time too; in doubt, irregular power is likelier.

        Physics that is wrong about a board repeats points that are a little over the budget, and never measures those
        far from them, which may be within it. In doubt, the score is large where such a point tells most.
        """
        of_time, of_power, belief = self._beliefs.parts(rows, in_doubt=self._in_doubt())
        _, power_sd = mixed(of_power, belief.log_power[0], belief.power_sd[0])
        time_sd = mixed(of_time, belief.log_time[:, 0], belief.time_sd[:, 0])[1] if self._to_learn > 0 else 1.0
        return self._scored(rows, of_time, of_power, belief) * (np.nan_to_num(power_sd, nan=1.0) * time_sd) ** 2

    def _scored(self, rows: Rows, of_time: Array, of_power: Array, belief: Belief) -> Array:
        found = worth(self._problem, belief.bold(), self._batch_sizes[rows], power_noise=self._power_noise)
        return found.mean_score(self._best_log_cost(), of_time, of_power) * self._columns.chance(rows)

    def _best_log_cost(self) -> float | None:
        """Return the log of the least cost of a point that keeps every budget, as far as a few readings can confirm."""
        return min(self._log_costs.values(), default=None)

    def _suggestion(self, row: int, reason: str) -> Suggestion:
        point = self._space.points[row]
        if not self._measured:
            return Suggestion(point, reason)
        belief = self._beliefs.about(np.array([row], dtype=np.intp))
        time_s, power_w = math.exp(float(belief.log_time[0])), math.exp(float(belief.log_power[0]))
        return Suggestion(point, reason, time_s, None if math.isnan(power_w) else power_w)


def _beliefs(space: Space, hints: Hints) -> Beliefs:
    coordinates, relatives = Coordinates.of(space), relative_curves(space.points, hints.relatives)
    return Beliefs(coordinates, log_caps(space), hints.power_noise, relatives)


class _RooflinePairs:
    """Asks for halves of pairs, urgent points and background points."""

    def __init__(self, space: Space, problem: Problem, hints: Hints) -> None:
        self._problem, self._power_noise = problem, hints.power_noise
        self._halves = Halves(space, hints)
        self._candidates = OpenPoints(self._halves.coordinates, affordable=AFFORDABLE)
        self._middle, self._top = _places(self._halves, problem)
        self._best: dict[int, BestPair] = {}

    def ask(self) -> Suggestion | None:
        """Return the half of the best pair that is likelier to rule it out; ``None`` if every gain is negligible."""
        started = self._begin()
        if started is not None:
            return started
        if not (self._halves.urgent.figures and self._halves.background.figures):
            return None
        found = self._candidates.best(self._score)
        if found is None or found[1] <= 0.0 or (self._best and found[1] < NEGLIGIBLE_THROUGHPUT):
            return None
        return self._likelier_to_rule_out(found[0])

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a half, and judge the pairs that it completes."""
        complete, failed = self._halves.tell(point, result)
        for pair in (*complete, *failed):
            self._candidates.close(int(pair))
        for pair in complete:
            self._judge(int(pair))

    def expected_gain(self, count: int) -> float | None:
        """Return the gain to expect of so many more halves, a share of the best throughput; ``None`` without a best.

        Time and power of each half of the most promising pairs are drawn once for all the pairs that contain it.
        """
        halves = self._halves
        if not self._best:
            return None
        pairs = self._candidates.top(self._score, count)
        urgent, background = halves.measured(pairs)
        _, first = np.unique(halves.background_rows[pairs], return_index=True)
        new = ~background & np.isin(np.arange(len(pairs)), first)  # a background half counts once
        pairs = pairs[np.cumsum((~urgent).astype(int) + new) <= count]
        if not len(pairs):
            return 0.0
        random = np.random.default_rng(0)

        def drawn(learnt: PointBeliefs, rows: Rows) -> Belief:
            unique, places = np.unique(rows, return_inverse=True)
            belief = learnt.about(unique)
            time, power = random.standard_normal((2, DRAWS, len(unique)))
            figures = (belief.log_time + belief.time_sd * time, belief.log_power + belief.power_sd * power)
            log_time, log_power = (each[:, places].ravel() for each in figures)
            return Belief(log_time, np.zeros(len(log_time)), log_power, np.zeros(len(log_time)))

        urgent_draws = drawn(halves.urgent, halves.urgent_rows[pairs])
        background_draws = drawn(halves.background, halves.background_rows[pairs])
        sizes = np.tile(halves.batch_sizes[pairs], DRAWS)
        found = self._gain_of(Pairs(urgent_draws, background_draws, sizes, halves.background_size))
        gain = found.gain * found.urgent_chance * found.background_chance
        return round(float(gain.reshape(DRAWS, -1).max(axis=1).mean()), 6)

    def _judge(self, pair: int) -> None:
        """Record a pair that keeps every budget; measured again, it may no longer."""
        self._best.pop(pair, None)
        figures = self._halves.figures(pair)
        powers = [None if math.isnan(half.power_w) else half.power_w for half in figures]
        sizes = (int(self._halves.batch_sizes[pair]), self._halves.background_size)
        urgent, background = (Half(*half) for half in zip(sizes, (f.minibatch_s for f in figures), powers, strict=True))
        judgement = judge_pair(self._problem, urgent, background)
        sure = all(
            is_confirmed(self._problem, power_w, max(half.readings, EXPECTED_READINGS), self._power_noise)
            for half, power_w in zip(figures, powers, strict=True)
        )
        if judgement.feasible and sure and judgement.objective:
            self._best[pair] = BestPair(judgement.objective, -judgement.second)

    def _begin(self) -> Suggestion | None:
        """Return the next half of the designed start; ``None`` when as much has been measured."""
        halves = self._halves
        both = int(halves.same)  # of one model, what was measured of the other half counts too
        start = [
            (True, self._middle, 1, "the middle of every knob, the largest batch that fills in time"),
            (False, self._middle, 1 + both, "the middle of every knob, the background workload"),
            (False, self._top, 2 + both, "the top of every knob, the background workload, for the range of power"),
        ]
        for urgent, place, wanted, reason in start:
            if len((halves.urgent if urgent else halves.background).figures) < wanted:
                found = halves.nearest(place, urgent=urgent)
                if found is not None:
                    return found[0].suggestion(found[1], reason)
        return None

    def _gain(self, pairs: Rows) -> PairGain:
        halves = self._halves
        urgent = halves.urgent.about(halves.urgent_rows[pairs])
        background = halves.background.about(halves.background_rows[pairs])
        return self._gain_of(Pairs(urgent, background, halves.batch_sizes[pairs], halves.background_size))

    def _gain_of(self, believed: Pairs) -> PairGain:
        best = max(self._best.values(), key=lambda pair: (pair.throughput_per_s, -pair.latency_s), default=None)
        return pair_gain(self._problem, believed, best, power_noise=self._power_noise)

    def _score(self, pairs: Rows) -> Array:
        urgent, background = self._halves.measured(pairs)
        return np.asarray(self._gain(pairs).score / np.where(urgent | background, 1.0, BOTH_UNKNOWN))

    def _likelier_to_rule_out(self, pair: int) -> Suggestion:
        halves, one = self._halves, np.array([pair], dtype=np.intp)
        urgent_told, background_told = halves.measured(one)
        found = self._gain(one)
        promise = f"most to gain, {100 * found.gain[0]:.2g} % expected" if self._best else "likeliest to keep budgets"
        if background_told[0] or (not urgent_told[0] and found.urgent_chance[0] < found.background_chance[0]):
            return halves.urgent.suggestion(int(halves.urgent_rows[pair]), f"{promise}; the urgent workload")
        return halves.background.suggestion(int(halves.background_rows[pair]), f"{promise}; the background workload")


def _places(halves: Halves, problem: Problem) -> tuple[Array, Array]:
    """Return the middle and the top of every knob, at the largest batch that fills in time, in unit coordinates."""
    names = halves.coordinates.names
    middle, top = np.full(len(names), 0.5), np.ones(len(names))
    if "batch_size" in names:
        sizes, column = halves.batch_sizes, names.index("batch_size")
        fills_s = (sizes - 1) / (problem.arrival_rate_per_s or math.inf)
        allowed_s = FILLING_SHARE * (problem.latency_budget_s or math.inf) * (1 - problem.margin)
        largest = sizes[fills_s <= allowed_s].max(initial=sizes.min())
        middle[column] = top[column] = halves.coordinates.unit[np.argmax(sizes == largest), column]
    return middle, top
