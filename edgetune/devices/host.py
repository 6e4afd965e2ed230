"""``host``: the CPU of the local machine, with a chosen number of cores and, where the kernel permits, a chosen clock.

Cores stay online: the child process of the workload binds itself to the chosen cores and uses as many threads, so no
restore is needed. The guardian sets the CPU clock for the whole machine and restores it on ``restore`` and also when
this process is killed.

Sensors of a host under Linux: power of the CPU package, temperature, and the x86 throttle counters.

Power comes from RAPL energy counters (Intel since Sandy Bridge, AMD since Zen), by Linux powercap.
``energy_uj`` counts microjoules and wraps around at ``max_energy_range_uj`` (kernel, Documentation/power/powercap).
Since CVE-2020-8694 only root may read it unless the administrator permits it. Temperature
comes from hwmon or thermal zones.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import (
    Absent,
    Clock,
    ModeControl,
    ModeSpace,
    MonotonicClock,
    PowerReading,
    check_mode,
)
from edgetune.devices.control import DirectModes
from edgetune.devices.cpu import CpuLoad, MachineMemory, cpu_clocks_mhz, cpu_model, usable_cpus
from edgetune.devices.cpufreq import HostControl
from edgetune.devices.device import Device, DeviceKind, Listing, LiveSource
from edgetune.devices.guardian.client import GuardianModes, guardian_command
from edgetune.devices.software import software_versions
from edgetune.devices.sysfs import Sysfs, why
from edgetune.devices.telemetry import PolledRecording, Readings, polled, present_mode
from edgetune.errors import InputError
from edgetune.processes.cgroup import cpu_quota

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


@dataclass
class HostTelemetry:
    """A host's readings: what every device shows, each sensor by name, and clocks.

    Args:
        sysfs: The host's files.
        modes: Source of the present mode.
        power, temperature, throttle: Its sensors, or the reason why one is absent.
    """

    sysfs: Sysfs
    modes: ModeControl
    power: RaplSensor | Absent
    temperature: HottestZone | Absent
    throttle: ThrottleEvents | Absent

    def __post_init__(self) -> None:
        self._meters = {} if isinstance(self.power, Absent) else self.power.meters()
        self._power: dict[str, float | str | None] = {}

    def read(self) -> Readings:
        """Return every reading by group; power is the mean since the last reading, and absent in the first."""
        temperatures_c: dict[str, float | None] = {}
        if not isinstance(self.temperature, Absent):
            each_c = self.temperature.read_all()
            temperatures_c = {"hottest": self.temperature.hottest_c(each_c), **each_c}
        for name, meter in self._meters.items():
            try:
                reading = meter.read()
            except (OSError, ValueError):
                self._power[name] = None
                continue
            if reading is not None:
                self._power[name] = reading.power_w
        found: dict[str, dict[str, float | str | None]] = {
            "mode": present_mode(self.modes),
            "clocks_mhz": {**cpu_clocks_mhz(self.sysfs)},
            "power_w": dict(self._power),
            "temperature_c": {**temperatures_c},
        }
        if not isinstance(self.throttle, Absent):
            found["throttling_events"] = {"since boot": self.throttle.read()}
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


class HostModes:
    """Number of cores for the workload, and the CPU clock where it can be set.

    Args:
        cores: Cores the workload may have.
        clock: Sets the clock.
    """

    def __init__(self, cores: int, clock: GuardianModes | DirectModes) -> None:
        self._cores = cores
        self._clock = clock
        self._cores_now = cores
        offered = clock.space
        highest = {knob: values[-1] for knob, values in offered.knobs.items()}
        named = {"default": Mode(cpu_cores=cores), "max": Mode.of({"cpu_cores": cores, **highest})}
        self.space = ModeSpace(
            {"cpu_cores": tuple(float(n) for n in range(1, cores + 1)), **offered.knobs},
            presets={name: mode for name, mode in named.items() if name not in offered.withheld},
            fixed=offered.fixed,
            withheld=offered.withheld,
            limited=offered.limited,
        )
        """The modes that can be set; ``default`` leaves the clock to the governor."""

    def apply(self, mode: Mode) -> Mode:
        """Set ``mode``; without a core count all cores are used, and without a clock its limits are as found.

        Raises:
            DeviceError: the host lacks a knob or the number of cores, or the kernel refused the clock.
        """
        check_mode(mode.knobs(), self.space, "host")
        if mode.cpu_mhz is None:
            self._clock.restore()
        else:
            self._clock.apply(Mode(cpu_mhz=mode.cpu_mhz))
        self._cores_now = self._cores if mode.cpu_cores is None else mode.cpu_cores
        return self.read()

    def read(self) -> Mode:
        """Return the present mode; the clock is ``None`` while the governor moves it, and where it cannot be set."""
        settable = "cpu_mhz" in self.space.knobs
        return Mode(cpu_cores=self._cores_now, cpu_mhz=self._clock.read().cpu_mhz if settable else None)

    def restore(self) -> None:
        """Restore the clock limits.

        Raises:
            NotRestoredError: the limits could not be restored.
        """
        self._cores_now = self._cores
        self._clock.restore()


def open_host(root: Path = Path("/")) -> Device:
    """Open this machine's CPU as a device; its clock is set by the guardian.

    Args:
        root: Root of the file system with ``sys`` and ``proc``.
    """
    sysfs = Sysfs(root)
    return host_device(sysfs, GuardianModes(guardian_command("host", root), HostControl(sysfs)))


def host_device(sysfs: Sysfs, frequency: GuardianModes | None = None) -> Device:
    """Return the host whose kernel files are in ``sysfs``.

    Args:
        sysfs: The kernel's files.
        frequency: Sets the CPU clock; by default this process does.
    """
    clock = MonotonicClock()
    cores, quota = len(usable_cpus(sysfs)), cpu_quota(sysfs.root)
    model = cpu_model(sysfs)
    power, temperature, throttle = open_rapl(sysfs, clock), open_thermometer(sysfs), open_throttle_events(sysfs)
    modes = HostModes(cores, frequency or DirectModes(HostControl(sysfs)))
    return Device(
        name="host",
        description=f"{model}, {cores} usable core{'s' if cores > 1 else ''}"
        + ("" if quota is None else f", of which a CPU quota gives the time of {quota:.3g}"),
        simulated=False,
        source=LiveSource(ort_providers=("CPUExecutionProvider",), torch_device="cpu"),
        clock=clock,
        power=power,
        modes=modes,
        temperature=temperature,
        throttle=throttle,
        conditions={**_conditions(sysfs, model, cores), "cpu_quota": quota},
        telemetry=HostTelemetry(sysfs, modes, power, temperature, throttle),
        load=CpuLoad(sysfs),
        memory=MachineMemory(sysfs),
    )


def _conditions(sysfs: Sysfs, model: str, cores: int) -> dict[str, object]:
    """Return the conditions of a result on this machine, without importing the libraries named in them."""
    return {
        "cpu": model,
        "usable_cores": cores,
        "cpus_online": os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        **software_versions(),
        "governor": sysfs.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        "load_average_1min": round(os.getloadavg()[0], 2),
    }


def _open(name: str, seed: int) -> Device:  # noqa: ARG001 - every kind is opened alike
    if name != "host":
        raise InputError(f"unknown device {name!r}", "write host")
    return open_host()


KIND = DeviceKind("host", True, lambda: [Listing("host", "the CPU of this machine")], _open)
