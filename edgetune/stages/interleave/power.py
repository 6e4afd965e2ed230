"""Watches power during a run: records readings, and steps between measured modes to keep power within a budget.

    power  |  budget ____________
           |   .-.               |____________
           |  /   '-.  .-----.                \\
           | '       ''       '----.___________\\___
             over: a mode down     cut: at once the first mode known to fit

The governor only steps to a mode whose power was measured. What the device draws now may differ from what was measured
then (it is warmer, other work runs): readings of the present mode correct the figures of all modes by their ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.run import Outcome
from edgetune.errors import DeviceError, InputError
from edgetune.stages.interleave.loop import InterleaveLoop, Watcher
from edgetune.units import NS

SUSTAINED = 2
"""Readings over the budget in a row that are an excess, not a spike."""
CALM = 10
"""Readings in a row that must leave room for the next mode up before it is taken."""
ROOM = 0.03
"""Share of the budget that must stay free after a step up: about twice the scatter of such sensors."""
_MOST_CALM = 640
"""The longest wait for a step up, in readings."""


@dataclass(frozen=True, slots=True)
class MeasuredMode:
    """A mode that was measured.

    Args:
        mode: Its knobs.
        power_w: The largest mean power of any workload in it, W.
        worth: Order of modes, larger is better: training throughput, or minus latency.
        minibatch_s: Duration of a minibatch of each tenant in it, by name, s.
        trains: Whether training goes on; without it a mode draws the power of answering alone.
    """

    mode: Mode
    power_w: float
    worth: float
    minibatch_s: Mapping[str, float] = field(default_factory=dict)
    trains: bool = True


@dataclass(frozen=True, slots=True)
class GovernorStep:
    """A step of the governor from one mode to another, and its reason."""

    before: MeasuredMode
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
        """Set another budget; return the step it requires at once, if any."""
        self.budget_w = budget_w
        self._over = self._calm = 0
        self._wait = CALM
        if self._expected_w(self.present) <= budget_w:
            return None
        return self._down(f"the budget is {budget_w:g} W now")

    def read(self, power_w: float) -> GovernorStep | None:
        """Note a reading in the present mode; return the step it requires, if any."""
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

    def refused(self, step: GovernorStep) -> None:
        """Note that the device refused a step and kept its mode; the refused mode is not tried again."""
        self._rungs = tuple(rung for rung in self._rungs if rung.mode != step.rung.mode or rung is step.before)
        self.present, self._came_up = step.before, False

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
        step = GovernorStep(self.present, rung, reason)
        self.present, self._came_up = rung, up
        self._over = self._calm = 0
        return step


Readings = Callable[[int], Sequence[tuple[int, float]]]
"""Readings that are new at a time of the stage's clock: when each was taken, ns, and power, W."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """Power to stay within, W, from each time on, s since the run began; ascending, the first from 0."""

    steps: tuple[tuple[float, float], ...]

    def at(self, time_s: float) -> float:
        """Return the budget at a time, W."""
        return next(budget_w for from_s, budget_w in reversed(self.steps) if from_s <= time_s or from_s == 0.0)


class PowerWatcher(Watcher):
    """Reads the sensor as often as it has something new.

    Args:
        readings: Returns the new readings of the sensor.
        refresh_s: Interval between readings, s.
        begin_ns: When the run begins.
        budgets: Power to stay within; ``None`` only writes readings down.
        governor: Chooses modes; ``None`` where power is only watched.
    """

    def __init__(
        self,
        readings: Readings,
        refresh_s: float,
        begin_ns: int,
        budgets: Budgets | None = None,
        governor: Governor | None = None,
    ) -> None:
        self._readings, self._refresh_ns = readings, max(round(refresh_s * NS), 1)
        self._begin_ns, self._due_ns = begin_ns, begin_ns + self._refresh_ns
        self._budgets, self._governor = budgets, governor
        self._since_ns = begin_ns

    def due_ns(self) -> int:
        """Return when the sensor has a new reading, or the budget changes if that is before."""
        if self._budgets is None:
            return self._due_ns
        changes = (self._begin_ns + round(from_s * NS) for from_s, _ in self._budgets.steps)
        return min([self._due_ns, *(change for change in changes if self._since_ns < change)])

    def poll(self, now_ns: int, loop: InterleaveLoop) -> None:
        """Record new readings, and take the steps that the governor chooses."""
        budget_w = None if self._budgets is None else self._budgets.at((now_ns - self._begin_ns) / NS)
        self._since_ns = now_ns
        if self._governor is not None and budget_w is not None and budget_w != self._governor.budget_w:
            self._execute(self._governor.rebudget(budget_w), budget_w, loop)
        if now_ns < self._due_ns:
            return
        while self._due_ns <= now_ns:
            self._due_ns += self._refresh_ns
        for at_ns, power_w in self._readings(now_ns):
            if at_ns < self._begin_ns:  # the sensor was opened before the run began
                continue
            loop.record(replace(loop.row(at_ns), event="power", power_w=power_w, power_budget_w=budget_w))
            if self._governor is not None:
                self._execute(self._governor.read(power_w), budget_w, loop)

    def _execute(self, step: GovernorStep | None, budget_w: float | None, loop: InterleaveLoop) -> None:
        if step is None or self._governor is None:
            return
        rung, reason = step.rung, step.reason
        mode = rung.mode
        status: Outcome = "ok"
        try:
            mode = loop.apply(rung.mode)
        except (DeviceError, InputError) as error:  # refused, or a network could not be loaded anew
            self._governor.refused(step)
            reason, status = f"refused: {error.message}", "failed"
        else:
            loop.pause_training(paused=not rung.trains)
            for tenant, minibatch_s in rung.minibatch_s.items():
                loop.re_estimate(tenant, minibatch_s)
        reason = reason if rung.trains else f"{reason}; training pauses"
        row = replace(
            loop.row(loop.now_ns()), event="mode", status=status, reason=reason, power_budget_w=budget_w,
            **mode.settings(),
        )  # fmt: skip
        loop.record(row)


class SimulatedReadings:
    """Readings of a simulated sensor: the mean power since the last reading.

    Args:
        mean_w: Mean power over an interval of the stage's clock, W.
        begin_ns: When the run begins.
    """

    def __init__(self, mean_w: Callable[[int, int], float], begin_ns: int) -> None:
        self._mean_w, self._last_ns = mean_w, begin_ns

    def __call__(self, now_ns: int) -> Sequence[tuple[int, float]]:
        """Return one reading, of the time since the last."""
        if now_ns <= self._last_ns:
            return ()
        reading = (now_ns, self._mean_w(self._last_ns, now_ns))
        self._last_ns = now_ns
        return (reading,)
