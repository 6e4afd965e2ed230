"""Binary search: the middle of one knob after another, the others held.

    |------------x------------|   over the budget: the lower half is left
    |-----x------|                within budget: the upper half of that
          |--x---|                ... until nothing is left; then the next knob

This is how one searches by hand, knowing that a higher clock is faster and draws more. Where the study that names it
(Fulcrum, 2025) is silent, these choices were made:

- The first point is the middle of every knob, by index, the lower of two; the nearest offered where there is none.
- The knobs come in the order of the space. A knob searched stays at the best value measured on its line: the best
  objective within every budget, else the smallest excess over them.
- Over the power budget a knob is lowered, else raised. A batch size is lowered as well when a request takes too long,
  raised when the device does not keep up, and within every budget goes where the objective wants it.
- After the last knob it begins again with the first, until a whole round finds nothing new to measure.
- A round may end with nothing within budget where the table has holes; then comes what is nearest to the least excess.
- A failed measurement leaves its line; the halves are those of what remains.

It uses no random numbers, so that the seed has no effect.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.stages.search.problem import objective_of
from edgetune.stages.search.space import Levels, Space
from edgetune.stages.search.strategy import NO_HINTS, Asking, Hints, PointResult, SteppedStrategy, Suggestion


class Binary(SteppedStrategy):
    """Midpoints of each knob in turn."""

    name: ClassVar[str] = "binary"

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del seed, hints
        self._space = space
        self._small_batches = objective_of(problem) in ("latency", "energy-delay")
        self._told: dict[Levels, PointResult] = {}
        self._asking = self._search()

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a point; one known from earlier replaces its measurement."""
        self._told[self._space.levels[point]] = result

    def _search(self) -> Asking:
        base = yield from self._start()
        before = -1
        while base is not None and before < len(self._told):
            before = len(self._told)
            for axis in range(len(self._space.axes)):
                base = yield from self._halve(base, axis)
        yield from self._nearby()

    def _start(self) -> Generator[Suggestion, None, Levels | None]:
        """Measure the offered point nearest to the middle, the next nearest where that fails, until one succeeds."""
        middle = tuple((len(axis.values) - 1) // 2 for axis in self._space.axes)
        for levels in sorted(self._space.levels.values(), key=lambda at: (self._space.distance(at, middle), at)):
            yield from self._measure(levels, "the middle of every knob")
            if self._told[levels].judgement.feasible is not None:
                return levels
        return None

    def _halve(self, base: Levels, axis: int) -> Generator[Suggestion, None, Levels]:
        """Halve the open range of one knob until it is empty; return the best point measured on its line."""
        line = [*self._space.line(base, axis, above=False), base, *self._space.line(base, axis, above=True)]
        left = list(line)
        for levels in line:
            left = self._cut(left, axis, levels)
        while left:
            levels = left[(len(left) - 1) // 2]
            yield from self._measure(levels, f"middle of what is left of {self._space.axes[axis].name}")
            left = self._cut(left, axis, levels)
        return max((levels for levels in line if levels in self._told), key=self._rank)

    def _nearby(self) -> Asking:
        """While no point keeps every budget, measure the point nearest to the one that exceeds them least."""
        left = set(self._space.levels.values()) - set(self._told)
        while left and not any(result.judgement.feasible for result in self._told.values()):
            best = max(self._told, key=self._rank)
            nearest = min(left, key=lambda levels: (self._space.distance(levels, best), levels))
            left.remove(nearest)
            yield from self._measure(nearest, "nearest to the point that exceeds the budgets least")

    def _cut(self, left: list[Levels], axis: int, levels: Levels) -> list[Levels]:
        """Return the part of a line that a measured place leaves: above or below it, or both if it failed."""
        if levels not in self._told:
            return left
        if self._told[levels].judgement.feasible is None:
            return [other for other in left if other != levels]
        if self._raised(axis, self._told[levels]):
            return [other for other in left if other > levels]
        return [other for other in left if other < levels]

    def _raised(self, axis: int, result: PointResult) -> bool:
        """Return whether the better points of a knob lie above one with this outcome."""
        broken = {violation.constraint for violation in result.judgement.violations}
        if "power" in broken:
            return False
        if self._space.axes[axis].name != "batch_size":
            return True
        if "latency" in broken:
            return False
        return bool(broken & {"rate", "room"}) or not self._small_batches

    def _rank(self, levels: Levels) -> tuple[bool, bool, float]:
        """Return a key that is larger for a better point: within budget, then by the excess, then failed."""
        judgement = self._told[levels].judgement
        excess = sum(violation.value / violation.limit - 1 for violation in judgement.violations)
        value = judgement.objective if judgement.feasible else -excess
        return bool(judgement.feasible), judgement.feasible is not None, value or 0.0

    def _measure(self, levels: Levels, reason: str) -> Asking:
        """Ask for a point unless its result is known."""
        point = self._space.at(levels)
        if point is not None and levels not in self._told:
            yield Suggestion(point, reason)
