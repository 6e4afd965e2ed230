"""The ``pareto`` strategy for two workloads: points that answer any power budget, latency budget and arrival rate.

A pair is worth what it lets the background do at three arrival rates, light to heavy for its batch size, under each of
24 power budgets: there is one front per batch size and rate, for the latency budget decides which batch size will be
right. A pair's power is the larger of the two; the background gets the time that the urgent workload leaves.

On the twin's seven pairs of the Fulcrum study 90 halves, measured once, answer 96 % (a network in training beside one
in inference) and 99.9 % (two in inference) of 1,300 problems each, and lose 7.7 and 6.1 % of throughput in the mean;
145 random halves answer 88 and 95 % and lose 13 %. Seven pairs tell little: from one law of time to the next such means
moved by 1 to 2 %, those of 42 pairs of the same networks hardly. To search for one problem, ``roofline`` is far better:
its 15 halves lose 0.2 %. Counting only loads at which one background minibatch has room solved fewer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from edgetune.artifacts.profile import Point
from edgetune.search.model.beliefs import Belief
from edgetune.search.model.candidates import Candidates
from edgetune.search.model.coordinates import Array, Rows
from edgetune.search.model.front_gain import best_under, budgets_between, chances_under, front_gain
from edgetune.search.model.halves import Halves
from edgetune.search.model.learnt import KEPT_POINTS
from edgetune.search.space import Space
from edgetune.search.strategies.strategy import Hints, PointResult, Suggestion

LOADS = (0.05, 0.15, 0.4)
"""Arrival rates, as shares of what the fastest mode serves at most at a batch size."""
BOTH_UNKNOWN = 1.6
"""What the score of a pair is divided by when both halves are still to be measured."""
NEGLIGIBLE = 1e-5
"""Expected gain, mean over budgets and rates, below which nothing more is measured."""


class FrontOfPairs:
    """Asks for halves of pairs, for all budgets."""

    def __init__(self, space: Space, hints: Hints) -> None:
        self._halves = Halves(space, hints.power_noise)
        self._candidates = Candidates(self._halves.coordinates)
        count = len(self._halves.batch_sizes)
        self._spread = np.linspace(0, count - 1, min(count, KEPT_POINTS)).astype(np.intp)
        self._done: list[int] = []
        sizes, self._groups = np.unique(self._halves.batch_sizes, return_inverse=True)
        self._start = self._places(len(sizes))

    def ask(self) -> Suggestion | None:
        """Return a half of the pair that promises most over all budgets: the background first, it serves all sizes."""
        halves = self._halves
        while self._start:
            urgent, place = self._start.pop(0)
            found = halves.nearest(place, urgent=urgent)
            if found is not None:
                which = "urgent" if urgent else "background"
                return found[0].suggestion(found[1], f"the ends and the middle of the knobs, the {which} workload")
        if not (halves.urgent.figures and halves.background.figures):
            return None
        best = self._candidates.best(self._score())
        if best is None or best[1] < NEGLIGIBLE:
            return None
        pair, reason = best[0], f"most to gain over all budgets, {100 * best[1]:.2g} % expected"
        if not halves.background.told[halves.background_rows[pair]]:
            return halves.background.suggestion(int(halves.background_rows[pair]), f"{reason}; the background workload")
        return halves.urgent.suggestion(int(halves.urgent_rows[pair]), f"{reason}; the urgent workload")

    def tell(self, point: Point, result: PointResult) -> None:
        """Take note of a half."""
        pairs = self._halves.tell(point, result)
        urgent, background = self._halves.measured(pairs)
        failed = self._halves.failed(pairs)
        for pair in pairs[(urgent & background) | failed]:
            self._candidates.close(int(pair))
        complete = pairs[urgent & background & ~failed]
        self._done = sorted({*self._done, *complete.tolist()})

    def _places(self, sizes: int) -> list[tuple[bool, Array]]:
        """Return where to begin: the background at top and middle, every batch size at the top, one in the middle."""
        names = self._halves.coordinates.names
        middle, top = np.full(len(names), 0.5), np.ones(len(names))
        tops = []
        for group in range(sizes):
            place = top.copy()
            if "batch_size" in names:
                column = names.index("batch_size")
                place[column] = self._halves.coordinates.unit[np.argmax(self._groups == group), column]
            tops.append((True, place))
        return [(False, top), (False, middle), *tops, (True, middle)]

    def _score(self) -> Callable[[Rows], Array]:
        """Return what scores pairs, with the budgets of the moment."""
        halves, groups = self._halves, self._groups
        rows = np.concatenate((np.array(self._done, dtype=np.intp), self._spread))
        done, theirs = np.arange(len(rows)) < len(self._done), groups[rows]
        urgent, background = self._beliefs(rows)
        drawn = np.maximum(urgent.log_power, background.log_power)
        budgets, fastest = budgets_between(drawn), np.full(int(groups.max()) + 1, np.inf)
        np.minimum.at(fastest, theirs, urgent.log_time)
        tables = []
        for load in LOADS:
            cost, _, keeps_up = _cost(load, urgent, background, fastest[theirs])
            counted = [done & (keeps_up > 0.5) & (theirs == group) for group in range(len(fastest))]
            tables.append(np.array([best_under(budgets, cost[flags], drawn[flags]) for flags in counted]))

        def score(pairs: Rows) -> Array:
            first, second = self._beliefs(pairs)
            chances = chances_under(budgets, first.log_power, first.power_sd)
            chances = chances * chances_under(budgets, second.log_power, second.power_sd)
            total = np.zeros(len(pairs))
            for load, best in zip(LOADS, tables, strict=True):
                cost, sd, keeps_up = _cost(load, first, second, fastest[groups[pairs]])
                total += keeps_up * front_gain(chances, cost, sd, best[groups[pairs]].T)
            known = np.logical_or(*halves.measured(pairs))
            return np.asarray(total / len(LOADS) / np.where(known, 1.0, BOTH_UNKNOWN))

        return score

    def _beliefs(self, pairs: Rows) -> tuple[Belief, Belief]:
        halves = self._halves
        return halves.urgent.about(halves.urgent_rows[pairs]), halves.background.about(halves.background_rows[pairs])


def _cost(load: float, urgent: Belief, background: Belief, fastest: Array) -> tuple[Array, Array, Array]:
    """Return mean and deviation of the log of s per background minibatch, waits included, and the chance to keep up.

    Of each second the urgent workload takes a share ``load`` x its time over the fastest of its batch size.
    """
    log_taken = np.log(load) + urgent.log_time - fastest
    taken = np.minimum(np.exp(log_taken), 0.98)
    sd = np.hypot(background.time_sd, taken / (1 - taken) * urgent.time_sd)
    keeps_up = ndtr(-log_taken / np.maximum(urgent.time_sd, 1e-6))
    return background.log_time - np.log1p(-taken), sd, keeps_up
