"""Branch and bound over power modes: what one measured point says about all those above and below it.

Raise a clock and a network never gets slower, and the board nearly always draws more. So a point over the budget rules
out those above it, and a point within the budget makes those below it pointless. ``Bounds`` says so for training;
``Least`` gives the figures, for problems in which time decides more than which of two points is faster.
"""

from __future__ import annotations

from edgetune.search.space import Levels, Space

OVER_BUDGET_SLACK = 0.03
"""Share by which a point must exceed the budget to rule out others: measured power wavers by 2 to 3 %."""


class Bounds:
    """What has been ruled out so far by measured points of one space.

    Power is taken to rise with every axis but the memory clock: a faster memory makes a launch-bound network wait less
    on an idle GPU, and draw up to 10 % less. Throughput is taken to fall with none.

    Args:
        space: The offered points.
        limit_w: Power budget less its margin, W; infinite for none.
    """

    def __init__(self, space: Space, limit_w: float) -> None:
        self._limit_w = limit_w
        self._memory = next((i for i, axis in enumerate(space.axes) if axis.name == "mem_mhz"), None)
        self._over: set[Levels] = set()
        self._within: set[Levels] = set()

    def note(self, levels: Levels, power_w: float | None) -> None:
        """Take note of a measured point and its power, W; ``None`` says nothing about other points.

        Measured again, the later power counts.
        """
        self._over.discard(levels)
        self._within.discard(levels)
        if power_w is None:
            if self._limit_w == float("inf"):
                self._within.add(levels)
        elif power_w <= self._limit_w:
            self._within.add(levels)
        elif power_w > self._limit_w * (1 + OVER_BUDGET_SLACK):
            self._over.add(levels)

    def rules_out(self, levels: Levels) -> bool:
        """Return whether this point would be over the budget, or no faster than one measured within it."""
        return any(_below(levels, within) for within in self._within) or any(
            _below(over, levels) and (self._memory is None or over[self._memory] == levels[self._memory])
            for over in self._over
        )


class Least:
    """The least time and power that a point of one workload can have, by the points measured so far.

    Time is taken to rise with no knob that is raised and to fall with no batch that grows; power as in ``Bounds``, the
    batch size being one of the axes.

    Args:
        space: The points.
    """

    def __init__(self, space: Space) -> None:
        places = {axis.name: i for i, axis in enumerate(space.axes)}
        self._memory, self._batch = places.get("mem_mhz"), places.get("batch_size")
        self._told: dict[Levels, tuple[float, float | None]] = {}

    def note(self, levels: Levels, minibatch_s: float, power_w: float | None) -> None:
        """Take note of a measured point, s and W; measured again, the later figures count."""
        self._told[levels] = (minibatch_s, power_w)

    def minibatch_s(self, levels: Levels) -> float:
        """Return the time that a minibatch takes at least, s; 0 where nothing is known."""
        wanted = self._slowness(levels)
        return max(
            (time_s for told, (time_s, _) in self._told.items() if _below(self._slowness(told), wanted)), default=0.0
        )

    def power_w(self, levels: Levels) -> float:
        """Return the power that a point draws at least, W; 0 where nothing is known."""
        powers = (
            power_w
            for told, (_, power_w) in self._told.items()
            if power_w is not None
            and _below(told, levels)
            and (self._memory is None or told[self._memory] == levels[self._memory])
        )
        return max(powers, default=0.0)

    def _slowness(self, levels: Levels) -> Levels:
        """Return the place on axes turned so that time rises with each: knobs downwards, batch sizes upwards."""
        return tuple(level if axis == self._batch else -level for axis, level in enumerate(levels))


def _below(low: Levels, high: Levels) -> bool:
    """Return whether ``low`` is nowhere above ``high``."""
    return all(a <= b for a, b in zip(low, high, strict=True))
