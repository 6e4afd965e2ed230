"""The study's network baseline: measure many points at random, learn time and power, trust the predictions.

PowerTrain and Fulcrum measure 250 points and answer every problem from what the network predicts, which can break a
budget. Here an answer is always measured, so ``nn`` draws 240 points and measures the ten that the network predicts
best within the budgets; ``predictions`` gives the predictions that the publication answers from. In a space of fewer
points four fifths are drawn. The network is trained once, before the first pick, and not at all where fewer points are
allowed.

``NetworkSearch`` is the base of ``nn`` and ``als``. It learns each of two workloads separately, from its own points,
and combines them afterwards: m + n points teach what m x n pairs would. The halves are drawn in turn.
"""

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from edgetune.artifacts.mode import KNOBS
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import InputError
from edgetune.stages.search.problem import PAIRS, Half, Judgement, judge, judge_pair
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategy import NO_HINTS, Asking, Hints, PointResult, SteppedStrategy, Suggestion

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predicted s per minibatch and W of every point of the space, in its order, NaN without training data.

    Args:
        minibatch_s, power_w: Of the one workload, or the urgent one of two.
        background_s, background_w: Of the second workload in the same modes; ``None`` where there is one workload.
    """

    minibatch_s: Array
    power_w: Array
    background_s: Array | None = None
    background_w: Array | None = None


class NetworkSearch(SteppedStrategy):
    """Draws points, records results and trains the network; a subclass chooses the points."""

    learns_halves: ClassVar[bool] = True
    budget_free: ClassVar[bool] = True

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del hints
        try:
            import torch  # noqa: F401  (asked for now, so that nothing is measured in vain)
        except ImportError as error:
            raise InputError(f"{self.name} needs PyTorch: {error}", "pip install 'edgetune[torch]'") from None
        self._space, self._problem, self._seed = space, problem, seed
        self._partners = space.partners
        halves = [list(space.points), list(dict.fromkeys(self._partners))]
        for half in halves:
            random.Random(seed).shuffle(half)
        self._drawn = [point for pair in zip_longest(*halves) for point in pair if point is not None]
        self._left = iter(self._drawn)
        self._told: dict[Point, PointResult] = {}
        self._asking = self._search()

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a point; one known from earlier trains the network too."""
        self._told[point] = result

    def _search(self) -> Asking:
        """Ask for one point after another; the result of each is known before the next."""
        raise NotImplementedError

    def _draw(self) -> Generator[Suggestion, None, bool]:
        """Ask for the next drawn point without a result; return whether one was left."""
        point = next((point for point in self._left if point not in self._told), None)
        if point is not None:
            yield Suggestion(point, "drawn at random to teach the network")
        return point is not None

    def _learn(self) -> Predictions | None:
        """Train the network and return its predictions; ``None`` while no point of some half was measured."""
        urgent = self._predict(self._space.points, [axis.name for axis in self._space.axes])
        if urgent is None or not self._partners:
            return None if urgent is None else Predictions(urgent[:, 0], urgent[:, 1])
        distinct = list(dict.fromkeys(self._partners))
        axes = [axis.name for axis in self._space.axes if axis.name in KNOBS]
        background = self._predict(distinct, axes)
        if background is None:
            return None
        rows = {point: row for row, point in enumerate(distinct)}
        places = [rows[point] for point in self._partners]
        return Predictions(urgent[:, 0], urgent[:, 1], background[places, 0], background[places, 1])

    def _predict(self, points: Sequence[Point], axes: Sequence[str]) -> Array | None:
        """Return s per minibatch and W of the points, shape (points, 2); ``None`` when none of them was measured."""
        from edgetune.stages.search.strategies.power_train_network import features

        told = [(row, found) for row, point in enumerate(points) if (found := self._told.get(point)) is not None]
        rows, results = [row for row, each in told if each.minibatch_s], [each for _, each in told if each.minibatch_s]
        measured = np.array([(each.minibatch_s, np.nan if each.power_w is None else each.power_w) for each in results])
        return self._taught(features(points, axes), rows, measured) if rows else None

    def _taught(self, inputs: Array, rows: Sequence[int], measured: Array) -> Array:
        """Return the predictions of a network taught with these points; see ``power_train_network.predict``."""
        from edgetune.stages.search.strategies.power_train_network import predict

        return predict(inputs, rows, measured, seed=self._seed)

    def _halves(self, row: int, learnt: Predictions, reason: str) -> list[Suggestion]:
        """Return the unmeasured points of one place: its point, and its partner of two workloads."""
        found = []
        for points, times_s, powers_w in (
            (self._space.points, learnt.minibatch_s, learnt.power_w),
            (self._partners, learnt.background_s, learnt.background_w),
        ):
            if points and times_s is not None and powers_w is not None and points[row] not in self._told:
                power_w = float(powers_w[row])
                found.append(Suggestion(points[row], reason, float(times_s[row]), power_w if power_w > 0 else None))
        return found[:1] if len(found) == 2 and found[0].point == found[1].point else found


POINTS = 250
"""Number of points that Fulcrum gives its network baseline."""
PICKS = 10
DRAWN_SHARE = 0.8
"""Largest share of a small space that is drawn at random."""


class Nn(NetworkSearch):
    """Points at random, then those that the network predicts best."""

    name: ClassVar[str] = "nn"

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return 250, Fulcrum's; of two workloads twice as many halves."""
        return 2 * POINTS if problem.kind in PAIRS else POINTS

    def predictions(self) -> Predictions:
        """Return the predictions of every point of the space.

        Raises:
            ValueError: nothing was measured.
        """
        learnt = self._learn()
        if learnt is None:
            raise ValueError("nothing was measured that could teach the network")
        return learnt

    def _search(self) -> Asking:
        points = self.default_max_points(self._problem) or POINTS
        count = min(points - PICKS, max(int(DRAWN_SHARE * len(self._drawn)), 1))
        while len(self._told) < count and (yield from self._draw()):
            pass
        learnt = self._learn()
        if learnt is not None:
            for row in self._best_first(learnt):
                yield from self._halves(row, learnt, "best within the budgets by prediction")
        while (yield from self._draw()):
            pass

    def _best_first(self, learnt: Predictions) -> list[int]:
        """Return all rows: those predicted within every budget by objective, then the others by their excess."""
        judged = [self._judge(row, learnt) for row in range(len(self._space.points))]
        return sorted(range(len(judged)), key=lambda row: _rank(judged[row]), reverse=True)

    def _judge(self, row: int, learnt: Predictions) -> Judgement:
        """Return the judgement as if the predictions had been measured."""
        point = self._space.points[row]
        time_s, power_w = float(learnt.minibatch_s[row]), _known_power(learnt.power_w[row])
        if learnt.background_s is None or learnt.background_w is None:
            predicted = ProfileRow(point.workload, point.task, point.batch_size, time_s, power_w=power_w)
            return judge(self._problem, predicted)
        other = Half(
            self._partners[row].batch_size, float(learnt.background_s[row]), _known_power(learnt.background_w[row])
        )
        return judge_pair(self._problem, Half(point.batch_size, time_s, power_w), other)


def _known_power(power_w: float) -> float | None:
    return float(power_w) if power_w > 0 else None


def _rank(judgement: Judgement) -> tuple[bool, float, float]:
    excess = sum(violation.value / violation.limit - 1 for violation in judgement.violations)
    return bool(judgement.feasible), -excess, judgement.objective or 0.0
