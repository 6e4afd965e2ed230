"""The whole front of time and power from a few measurements: points that answer any budget.

    measure --> fit time and power --> for every open point: expected gain under each of 24 budgets --> measure

The model is that of ``roofline``; what differs is what a measurement is worth. No budget, latency or rate is looked at,
so what was measured for one problem answers the next ones too. Training: the front of time and power. Inference: which
batch size will be right depends on how fast requests come, so there is one front per batch size. Two workloads: see
``pareto_pairs``. The answer is the best point *measured*.

On the twin, mean excess over all budgets (p90, p99), measured once:

- training, 30 points: 0.7 % (2.6, 8.0); 20: 1.7 % (6.0); 50: 0.4 % (0.8). Active learning with 50: 2.9 % (8.5, 63).
  Of all 18,096 modes, not 441, 30 points: 4.4 % (11, 28), with every mode scored 4.0 % (10, 16) at four times the time.
- inference, 60 points: 2.1 % (2.9, 12) and 99.6 % solved: the mean is that of few problems in which only one point of
  the smallest batch keeps up; without it latency is five times longer. 250 random points: 6.3 % (6.1, 117).

What helped in inference, when it was chosen: a model per batch size, where one law for all had to bend too much (12 to
4.8 %), and giving small batches more weight, for they are right whenever they keep up (4.8 to 2.7 %).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.search.space import Space
from edgetune.search.strategies.strategy import NO_HINTS, AskTell, Hints, PointResult, Suggestion

if TYPE_CHECKING:
    from edgetune.search.model.coordinates import Array, Rows

NEGLIGIBLE = 1e-5
"""Expected gain, mean over the budgets, below which nothing more is measured."""
_POINTS = {"train": 30, "accuracy": 30, "infer": 60}


class Pareto:
    """Learns the front; it draws nothing at random."""

    name: ClassVar[str] = "pareto"
    learns_halves: ClassVar[bool] = True
    budget_free: ClassVar[bool] = True
    takes_names: ClassVar[bool] = False

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del seed
        if space.background is not None:
            from edgetune.search.strategies.pareto_pairs import FrontOfPairs

            self._search: AskTell = FrontOfPairs(space, hints)
        else:
            self._search = _Fronts(space, problem, hints)

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return 30 for training, 60 where every batch size has its front, 90 for two workloads."""
        return _POINTS.get(problem.kind, 90)

    def ask(self) -> Suggestion | None:
        """Return the point that promises most over all budgets; ``None`` when none promises anything."""
        return self._search.ask()

    def tell(self, point: Point, result: PointResult) -> None:
        """Take note of what came of a point."""
        self._search.tell(point, result)


class _Fronts:
    """One front per batch size in inference, each with a model of its own; one front in training."""

    def __init__(self, space: Space, problem: Problem, hints: Hints) -> None:
        import numpy as np

        sizes = sorted({point.batch_size for point in space.points}) if problem.kind == "infer" else [None]
        groups = [[point for point in space.points if size in (None, point.batch_size)] for size in sizes]
        epochs = dict(problem.epochs_to_target)
        self._fronts = []
        for points in groups:
            per_minibatch = [epochs.get(point.batch_size, 1.0) / point.batch_size for point in points]
            self._fronts.append(_Front(points, np.log(per_minibatch), hints.power_noise))

    def ask(self) -> Suggestion | None:
        """Return the point that promises most of all fronts; fronts not begun come first.

        The second smallest batch counts half of the smallest, the third a third: it is right only for requests that
        come too fast for smaller ones, and much of its latency is filling.
        """
        found = [
            (one[0], one[1] / rank) for rank, front in enumerate(self._fronts, 1) if (one := front.next()) is not None
        ]
        best = max(found, key=lambda one: one[1], default=None)
        return None if best is None or best[1] < NEGLIGIBLE else best[0]

    def tell(self, point: Point, result: PointResult) -> None:
        """Take note of what came of a point."""
        for front in self._fronts:
            front.tell(point, result)


class _Front:
    """One front of power and time.

    Args:
        points: Its points.
        offset: Log of what their time is multiplied with to be their cost, shape (points,).
        power_noise: Relative standard deviation of one power reading.
    """

    def __init__(self, points: list[Point], offset: Array, power_noise: float) -> None:
        import numpy as np

        from edgetune.search.model.candidates import Candidates
        from edgetune.search.model.learnt import PointBeliefs

        self._learnt, self._offset = PointBeliefs(points, power_noise), offset
        self._candidates = Candidates(self._learnt.coordinates)
        axes = len(self._learnt.coordinates.names)
        self._start = [(np.ones(axes), "the top of every knob"), (np.full(axes, 0.5), "the middle of every knob")]
        self._next: tuple[Suggestion, float] | None = None
        self._stale = True

    def next(self) -> tuple[Suggestion, float] | None:
        """Return the point that promises most over all budgets, and what it promises."""
        if self._stale:
            self._next, self._stale = self._find(), False
        return self._next

    def tell(self, point: Point, result: PointResult) -> None:
        """Take note of what came of a point; a failed one teaches nothing else."""
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
        """Return what scores points, with the budgets of the moment."""
        import numpy as np

        from edgetune.search.model.front_gain import best_under, budgets_between, chances_under, front_gain

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
