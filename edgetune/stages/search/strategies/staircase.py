"""The staircase sweep for time to accuracy: the largest batch first, the clock raised as batches become smaller.

    batch 128 |  o  o  x
           64 |        o  x            o within the power budget
           32 |           o  o  x      x over it
           16 |                 o
              +---------------------> clock

At one clock a larger batch draws more, for it keeps the device busier. So the clock that the largest batch may have is
open to every smaller one, and is where the next begins: the edge of what the budget allows is walked once, in about as
many points as there are clocks and batch sizes together, and every batch size is measured at its highest clock.

From the joint tuning of batch size and GPU clock for training at the edge (2025): largest batch first, raise the clock
until the budget is met, carry it on. Training throughput is the same problem with equal epochs.

With several knobs the edge is a surface, and the path of all knobs together meets it in one place per batch size only.
So the best of those places is then improved along the surface, by trades: one knob (or the batch size) a step up, and
another as many steps down as the budget needs, for as long as that is faster.

Where the published text leaves a choice, these were made:

- A batch begins one clock above that of the batch before, and goes back if that is too much: the clock carried on is
  only worth measuring when the one above it is over the budget.
- Several knobs are raised together, in proportion, from all lowest to all highest.
- A trade is not measured where monotone power or time rules it out: power grows with every knob and with the batch,
  and of one batch no higher knob makes a slower minibatch.
- Where the table has a hole, the nearest point of that batch size stands in.
- Without a power budget every batch size is measured at the top.
- One failed measurement is stepped over; two in a row end a batch size. So does more memory than its budget.

It is a sweep for time: the least energy often lies below the edge, at a lower clock that it never looks at.
It uses no random numbers, so that the seed has no effect.
"""

import math
from collections.abc import Generator
from functools import partial
from typing import ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.errors import InputError
from edgetune.stages.search.problem import objective_of
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategy import NO_HINTS, Asking, Hints, PointResult, SteppedStrategy, Suggestion

_FAILURES = 2
"""Failed measurements in a row that end a batch size."""


class Staircase(SteppedStrategy):
    """The sweep along the edge of the power budget."""

    name: ClassVar[str] = "staircase"
    judges_columns: ClassVar[bool] = True

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del seed, hints
        if problem.kind not in ("accuracy", "train"):
            raise InputError(
                f"staircase chooses a batch size and a clock to train with, and does not solve {problem.kind}",
                "--kind accuracy, or another --strategy",
            )
        self._space = space
        self._starts_at_top = problem.power_budget_w is None and problem.power_peak_budget_w is None
        self._wants_time = objective_of(problem) in ("time", "throughput")
        self._told: dict[Point, PointResult] = {}
        self._asking = self._search()

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return ``None``: the sweep ends by itself."""
        del problem
        return None

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a point; one known from earlier replaces its measurement."""
        self._told[point] = result

    def _search(self) -> Asking:
        ladders = _ladders(self._space)
        start = len(next(iter(ladders.values()))) - 1 if self._starts_at_top else 0
        for size in sorted(ladders, reverse=True):
            highest = yield from self._climb(ladders[size], start)
            if highest is not None:
                start = min(highest + 1, len(ladders[size]) - 1)
        if len([name for name in self._space.names if name != "batch_size"]) > 1:
            yield from self._trade()

    def _climb(self, ladder: list[Point], start: int) -> Generator[Suggestion, None, int | None]:
        """Raise the clock until the budget is exceeded, else lower it until it is kept; return the highest kept."""
        highest = None
        for upwards in (True, False):
            failures = 0
            for rung in range(start, len(ladder)) if upwards else range(start - 1, -1, -1):
                point = ladder[rung]
                if point not in self._told:
                    words = "the next clock up" if upwards else "the clock that a larger batch could have"
                    yield Suggestion(point, f"batch {point.batch_size}: {words}")
                judgement = self._told[point].judgement
                if any(violation.constraint == "memory" for violation in judgement.violations):
                    return None
                feasible = judgement.feasible
                failures = failures + 1 if feasible is None else 0
                if feasible:
                    highest = rung
                if failures == _FAILURES or feasible is (not upwards):  # too much going up, enough going down
                    break
            if highest is not None:
                break
        return highest

    def _trade(self) -> Asking:
        """Improve the best point by trades until a whole round of them improves nothing."""
        axes = range(len(self._space.axes))
        pairs: list[tuple[int | None, int | None]] = [(up, down) for up in axes for down in (None, *axes) if up != down]
        batch = next((axis for axis in axes if self._space.axes[axis].name == "batch_size"), None)
        if batch is not None:
            pairs.append((None, batch))
        best, improved = self._best(), True
        while best is not None and improved:
            improved = False
            for up, down in pairs:
                while (better := (yield from self._traded(best, up, down))) is not None:
                    best, improved = better, True

    def _best(self) -> Point | None:
        answers = [point for point in self._told if self._value(point) > -math.inf]
        return max(answers, key=self._value, default=None)

    def _value(self, point: Point) -> float:
        """Return the objective of a point that keeps the budgets; minus infinity for another."""
        if point not in self._told:
            return -math.inf
        judgement = self._told[point].judgement
        return judgement.objective if judgement.feasible and judgement.objective is not None else -math.inf

    def _traded(self, best: Point, up: int | None, down: int | None) -> Generator[Suggestion, None, Point | None]:
        """Return a better point: ``up`` one step higher and ``down`` as far lower as the budget needs; else ``None``.

        Args:
            best: The point to improve.
            up, down: Axes of the space, not the same; ``None`` for none.
        """
        names = [self._space.axes[axis].name for axis in (up, down) if axis is not None]
        steps = {axis: step for axis, step in ((up, 1), (down, -1)) if axis is not None}
        while True:
            place = enumerate(self._space.levels[best])
            point = self._space.at(tuple(level + steps.get(axis, 0) for axis, level in place))
            if point is None:
                return None
            if point not in self._told and not self._is_over(point) and not self._is_slower(point, best):
                yield Suggestion(point, f"trades {' for '.join(names)}")
            if self._value(point) > self._value(best):
                return point
            if up is None or down is None or not self._is_over(point):
                return None
            steps[down] -= 1

    def _is_over(self, point: Point) -> bool:
        """Return whether a point at most as high on every axis is over a budget."""
        over = (told for told, result in self._told.items() if result.judgement.violations)
        return any(self._is_below(told, point) for told in over)

    def _is_slower(self, point: Point, best: Point) -> bool:
        """Return whether a point of the same batch, at least as high on every knob, is no better than ``best``."""
        if not self._wants_time:
            return False
        slow = (
            told
            for told, result in self._told.items()
            if told.batch_size == point.batch_size
            and result.judgement.objective is not None
            and result.judgement.objective <= self._value(best)
        )
        return any(self._is_below(point, told) for told in slow)

    def _is_below(self, low: Point, high: Point) -> bool:
        places = zip(self._space.levels[low], self._space.levels[high], strict=True)
        return all(below <= above for below, above in places)


def _ladders(space: Space) -> dict[int, list[Point]]:
    """Return, by batch size, the points from all knobs lowest to all highest; for a hole the nearest offered."""
    tops = [len(axis.values) - 1 for axis in space.axes]
    names = [axis.name for axis in space.axes]
    rungs = max([top for name, top in zip(names, tops, strict=True) if name != "batch_size"], default=0)
    ladders: dict[int, list[Point]] = {}
    for place, size in enumerate(sorted({point.batch_size for point in space.points})):
        own = {levels: point for point, levels in space.levels.items() if point.batch_size == size}
        ladder = ladders[size] = []
        for rung in range(rungs + 1):
            wanted = tuple(
                place if name == "batch_size" else (2 * rung * top + rungs) // max(2 * rungs, 1)
                for name, top in zip(names, tops, strict=True)
            )
            if wanted not in own:
                wanted = min(sorted(own), key=partial(space.distance, wanted))
            ladder.append(own[wanted])
    return ladders
