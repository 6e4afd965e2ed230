"""Sensors of a host under Linux: power of the CPU package, temperature, and the x86 throttle counters.

Power comes from RAPL energy counters (Intel since Sandy Bridge, AMD since Zen), by Linux powercap.
``energy_uj`` counts microjoules and wraps around at ``max_energy_range_uj`` (kernel, Documentation/power/powercap).
Since CVE-2020-8694 only root may read it unless the administrator permits it. Temperature
comes from hwmon or thermal zones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from edgetune.devices.capabilities import Absent, Clock, ModeControl, PowerReading
from edgetune.devices.cpu import cpu_clocks_mhz
from edgetune.devices.sysfs import Sysfs, why
from edgetune.devices.telemetry import PolledRecording, Readings, polled, present_mode

_ZONES = "sys/class/powercap/intel-rapl:*"
_MIRRORED_UJ = 1_000_000  # read one after the other: less than a die draws in 10 ms, and no two dies agree so well
_PERIOD_S = 0.05  # the counter updates every millisecond; 50 ms keeps its jitter below 2 %


@dataclass(frozen=True, slots=True)
class Counter:
    """One energy counter.

    Args:
        name: ``package-0``, ``dram``, ...
        path: Its folder, relative to the root.
        range_uj: The value at which it wraps around, microjoules.
    """

    name: str
    path: str
    range_uj: int


class RaplSensor:
    """Power sensor: sum of the energy counters of all packages, and of their memory where it has its own."""

    refresh_s = _PERIOD_S
    settle_s = 0.0  # the counter is an integral: it has no lag

    def __init__(self, sysfs: Sysfs, counters: Sequence[Counter], clock: Clock) -> None:
        self._sysfs = sysfs
        self._counters = tuple(counters)
        self._clock = clock
        self.source = "rapl:" + "+".join(counter.name for counter in self._counters)  # e.g. rapl:package-0+dram

    def record(self) -> AbstractContextManager[PolledRecording]:
        """Record readings while the context is open."""
        return polled(RaplMeter(self._sysfs, self._counters, self._clock).read, self.refresh_s)

    def meters(self) -> dict[str, RaplMeter]:
        """Return a meter of each counter, by its name."""
        return {counter.name: RaplMeter(self._sysfs, [counter], self._clock) for counter in self._counters}


class RaplMeter:
    """Converts counter values into mean power since the last reading."""

    def __init__(self, sysfs: Sysfs, counters: Sequence[Counter], clock: Clock) -> None:
        self._sysfs = sysfs
        self._counters = counters
        self._clock = clock
        self._before_ns, self._before_uj = self._now()

    def _now(self) -> tuple[int, list[int]]:
        values = [int(self._sysfs.read(f"{counter.path}/energy_uj")) for counter in self._counters]
        return self._clock.now_ns(), values

    def read(self) -> PowerReading | None:
        """Return the mean power since the last reading; ``None`` while the counters have not changed."""
        now_ns, now_uj = self._now()
        spent_uj = sum(
            now - before if now >= before else now - before + counter.range_uj
            for now, before, counter in zip(now_uj, self._before_uj, self._counters, strict=True)
        )
        elapsed_ns = now_ns - self._before_ns
        if spent_uj <= 0 or elapsed_ns <= 0:
            return None
        self._before_ns, self._before_uj = now_ns, now_uj
        return PowerReading(now_ns, spent_uj * 1e3 / elapsed_ns)  # 1 uJ/ns = 1000 W


def open_rapl(sysfs: Sysfs, clock: Clock) -> RaplSensor | Absent:
    """Return the power sensor, or the reason why there is none."""
    zones = sysfs.glob(_ZONES)
    if not zones:
        return Absent("this kernel shows no RAPL energy counters (virtual machines and most ARM boards have none)")
    counters: list[Counter] = []
    for zone in zones:
        try:
            name = sysfs.read(f"{zone}/name")
            if not (name.startswith("package") or name == "dram"):
                continue  # core and uncore are parts of the package; psys includes it
            sysfs.read(f"{zone}/energy_uj")
            counters.append(Counter(name, zone, int(sysfs.read(f"{zone}/max_energy_range_uj"))))
        except PermissionError:
            return Absent(f"permission denied for RAPL, to permit: sudo chmod a+r /{zone}/energy_uj (until reboot)")
        except (OSError, ValueError) as error:
            reason = why(error) if isinstance(error, OSError) else str(error)
            return Absent(f"RAPL cannot be read: {zone}: {reason}")
    if not any(counter.name.startswith("package") for counter in counters):
        return Absent("RAPL counts no CPU package here")
    return RaplSensor(sysfs, _unmirrored(sysfs, counters), clock)


def _unmirrored(sysfs: Sysfs, counters: Sequence[Counter]) -> list[Counter]:
    """Return the counters without those of dies that show the counter of their package, as AMD's Zen 1 and 2 do."""
    kept: dict[tuple[str, int], Counter] = {}
    for counter in counters:
        package, _, die = counter.name.partition("-die-")
        shown_uj = sysfs.read_int(f"{counter.path}/energy_uj") or 0
        same = (each for each in kept if die and each[0] == package and abs(each[1] - shown_uj) < _MIRRORED_UJ)
        kept.setdefault(next(same, (package if die else counter.path, shown_uj)), counter)
    return list(kept.values())


_CPU_SENSORS = re.compile(r"coretemp|k10temp|zenpower|x86_pkg_temp|(cpu|soc|package|(big|little)core)\d*[-_]thermal\d*")
"""Chips and zones of CPUs, by their names: drivers/hwmon of Linux, and the device trees of Raspberry Pi and RK3588."""
_TEMPERATURES = ("sys/class/hwmon/hwmon*/temp*_input", "sys/class/thermal/thermal_zone*/temp")
_THROTTLE = "sys/devices/system/cpu/cpu*/thermal_throttle"


class HottestZone:
    """Thermometer: the hottest sensor of the CPU, each in thousandths of a degree Celsius.

    Args:
        sysfs: The host's files.
        paths: Every sensor.
        of_cpu: Those of the CPU.
    """

    def __init__(self, sysfs: Sysfs, paths: list[str], of_cpu: list[str]) -> None:
        self._sysfs = sysfs
        self._paths = _by_label(sysfs, paths)
        self._of_cpu = [name for name, path in self._paths.items() if path in of_cpu]

    def read_c(self) -> float | None:
        """Return the highest temperature of the CPU, degrees Celsius; ``None`` when none of its sensors answers."""
        return self.hottest_c(self.read_all())

    def hottest_c(self, found: Mapping[str, float | None]) -> float | None:
        """Return the highest temperature of the CPU among readings of ``read_all``."""
        return max((value for name in self._of_cpu if (value := found[name]) is not None), default=None)

    def read_all(self) -> dict[str, float | None]:
        """Return the temperature of each sensor by its label, else its place, degrees Celsius."""
        millis = {name: self._sysfs.read_int(path) for name, path in self._paths.items()}
        return {name: None if value is None else value / 1000 for name, value in millis.items()}


def _by_label(sysfs: Sysfs, paths: list[str]) -> dict[str, str]:
    """Return files of sensors by the sensor's label, else by the names of the chip and the file."""
    found: dict[str, str] = {}
    for path in paths:
        folder, _, file = path.rpartition("/")
        label = _label(sysfs, path) or sysfs.text(f"{folder}/type")
        name = label or f"{_chip(sysfs, path)} {file.removesuffix('_input')}"
        found[f"{name} ({folder.rpartition('/')[2]})" if name in found else name] = path
    return found


class ThrottleEvents:
    """Core and package throttling events since boot (kernel, Documentation/ABI/testing/sysfs-devices-system-cpu)."""

    def __init__(self, sysfs: Sysfs, paths: list[str]) -> None:
        self._sysfs = sysfs
        self._paths = paths

    def read(self) -> int:
        """Return the sum over all cores."""
        return sum(self._sysfs.read_int(path) or 0 for path in self._paths)


class HostTelemetry:
    """A host's readings: what every device shows, each sensor by name, and clocks.

    Args:
        sysfs: The host's files.
        modes: Source of the present mode.
        power, temperature, throttle: Its sensors, or the reason why one is absent.
    """

    def __init__(
        self,
        sysfs: Sysfs,
        modes: ModeControl,
        power: RaplSensor | Absent,
        temperature: HottestZone | Absent,
        throttle: ThrottleEvents | Absent,
    ) -> None:
        self._sysfs = sysfs
        self._modes = modes
        self._meters = {} if isinstance(power, Absent) else power.meters()
        self._power: dict[str, float | str | None] = {}
        self._temperature = temperature
        self._throttle = throttle

    def read(self) -> Readings:
        """Return every reading by group; power is the mean since the last reading, and absent in the first."""
        temperatures_c: dict[str, float | None] = {}
        if not isinstance(self._temperature, Absent):
            each_c = self._temperature.read_all()
            temperatures_c = {"hottest": self._temperature.hottest_c(each_c), **each_c}
        for name, meter in self._meters.items():
            try:
                reading = meter.read()
            except (OSError, ValueError):
                self._power[name] = None
                continue
            if reading is not None:
                self._power[name] = reading.power_w
        found: dict[str, dict[str, float | str | None]] = {
            "mode": present_mode(self._modes),
            "clocks_mhz": {**cpu_clocks_mhz(self._sysfs)},
            "power_w": dict(self._power),
            "temperature_c": {**temperatures_c},
        }
        if not isinstance(self._throttle, Absent):
            found["throttling_events"] = {"since boot": self._throttle.read()}
        return {group: values for group, values in found.items() if values}


def open_thermometer(sysfs: Sysfs) -> HottestZone | Absent:
    """Return every sensor that answers, with those of the CPU apart, or the reason why the CPU has none."""
    paths = [path for pattern in _TEMPERATURES for path in sysfs.glob(pattern) if sysfs.shows_number(path)]
    if not paths:
        return Absent("this kernel shows no temperature sensor")
    chips = {path: _chip(sysfs, path) for path in paths}
    dies = {path.rpartition("/")[0] for path in paths if _label(sysfs, path) == "Tdie"}
    of_cpu = [path for path, chip in chips.items() if _CPU_SENSORS.fullmatch(chip)]
    of_cpu = [path for path in of_cpu if path.rpartition("/")[0] not in dies or _label(sysfs, path) != "Tctl"]
    if not of_cpu:
        return Absent(f"no temperature sensor here is known as one of the CPU: {', '.join(sorted({*chips.values()}))}")
    return HottestZone(sysfs, paths, of_cpu)


def _chip(sysfs: Sysfs, path: str) -> str:
    folder = path.rpartition("/")[0]
    return sysfs.text(f"{folder}/name") or sysfs.text(f"{folder}/type") or folder.rpartition("/")[2]


def _label(sysfs: Sysfs, path: str) -> str:
    return sysfs.text(path.removesuffix("_input") + "_label")


def open_throttle_events(sysfs: Sysfs) -> ThrottleEvents | Absent:
    """Return the throttle counters, or the reason why there are none."""
    paths = [path for path in sysfs.glob(f"{_THROTTLE}/*_throttle_count") if sysfs.read_int(path) is not None]
    if not paths:
        return Absent("this CPU shows no throttle counters")
    return ThrottleEvents(sysfs, paths)
