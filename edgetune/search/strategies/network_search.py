"""What the strategies ``nn`` and ``als`` share: points drawn at random, and a network taught with those measured.

Of two workloads each is learnt by itself, from its own points, and the two are combined afterwards: m + n points teach
what m x n pairs would. The halves are drawn in turn, one of the urgent workload, one of the background's.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar

from edgetune.artifacts.mode import KNOBS
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.errors import InputError
from edgetune.search.space import Space
from edgetune.search.strategies.strategy import NO_HINTS, Hints, PointResult, Suggestion

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

Asking = Generator[Suggestion, None, None]


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predicted s per minibatch and W of every point of the space, in its order, NaN where nothing teaches them.

    Args:
        minibatch_s, power_w: Of the one workload, or the urgent one of two.
        background_s, background_w: Of the second workload in the same modes; ``None`` where there is one workload.
    """

    minibatch_s: Array
    power_w: Array
    background_s: Array | None = None
    background_w: Array | None = None


class NetworkSearch:
    """Draws, remembers and teaches; a strategy is a subclass that says what to ask for."""

    name: ClassVar[str]
    learns_halves: ClassVar[bool] = True
    budget_free: ClassVar[bool] = True
    takes_names: ClassVar[bool] = False

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del hints
        try:
            import torch  # noqa: F401  (asked for now, so that nothing is measured in vain)
        except ImportError as error:
            raise InputError(f"{self.name} needs PyTorch: {error}", "pip install 'edgetune[torch]'") from None
        self._space, self._problem, self._seed = space, problem, seed
        self._partners = [] if space.background is None else [space.partner(point) for point in space.points]
        halves = [list(space.points), list(dict.fromkeys(self._partners))]
        for half in halves:
            random.Random(seed).shuffle(half)
        self._drawn = [point for pair in zip_longest(*halves) for point in pair if point is not None]
        self._left = iter(self._drawn)
        self._told: dict[Point, PointResult] = {}
        self._asking = self._search()

    def ask(self) -> Suggestion | None:
        """Return the next point, or ``None`` when every point has been told of."""
        return next(self._asking, None)

    def tell(self, point: Point, result: PointResult) -> None:
        """Take note of a point; one known from earlier teaches as one asked for does."""
        self._told[point] = result

    def _search(self) -> Asking:
        """Ask for one point after another; each is told of before the next."""
        raise NotImplementedError

    def _draw(self) -> Generator[Suggestion, None, bool]:
        """Ask for a drawn point that nobody has told of; return whether there was one left."""
        point = next((point for point in self._left if point not in self._told), None)
        if point is not None:
            yield Suggestion(point, "drawn at random to teach the network")
        return point is not None

    def _learn(self) -> Predictions | None:
        """Return what the network makes of the points told so far; ``None`` while some half has none measured."""
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
        import numpy as np

        from edgetune.search.power_train_network import features, predict

        rows, measured = [], []
        for row, point in enumerate(points):
            result = self._told.get(point)
            if result is not None and result.minibatch_s is not None:
                rows.append(row)
                measured.append((result.minibatch_s, np.nan if result.power_w is None else result.power_w))
        return predict(features(points, axes), rows, np.array(measured), seed=self._seed) if rows else None

    def _halves(self, row: int, learnt: Predictions, reason: str) -> list[Suggestion]:
        """Return what is still to be measured at one place: its point, and its partner of two workloads."""
        found = []
        for points, times_s, powers_w in (
            (self._space.points, learnt.minibatch_s, learnt.power_w),
            (self._partners, learnt.background_s, learnt.background_w),
        ):
            if points and times_s is not None and powers_w is not None and points[row] not in self._told:
                power_w = float(powers_w[row])
                found.append(Suggestion(points[row], reason, float(times_s[row]), power_w if power_w > 0 else None))
        return found[:1] if len(found) == 2 and found[0].point == found[1].point else found
