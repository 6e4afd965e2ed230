"""The trace: the steps of a search, in order."""

from dataclasses import dataclass, replace
from typing import Literal

from edgetune.artifacts.artifact import Table
from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import SETTINGS
from edgetune.artifacts.profile import ProfileRow, Status, Task

KIND = "trace"
VERSION = 1


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One step of a search.

    Args:
        step: 1 for the first point.
        workload, task, batch_size, knobs: The requested point, as in a profile row.
        source: ``measured`` (counts against the budget of points) or ``known`` (measured earlier).
        minibatch_s: Mean time per minibatch, s; ``None`` when the measurement failed.
        power_w: Mean power, W; ``None`` when not measured.
        objective: Value of the problem's objective, larger is better (throughput per s, minus latency s, ...).
        feasible: Whether every budget is met; ``None`` when that cannot be told.
        best: Best feasible objective up to and including this step.
        reason: Why the strategy chose this point, or why it failed.
        predicted_minibatch_s, predicted_power_w: The strategy's predictions, if any.
        strategy_s: Computation time of the strategy for this choice, s.
        measurement_s: Duration of the measurement, s.
        minibatch_p95_s: Its 95th percentile, s, where it differs from the mean.
    """

    step: int
    workload: str
    task: Task
    batch_size: int
    cpu_cores: int | None = None
    cpu_mhz: float | None = None
    gpu_mhz: float | None = None
    mem_mhz: float | None = None
    power_limit_w: float | None = None
    power_mode: str | None = None
    source: Literal["measured", "known"] = "measured"
    minibatch_s: float | None = None
    power_w: float | None = None
    objective: float | None = None
    feasible: bool | None = None
    best: float | None = None
    reason: str | None = None
    predicted_minibatch_s: float | None = None
    predicted_power_w: float | None = None
    strategy_s: float | None = None
    measurement_s: float | None = None
    minibatch_p95_s: float | None = None

    @property
    def row(self) -> ProfileRow:
        """The measurement of this step as a row of a profile."""
        status: Status = "ok" if self.minibatch_s is not None else "failed"
        knobs = {name: getattr(self, name) for name in SETTINGS}
        row = ProfileRow(
            self.workload,
            self.task,
            self.batch_size,
            self.minibatch_s,
            power_w=self.power_w,
            status=status,
            minibatch_p95_s=self.minibatch_p95_s,
        )
        return replace(row, **knobs)


@dataclass(frozen=True, slots=True)
class Trace(Table):
    """A search's steps and their header."""

    header: Header
    rows: tuple[TraceRow, ...]

    ROW = TraceRow
