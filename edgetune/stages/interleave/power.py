"""Records the readings of power during a run, each beside the budget of the moment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from edgetune.stages.interleave.loop import InterleaveLoop, Watcher
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


class PowerWatcher(Watcher):
    """Reads the sensor as often as it has something new.

    Args:
        readings: Returns the new readings of the sensor.
        refresh_s: Interval between readings, s.
        begin_ns: When the run begins.
        budgets: Power to stay within; ``None`` for none.
    """

    def __init__(self, readings: Readings, refresh_s: float, begin_ns: int, budgets: Budgets | None = None) -> None:
        self._readings, self._refresh_ns = readings, max(round(refresh_s * NS), 1)
        self._begin_ns, self._due_ns = begin_ns, begin_ns + self._refresh_ns
        self._budgets = budgets

    def due_ns(self) -> int:
        """Return when the sensor has a new reading."""
        return self._due_ns

    def poll(self, now_ns: int, loop: InterleaveLoop) -> None:
        """Record new readings."""
        budget_w = None if self._budgets is None else self._budgets.at((now_ns - self._begin_ns) / NS)
        while self._due_ns <= now_ns:
            self._due_ns += self._refresh_ns
        for at_ns, power_w in self._readings(now_ns):
            if at_ns >= self._begin_ns:  # else the sensor was opened before the run began
                loop.record(replace(loop.row(at_ns), event="power", power_w=power_w, power_budget_w=budget_w))


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
