"""The ``roofline`` strategy for two workloads: a model of each, learnt separately, and combined per pair.

    urgent points (mode, batch) --> model --.
                                            +--> per pair: chance of both budgets x expected gain --> measure one half
    background points (mode) -----> model --'

Two workloads in m modes with n batch sizes make m n pairs, and m n + m halves tell of all of them. Every half counts
as a measurement, so of the pair that promises most only that half is measured which is likelier to rule it out; a half
known already costs nothing. The answer is a pair of which both halves were measured.

Measured on the twin's seven pairs of the Fulcrum study, 270 problems: with 15 halves all are solved and the mean loss
of throughput is 0.3 % (no loss in 90 % of them), with 12 halves 1.1 %. Of the start, the middle of both and the top of
the background (12 halves: 1.1 % mean) did better than both middles alone (1.6 %) or both tops too (1.9 %). What a pair
of which both halves are unknown is divided by (1.2 to 2), and how much a plateau slopes (5 or 10 %), did not matter.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.search.confirmation import EXPECTED_READINGS, is_confirmed
from edgetune.search.model.candidates import Candidates
from edgetune.search.model.coordinates import Array, Coordinates, Rows
from edgetune.search.model.learnt import Figures, Learnt
from edgetune.search.model.pair_gain import BestPair, PairGain, Pairs, pair_gain
from edgetune.search.pairs import Half, judge_pair
from edgetune.search.space import Space
from edgetune.search.strategies.strategy import Hints, Outcome, Suggestion

Flags = NDArray[np.bool_]

BOTH_UNKNOWN = 1.6
"""What the score of a pair is divided by when both halves are still to be measured."""
NEGLIGIBLE = 2e-4
"""Expected gain below which nothing more is measured, as a share of the best throughput."""
FILLING_SHARE = 0.8
"""Share of the latency budget that filling the first batch may take: the rest is for running it."""


class Halves:
    """Two workloads: which row of which model each half of a pair is.

    One network that is both, a second instance of itself, is learnt once: then both models are the same object.

    Args:
        space: The urgent points, with their background.
        power_noise: Relative standard deviation of one power reading.
    """

    def __init__(self, space: Space, power_noise: float) -> None:
        assert space.background is not None
        partners, first = [space.partner(point) for point in space.points], space.points[0]
        self.same = (first.workload, first.task) == (space.background.workload, space.background.task)
        self.urgent = Learnt([*space.points, *partners] if self.same else space.points, power_noise)
        self.background = self.urgent if self.same else Learnt(partners, power_noise)
        self.urgent_rows = np.array([self.urgent.rows[point] for point in space.points], dtype=np.intp)
        self.background_rows = np.array([self.background.rows[point] for point in partners], dtype=np.intp)
        self.batch_sizes = np.array([point.batch_size for point in space.points], dtype=float)
        self.background_size = space.background.batch_size
        self.coordinates = Coordinates.of(space)

    def tell(self, point: Point, outcome: Outcome) -> Rows:
        """Take note of a half; return the pairs that it is a half of."""
        touched = np.zeros(len(self.batch_sizes), dtype=bool)
        for learnt, rows in ((self.urgent, self.urgent_rows), (self.background, self.background_rows)):
            row = learnt.rows.get(point)
            touched |= rows == (-1 if row is None else row)
        for learnt in {id(learnt): learnt for learnt in (self.urgent, self.background)}.values():
            if point in learnt.rows:
                learnt.tell(learnt.rows[point], outcome)
        return np.flatnonzero(touched)

    def told(self, pairs: Rows) -> tuple[Flags, Flags]:
        """Return whether each half of these pairs was told of, measured or failed."""
        return self.urgent.told[self.urgent_rows[pairs]], self.background.told[self.background_rows[pairs]]

    def failed(self, pairs: Rows) -> Flags:
        """Return whether a half of these pairs failed."""
        return self.urgent.failed[self.urgent_rows[pairs]] | self.background.failed[self.background_rows[pairs]]

    def figures(self, pair: int) -> tuple[Figures, Figures]:
        """Return what was measured of both halves."""
        urgent = self.urgent.figures[int(self.urgent_rows[pair])]
        return urgent, self.background.figures[int(self.background_rows[pair])]

    def nearest(self, place: Array, *, urgent: bool) -> tuple[Learnt, int] | None:
        """Return the half nearest to a place in unit coordinates that was not told of, with its model."""
        learnt, rows = (self.urgent, self.urgent_rows) if urgent else (self.background, self.background_rows)
        pairs = np.flatnonzero(~learnt.told[rows])
        if not len(pairs):
            return None
        squares = ((self.coordinates.unit[pairs] - place) ** 2).sum(axis=1)
        return learnt, int(rows[pairs[np.argmin(squares)]])


class RooflinePairs:
    """Asks for halves of pairs, urgent points and background points."""

    def __init__(self, space: Space, problem: Problem, hints: Hints) -> None:
        self._problem, self._power_noise = problem, hints.power_noise
        self._halves = Halves(space, hints.power_noise)
        self._candidates = Candidates(self._halves.coordinates)
        self._middle, self._top = _places(self._halves, problem)
        self._best: dict[int, BestPair] = {}

    def ask(self) -> Suggestion | None:
        """Return the half of the most promising pair that is likelier to rule it out; ``None`` when none promises."""
        started = self._begin()
        if started is not None:
            return started
        if not (self._halves.urgent.figures and self._halves.background.figures):
            return None
        found = self._candidates.best(self._score)
        if found is None or found[1] <= 0.0 or (self._best and found[1] < NEGLIGIBLE):
            return None
        return self._likelier_to_rule_out(found[0])

    def tell(self, point: Point, outcome: Outcome) -> None:
        """Take note of a half and of the pairs that it completes."""
        pairs = self._halves.tell(point, outcome)
        urgent, background = self._halves.told(pairs)
        failed = self._halves.failed(pairs)
        for pair in pairs[urgent & background | failed]:
            self._candidates.close(int(pair))
        for pair in pairs[urgent & background & ~failed]:
            self._judge(int(pair))

    def _judge(self, pair: int) -> None:
        """Take note of a pair that keeps every budget; measured again, it may no longer."""
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
                    return _suggestion(*found, reason)
        return None

    def _gain(self, pairs: Rows) -> PairGain:
        halves = self._halves
        best = max(self._best.values(), key=lambda pair: (pair.throughput_per_s, -pair.latency_s), default=None)
        urgent = halves.urgent.about(halves.urgent_rows[pairs])
        background = halves.background.about(halves.background_rows[pairs])
        believed = Pairs(urgent, background, halves.batch_sizes[pairs], halves.background_size)
        return pair_gain(self._problem, believed, best, power_noise=self._power_noise)

    def _score(self, pairs: Rows) -> Array:
        urgent, background = self._halves.told(pairs)
        return np.asarray(self._gain(pairs).score / np.where(urgent | background, 1.0, BOTH_UNKNOWN))

    def _likelier_to_rule_out(self, pair: int) -> Suggestion:
        halves, one = self._halves, np.array([pair], dtype=np.intp)
        urgent_told, background_told = halves.told(one)
        found = self._gain(one)
        promise = f"most to gain, {100 * found.gain[0]:.2g} % expected" if self._best else "likeliest to keep budgets"
        if background_told[0] or (not urgent_told[0] and found.urgent_chance[0] < found.background_chance[0]):
            return _suggestion(halves.urgent, int(halves.urgent_rows[pair]), f"{promise}; the urgent workload")
        return _suggestion(halves.background, int(halves.background_rows[pair]), f"{promise}; the background workload")


def _suggestion(learnt: Learnt, row: int, reason: str) -> Suggestion:
    point = learnt.space.points[row]
    if not learnt.figures:
        return Suggestion(point, reason)
    belief = learnt.about(np.array([row], dtype=np.intp))
    time_s, power_w = math.exp(float(belief.log_time[0])), math.exp(float(belief.log_power[0]))
    return Suggestion(point, reason, time_s, None if math.isnan(power_w) else power_w)


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
