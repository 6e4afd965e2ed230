"""Poll a power sensor in a thread, and read all present values of a device.

The machine around a device, for live display: load of each CPU (the share of its ticks of proc/stat
since the last reading that were not idle, see ``cpu``), memory and swap. A container sees the CPUs of its host.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from edgetune.devices.capabilities import Absent, ModeControl, ModeReader, PowerReading
from edgetune.devices.cpu import CpuTimes, MachineMemory, read_cpu_times
from edgetune.devices.device import Device
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError

Read = Callable[[], PowerReading | None]
"""Returns a reading, or ``None`` when the sensor has no new value."""


class SensorStoppedError(Exception):
    """The sensor gives no more reliable readings.

    Args:
        message: The reason.
        since_ns: Time of its last new value on the device's clock; later readings are dropped.
    """

    def __init__(self, message: str, *, since_ns: int | None = None) -> None:
        super().__init__(message)
        self.since_ns = since_ns


class PolledRecording:
    """Readings taken so far; ``failure`` is the reason why the recording ended early."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._readings: list[PowerReading] = []
        self.failure: str | None = None

    @property
    def readings(self) -> Sequence[PowerReading]:
        """Fresh readings, oldest first."""
        return tuple(self._readings)

    def poll(self) -> None:
        """Read the sensor once and keep a new value; after the first failure do nothing."""
        if self.failure is not None:
            return
        try:
            reading = self._read()
        except SensorStoppedError as stopped:
            self._stop(stopped)
            return
        except (OSError, ValueError) as error:  # a sensor that disappears must not end the measurement
            self.failure = str(error)
            return
        if reading is not None and (not self._readings or reading.time_ns > self._readings[-1].time_ns):
            self._readings.append(reading)

    def _stop(self, stopped: SensorStoppedError) -> None:
        """Record the reason, and drop readings that were repeats of an old value."""
        self.failure = str(stopped)
        if stopped.since_ns is not None:
            self._readings = [reading for reading in self._readings if reading.time_ns <= stopped.since_ns]


@contextmanager
def polled(read: Read, period_s: float) -> Iterator[PolledRecording]:
    """Call ``read`` every ``period_s`` seconds in a thread while the context is open, and once at its end."""
    recording, stop = PolledRecording(read), threading.Event()

    def loop() -> None:
        while not stop.wait(period_s):
            recording.poll()

    thread = threading.Thread(target=loop, name="edgetune-power", daemon=True)
    thread.start()
    try:
        yield recording
    finally:
        stop.set()
        thread.join()
        recording.poll()


Readings = Mapping[str, Mapping[str, float | str | None]]
"""Readings by group and name; a group's name ends in the unit of its numbers."""


def read_telemetry(device: Device) -> Readings:
    """Return the present readings: the device's own, else its mode, hottest zone and throttle counter.

    Power is left out of the latter, because an energy sensor needs an interval.
    """
    if device.telemetry is not None:
        return device.telemetry.read()
    found: dict[str, dict[str, float | str | None]] = {}
    if mode := present_mode(device.modes):
        found["mode"] = mode
    if not isinstance(device.temperature, Absent):
        found["temperature_c"] = {"hottest": device.temperature.read_c()}
    if not isinstance(device.throttle, Absent):
        found["throttling_events"] = {"since boot": device.throttle.read()}
    return found


def present_mode(modes: ModeControl | Absent) -> dict[str, float | str | None]:
    """Return the present knobs, ``None`` for one that is not pinned; empty where they cannot be read."""
    if isinstance(modes, Absent) or not isinstance(modes, ModeReader):
        return {}
    try:
        now = modes.read().knobs()
    except DeviceError:
        return {}
    return {**dict.fromkeys(modes.space.knobs), **now}


_FEWEST_TICKS = 10
"""Shortest interval of a load, ticks of 10 ms: one tick is then a tenth of it. A shorter one repeats the last load."""


class Machine:
    """Reads the machine whose ``proc`` is in ``sysfs``; a fake board has none, and then there is nothing to read."""

    def __init__(self, sysfs: Sysfs) -> None:
        self._sysfs = sysfs
        self._memory = MachineMemory(sysfs)
        self._load: dict[str, float | str | None] = {}
        self._before = self._look()

    @property
    def counts(self) -> bool:
        """Whether the kernel counts CPU time here, so that a first load needs an interval."""
        return self._before is not None

    def read(self) -> Readings:
        """Return load and memory by group and name, without what the kernel does not show."""
        self._count()
        used, whole = self._memory.available_bytes(), self._memory.total_bytes()
        memory: dict[str, float | str | None] = {}
        if used is not None and whole is not None:
            memory = {"used": whole - used, "total": whole}
        if swap := self._memory.swap_bytes():
            memory |= {"swap used": swap[0], "swap total": swap[1]}
        found = {"load_percent": self._load, "machine_memory_bytes": memory}
        return {group: dict(values) for group, values in found.items() if values}

    def _look(self) -> CpuTimes | None:
        try:
            return read_cpu_times(self._sysfs)
        except OSError:
            return None

    def _count(self) -> None:
        """Compute the loads since the last time, unless that is too short ago."""
        before, after = self._before, self._look()
        if before is None or after is None:
            return
        spent = {cpu: total - before.total.get(cpu, total) for cpu, total in after.total.items()}
        if max(spent.values(), default=0) < _FEWEST_TICKS:
            return
        self._before = after
        busy = {cpu: after.busy[cpu] - before.busy[cpu] for cpu, ticks in spent.items() if ticks > 0}
        loads = {cpu: round(min(max(100 * ticks / spent[cpu], 0.0), 100.0), 1) for cpu, ticks in busy.items()}
        self._load = {
            "cpu": round(sum(loads.values()) / len(loads), 1),
            **{f"cpu{n}": load for n, load in loads.items()},
        }
