"""Temperature and thermal throttling as Linux shows them: hwmon, thermal zones, and the x86 throttle counters."""

from __future__ import annotations

from edgetune.devices.device import Absent
from edgetune.devices.sysfs import Sysfs

_CPU_SENSORS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal"})
_TEMPERATURES = ("sys/class/hwmon/hwmon*/temp*_input", "sys/class/thermal/thermal_zone*/temp")
_THROTTLE = "sys/devices/system/cpu/cpu*/thermal_throttle"


class HottestZone:
    """The hottest of some sensors, each in thousandths of a degree Celsius."""

    def __init__(self, sysfs: Sysfs, paths: list[str]) -> None:
        self._sysfs = sysfs
        self._paths = paths

    def read_c(self) -> float | None:
        """Return the highest temperature, or ``None`` when no zone answers now."""
        values = (self._sysfs.read_int(path) for path in self._paths)
        return max((value / 1000 for value in values if value is not None), default=None)


class ThrottleEvents:
    """Core and package throttling events since boot (kernel, Documentation/ABI/testing/sysfs-devices-system-cpu)."""

    def __init__(self, sysfs: Sysfs, paths: list[str]) -> None:
        self._sysfs = sysfs
        self._paths = paths

    def read(self) -> int:
        """Return the sum over all cores."""
        return sum(self._sysfs.read_int(path) or 0 for path in self._paths)


def open_thermometer(sysfs: Sysfs) -> HottestZone | Absent:
    """Return the CPU's sensors, else every sensor that answers, else why there is none."""
    paths = [path for pattern in _TEMPERATURES for path in sysfs.glob(pattern) if sysfs.read_int(path) is not None]
    of_cpu = [path for path in paths if _name(sysfs, path) in _CPU_SENSORS]
    if not paths:
        return Absent("this kernel shows no temperature sensor")
    return HottestZone(sysfs, of_cpu or paths)


def _name(sysfs: Sysfs, path: str) -> str:
    try:
        return sysfs.read(path.rpartition("/")[0] + "/name")
    except OSError:
        return ""


def open_throttle_events(sysfs: Sysfs) -> ThrottleEvents | Absent:
    """Return the throttle counters, or why there are none."""
    paths = [path for path in sysfs.glob(f"{_THROTTLE}/*_throttle_count") if sysfs.read_int(path) is not None]
    if not paths:
        return Absent("this CPU shows no throttle counters")
    return ThrottleEvents(sysfs, paths)
