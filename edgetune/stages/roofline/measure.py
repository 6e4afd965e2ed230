"""Measurement of peaks: times and power of kernels in power modes.

    idle in every mode  ->  every size of a kernel in every mode

The best size differs between modes: where memory is slow, a product needs another. The same kernel runs in one mode
after the other, so that a child process that has it loaded keeps it. The caller gives a function that measures a
point: on a device, on a twin, or by the closed formula of a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import fmean

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.roofline import KernelRun
from edgetune.devices.capabilities import Absent, PowerSensor
from edgetune.devices.device import Device
from edgetune.errors import DeviceError, InputError
from edgetune.stages.roofline.fit import IDLE
from edgetune.workloads.kernels import BenchmarkKernel, resolve_kernel
from edgetune.workloads.workload import Workload

READINGS = 5
"""Readings that the mean is of: as many as a profile's power needs at least."""

_SPARE_READINGS = 2
"""One may straddle the start and one come late."""

_SETTLING_INTERVALS = 2
"""Refresh intervals until a reading covers the new mode alone: one began before it, and one until it is shown."""


def idle_run(device: Device, mode: Mode) -> KernelRun | None:
    """Apply ``mode``, wait until power has settled, and return the mean of at least ``READINGS`` readings.

    The mode stays set; the caller that opened the device restores it.

    Args:
        device: With nothing of ours running on it, and a network loaded: a GPU without a context may be powered off.
        mode: Without knobs it is left as found.

    Returns:
        ``None`` where there is no power sensor, or too few readings came.

    Raises:
        DeviceError: the mode cannot be set.
    """
    if isinstance(device.power, Absent):
        return None
    if not isinstance(device.modes, Absent):
        device.modes.apply(mode)
    elif mode.knobs():
        raise DeviceError(f"{device.name} cannot set {mode}: {device.modes.reason}", "leave its mode as it is")
    refresh_s = device.power.refresh_s
    device.clock.sleep_s(_settling_s(device.power))
    begun_ns = device.clock.now_ns()
    with device.power.record() as recording:
        device.clock.sleep_s(_reading_s(device.power))
    refresh_ns = round(refresh_s * 1e9)
    counted = [reading.power_w for reading in recording.readings if reading.time_ns - refresh_ns >= begun_ns]
    if len(counted) < READINGS:
        return None
    return KernelRun(IDLE, 0, "", mode, 0.0, 0.0, len(counted) * refresh_s, fmean(counted))


def longest_idle_s(power: PowerSensor) -> float:
    """Return how long the power at rest of one mode takes to measure, s."""
    return _settling_s(power) + _reading_s(power)


def _settling_s(power: PowerSensor) -> float:
    return max(power.settle_s, _SETTLING_INTERVALS * power.refresh_s)


def _reading_s(power: PowerSensor) -> float:
    return (READINGS + _SPARE_READINGS) * power.refresh_s


Measure = Callable[[Workload, Mode], ProfileRow]
"""Measures one kernel in one mode, its precision in its name: 10 repetitions, see ``kernel_plan.REPETITIONS``."""

Idle = Callable[[Mode], KernelRun | None]
"""Measures power with nothing running, ``None`` without a sensor; see ``idle.idle_run``."""

LONGEST_RUN_S = 2.0
"""A size expected to take longer is left out: a dozen runs of it would take half a minute for each mode, and what is
gained from one power of two to the next is below a percent long before."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """The measured kernels.

    Args:
        runs: By mode; of each mode the idle run first, then kernels in the order in which they ran.
        notes: What was left out or failed, with its reason.
    """

    runs: tuple[KernelRun, ...]
    notes: tuple[DataWarning, ...] = ()


def measure_peaks(measure: Measure, idle: Idle, modes: Sequence[Mode], kernels: Iterable[BenchmarkKernel]) -> Peaks:
    """Run kernels in power modes.

    A precision that the device lacks is left out with a note, and so is a size that fails or takes too long, with all
    larger ones of its family. A precision whose first family fails at its smallest size is given up; one that has runs
    keeps them, whatever fails later.

    Args:
        measure: Measures a kernel in a mode; raises ``DeviceError`` where the device lacks the precision.
        idle: Measures static power in a mode.
        modes: At least one, the highest first.
        kernels: From ``plan_kernels``: families together, by ascending size.

    Raises:
        InputError: every kernel failed, for want of memory, say; the last failure is named.
        DeviceError: nothing could be measured because of the device; likewise.
    """
    session = _Session(measure)
    session.rest(idle, modes)
    for precision, of_precision in groupby(kernels, key=lambda kernel: kernel.precision):
        for label, family in groupby(of_precision, key=lambda kernel: kernel.label):
            try:
                ran = session.run_family(list(family), modes)
            except DeviceError as error:
                ran = False
                session.refuse(precision, label, error)
            if not ran and not session.has(precision):
                break
    if session.found_nothing:
        if session.refused:
            raise session.refused[0]
        raise InputError(f"no kernel could be measured: {session.notes[-1].advice}", "see edgetune doctor")
    runs = sorted(session.runs, key=lambda run: modes.index(run.mode))  # stable: kernels stay in their order
    return Peaks(tuple(runs), tuple(session.notes))


@dataclass(slots=True)
class _Session:
    """The results of the kernels so far."""

    measure: Measure
    runs: list[KernelRun] = field(default_factory=list)
    notes: list[DataWarning] = field(default_factory=list)
    refused: list[DeviceError] = field(default_factory=list)

    @property
    def found_nothing(self) -> bool:
        return all(run.kernel == IDLE for run in self.runs)

    def has(self, precision: str) -> bool:
        """Whether any kernel of that precision was measured."""
        return any(run.precision == precision and run.kernel != IDLE for run in self.runs)

    def refuse(self, precision: str, label: str, error: DeviceError) -> None:
        """Note that the device lacks a precision, or a kernel in one that it has."""
        if self.has(precision):
            self.notes.append(DataWarning("kernel-failed", f"{label} in {precision} is left out: {error.message}"))
            return
        self.refused.append(error)
        self.notes.append(DataWarning("precision-missing", f"{precision} is left out: {error.message}"))

    def rest(self, idle: Idle, modes: Sequence[Mode]) -> None:
        """Keep an idle run of every mode; add a note on the modes without one."""
        found = [run for mode in modes if (run := idle(mode)) is not None]
        self.runs += found
        if missing := len(modes) - len(found):
            advice = "power at rest could not be measured: no power sensor, or too few readings"
            self.notes.append(DataWarning("no-static-power", advice, {"modes": float(missing)}))

    def run_family(self, family: Sequence[BenchmarkKernel], modes: Sequence[Mode]) -> bool:
        """Run sizes in ascending order in each mode; return whether any ran.

        A mode ends with the first size that fails or would take too long in it: its best size is not that of another
        mode. A size that fails in the first mode is run in no other; one that only slower modes leave out has no note.

        Raises:
            DeviceError: the device lacks the precision.
        """
        before, ran, last_s = family[0], False, dict.fromkeys(modes, 0.0)
        for kernel in family:
            taken_s: dict[Mode, float] = {}
            for mode, seconds in last_s.items():
                expected_s = seconds * _work(kernel) / _work(before)
                if expected_s > LONGEST_RUN_S:
                    if mode == modes[0]:
                        advice = f"{kernel.reference} and larger would take too long a run and are left out"
                        self.notes.append(DataWarning("kernel-too-long", advice, {"expected_s": expected_s}))
                elif (run := self._run(kernel, mode)) is not None:
                    taken_s[mode] = run.seconds
                elif mode == modes[0]:
                    break
            if not taken_s:
                break
            before, ran, last_s = kernel, True, taken_s
        return ran

    def _run(self, kernel: BenchmarkKernel, mode: Mode) -> KernelRun | None:
        """Measure one kernel in one mode; a failure becomes a note."""
        try:
            row = self.measure(resolve_kernel(kernel.reference), mode)
        except InputError as error:
            self._leave_out(kernel, mode, error.message)
            return None
        if row.status != "ok" or row.minibatch_s is None:
            self._leave_out(kernel, mode, f"{row.status}: {row.reason}" if row.reason else row.status)
            return None
        run = KernelRun(
            kernel=kernel.label, size=kernel.rows, precision=kernel.precision, mode=mode, flops=float(kernel.flops),
            bytes_moved=float(kernel.bytes_moved), seconds=row.minibatch_s / kernel.repeats, power_w=row.power_w,
        )  # fmt: skip
        self.runs.append(run)
        return run

    def _leave_out(self, kernel: BenchmarkKernel, mode: Mode, reason: str) -> None:
        self.notes.append(DataWarning("kernel-failed", f"{kernel.reference} [{mode}] is left out: {reason}"))


def _work(kernel: BenchmarkKernel) -> int:
    """Return the work by which sizes of a kernel are compared: operations of products, bytes of other kernels."""
    return kernel.flops if kernel.inner else kernel.bytes_moved
