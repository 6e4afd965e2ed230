"""Search by slopes and halving: the part of ``gmd`` that does not depend on the kind of problem.

It works on a ``SearchState``: the measurements of a space and their consequences. The state knows the problem; the
gradient search knows only which points are within the power budget, the figures of slopes, and which points could still
be better than the best.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Literal, Protocol

from edgetune.stages.search.space import Levels, Space
from edgetune.stages.search.strategy import Asking, Suggestion

TRUSTED_POWER_CHANGE = 0.02
"""Share of power below which a change counts as noise: sensors of these boards repeat to 2 to 3 %."""

State = Literal["unknown", "failed", "within", "over"]
"""State of a point: not (completely) measured, failed, within the power budget, over it."""


class SearchState(Protocol):
    """The measurements so far, as the gradient search needs them."""

    def state(self, levels: Levels) -> State:
        """Return whether a point is within the power budget."""

    def worthwhile(self, levels: Levels) -> bool:
        """Return whether a point is not measured yet and could be better than the best."""

    def slope_figures(self, levels: Levels) -> tuple[float, float] | None:
        """Return time, s per sample, and power, W, of a measured point, for slopes; ``None`` if there are none."""

    def best(self) -> Levels | None:
        """Return the best point that keeps every budget, if there is one."""

    def measure(self, levels: Levels, reason: str) -> Asking:
        """Ask for the missing measurements of a point, if it is offered."""


class Gradient:
    """Slopes of the knobs so far, and the moves that use them.

    Args:
        space: The offered points.
        state: The state of their measurements.
        axes: The knobs to move along, as positions in the space's axes; the others are held.
        largest: Whether the largest ratio is the best also where knobs are lowered.
    """

    def __init__(self, space: Space, state: SearchState, axes: Sequence[int], *, largest: bool = False) -> None:
        self._space, self._state, self._axes, self._largest = space, state, axes, largest
        self._ratios: dict[int, float] = {}

    def start(
        self, wanted: Levels, reason: str, among: Callable[[Levels], bool]
    ) -> Generator[Suggestion, None, Levels | None]:
        """Measure the point nearest to a place, the next nearest where that fails, until one succeeds."""
        for nearest in filter(among, self._space.nearest_first(wanted)):
            if self._state.state(nearest) != "failed":
                yield from self._state.measure(nearest, reason)
            if self._state.state(nearest) != "failed":
                return nearest
        return None

    def probe(self, centre: Levels) -> Asking:
        """Measure every knob's end, low when the centre is over the budget, else high, for the first slopes."""
        raising = self._raising(centre)
        for axis in self._axes:
            line = self._space.line(centre, axis, above=raising)
            if line:
                end = line[-1] if raising else line[0]
                name = self._space.axes[axis].name
                yield from self._state.measure(end, f"slope of {name}, {'high' if raising else 'low'} end")
                self._learn(axis, centre, end)

    def descend(self, base: Levels, axes: Iterable[int] | None = None) -> Generator[Suggestion, None, Levels]:
        """Exhaust the knobs from this point on, the best ratio of those left first; return the point reached."""
        left = list(self._axes if axes is None else axes)
        while left:
            axis = self._ranked(left, raising=self._raising(base))[0]
            left.remove(axis)
            base = yield from self._halve(base, axis)
        return base

    def back_track(self, centre: Levels) -> Asking:
        """Go on from the best point, take each other knob first from the centre, then lower one knob of the best."""
        best = self._state.best()
        if best is not None:
            yield from self.descend(best)
        for first in self._ranked(self._axes, raising=self._raising(centre))[1:]:
            base = yield from self._halve(centre, first)
            yield from self.descend(base, (axis for axis in self._axes if axis != first))
        best = self._state.best()
        if best is None:
            return
        for lowered in reversed(self._ranked(self._axes, raising=True)):
            below = self._space.line(best, lowered, above=False)
            if below:
                base = below[len(below) // 2]
                yield from self.descend(base, (axis for axis in self._axes if axis != lowered))

    def what_is_left(self) -> Asking:
        """Measure the points that could still be better, the nearest to the best point first."""
        while True:
            target = self._state.best() or (0,) * len(self._space.axes)
            near = next(filter(self._state.worthwhile, self._space.nearest_first(target)), None)
            if near is None:
                return
            yield from self._state.measure(near, "nearest to the best point that is not ruled out")

    def _halve(self, base: Levels, axis: int) -> Generator[Suggestion, None, Levels]:
        """Halve the open range of one knob until it is empty; return the highest point within budget on its line."""
        state, raising = self._state, self._raising(base)
        line = self._space.line(base, axis, above=raising)
        while True:
            within = max((levels for levels in line if state.state(levels) == "within"), default=None)
            over = [levels for levels in line if state.state(levels) == "over" and (within is None or levels > within)]
            left = [
                levels
                for levels in line
                if state.worthwhile(levels) and (within is None or levels > within) and (not over or levels < min(over))
            ]
            if not left:
                break
            middle = left[(len(left) - 1) // 2]
            yield from state.measure(middle, f"middle of what is left of {self._space.axes[axis].name}")
            self._learn(axis, base, middle)
        if within is not None:
            return within
        return base if raising or not line else line[0]

    def _learn(self, axis: int, a: Levels, b: Levels) -> None:
        """Update a knob's ratio, s per sample and watt, from two points on its line, if the power can be trusted."""
        low, high = (self._state.slope_figures(levels) for levels in sorted((a, b)))
        if low is None or high is None:
            return
        (low_s, low_w), (high_s, high_w) = low, high
        if abs(high_w - low_w) >= TRUSTED_POWER_CHANGE * low_w:
            self._ratios[axis] = max(low_s - high_s, 0.0) / abs(high_w - low_w)

    def _ranked(self, axes: Iterable[int], *, raising: bool) -> list[int]:
        """Return the knobs in the order to take them; knobs without a slope are last."""
        sign = -1.0 if raising or self._largest else 1.0
        return sorted(axes, key=lambda axis: (axis not in self._ratios, sign * self._ratios.get(axis, 0.0), axis))

    def _raising(self, levels: Levels) -> bool:
        """Return whether knobs are raised from a point: it is within the power budget, or assumed to be."""
        return self._state.state(levels) in ("unknown", "within")
