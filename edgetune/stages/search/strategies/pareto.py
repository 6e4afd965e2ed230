"""The whole front of time and power from a few measurements: points that answer any budget.

    measure --> fit time and power --> for every open point: expected gain under each of 24 budgets --> measure

The model is that of ``roofline``; the value of a measurement differs. It ignores budget, latency and rate, so that the
measured points answer other problems too. Training: the front of time and power. Inference: which batch size will be
right depends on how fast requests come, so there is one front per batch size. Two workloads: the value of a pair is the
background throughput at three arrival rates, light to heavy for its batch size, so there is one front per batch size
and rate. A pair's power is the larger of the two. The answer is the best point *measured*.
"""

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.stages.search.model.beliefs import Belief, Halves, PointBeliefs
from edgetune.stages.search.model.coordinates import Array, OpenPoints, Rows
from edgetune.stages.search.model.gain import best_under, budgets_between, chances_under, front_gain
from edgetune.stages.search.model.hypotheses import KEPT_POINTS
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategy import NO_HINTS, AskTell, DelegatingStrategy, Hints, PointResult, Suggestion

NEGLIGIBLE = 1e-5
"""Expected gain, mean over the budgets (and rates), below which nothing more is measured."""
_POINTS = {"train": 30, "accuracy": 30, "infer": 60}


class Pareto(DelegatingStrategy):
    """Learns the front, without random numbers."""

    name: ClassVar[str] = "pareto"
    budget_free: ClassVar[bool] = True

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del seed
        pairs = space.background is not None
        self._search: AskTell = _FrontOfPairs(space, hints) if pairs else _Fronts(space, problem, hints)

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return 30 for training, 60 for inference with a front per batch size, 90 for two workloads."""
        return _POINTS.get(problem.kind, 90)


class _Fronts:
    """One front per batch size in inference, each with a model of its own; one front in training."""

    def __init__(self, space: Space, problem: Problem, hints: Hints) -> None:

        sizes = sorted({point.batch_size for point in space.points}) if problem.kind == "infer" else [None]
        groups = [[point for point in space.points if size in (None, point.batch_size)] for size in sizes]
        epochs = dict(problem.epochs_to_target)
        self._fronts = []
        for points in groups:
            per_minibatch = [epochs.get(point.batch_size, 1.0) / point.batch_size for point in points]
            self._fronts.append(_Front(points, np.log(per_minibatch), hints))

    def ask(self) -> Suggestion | None:
        """Return the point with the largest expected gain of all fronts; fronts without measurements come first.

        The second smallest batch counts half of the smallest, the third a third: it is optimal only for
        rates too high for smaller ones, and much of its latency is filling.
        """
        found = [
            (one[0], one[1] / rank) for rank, front in enumerate(self._fronts, 1) if (one := front.next()) is not None
        ]
        best = max(found, key=lambda one: one[1], default=None)
        return None if best is None or best[1] < NEGLIGIBLE else best[0]

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a point."""
        for front in self._fronts:
            front.tell(point, result)


class _Front:
    """One front of power and time.

    Args:
        points: Its points.
        offset: Log of the factor from time to cost, shape (points,).
        hints: Prior knowledge.
    """

    def __init__(self, points: list[Point], offset: Array, hints: Hints) -> None:

        self._learnt, self._offset = PointBeliefs(points, hints), offset
        self._candidates = OpenPoints(self._learnt.coordinates)
        axes = len(self._learnt.coordinates.names)
        self._start = [(np.ones(axes), "the top of every knob"), (np.full(axes, 0.5), "the middle of every knob")]
        self._next: tuple[Suggestion, float] | None = None
        self._stale = True

    def next(self) -> tuple[Suggestion, float] | None:
        """Return the point with the largest expected gain over all budgets, and that gain."""
        if self._stale:
            self._next, self._stale = self._find(), False
        return self._next

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a point; a failed one is only closed."""
        row = self._learnt.rows.get(point)
        if row is not None:
            self._learnt.tell(row, result)
            self._candidates.close(row)
            self._stale = True

    def _find(self) -> tuple[Suggestion, float] | None:
        count = len(self._learnt.figures)
        if count < len(self._start):
            row = self._candidates.nearest(self._start[count][0])
            return None if row is None else (self._learnt.suggestion(row, self._start[count][1]), math.inf)
        found = self._candidates.best(self._score())
        if found is None:
            return None
        reason = f"most to gain over all budgets, {100 * found[1]:.2g} % expected"
        return self._learnt.suggestion(found[0], reason), found[1]

    def _score(self) -> Callable[[Rows], Array]:
        """Return the scoring function of points, for the current budgets."""

        learnt = self._learnt
        measured = np.array(list(learnt.figures), dtype=np.intp)
        known = learnt.about(measured)
        budgets = budgets_between(np.concatenate((learnt.about(learnt.spread()).log_power, known.log_power)))
        best = best_under(budgets, known.log_time + self._offset[measured], known.log_power)

        def score(rows: Rows) -> Array:
            there = learnt.about(rows)
            chances = chances_under(budgets, there.log_power, there.power_sd)
            return front_gain(chances, there.log_time + self._offset[rows], there.time_sd, best[:, None])

        return score


LOADS = (0.05, 0.15, 0.4)
"""Arrival rates, as shares of what the fastest mode serves at most at a batch size."""
BOTH_UNKNOWN = 1.6
"""Divisor of the score of a pair of which both halves are unmeasured."""


class _FrontOfPairs:
    """Asks for halves of pairs, for all budgets."""

    def __init__(self, space: Space, hints: Hints) -> None:
        self._halves = Halves(space, hints)
        self._candidates = OpenPoints(self._halves.coordinates)
        count = len(self._halves.batch_sizes)
        self._spread = np.linspace(0, count - 1, min(count, KEPT_POINTS)).astype(np.intp)
        self._done: list[int] = []
        sizes, self._groups = np.unique(self._halves.batch_sizes, return_inverse=True)
        self._start = self._places(len(sizes))

    def ask(self) -> Suggestion | None:
        """Return a half of the pair with the largest gain: the background first, which serves all batch sizes."""
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
        """Record the result of a half."""
        complete, failed = self._halves.tell(point, result)
        for pair in (*complete, *failed):
            self._candidates.close(int(pair))
        self._done = sorted({*self._done, *complete.tolist()})

    def _places(self, sizes: int) -> list[tuple[bool, Array]]:
        """Return the first places: the background at top and middle, every batch size at the top, one in the middle."""
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
        """Return the scoring function of pairs, for the current budgets."""
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
