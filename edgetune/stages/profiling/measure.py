r"""Measurement of one point: set the mode, load the workload, sample it, and watch power and throttling throughout.

    sensor      |------------------------------- recording --------------------------------|
    minibatches    # # # # # # # # # # # # # # # # # # # # # # # # # # # # # # # # # # # #
                   |warm-up|............. steady: median and interval ..................|
                   |--- settling ---|-- transient --|.. power, whole refresh intervals .|

The same code measures a board and a twin: it reads the device's clock, and a twin's is virtual.

The memory of a point while it is measured: its processes', the machine's, and whether the machine swapped.

    resident      ____/~~~~\________/~~~~~~\____      its highest level: memory_peak_bytes
    available     ~~~~\____/~~~~~~~~\______/~~~~      its lowest level:  memory_available_min_bytes

On a board, CPU and GPU share one memory. A point that pages back from swap measures storage: it is marked.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgetune.artifacts.header import utc_now
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow, Status
from edgetune.devices.capabilities import Absent, PowerReading, PowerRecording
from edgetune.devices.cpu import MachineMemory
from edgetune.devices.device import Device, HasProcesses, Runner
from edgetune.errors import DeviceError, EdgetuneError, NotRestoredError
from edgetune.processes.families import held_bytes, major_faults, swap_bytes
from edgetune.stages.profiling.disturbances import (
    ContentionWatch,
    DeviceWatch,
    ThrottleWatch,
    cool_down,
    describe_contention,
    mode_difference,
)
from edgetune.stages.profiling.energy import power_figures, power_trace, settling_s
from edgetune.stages.profiling.options import OnState, ProfileOptions, SamplingReport
from edgetune.stages.profiling.sampling import Samples, collect
from edgetune.stages.profiling.soak import SoakWatch, after_idling, settled_from
from edgetune.stats import find_warmup, summarise

_POLL_INTERVAL_S = 0.2
"""A reading costs about 0.1 ms, and of several processes about a millisecond for each GB that they hold."""


class MemoryWatch:
    """A context in which a runner's memory is watched from a thread.

    Args:
        device: Simulated ones have no memory to watch.
        runner: One with processes is watched, and the machine with it.
    """

    def __init__(self, device: Device, runner: Runner) -> None:
        self._memory = device.memory
        self._runner = runner if isinstance(runner, HasProcesses) else None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._peak_bytes: int | None = None
        self._available_bytes: int | None = None
        self._swapped_in_bytes: int | None = None
        self._faults: dict[int, tuple[int, int]] = {}
        self._own_swap = False

    def __enter__(self) -> MemoryWatch:
        if self._memory is not None and self._runner is not None:
            self._swapped_in_bytes = self._memory.swapped_in_bytes()
            self._thread = threading.Thread(target=self._watch, args=(self._memory, self._runner), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None and self._memory is not None:
            self._ended.set()
            self._thread.join()
            now, before = self._memory.swapped_in_bytes(), self._swapped_in_bytes
            self._swapped_in_bytes = None if now is None or before is None else now - before

    def columns(self, own_peak_bytes: int | None = None) -> dict[str, Any]:
        """Return the columns of the row, after the end.

        Args:
            own_peak_bytes: The peak of a process that ended in between, by its own account.
        """
        if self._thread is None:
            return {}
        peaks = [peak for peak in (self._peak_bytes, own_peak_bytes) if peak is not None]
        return {
            "memory_peak_bytes": max(peaks, default=None),
            "memory_available_min_bytes": self._available_bytes,
            "swap_in_bytes": self._swapped_in_bytes,
        }

    def swapped(self) -> bool:
        """Return whether the machine read from swap while the workload waited for pages, some of which were there.

        A workload without memory in swap waits for pages of files.
        """
        waited = any(last > first for first, last in self._faults.values())
        return bool(self._swapped_in_bytes) and waited and self._own_swap

    def _watch(self, memory: MachineMemory, runner: HasProcesses) -> None:
        ended = False
        while not ended:
            self._read(memory, runner.processes())
            ended = self._ended.wait(_POLL_INTERVAL_S)
        self._read(memory, runner.processes())

    def _read(self, memory: MachineMemory, processes: Sequence[int]) -> None:
        now = {pid: major_faults(pid) for pid in processes}
        pids = [pid for pid in now if pid in self._faults]  # one just forked is still a copy of its parent
        for pid, faults in now.items():
            first, _ = self._faults.get(pid, (faults, faults))
            self._faults[pid] = (first, faults)
        self._own_swap = self._own_swap or any(map(swap_bytes, processes))
        self._peak_bytes = max(held_bytes(pids) or 0, self._peak_bytes or 0) or None
        available = memory.available_bytes()
        if available is not None:
            self._available_bytes = min(available, self._available_bytes or available)


Opener = Callable[[Point], Runner]
"""Loads the workload for a point on the device."""

Stage = Literal["mode", "load", "run"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a point.

    Args:
        row: The result.
        overhead: Fraction of the sampled time spent outside the workload; ``None`` when it failed.
        target_reached: Whether the confidence interval asked for was reached.
        error: What failed, when it failed.
        failed_at: Whether setting the mode, loading the workload or running it failed.
        cooled: Whether the device was as cool as asked for before it.
        over_current: Whether serious over-current events were counted.
    """

    row: ProfileRow
    overhead: float | None = None
    target_reached: bool = True
    error: EdgetuneError | None = None
    failed_at: Stage | None = None
    cooled: bool = True
    over_current: bool = False


def measure_point(
    device: Device, open_runner: Opener, point: Point, options: ProfileOptions, on_state: OnState | None = None, *,
    sampling: bool = True,
) -> list[Attempt]:  # fmt: skip
    """Measure a point, repeatedly while it throttles, drifts or swaps, and return every attempt; the last one counts.

    After over-current events, which the mode causes, it is measured again once at most.

    Args:
        device: Where to measure.
        open_runner: Loads the workload.
        point: What to measure.
        options: How to measure.
        on_state: Called with what is done now, some times a second at most.
        sampling: Whether it is called with the running figures, too.

    Raises:
        NotRestoredError: the device could not be restored; any other error is a failed row.
    """
    attempts: list[Attempt] = []
    report = None if on_state is None or not sampling else SamplingReport(on_state, point, options)
    for _ in range(1 if options.soak_s is not None else options.retries + 1):
        begun_ns = device.clock.now_ns()
        cooled = cool_down(device, options, on_state)
        if on_state is not None:
            on_state(f"loading {point}")
        attempts.append(replace(_attempt(device, open_runner, point, options, begun_ns, report=report), cooled=cooled))
        disturbed = attempts[-1].row.status in ("throttled", "drifted", "swapped")
        if not disturbed or sum(attempt.over_current for attempt in attempts) > 1:
            break
    return attempts


def _attempt(
    device: Device, open_runner: Opener, point: Point, options: ProfileOptions, begun_ns: int,
    *, report: SamplingReport | None,
) -> Attempt:  # fmt: skip
    """Measure a point once; ``begun_ns`` is the start of its duration."""
    started = utc_now()
    stage: Stage = "mode"
    others = ContentionWatch(device, point.mode)
    try:
        mode = apply_mode(device, point.mode)
        stage = "load"
        runner = open_runner(point)
        stage = "run"
        others.begin()
        with contextlib.closing(runner):
            throttling = ThrottleWatch(device)
            watch = DeviceWatch(device, point.mode) if options.soak_s is None else SoakWatch(device, point.mode)
            with _recording(device) as recording, MemoryWatch(device, runner) as memory:
                samples = collect(device, runner, options, recording, watch, others=others, report=report)
            quota_share = others.throttled_share()
            throttled, slight, others_share = throttling.throttled(), throttling.slight(), others.share()
            over_current = throttling.over_current()
            watch.poll_now()
            columns = {} if watch.drift else after_idling(device, runner, options)
        status, reason = _verdict(throttled, watch.drift, swapped=memory.swapped())
    except NotRestoredError:
        raise
    except EdgetuneError as error:
        row = _blank_row(device, point, point.mode, started, begun_ns)
        row = replace(row, status="failed", reason=error.message)
        return Attempt(row, target_reached=False, error=error, failed_at=stage)
    columns |= samples.columns
    told = columns.pop("reason", None)
    columns |= memory.columns(columns.get("memory_peak_bytes"))
    if isinstance(watch, SoakWatch):
        columns |= watch.columns(samples.start_ns[0])
    row = replace(
        _blank_row(device, point, mode, started, begun_ns), status=status, reason=reason, throttled=throttled,
        temp_start_c=watch.temp_start_c, temp_max_c=watch.temp_max_c, others_cpu_share=others_share,
        cpu_throttled_share=quota_share, **columns,
    )  # fmt: skip
    attempt = _summarised(device, row, samples, recording.readings, options)
    notes = (
        attempt.row.reason, over_current, recording.failure, slight, describe_contention(others_share, quota_share),
        told,
    )  # fmt: skip
    row = replace(attempt.row, reason="; ".join(filter(None, notes)) or None)
    return replace(attempt, row=row, over_current=over_current is not None)


def apply_mode(device: Device, mode: Mode) -> Mode:
    """Set the device's mode and return it as read back; without mode control, only the mode as found is possible.

    Raises:
        DeviceError: the device cannot set modes, refused this one, or reads back otherwise.
    """
    if isinstance(device.modes, Absent):
        if mode.settings():
            raise DeviceError(f"{device.name} cannot set {mode}: {device.modes.reason}", "leave its mode as it is")
        return mode
    applied = device.modes.apply(mode)
    if difference := mode_difference(mode, applied):
        raise DeviceError(f"{device.name} did not take the mode: {difference}", "edgetune device lists what it can set")
    return applied


@contextlib.contextmanager
def clocks_as_found(device: Device, mode: Mode) -> Iterator[None]:
    """Set the clocks found, to load a network, then ``mode`` again: at its lowest clocks loading PyTorch takes minutes.

    The cores are those of the mode: a library starts as many threads as there are cores while it is loaded. If loading
    fails, the clocks stay as found.

    Raises:
        DeviceError: see ``apply_mode``.
    """
    cores_alone = Mode(cpu_cores=mode.cpu_cores)
    if mode != cores_alone:
        apply_mode(device, cores_alone)
    yield
    if mode != cores_alone:
        apply_mode(device, mode)


def _verdict(throttled: bool | None, drift: str, *, swapped: bool) -> tuple[Status, str | None]:
    """Return the status of the samples as a measurement of the requested mode, and the reason if they are none."""
    if throttled:
        return "throttled", "the device throttled while it was measured"
    if drift:
        return "drifted", f"the mode changed while it was measured: {drift}"
    if swapped:
        return "swapped", "the machine read memory back from swap while it was measured"
    return "ok", None


class _NoReadings:
    """The recording of a device without a power sensor."""

    readings: Sequence[PowerReading] = ()
    failure: None = None


@contextlib.contextmanager
def _recording(device: Device) -> Iterator[PowerRecording]:
    if isinstance(device.power, Absent):
        yield _NoReadings()
        return
    with device.power.record() as recording:
        yield recording


def _blank_row(device: Device, point: Point, mode: Mode, started: str, begun_ns: int) -> ProfileRow:
    """Return the row of a point without figures; knobs that were not requested are as read back."""
    knobs: dict[str, Any] = {**mode.settings(), **point.mode.settings()}
    return ProfileRow(
        workload=point.workload, task=point.task, batch_size=point.batch_size, minibatch_s=None, device=device.name,
        started=started, duration_s=(device.clock.now_ns() - begun_ns) / 1e9, **knobs,
    )  # fmt: skip


def _summarised(
    device: Device, row: ProfileRow, samples: Samples, readings: Sequence[PowerReading], options: ProfileOptions
) -> Attempt:
    """Fill in a row's times, power and energy."""
    times_s = samples.times_s
    settled = find_warmup(times_s).length
    if options.soak_s is not None:
        level = settled_from(times_s)
        settled = len(times_s) * 3 // 4 if level is None else level
    warmups = settled if options.minibatches is None else max(0, len(times_s) - options.minibatches)
    summary = summarise(times_s[warmups:], mean=row.is_mean)
    row = replace(
        row, minibatch_s=summary.median, minibatch_p95_s=summary.p95, minibatch_ci95_low_s=summary.low,
        minibatch_ci95_high_s=summary.high, minibatches=summary.count, warmups=warmups, times_s=tuple(times_s),
    )  # fmt: skip
    row = _powered(device, row, samples, readings, settled)
    return Attempt(row, samples.overhead, target_reached=options.rule.reached(summary))


def _powered(
    device: Device, row: ProfileRow, samples: Samples, readings: Sequence[PowerReading], settled: int
) -> ProfileRow:
    """Fill in power, and energy per minibatch: the mean power times the time from one minibatch to the next."""
    if isinstance(device.power, Absent):
        return replace(row, reason=row.reason or f"no power: {device.power.reason}")
    origin_ns, end_ns = samples.start_ns[0], samples.end_ns[-1]
    start_ns = samples.power_window_start_ns(settled, settling_s(device.power))
    figures = power_figures(readings, start_ns=start_ns, end_ns=end_ns, refresh_s=device.power.refresh_s)
    inside = [start for start in samples.start_ns if start >= start_ns]
    energy_j = None
    if figures.power_w is not None and inside:
        energy_j = figures.power_w * (end_ns - inside[0]) / 1e9 / len(inside)
    return replace(
        row, power_w=figures.power_w, power_peak_w=figures.peak_w, energy_j=energy_j, power_samples=figures.samples,
        power_source=device.power.source, power_trace=power_trace(readings, origin_ns),
        power_from_s=None if figures.from_ns is None else (figures.from_ns - origin_ns) / 1e9,
        reason=row.reason or figures.reason,
    )  # fmt: skip
