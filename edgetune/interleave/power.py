"""Watches power during a run: writes every reading down, and has the governor keep it within the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgetune.artifacts.run import Outcome, RunRow
from edgetune.errors import DeviceError, InputError
from edgetune.interleave.governor import Governor, GovernorStep, MeasuredMode
from edgetune.interleave.loop import InterleaveLoop
from edgetune.units import NS

Readings = Callable[[int], Sequence[tuple[int, float]]]
"""Readings that are new at a time of the stage's clock: when each was taken, ns, and power, W."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """Power to stay within, W, from each time on, s since the run began; ascending, the first from 0."""

    steps: tuple[tuple[float, float], ...]

    def at(self, time_s: float) -> float:
        """Return the budget at a time, W."""
        return next(budget_w for from_s, budget_w in reversed(self.steps) if from_s <= time_s or from_s == 0.0)


class PowerWatcher:
    """Reads the sensor as often as it has something new.

    Args:
        readings: What the sensor has.
        refresh_s: How often it has something new, s.
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
        """Return when the sensor has something new, or the budget changes if that is before."""
        if self._budgets is None:
            return self._due_ns
        changes = (self._begin_ns + round(from_s * NS) for from_s, _ in self._budgets.steps)
        return min([self._due_ns, *(change for change in changes if self._since_ns < change)])

    def poll(self, now_ns: int, loop: InterleaveLoop) -> None:
        """Take the readings that are new, and do what the governor makes of them."""
        budget_w = None if self._budgets is None else self._budgets.at((now_ns - self._begin_ns) / NS)
        self._since_ns = now_ns
        if self._governor is not None and budget_w is not None and budget_w != self._governor.budget_w:
            before = self._governor.present
            self._execute(self._governor.rebudget(budget_w), before, budget_w, loop)
        if now_ns < self._due_ns:
            return
        while self._due_ns <= now_ns:
            self._due_ns += self._refresh_ns
        for at_ns, power_w in self._readings(now_ns):
            loop.note(replace(loop.row(at_ns), event="power", power_w=power_w, power_budget_w=budget_w))
            if self._governor is not None:
                before = self._governor.present
                self._execute(self._governor.read(power_w), before, budget_w, loop)

    def on_arrival(self, tenant: str, at_ns: int) -> None:
        """Requests are nothing to this one."""

    def on_row(self, row: RunRow) -> None:
        """Rows of others are nothing to this one."""

    def _execute(
        self, move: GovernorStep | None, before: MeasuredMode, budget_w: float | None, loop: InterleaveLoop
    ) -> None:
        if move is None or self._governor is None:
            return
        status: Outcome = "ok"
        try:
            mode = loop.apply(move.rung.mode)
        except (DeviceError, InputError) as error:  # refused, or a network could not be loaded anew
            self._governor.refused(move.rung, before)
            mode, move, status = move.rung.mode, replace(move, reason=f"refused: {error.message}"), "failed"
        else:
            loop.pause_training(paused=not move.rung.trains)
            for tenant, minibatch_s in move.rung.minibatch_s.items():
                loop.re_estimate(tenant, minibatch_s)
        knobs: dict[str, Any] = mode.settings()
        reason = move.reason if move.rung.trains else f"{move.reason}; training pauses"
        row = replace(loop.row(loop.now_ns()), event="mode", status=status, reason=reason, power_budget_w=budget_w)
        loop.note(replace(row, **knobs))


class SimulatedReadings:
    """What a sensor would read of a simulated device: the mean power since it was last read.

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
