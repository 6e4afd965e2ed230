"""Measures points of one workload on one device, one after the other, for a sweep or a live search."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import SETTINGS
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.devices.capabilities import Absent, FanControl
from edgetune.devices.device import Device, LiveSource, ModelSource, RoundSource, Runner, TableSource
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.stages.profiling.disturbances import check_possible
from edgetune.stages.profiling.measure import Attempt, clocks_as_found, measure_point
from edgetune.stages.profiling.options import OnState, ProfileOptions
from edgetune.stages.profiling.queue import GIVE_UP_AFTER
from edgetune.stages.profiling.supervisor import Supervisor
from edgetune.workloads.costs import operator_table
from edgetune.workloads.workload import Workload


class Profiler:
    """A context manager: its child process and the device's mode last until it is closed.

    Args:
        device: Where to measure.
        workload: What to measure.
        task: ``infer`` or ``train``.
        options: How to measure.
        on_state: Called with what is done now, some times a second at most.
        sampling: Whether it is called with the running figures of a point, too.

    Raises:
        InputError: The options do not fit the device.
    """

    def __init__(
        self, device: Device, workload: Workload, task: Task, options: ProfileOptions | None = None,
        on_state: OnState | None = None, *, sampling: bool = True,
    ) -> None:  # fmt: skip
        options = options or ProfileOptions()
        check_possible(device, options)
        self._device = device
        self._workload = workload
        self._task = task
        self._options = options
        self._on_state = on_state
        self._sampling = sampling
        self._supervisor: Supervisor | None = None
        if isinstance(device.source, LiveSource):
            self._supervisor = Supervisor(device.source, workload, options)
        self._hold = ExitStack()
        self._tables: dict[int, OpsTable] = {}
        self._failures = 0
        self._succeeded = False
        self.last_error: EdgetuneError | None = None
        """The error of the last failed point."""

    def __enter__(self) -> Profiler:
        """Lock the device for this process.

        Raises:
            DeviceError: Another process of edgetune uses the device.
        """
        self._hold.enter_context(self._device.exclusive())
        if isinstance(self._device.modes, FanControl):
            self._device.modes.fan_to_maximum = self._options.fan is not None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._supervisor is not None:
                self._supervisor.close()
        finally:
            with self._hold:
                if not isinstance(self._device.modes, Absent):
                    self._device.modes.restore()

    @property
    def defect(self) -> EdgetuneError | None:
        """The error of the last point, when every point has failed; ``None`` otherwise."""
        return None if self._succeeded else self.last_error

    def measure(self, point: Point) -> ProfileRow:
        """Measure one point; a failure is a row with ``status`` and ``reason``.

        The row names the settings of the point only, so that a search recognises it: knobs left as found are null.

        Raises:
            EdgetuneError: see ``attempts``; also when ``GIVE_UP_AFTER`` points have failed and none has succeeded.
        """
        row = replace(self.attempts(point)[-1].row, **{knob: getattr(point.mode, knob) for knob in SETTINGS})
        if self.last_error is not None and not self._succeeded and self._failures >= GIVE_UP_AFTER:
            raise self.last_error
        return row

    def soak(self, point: Point, soak_s: float) -> ProfileRow:
        """Keep one point running for so long, in a child process of its own, and return its row; see ``measure``."""
        if self._supervisor is not None:
            self._supervisor.close()  # the network is not held twice
        options = replace(self._options, soak_s=soak_s)
        with Profiler(self._device, self._workload, self._task, options, self._on_state) as own:
            return own.measure(point)

    def attempts(self, point: Point, number: int | None = None) -> list[Attempt]:
        """Measure one point and return every attempt at it, the one that counts last.

        Args:
            point: What to measure.
            number: Of the round, from 1; ``None`` in a sweep of one round.

        Raises:
            InputError: The point is of another workload or task, or not in the recorded table.
            DeviceError: A library or an execution provider is missing, so that no point can be measured.
        """
        if point.workload not in self._workload.names or point.task != self._task:
            raise InputError(
                f"{point} is not a point of {self._workload.name} {self._task}", "profile one workload at a time"
            )
        source = self._device.source
        if isinstance(source, TableSource):
            return [Attempt(source.lookup(point))]
        if isinstance(source, RoundSource):
            source.begin_round(number or 1)
        attempts = measure_point(
            self._device, self._open, point, self._options, self._on_state, sampling=self._sampling
        )
        self._judge(attempts[-1])
        return attempts

    def data_warnings(self, batch_size: int) -> tuple[DataWarning, ...]:
        """Return warnings about figures of a cost model, such as operators that it leaves out.

        Raises:
            InputError: The workload's operators cannot be costed.
        """
        return self._table(batch_size).header.warnings if isinstance(self._device.source, ModelSource) else ()

    def _judge(self, attempt: Attempt) -> None:
        """Record the result of a point; raise its error when every other point would fail in the same way."""
        if attempt.error is None:
            self._succeeded = True
            return
        self.last_error = attempt.error
        self._failures += 1
        if isinstance(attempt.error, DeviceError) and attempt.failed_at == "load" and not self._succeeded:
            raise attempt.error

    def _open(self, point: Point) -> Runner:
        """Load the workload for a point: in the child process, or as a cost model."""
        if self._supervisor is not None:
            return self._supervisor.open(point, lambda: clocks_as_found(self._device, point.mode))
        source = self._device.source
        assert isinstance(source, ModelSource)
        return source.open(self._table(point.batch_size))

    def _table(self, batch_size: int) -> OpsTable:
        """Return the operator table of the workload at a batch size, computed once."""
        if batch_size not in self._tables:
            self._tables[batch_size] = operator_table(
                self._workload, self._task, batch_size, precision=self._options.precision,
                dimensions=self._options.dimensions, feed=self._options.feed,
            )  # fmt: skip
        return self._tables[batch_size]
