"""Sensors of a host under Linux: power of the CPU package, temperature, and the x86 throttle counters.

Power comes from RAPL energy counters (Intel since Sandy Bridge, AMD since Zen), by Linux powercap.
``energy_uj`` counts microjoules and wraps around at ``max_energy_range_uj`` (kernel, Documentation/power/powercap).
Since CVE-2020-8694 only root may read it unless the administrator permits it. Temperature
comes from hwmon or thermal zones.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from edgetune.devices.capabilities import Absent, ModeControl, PowerReading
from edgetune.devices.clock import Clock
from edgetune.devices.cpu import cpu_clocks_mhz
from edgetune.devices.sysfs import Sysfs, why
from edgetune.devices.telemetry import PolledRecording, Readings, polled, present_mode

_ZONES = "sys/class/powercap/intel-rapl:*"
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
            return Absent(f"permission denied for RAPL; to permit: sudo chmod a+r /{zone}/energy_uj (until reboot)")
        except (OSError, ValueError) as error:
            reason = why(error) if isinstance(error, OSError) else str(error)
            return Absent(f"RAPL cannot be read: {zone}: {reason}")
    if not any(counter.name.startswith("package") for counter in counters):
        return Absent("RAPL counts no CPU package here")
    return RaplSensor(sysfs, counters, clock)


_CPU_SENSORS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal"})
_TEMPERATURES = ("sys/class/hwmon/hwmon*/temp*_input", "sys/class/thermal/thermal_zone*/temp")
_THROTTLE = "sys/devices/system/cpu/cpu*/thermal_throttle"


class HottestZone:
    """Thermometer: the hottest of several sensors, each in thousandths of a degree Celsius."""

    def __init__(self, sysfs: Sysfs, paths: list[str]) -> None:
        self._sysfs = sysfs
        self._paths = _by_label(sysfs, paths)

    def read_c(self) -> float | None:
        """Return the highest temperature, degrees Celsius; ``None`` when no zone answers."""
        return max((value for value in self.read_all().values() if value is not None), default=None)

    def read_all(self) -> dict[str, float | None]:
        """Return the temperature of each sensor by its label, else its place, degrees Celsius."""
        millis = {name: self._sysfs.read_int(path) for name, path in self._paths.items()}
        return {name: None if value is None else value / 1000 for name, value in millis.items()}


def _by_label(sysfs: Sysfs, paths: list[str]) -> dict[str, str]:
    """Return files of sensors by the sensor's label, else by the names of the chip and the file."""
    found: dict[str, str] = {}
    for path in paths:
        folder, _, file = path.rpartition("/")
        label = sysfs.text(path.removesuffix("_input") + "_label") or sysfs.text(f"{folder}/type")
        name = label or f"{sysfs.text(f'{folder}/name')} {file.removesuffix('_input')}".strip()
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
        temperatures_c = {} if isinstance(self._temperature, Absent) else self._temperature.read_all()
        known_c = [value for value in temperatures_c.values() if value is not None]
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
            "temperature_c": {"hottest": max(known_c, default=None), **temperatures_c} if temperatures_c else {},
        }
        if not isinstance(self._throttle, Absent):
            found["throttling_events"] = {"since boot": self._throttle.read()}
        return {group: values for group, values in found.items() if values}


def open_thermometer(sysfs: Sysfs) -> HottestZone | Absent:
    """Return the CPU's sensors, else every sensor that answers, else the reason why there is none."""
    paths = [path for pattern in _TEMPERATURES for path in sysfs.glob(pattern) if sysfs.read_int(path) is not None]
    of_cpu = [path for path in paths if sysfs.text(path.rpartition("/")[0] + "/name") in _CPU_SENSORS]
    if not paths:
        return Absent("this kernel shows no temperature sensor")
    return HottestZone(sysfs, of_cpu or paths)


def open_throttle_events(sysfs: Sysfs) -> ThrottleEvents | Absent:
    """Return the throttle counters, or the reason why there are none."""
    paths = [path for path in sysfs.glob(f"{_THROTTLE}/*_throttle_count") if sysfs.read_int(path) is not None]
    if not paths:
        return Absent("this CPU shows no throttle counters")
    return ThrottleEvents(sysfs, paths)
