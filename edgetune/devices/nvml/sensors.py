"""Temperature, throttling and telemetry of a GPU, as NVML shows them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from edgetune.devices.device import Absent
from edgetune.devices.nvml.binding import GpuLostError
from edgetune.devices.nvml.gpu import (
    HW_POWER_BRAKE_NS,
    HW_THERMAL_SLOWDOWN_NS,
    MEMORY_TEMPERATURE,
    POWER_INSTANT,
    SW_THERMAL_SLOWDOWN_NS,
    Gpu,
)
from edgetune.errors import DeviceError

GRAPHICS_CLOCK, MEMORY_CLOCK = 0, 2
"""``nvmlClockType_t``."""

_GPU_TEMPERATURE = 0  # nvmlTemperatureSensors_t
_THERMAL_POLICY = 1  # nvmlPerfPolicyType_t

HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
THROTTLING = HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | HW_POWER_BRAKE
"""Reasons of ``nvmlClocksEventReasons`` that spoil a measurement: heat, and a power supply that gives way.

The others are a setting at work or no work: idle (0x1), applications clocks (0x2), the software power cap (0x4: the
power limit is a knob here), sync boost (0x10), display clocks (0x100). Hardware slowdown may also show for a moment
while the clock changes (NVML API reference); the point is then measured once more for nothing.
"""


class GpuThermometer:
    """The GPU and, where it has a sensor, its memory."""

    def __init__(self, readers: list[Callable[[], float]]) -> None:
        self._readers = readers

    def read_c(self) -> float | None:
        """Return the hotter of the two, degrees Celsius; ``None`` when neither answers now.

        Raises:
            GpuLostError: the GPU is gone.
        """
        return max((value for read in self._readers if (value := _now(read)) is not None), default=None)


class GpuThrottling:
    """Times that throttling was seen since this was opened.

    NVML shows which reasons hold now and, on newer drivers, for how long some have held; neither is a count. So each
    look at which a reason holds, or since the last of which such a time has grown, counts as one. ``note`` looks, and
    is called at every power reading.

    Args:
        reasons: Returns the reasons that hold now, a bit mask; ``None`` where the driver does not show them.
        held_ns: Times for which throttling has held so far, ns.
    """

    def __init__(self, reasons: Callable[[], float] | None, held_ns: list[Callable[[], float]]) -> None:
        self._reasons = reasons
        self._held_ns = held_ns
        self._lock = threading.Lock()  # power readings are taken by another thread
        self._seen = 0
        self._before_ns = [_now(read) for read in held_ns]

    def note(self) -> None:
        """Look whether it throttles, or has since the last look."""
        with self._lock:
            mask = None if self._reasons is None else _now(self._reasons)
            now_ns = [_now(read) for read in self._held_ns]
            pairs = zip(now_ns, self._before_ns, strict=True)
            grown = any(now is not None and before is not None and now > before for now, before in pairs)
            self._before_ns = now_ns
            self._seen += bool(grown or (mask is not None and int(mask) & THROTTLING))

    def read(self) -> int:
        """Return how often it was seen so far."""
        self.note()
        return self._seen


class GpuTelemetry:
    """Clocks, power, temperatures and load, for people who watch."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def read(self) -> Mapping[str, Mapping[str, float | str | None]]:
        """Return what answers now; ``None`` for what does not."""
        gpu = self._gpu
        load = gpu.maybe("nvmlDeviceGetUtilizationRates")
        memory = gpu.maybe("nvmlDeviceGetMemoryInfo")
        power_mw, limit_mw = gpu.maybe("nvmlDeviceGetPowerUsage"), gpu.maybe("nvmlDeviceGetPowerManagementLimit")
        return {
            "clocks_mhz": {
                "graphics": gpu.maybe("nvmlDeviceGetClockInfo", GRAPHICS_CLOCK),
                "memory": gpu.maybe("nvmlDeviceGetClockInfo", MEMORY_CLOCK),
            },
            "power_w": {
                "board": None if power_mw is None else power_mw / 1e3,
                "board now": _scaled(_now(lambda: gpu.field(POWER_INSTANT)), 1e-3),
                "limit": None if limit_mw is None else limit_mw / 1e3,
            },
            "temperature_c": {
                "gpu": _now(lambda: _core_c(gpu)),
                "memory": _now(lambda: gpu.field(MEMORY_TEMPERATURE)),
            },
            "load_percent": {
                "gpu": None if load is None else load.gpu,
                "memory bus": None if load is None else load.memory,
            },
            "memory_bytes": {"used": None if memory is None else memory.used},
        }


def open_thermometer(gpu: Gpu) -> GpuThermometer | Absent:
    """Return the sensors that answer, or why there is none."""

    sensors: tuple[Callable[[], float], ...] = (lambda: _core_c(gpu), lambda: gpu.field(MEMORY_TEMPERATURE))
    readers = [read for read in sensors if _now(read) is not None]
    if not readers:
        return Absent("the driver reports no temperature of this GPU (virtual GPUs have none)")
    return GpuThermometer(readers)


def open_throttling(gpu: Gpu) -> GpuThrottling | Absent:
    """Return what tells throttling, or why nothing does."""

    def reasons() -> float:
        names = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
        return float(gpu.ask_either(*names))

    def thermal_ns() -> float:
        return float(gpu.ask("nvmlDeviceGetViolationStatus", _THERMAL_POLICY).violationTime)

    fields = (SW_THERMAL_SLOWDOWN_NS, HW_THERMAL_SLOWDOWN_NS, HW_POWER_BRAKE_NS)
    times: list[Callable[[], float]] = [lambda field=field: gpu.field(field) for field in fields]  # type: ignore[misc]
    held_ns = [read for read in (*times, thermal_ns) if _now(read) is not None]
    shown = _now(reasons) is not None
    if not shown and not held_ns:
        return Absent("the driver does not tell why the clocks of this GPU are low (virtual GPUs and older cards)")
    return GpuThrottling(reasons if shown else None, held_ns)


def _core_c(gpu: Gpu) -> float:
    return float(gpu.ask_either("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", _GPU_TEMPERATURE))


def _now(read: Callable[[], float]) -> float | None:
    try:
        return read()
    except GpuLostError:
        raise
    except DeviceError:
        return None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
