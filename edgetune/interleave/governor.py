"""Keeps power within a budget during a run: to a lower measured mode when it is exceeded, up when there is room.

    power  |  budget ____________
           |   .-.               |____________
           |  /   '-.  .-----.                \\
           | '       ''       '----.___________\\___
             over: a mode down     cut: at once the first mode known to fit

It only ever steps to a mode whose power was measured. What the device draws now may differ from what was measured then
(it is warmer, other work runs): readings of the present mode correct the figures of all by their ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgetune.artifacts.mode import Mode

SUSTAINED = 2
"""Readings over the budget in a row that are an excess, not a spike."""
CALM = 10
"""Readings in a row that must leave room for the next mode up before it is taken."""
ROOM = 0.03
"""Share of the budget that must stay free after a step up: about twice what readings of such sensors waver."""
_MOST_CALM = 640
"""The longest wait for a step up, in readings."""


@dataclass(frozen=True, slots=True)
class MeasuredMode:
    """A mode that was measured.

    Args:
        mode: Its knobs.
        power_w: The largest mean power of any workload in it, W.
        worth: What orders modes, larger is better: training throughput, or minus latency.
        minibatch_s: What a minibatch of each tenant takes in it, by name, s.
        trains: Whether training goes on; without it a mode draws what answering alone does.
    """

    mode: Mode
    power_w: float
    worth: float
    minibatch_s: Mapping[str, float] = field(default_factory=dict)
    trains: bool = True


@dataclass(frozen=True, slots=True)
class GovernorStep:
    """A step of the governor, and why."""

    rung: MeasuredMode
    reason: str


class Governor:
    """Chooses among measured modes.

    Args:
        rungs: Modes that serve the workloads, in any order.
        present: The one that is set now; one of them.
        budget_w: Power to stay within, W.
    """

    def __init__(self, rungs: Sequence[MeasuredMode], present: MeasuredMode, budget_w: float) -> None:
        self.budget_w, self.present = budget_w, present
        self._rungs = tuple(rungs)
        self._over = self._calm = 0
        self._ratio = 1.0
        self._wait = CALM
        self._came_up = False

    def rebudget(self, budget_w: float) -> GovernorStep | None:
        """Take another budget; return the step it calls for at once, if any."""
        self.budget_w = budget_w
        self._over = self._calm = 0
        self._wait = CALM
        if self._expected_w(self.present) <= budget_w:
            return None
        return self._down(f"the budget is {budget_w:g} W now")

    def read(self, power_w: float) -> GovernorStep | None:
        """Learn of a reading in the present mode; return the step it calls for, if any."""
        if power_w > self.budget_w:
            self._over, self._calm = self._over + 1, 0
            if self._over < SUSTAINED:
                return None
            self._ratio = max(self._ratio, power_w / self.present.power_w)
            return self._down(f"{power_w:.3g} W exceeds {self.budget_w:g} W")
        self._over = 0
        self._ratio = max(1.0, self._ratio * (1 - 1 / CALM) + power_w / self.present.power_w / CALM)
        higher = self._higher()
        if higher is None:
            return None
        self._calm += 1
        if self._calm < self._wait:
            return None
        return self._move(higher, f"there is room: {self._expected_w(higher):.3g} W of {self.budget_w:g} W", up=True)

    def refused(self, rung: MeasuredMode, present: MeasuredMode) -> None:
        """Learn that the device refused a step and is where it was; that mode is not tried again."""
        self._rungs = tuple(other for other in self._rungs if other.mode != rung.mode or other is present)
        self.present, self._came_up = present, False

    def _expected_w(self, rung: MeasuredMode) -> float:
        return rung.power_w * self._ratio

    def _down(self, reason: str) -> GovernorStep | None:
        """Return the step to the best mode that fits; to the frugalest where none does."""
        if self._came_up:  # the last step up was a mistake: wait longer before the next
            self._wait = min(2 * self._wait, _MOST_CALM)
        lower = [rung for rung in self._rungs if rung.power_w < self.present.power_w]
        fitting = [rung for rung in lower if self._expected_w(rung) <= self.budget_w]
        if fitting:
            return self._move(max(fitting, key=lambda rung: rung.worth), reason)
        if lower:
            frugal = min(lower, key=lambda rung: rung.power_w)
            return self._move(frugal, f"{reason}; no measured mode is known to fit, this is the frugalest")
        self._over = 0
        return None

    def _higher(self) -> MeasuredMode | None:
        """Return the best of the better modes that leave room; ``None`` where none does."""
        limit_w = self.budget_w * (1 - ROOM)
        better = [r for r in self._rungs if r.worth > self.present.worth and self._expected_w(r) <= limit_w]
        return max(better, key=lambda rung: rung.worth, default=None)

    def _move(self, rung: MeasuredMode, reason: str, *, up: bool = False) -> GovernorStep:
        self.present, self._came_up = rung, up
        self._over = self._calm = 0
        return GovernorStep(rung, reason)
