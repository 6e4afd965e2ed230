"""Branch and bound over power modes: what one measured point says about all those above and below it.

Raise a clock and a network never gets slower, and the board nearly always draws more. So a point over the budget rules
out those above it, and a point within the budget makes those below it pointless.
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
        self._over: list[Levels] = []
        self._within: list[Levels] = []

    def note(self, levels: Levels, power_w: float | None) -> None:
        """Take note of a measured point and its power, W; ``None`` says nothing about other points."""
        if power_w is None:
            if self._limit_w == float("inf"):
                self._within.append(levels)
        elif power_w <= self._limit_w:
            self._within.append(levels)
        elif power_w > self._limit_w * (1 + OVER_BUDGET_SLACK):
            self._over.append(levels)

    def rules_out(self, levels: Levels) -> bool:
        """Return whether this point would be over the budget, or no faster than one measured within it."""
        return any(_below(levels, within) for within in self._within) or any(
            _below(over, levels) and (self._memory is None or over[self._memory] == levels[self._memory])
            for over in self._over
        )


def _below(low: Levels, high: Levels) -> bool:
    """Return whether ``low`` is nowhere above ``high``."""
    return all(a <= b for a, b in zip(low, high, strict=True))
