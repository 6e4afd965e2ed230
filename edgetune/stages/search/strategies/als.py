"""Fulcrum's active learning: measure the points that tell most about the front of time and power, for any budget.

    power
      | o        o  measured
      |  x o     x  predicted front; the five whose power is farthest from any measured are measured next
      |     x
      |   o    x  x
      +--------------> time

Active learning sampling (ALS; Fulcrum, 2025). Training: 10 points at random, the network is taught and predicts every
point, and the 5 of its predicted front whose power is farthest from what was measured are measured; 8 rounds make 50
points. Inference: 25 points first, then 6 rounds of 5 points in each of four quadrants of latency and arrival rate, 145
points. Two workloads: 25 first, then 3 rounds of 10 in each quadrant, 145 again. The budgets are not looked at, so that
the same points answer any of them. The answer is a measured point.

Where the published text is silent, these choices were made:

- Farthest is decided one after another: a point chosen counts as measured, with its predicted power, for the next.
- Where the front has too few points that are not measured yet, the front of the remaining points follows.
- The two halves of arrival rate are a fifth and two fifths of the highest rate: one smallest batch after another, each
  as short as the shortest minibatch measured. For the published networks that is about the range of the study's
  problems. Only points that keep up at that rate are in the quadrant.
- The two halves of latency meet at the geometric middle of the latencies on the front at that rate.
- Two workloads: the front is that of background throughput and the larger power. Each half of a pair counts as a
  measurement: the 25 points are 50 halves, the 10 of a quadrant 20, and all of them at most 290.
- Failed measurements teach nothing: others are drawn in their place among the first.
- Asked for more points than that, it goes on with more rounds, and draws at random when the quadrants are exhausted.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.stages.search.problem import PAIRS
from edgetune.stages.search.strategies.nn import Array, NetworkSearch, Predictions
from edgetune.stages.search.strategy import Asking, Suggestion

Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Region = tuple[Rows, Array, Array]
"""Rows of the space, and cost and power (W) of every row."""

RATE_SHARES = (0.2, 0.4)
"""The two arrival rates, as shares of the highest."""
_PER_REGION = {"train": 5, "accuracy": 5, "infer": 5}


class Als(NetworkSearch):
    """Active learning of the front."""

    name: ClassVar[str] = "als"

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return Fulcrum's: 50 for training, 145 for inference, 145 for two workloads, each with two halves."""
        if problem.kind in ("train", "accuracy"):
            return 50
        return 290 if problem.kind in PAIRS else 145

    def _search(self) -> Asking:
        first = {"train": 10, "accuracy": 10, "infer": 25}.get(self._problem.kind, 50)
        while len(self._measured()) < first and (yield from self._draw()):
            pass
        while True:
            before = len(self._told)
            yield from self._round()
            if len(self._told) == before and not (yield from self._draw()):
                return

    def _round(self) -> Asking:
        """Learn from what was measured, and ask for points of every region."""
        learnt = self._learn()
        if learnt is not None:
            for region in self._regions(learnt):
                yield from self._farthest(region, learnt)

    def _regions(self, learnt: Predictions) -> Iterator[Region]:
        """Return the regions of a round: the whole space, or the four quadrants of latency and arrival rate."""

        sizes = np.array([point.batch_size for point in self._space.points], dtype=float)
        everywhere = np.arange(len(sizes))
        if np.isnan(learnt.power_w).any() or (learnt.background_w is not None and np.isnan(learnt.background_w).any()):
            return
        if self._problem.kind in ("train", "accuracy"):
            epochs = dict(self._problem.epochs_to_target)
            needed = np.array([epochs.get(point.batch_size, 1.0) for point in self._space.points])
            yield everywhere, learnt.minibatch_s / sizes * needed, learnt.power_w
            return
        measured = self._measured()
        highest_per_s = float(sizes.min()) / min(measured[point] for point in self._space.points if point in measured)
        for share in RATE_SHARES:
            latency_s, cost, power_w, kept = _requests(learnt, sizes, share * highest_per_s, self._background_size())
            rows = everywhere[kept]
            if len(rows):
                on_front = latency_s[front(rows, cost, power_w)]
                middle_s = float(np.sqrt(on_front.min() * on_front.max()))
                yield rows[latency_s[rows] <= middle_s], cost, power_w
                yield rows[latency_s[rows] > middle_s], cost, power_w

    def _background_size(self) -> int:
        return 0 if self._space.background is None else self._space.background.batch_size

    def _farthest(self, region: Region, learnt: Predictions) -> Asking:
        """Ask for the points of a region's predicted front whose power is farthest from any measured."""

        rows, cost, power_w = region
        measured_w, wanted = self._measured_w(), _PER_REGION.get(self._problem.kind, 20)
        reason = "on the predicted front, its power farthest from any measured"
        asked: list[Suggestion] = []
        while len(rows) and len(asked) < wanted:
            layer = front(rows, cost, power_w)
            rows = np.setdiff1d(rows, layer)
            left = [int(row) for row in layer if self._halves(int(row), learnt, reason)]
            while left and len(asked) < wanted:
                row = max(left, key=lambda row: (_gap(float(power_w[row]), measured_w), -row))
                left.remove(row)
                measured_w.append(float(power_w[row]))
                halves = self._halves(row, learnt, reason)
                points = {half.point for half in asked}
                asked += [half for half in halves if half.point not in points]
        yield from asked[:wanted]

    def _measured(self) -> dict[Point, float]:
        """Return s per minibatch of the points measured with success, of both workloads."""
        return {point: told.minibatch_s for point, told in self._told.items() if told.minibatch_s is not None}

    def _measured_w(self) -> list[float]:
        """Return the measured powers, W; of two workloads the larger where both halves were measured."""
        found = []
        for row, point in enumerate(self._space.points):
            halves = [point, *self._partners[row : row + 1]]
            powers = [self._told[half].power_w for half in halves if half in self._told]
            known = [power_w for power_w in powers if power_w is not None]
            if len(known) == len(halves):
                found.append(max(known))
        return found


def front(rows: Rows, cost: Array, power_w: Array) -> Rows:
    """Return the rows that no other row betters in cost without drawing more power, ascending in cost."""

    ordered = rows[np.lexsort((power_w[rows], cost[rows]))]
    drawn_w = power_w[ordered]
    least_before_w = np.minimum.accumulate(np.concatenate(([np.inf], drawn_w[:-1])))
    kept: Rows = ordered[drawn_w < least_before_w]
    return kept


def _requests(
    learnt: Predictions, sizes: Array, rate_per_s: float, background: int
) -> tuple[Array, Array, Array, Flags]:
    """Return latency (s), cost, power (W) and whether it keeps up, of every row at an arrival rate."""

    arrives_s = sizes / rate_per_s
    latency_s = (sizes - 1) / rate_per_s + learnt.minibatch_s
    if learnt.background_s is None or learnt.background_w is None:
        return latency_s, latency_s, learnt.power_w, learnt.minibatch_s <= arrives_s
    count = np.floor((arrives_s - learnt.minibatch_s) / learnt.background_s)
    return latency_s, -count * background / arrives_s, np.maximum(learnt.power_w, learnt.background_w), count >= 1


def _gap(power_w: float, measured_w: list[float]) -> float:
    """Return the distance of a power from the nearest measured one, W."""
    return min((abs(power_w - other_w) for other_w in measured_w), default=float("inf"))
