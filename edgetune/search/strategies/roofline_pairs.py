"""The ``roofline`` strategy for two workloads: a model of each, learnt separately, and combined per pair.

    urgent points (mode, batch) --> model --.
                                            +--> per pair: chance of both budgets x expected gain --> measure one half
    background points (mode) -----> model --'

Two workloads in m modes with n batch sizes make m n pairs, and m n + m halves tell of all of them. Every half counts
as a measurement, so of the pair that promises most only that half is measured which is likelier to rule it out; a half
known already costs nothing. The answer is a pair of which both halves were measured.

Measured on the twin's seven pairs of the Fulcrum study, 1,350 problems: with 15 halves all are solved and the mean loss
of throughput is 0.2 % (none in 97 % of them), with 12 halves 1.1 %. It did not matter whether the start is the middle
of both and the top of the background (12 halves, 450 problems: 1.1 % mean), both middles alone (1.1 %) or both tops too
(1.2 %), what a pair of which both halves are unknown is divided by (1.2 to 2), or how a plateau slopes (5 or 10 %).
"""

from __future__ import annotations

import math

import numpy as np

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.search.confirmation import EXPECTED_READINGS, is_confirmed
from edgetune.search.model.candidates import Candidates
from edgetune.search.model.coordinates import Array, Rows
from edgetune.search.model.halves import Halves
from edgetune.search.model.pair_gain import BestPair, PairGain, Pairs, pair_gain
from edgetune.search.pairs import Half, judge_pair
from edgetune.search.space import Space
from edgetune.search.strategies.strategy import Hints, PointResult, Suggestion

BOTH_UNKNOWN = 1.6
"""What the score of a pair is divided by when both halves are still to be measured."""
AFFORDABLE = 20_000
"""Pairs that may be scored for one suggestion.

Mean loss on those 1,350 problems: with every pair of 441 modes and five batch sizes scored 0.16 %, with a sub-grid of
800 and what surrounds its best 0.50 %.
"""
NEGLIGIBLE = 2e-4
"""Expected gain below which nothing more is measured, as a share of the best throughput."""
FILLING_SHARE = 0.8
"""Share of the latency budget that filling the first batch may take: the rest is for running it."""


class RooflinePairs:
    """Asks for halves of pairs, urgent points and background points."""

    def __init__(self, space: Space, problem: Problem, hints: Hints) -> None:
        self._problem, self._power_noise = problem, hints.power_noise
        self._halves = Halves(space, hints.power_noise)
        self._candidates = Candidates(self._halves.coordinates, affordable=AFFORDABLE)
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

    def tell(self, point: Point, result: PointResult) -> None:
        """Take note of a half and of the pairs that it completes."""
        pairs = self._halves.tell(point, result)
        urgent, background = self._halves.measured(pairs)
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
                    return found[0].suggestion(found[1], reason)
        return None

    def _gain(self, pairs: Rows) -> PairGain:
        halves = self._halves
        best = max(self._best.values(), key=lambda pair: (pair.throughput_per_s, -pair.latency_s), default=None)
        urgent = halves.urgent.about(halves.urgent_rows[pairs])
        background = halves.background.about(halves.background_rows[pairs])
        believed = Pairs(urgent, background, halves.batch_sizes[pairs], halves.background_size)
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
