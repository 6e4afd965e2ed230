"""Fulcrum's gradient search: find the knob that buys most time per watt, and halve what is left of it.

    power                     ..over budget..
      |        o  high end   /
      |      x   <- too much: drop what is above
      |    o     <- within budget: keep, drop what is below
      |  o  middle
      +----------------------> one knob, the others held

Gradient-based multi-dimensional search (GMD; Fulcrum, 2025) for the fastest training within a power budget:

1. Measure the middle of every knob's table.
2. Measure one point per knob, the others held: at its low end when the middle is over the budget, else at its high end.
   Time and power over that step are the knob's two slopes; their ratio says what a watt buys.
3. Take the knob with the best ratio. Measure the middle of what is left of it, keep it if it is within budget, drop the
   half that monotone power rules out, update the slope; take the next knob when this one is exhausted.
4. Back-track while there are points left; branch and bound drops what cannot be within budget or cannot be faster.

Where the published text leaves a choice, these were taken:

- The middle is that of the table, by index, the lower of two. Without a power budget the top is measured instead.
- Raising knobs, the best ratio is most time saved per watt; lowering them, most watts saved per second lost, because
  the aim is to come within the budget at the least cost.
- A power change below 2 % is no slope; a knob without one comes last.
- While the point held is within budget a knob is raised, else lowered; one that is within budget nowhere on its line
  stays at its lowest value.
- Back-tracking first goes on from the best point found, all knobs open again; then starts from the middle once more
  with each other knob taken first; then lowers one knob of the best point half-way and raises the others; then takes
  what is nearest to the best point. Points measured before cost nothing.
- What monotone power and time rule out, and what they do not, is in ``search.bounds``.
- Several batch sizes are one more knob; time is always per sample.
- On a table with holes a knob has only the points offered on its line, and the middle is the nearest point offered.
  A failed measurement rules out itself alone.

It draws nothing at random: the seed changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.errors import InputError
from edgetune.search.bounds import Bounds
from edgetune.search.problem import objective_of
from edgetune.search.space import Levels, Space
from edgetune.search.strategies.strategy import NO_HINTS, Hints, Outcome, Suggestion

_TRUSTED_POWER_CHANGE = 0.02
"""Share of power below which a change is taken for noise: sensors of these boards repeat to 2 to 3 %."""

_Asking = Generator[Suggestion, None, None]


class Gmd:
    """The gradient search. Ten points are what Fulcrum gives it for training."""

    name: ClassVar[str] = "gmd"
    learns_halves: ClassVar[bool] = False
    budget_free: ClassVar[bool] = False

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del seed, hints
        if problem.kind != "train" or objective_of(problem) != "throughput":
            raise InputError(
                "gmd knows one problem: the highest training throughput within a power budget",
                "--strategy exhaustive or random for other problems and objectives",
            )
        self._space = space
        budget_w = problem.power_budget_w
        self._limit_w = float("inf") if budget_w is None else budget_w * (1 - problem.margin)
        self._bounds = Bounds(space, self._limit_w)
        self._told: dict[Levels, Outcome] = {}
        self._ratios: dict[int, float] = {}
        self._asking = self._search()

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return Fulcrum's budgets: 10 for training, 11 for inference, 15 for two workloads (30 measurements)."""
        return {"train": 10, "accuracy": 10, "infer": 11}.get(problem.kind, 30)

    def ask(self) -> Suggestion | None:
        """Return the next point of the search, or ``None`` when nothing is left that could be better."""
        return next(self._asking, None)

    def tell(self, point: Point, outcome: Outcome) -> None:
        """Take note of a point; one known from earlier is used where the search would have measured it."""
        levels = self._space.levels[point]
        self._told[levels] = outcome
        if outcome.minibatch_s is not None:
            self._bounds.note(levels, outcome.power_w)

    def _search(self) -> _Asking:
        tops = tuple(len(axis.values) - 1 for axis in self._space.axes)
        if self._limit_w == float("inf"):
            centre = yield from self._start(tops, "the top of every knob, for there is no power budget")
        else:
            centre = yield from self._start(tuple(top // 2 for top in tops), "the middle of every knob")
        if centre is None:
            return
        yield from self._probe(centre)
        yield from self._descend(centre, self._every_axis())
        yield from self._back_track(centre)
        while left := [levels for levels in self._space.levels.values() if self._worthwhile(levels)]:
            best = self._best()
            near = min(left, key=lambda levels: (self._space.distance(levels, best or (0,) * len(levels)), levels))
            yield from self._look(near, "nearest to the best point that is not ruled out")

    def _start(self, wanted: Levels, reason: str) -> Generator[Suggestion, None, Levels | None]:
        """Measure the offered point nearest to a place, the next nearest where that fails, until one succeeds."""
        while True:
            left = [levels for levels in self._space.levels.values() if not self._failed(levels)]
            if not left:
                return None
            nearest = min(left, key=lambda levels: (self._space.distance(levels, wanted), levels))
            yield from self._look(nearest, reason)
            if not self._failed(nearest):
                return nearest

    def _probe(self, centre: Levels) -> _Asking:
        """Measure every knob's end, low when the centre is over the budget, else high, for the first slopes."""
        raising = self._within(centre)
        for axis in self._every_axis():
            line = self._space.line(centre, axis, above=raising)
            if line:
                end = line[-1] if raising else line[0]
                name = self._space.axes[axis].name
                yield from self._look(end, f"slope of {name}, {'high' if raising else 'low'} end")
                self._learn(axis, centre, end)

    def _descend(self, base: Levels, axes: Iterable[int]) -> Generator[Suggestion, None, Levels]:
        """Exhaust the knobs from this point on, the best ratio of those left first; return the point reached."""
        left = list(axes)
        while left:
            axis = self._ranked(left, raising=self._within(base))[0]
            left.remove(axis)
            base = yield from self._halve(base, axis)
        return base

    def _halve(self, base: Levels, axis: int) -> Generator[Suggestion, None, Levels]:
        """Halve what is left of one knob until it is exhausted; return the fastest point within budget on its line."""
        raising = self._within(base)
        line = self._space.line(base, axis, above=raising)
        while True:
            within = max((levels for levels in line if levels in self._told and self._within(levels)), default=None)
            over = [levels for levels in line if self._over(levels) and (within is None or levels > within)]
            left = [
                levels
                for levels in line
                if self._worthwhile(levels) and (within is None or levels > within) and (not over or levels < min(over))
            ]
            if not left:
                break
            middle = left[(len(left) - 1) // 2]
            yield from self._look(middle, f"middle of what is left of {self._space.axes[axis].name}")
            self._learn(axis, base, middle)
        if within is not None:
            return within
        return base if raising or not line else line[0]

    def _back_track(self, centre: Levels) -> _Asking:
        """Spend the points that are left: see the module's text."""
        best = self._best()
        if best is not None:
            yield from self._descend(best, self._every_axis())
        for first in self._ranked(self._every_axis(), raising=self._within(centre))[1:]:
            base = yield from self._halve(centre, first)
            yield from self._descend(base, (axis for axis in self._every_axis() if axis != first))
        best = self._best()
        if best is None:
            return
        for lowered in reversed(self._ranked(self._every_axis(), raising=True)):
            below = self._space.line(best, lowered, above=False)
            if below:
                base = below[len(below) // 2]
                yield from self._descend(base, (axis for axis in self._every_axis() if axis != lowered))

    def _look(self, levels: Levels, reason: str) -> _Asking:
        """Ask for a point unless it has been told of."""
        point = self._space.at(levels)
        if point is not None and levels not in self._told:
            yield Suggestion(point, reason)

    def _learn(self, axis: int, a: Levels, b: Levels) -> None:
        """Update a knob's ratio, s per sample and watt, from two points on its line, if the power can be trusted."""
        low, high = sorted((a, b))
        if low not in self._told or high not in self._told:
            return
        low_w, high_w = self._told[low].power_w, self._told[high].power_w
        low_s, high_s = self._sample_s(low), self._sample_s(high)
        if low_w is None or high_w is None or low_s is None or high_s is None:
            return
        if abs(high_w - low_w) >= _TRUSTED_POWER_CHANGE * low_w:
            self._ratios[axis] = max(low_s - high_s, 0.0) / abs(high_w - low_w)

    def _sample_s(self, levels: Levels) -> float | None:
        point, time_s = self._space.at(levels), self._told[levels].minibatch_s
        return None if point is None or time_s is None else time_s / point.batch_size

    def _ranked(self, axes: Iterable[int], *, raising: bool) -> list[int]:
        """Return the knobs, the one to take first at the head; knobs without a slope last."""
        sign = -1.0 if raising else 1.0
        return sorted(axes, key=lambda axis: (axis not in self._ratios, sign * self._ratios.get(axis, 0.0), axis))

    def _worthwhile(self, levels: Levels) -> bool:
        return levels not in self._told and not self._bounds.rules_out(levels)

    def _failed(self, levels: Levels) -> bool:
        return levels in self._told and self._told[levels].judgement.feasible is None

    def _within(self, levels: Levels) -> bool:
        """Return whether a point is within budget; one not measured is taken to be."""
        return levels not in self._told or bool(self._told[levels].judgement.feasible)

    def _over(self, levels: Levels) -> bool:
        return levels in self._told and self._told[levels].judgement.feasible is False

    def _best(self) -> Levels | None:
        found = [levels for levels, outcome in self._told.items() if outcome.judgement.feasible]
        return max(found, key=lambda levels: (self._told[levels].judgement.objective or 0.0, levels), default=None)

    def _every_axis(self) -> range:
        return range(len(self._space.axes))
