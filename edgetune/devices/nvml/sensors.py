"""Temperature, throttling, telemetry and power of a GPU, through NVML.

Power is computed from differences of the energy counter, else from power readings:

    energy  mJ since the driver was loaded, Volta and newer (nvmlDeviceGetTotalEnergyConsumption)
    instant mW now (field NVML_FI_DEV_POWER_INSTANT)
    power   mW, on Ampere and newer except GA100 the mean of the last second (nvmlDeviceGetPowerUsage)

All three cover "this GPU and its associated circuitry (e.g. memory)", NVML API reference: the board, not the host. None
has a documented refresh interval (pull request 18 of gpuopenanalytics/pynvml saw 10 ms; "Part-time Power
Measurements", arXiv 2312.02741, longer ones, and that A100 and H100 sample a quarter of the time), so the interval is
measured when the sensor is opened. On an H100 the counter was renewed every 100 ms.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median

from edgetune.devices.capabilities import Absent, Clock, PowerReading
from edgetune.devices.nvml import gpu as nvml
from edgetune.devices.nvml.gpu import MEMORY_TEMPERATURE, POWER_INSTANT, Gpu, GpuLostError, NotSupportedError
from edgetune.devices.telemetry import PolledRecording, polled
from edgetune.errors import DeviceError

_GPU_TEMPERATURE = 0  # nvmlTemperatureSensors_t
_THERMAL_POLICY = 1  # nvmlPerfPolicyType_t

HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
THROTTLING = HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | HW_POWER_BRAKE
"""Reasons of ``nvmlClocksEventReasons`` that invalidate a measurement: heat, and a failing power supply.

The others are settings or idleness: idle (0x1), applications clocks (0x2), the software power cap (0x4: the
power limit is a knob here), sync boost (0x10), display clocks (0x100). Hardware slowdown may also show for a moment
while the clock changes (NVML API reference); the point is then repeated needlessly.
"""
_REASON_NAMES = {
    HW_SLOWDOWN: "hardware slowdown",
    SW_THERMAL: "heat (software)",
    HW_THERMAL: "heat (hardware)",
    HW_POWER_BRAKE: "power brake",
}


class GpuThermometer:
    """The GPU and, where it has a sensor, its memory."""

    def __init__(self, readers: list[Callable[[], float]]) -> None:
        self._readers = readers

    def read_c(self) -> float | None:
        """Return the hotter of the two, degrees Celsius; ``None`` when neither answers now.

        Raises:
            GpuLostError: the GPU is lost.
        """
        return max((value for read in self._readers if (value := _now(read)) is not None), default=None)


class GpuThrottling:
    """Number of times that throttling was observed since the counter was opened.

    NVML shows the active reasons and, on newer drivers, the accumulated time of some; neither is a count. Each ``note``
    that finds an active reason, or a time that has grown since the last, counts as one. Every power reading calls
    ``note``.

    Args:
        reasons: Returns the active reasons, a bit mask; ``None`` where the driver does not show them.
        held_ns: Return the accumulated times of throttling, ns.
    """

    def __init__(self, reasons: Callable[[], float] | None, held_ns: list[Callable[[], float]]) -> None:
        self._reasons = reasons
        self._held_ns = held_ns
        self._lock = threading.Lock()  # another thread takes power readings
        self._seen = 0
        self._before_ns = [_now(read) for read in held_ns]

    def note(self) -> None:
        """Count one if the GPU throttles now, or has throttled since the last call."""
        with self._lock:
            mask = None if self._reasons is None else _now(self._reasons)
            now_ns = [_now(read) for read in self._held_ns]
            pairs = zip(now_ns, self._before_ns, strict=True)
            grown = any(now is not None and before is not None and now > before for now, before in pairs)
            self._before_ns = now_ns
            self._seen += bool(grown or (mask is not None and int(mask) & THROTTLING))

    def read(self) -> int:
        """Return the number of observations so far."""
        self.note()
        return self._seen


class GpuTelemetry:
    """Clocks, power, temperatures and load, for live display."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def read(self) -> Mapping[str, Mapping[str, float | str | None]]:
        """Return every reading by group and name; ``None`` for one that fails."""
        gpu = self._gpu
        load, memory = gpu.maybe("nvmlDeviceGetUtilizationRates"), gpu.maybe("nvmlDeviceGetMemoryInfo")
        mask = _now(lambda: _reasons(gpu))
        active = [name for bit, name in _REASON_NAMES.items() if mask is not None and int(mask) & bit]
        power_mw = {
            "board": gpu.maybe("nvmlDeviceGetPowerUsage"),
            "board now": _now(lambda: gpu.field(POWER_INSTANT)),
            "limit": gpu.maybe("nvmlDeviceGetPowerManagementLimit"),
        }
        return {
            "clocks_mhz": {
                "graphics": gpu.maybe("nvmlDeviceGetClockInfo", nvml.GRAPHICS_CLOCK),
                "memory": gpu.maybe("nvmlDeviceGetClockInfo", nvml.MEMORY_CLOCK),
            },
            "power_w": {name: None if mw is None else mw / 1e3 for name, mw in power_mw.items()},
            "temperature_c": {"gpu": _now(lambda: _core_c(gpu)), "memory": _now(lambda: gpu.field(MEMORY_TEMPERATURE))},
            "load_percent": {"gpu": getattr(load, "gpu", None), "memory bus": getattr(load, "memory", None)},
            "memory_bytes": {"used": getattr(memory, "used", None), "total": getattr(memory, "total", None)},
            **({} if mask is None else {"throttling_now": {"devices": ", ".join(active) or "none"}}),
        }


def open_thermometer(gpu: Gpu) -> GpuThermometer | Absent:
    """Return the thermometer of the sensors that answer, or the reason why there is none."""
    sensors: tuple[Callable[[], float], ...] = (lambda: _core_c(gpu), lambda: gpu.field(MEMORY_TEMPERATURE))
    readers = [read for read in sensors if _now(read) is not None]
    if not readers:
        why = _said(sensors[0]) or " (virtual GPUs have none)"
        return Absent(f"the driver reports no temperature of this GPU{why}")
    return GpuThermometer(readers)


def open_throttling(gpu: Gpu) -> GpuThrottling | Absent:
    """Return the throttle counter, or the reason why there is none."""

    def thermal_ns() -> float:
        return float(gpu.ask("nvmlDeviceGetViolationStatus", _THERMAL_POLICY).violationTime)

    fields = (nvml.SW_THERMAL_SLOWDOWN_NS, nvml.HW_THERMAL_SLOWDOWN_NS, nvml.HW_POWER_BRAKE_NS)
    times: list[Callable[[], float]] = [lambda field=field: gpu.field(field) for field in fields]  # type: ignore[misc]
    held_ns = [read for read in (*times, thermal_ns) if _now(read) is not None]
    shown = _now(lambda: _reasons(gpu)) is not None
    if not shown and not held_ns:
        return Absent("the driver does not tell why the clocks of this GPU are low (virtual GPUs and older cards)")
    return GpuThrottling((lambda: _reasons(gpu)) if shown else None, held_ns)


def _said(read: Callable[[], float]) -> str:
    """Return the driver's own words for a reading that it has but does not give now, else nothing."""
    try:
        read()
    except NotSupportedError:
        return ""
    except DeviceError as error:
        return f" ({error.message})"
    return ""


def _reasons(gpu: Gpu) -> float:
    names = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
    return float(gpu.ask_either(*names))


def _core_c(gpu: Gpu) -> float:
    return float(gpu.ask_either("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", _GPU_TEMPERATURE))


def _now(read: Callable[[], float]) -> float | None:
    try:
        return read()
    except GpuLostError:
        raise
    except DeviceError:
        return None


_USUAL_REFRESH_S = 0.1
"""Refresh interval assumed where a constant value hides it, s."""

_SHORTEST_READING_S = 0.05
"""Shortest interval of a reading, s, also for faster counters: a renewal is timed to a tenth of it."""

_POLLS_PER_READING = 10
_WATCHED_CHANGES = 4
_LONGEST_WATCH_S = 1.0
_AVERAGED_S = 1.0
_NEARLY = 0.75
"""Fraction of a refresh interval after which a reading is due, so that an early poll does not skip one."""

_UNCHANGED = 1.1
"""Refresh intervals after which an unchanged value counts as renewed: one interval and one poll."""


class EnergyMeter:
    """Converts an energy counter into mean power since the last reading.

    It begins when the counter first changes: until then the age of its value is unknown.

    Args:
        read_mj: Returns the counter, mJ.
        clock: Clock of the time stamps.
        refresh_s: The length of a reading, s.
    """

    def __init__(self, read_mj: Callable[[], float], clock: Clock, refresh_s: float) -> None:
        self._read_mj = read_mj
        self._clock = clock
        self._least_ns = round(_NEARLY * refresh_s * 1e9)
        self._last_mj = read_mj()
        self._from: tuple[int, float] | None = None

    def read(self) -> PowerReading | None:
        """Return the mean power since the last reading; ``None`` while the counter has not changed."""
        now_mj, now_ns = self._read_mj(), self._clock.now_ns()
        if now_mj == self._last_mj:
            return None
        backwards, self._last_mj = now_mj < self._last_mj, now_mj
        if self._from is None or backwards:  # a reload of the driver resets the counter
            self._from = (now_ns, now_mj)
            return None
        from_ns, from_mj = self._from
        if now_ns - from_ns < self._least_ns:
            return None
        self._from = (now_ns, now_mj)
        return PowerReading(now_ns, (now_mj - from_mj) * 1e6 / (now_ns - from_ns))  # 1 mJ/ns = 1e6 W


class GaugeMeter:
    """Returns a reading when the power value changes, and once per interval while it stays the same.

    Args:
        read_mw: Returns the power value, mW.
        clock: Clock of the time stamps.
        refresh_s: Refresh interval of the value, s.
    """

    def __init__(self, read_mw: Callable[[], float], clock: Clock, refresh_s: float) -> None:
        self._read_mw = read_mw
        self._clock = clock
        self._longest_ns = round(_UNCHANGED * refresh_s * 1e9)
        self._last: tuple[int, float] = (clock.now_ns(), read_mw())

    def read(self) -> PowerReading | None:
        """Return the power; ``None`` while there is no new value."""
        now_mw, now_ns = self._read_mw(), self._clock.now_ns()
        last_ns, last_mw = self._last
        if now_mw == last_mw and now_ns - last_ns < self._longest_ns:
            return None
        self._last = (now_ns, now_mw)
        return PowerReading(now_ns, now_mw / 1e3)


ALL_INSTANCES = "all MIG instances together"


@dataclass(slots=True)
class NvmlPower:
    """Power sensor of one GPU board.

    Args:
        source: NVML quantity, e.g. ``nvml:energy``.
        meter: Makes the meter that turns values into readings.
        refresh_s: Interval between readings, s.
        settle_s: Time until a reading no longer includes the time before the work, s.
        watch: Called at each reading, because throttling is visible only while it lasts.
    """

    source: str
    meter: Callable[[], EnergyMeter | GaugeMeter]
    refresh_s: float
    settle_s: float
    watch: Callable[[], None]

    def record(self) -> AbstractContextManager[PolledRecording]:
        """Record readings while the context is open."""
        meter = self.meter()

        def read() -> PowerReading | None:
            try:
                reading = meter.read()
                if reading is not None:
                    self.watch()
                return reading
            except DeviceError as error:  # a lost GPU ends the recording, not the polling thread
                raise OSError(error.message) from None

        return polled(read, self.refresh_s / _POLLS_PER_READING)


def open_power(gpu: Gpu, clock: Clock, watch: Callable[[], None] = lambda: None) -> NvmlPower | Absent:
    """Return the best power sensor that answers, or the reason why there is none.

    Args:
        gpu: The GPU.
        clock: Clock of the time stamps.
        watch: Called at each reading.
    """

    def energy_mj() -> float:
        return float(gpu.ask("nvmlDeviceGetTotalEnergyConsumption"))

    shared = f" of {ALL_INSTANCES}" if gpu.mig else ""
    refresh_s = _watched_refresh_s(energy_mj, clock) if _now(energy_mj) is not None else None
    if refresh_s is not None:
        length_s = max(refresh_s, _SHORTEST_READING_S)
        meter = partial(EnergyMeter, energy_mj, clock, length_s)  # an integral lags only by its refresh interval
        return NvmlPower(f"nvml:energy{shared}", meter, refresh_s=length_s, settle_s=length_s, watch=watch)
    for source, read_mw, settle_s in (
        ("nvml:power-instant", lambda: gpu.field(POWER_INSTANT), _USUAL_REFRESH_S),
        ("nvml:power", lambda: float(gpu.ask("nvmlDeviceGetPowerUsage")), _AVERAGED_S),
    ):
        if _now(read_mw) is not None:
            length_s = max(_watched_refresh_s(read_mw, clock) or _USUAL_REFRESH_S, _SHORTEST_READING_S)
            gauge = partial(GaugeMeter, read_mw, clock, length_s)
            return NvmlPower(f"{source}{shared}", gauge, refresh_s=length_s, settle_s=settle_s, watch=watch)
    why = _said(energy_mj) or " (virtual GPUs and some laptops have none)"
    return Absent(f"the driver reports neither energy nor power of this GPU{why}")


def _watched_refresh_s(read: Callable[[], float], clock: Clock) -> float | None:
    """Measure the refresh interval of a value, s; return ``None`` when the value does not change in time."""
    start_ns, before = clock.now_ns(), read()
    changes_ns: list[int] = []
    while len(changes_ns) < _WATCHED_CHANGES and clock.now_ns() - start_ns < _LONGEST_WATCH_S * 1e9:
        clock.sleep_s(0.001)
        now = read()
        if now != before:
            changes_ns.append(clock.now_ns())
            before = now
    if len(changes_ns) < 2:
        return None
    return median(later - earlier for earlier, later in pairwise(changes_ns)) / 1e9
