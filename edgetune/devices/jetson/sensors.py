"""Unprivileged sensors of a board: temperatures, the fan, and telemetry of all readings.

A zone of a power-gated block (CV on Orin, the GPU on Thor) answers EAGAIN while the block is off; old BSPs show
-256 degrees instead. ``PMIC-Die`` shows a constant, 100 or 50 degrees (board captures), and is left out.
Source: kernel Documentation/driver-api/thermal/sysfs-api.rst; values in thousandths of a degree Celsius.

Results are comparable only with the same fan profile.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from edgetune.devices.board_files import read_text
from edgetune.devices.capabilities import Absent, ModeControl
from edgetune.devices.cpu import cpu_clocks_mhz
from edgetune.devices.jetson.emc import find_emc
from edgetune.devices.jetson.power import BoardPower
from edgetune.devices.jetson.throttle import BoardThrottle
from edgetune.devices.sysfs import Sysfs
from edgetune.devices.telemetry import Readings, present_mode

_IGNORED = frozenset({"PMIC-Die"})

_JUNCTION = ("tj-thermal", "tj-therm")
"""Zone of the hottest junction, computed by the firmware: JetPack 6 and later, and JetPack 5 (Orin, Thor)."""


class BoardThermometer:
    """The thermal zones of a board.

    Args:
        sysfs: The board's files.
        zones: Folder of each zone, by its name.
    """

    def __init__(self, sysfs: Sysfs, zones: dict[str, str]) -> None:
        self._sysfs = sysfs
        self._zones = zones
        self._junction = next((zones[name] for name in _JUNCTION if name in zones), None)

    def read_all(self) -> dict[str, float | None]:
        """Return every zone's temperature, degrees Celsius; ``None`` for zones without a reading."""
        return {name: _read_c(self._sysfs, f"{folder}/temp") for name, folder in self._zones.items()}

    def read_c(self) -> float | None:
        """Return the hottest junction, else the hottest zone, degrees Celsius; ``None`` when no zone answers now."""
        if self._junction is not None:
            junction_c = _read_c(self._sysfs, f"{self._junction}/temp")
            if junction_c is not None:
                return junction_c
        return max((value for value in self.read_all().values() if value is not None), default=None)


def _read_c(sysfs: Sysfs, path: str) -> float | None:
    """Return degrees Celsius; ``None`` for a failed read or a negative value, which means that the sensor is off."""
    value = sysfs.read_int(path)
    return None if value is None or value < 0 else value / 1000


def open_board_thermometer(sysfs: Sysfs) -> BoardThermometer | Absent:
    """Return the board's zones, silent ones included, or the reason why there are none."""
    zones: dict[str, str] = {}
    for path in sysfs.glob("sys/class/thermal/thermal_zone*/type"):
        folder, name = path.rpartition("/")[0], sysfs.text(path)
        if name and name not in _IGNORED:
            zones[f"{name} ({folder.rpartition('/')[2]})" if name in zones else name] = folder
    if not zones:
        return Absent("this kernel shows no thermal zones")
    return BoardThermometer(sysfs, zones)


_OLD = "sys/devices/pwm-fan"
"""Fan folder of JetPack 4. Source: NVIDIA's jetson_clocks of R32."""

_STATE, _DEFAULTS = "var/lib/nvfancontrol/status", "etc/nvfancontrol.conf"


@dataclass(frozen=True, slots=True)
class Fan:
    """The present state of the fan; an unreadable value is ``None``.

    Args:
        rpm: Measured speed, revolutions per minute.
        pwm: PWM value, 0 to 255 at full speed. Source: Linux Documentation/hwmon/sysfs-interface.rst, ``pwm``.
        profile: Fan curve in force or, where unknown, that of the configuration, e.g. ``quiet``.
    """

    rpm: int | None
    pwm: int | None
    profile: str | None


def read_fan(sysfs: Sysfs, fan_mode: str | None = None) -> Fan | None:
    """Return the fan, or ``None`` when the kernel shows none.

    Args:
        sysfs: The board's files.
        fan_mode: The profile that nvpmodel saved with the power mode (JetPack 4).
    """
    pwm = _first(sysfs, [f"{_OLD}/cur_pwm", *_hwmon(sysfs, "pwmfan", "pwm1")])
    tachometers = [*_hwmon(sysfs, "pwmfan", "fan1_input"), *_hwmon(sysfs, "pwm_tach", "rpm")]
    rpm = _first(sysfs, [f"{_OLD}/rpm_measured", *tachometers, *_hwmon(sysfs, "pwm_tach", "fan1_input")])
    if pwm is None and rpm is None:
        return None
    return Fan(rpm, pwm, fan_mode or _fan_profile(sysfs))


def _hwmon(sysfs: Sysfs, name: str, file: str) -> list[str]:
    """Return the path of ``file`` in every hwmon folder with this name; their numbers change from boot to boot."""
    names = sysfs.glob("sys/class/hwmon/hwmon*/name")
    return [f"{path.rpartition('/')[0]}/{file}" for path in names if sysfs.text(path) == name]


def _first(sysfs: Sysfs, paths: list[str]) -> int | None:
    return next((value for value in map(sysfs.read_int, paths) if value is not None), None)


def _fan_profile(sysfs: Sysfs) -> str | None:
    """Return the fan curve from the state file of NVIDIA's fan daemon, else from its configuration for the next start.

    The state file is assumed to have the format of ``nvfancontrol -q``, ``FAN1:FAN_PROFILE:quiet``; not verified.
    """
    noted = re.search(r"FAN_PROFILE:(\w+)", read_text(sysfs.root, _STATE) or "")
    default = re.search(r"^[ \t]*FAN_DEFAULT_PROFILE[ \t]+(\w+)", read_text(sysfs.root, _DEFAULTS) or "", re.MULTILINE)
    found = noted or default
    return found[1] if found else None


_GPU_LOAD = ("sys/devices/gpu.0/load", "sys/devices/platform/gpu.0/load", "sys/devices/platform/17000000.gpu/load",
             "sys/devices/platform/bus@0/17000000.gpu/load")  # fmt: skip
"""Load of the GPU in thousandths, by nvgpu of JetPack 4 to 7. Source: jetson_stats, jtop/core/gpu.py."""

_MEMORY_ACTIVITY = ("sys/kernel/debug/cactmon/mc_all", "sys/kernel/actmon_avg_activity/mc_all")
"""Mean activity of the memory controller, kHz of its clock. Source: jetson_stats, jtop/core/memory.py."""

Values = dict[str, "float | str | None"]


@dataclass
class BoardTelemetry:
    """A board's readings.

    Args:
        sysfs: The board's files.
        modes: Source of the present mode, without clocks that are not pinned.
        power, temperature, throttle: The board's sensors, or the reason why one is absent.
        gpu_load: Returns the load of the GPU where the kernel shows none (Thor), per cent; ``None`` if unknown.
    """

    sysfs: Sysfs
    modes: ModeControl | Absent
    power: object
    temperature: BoardThermometer | Absent
    throttle: BoardThrottle | Absent
    gpu_load: Callable[[], float | None] = lambda: None

    def __post_init__(self) -> None:
        emc = find_emc(self.sysfs)
        self._emc = None if isinstance(emc, str) else emc.rate.now

    def read(self) -> Readings:
        """Return every reading by group; ``None`` for one that fails."""
        found: dict[str, Values] = {}
        found["mode"] = present_mode(self.modes)
        found["load_percent"] = self._load()
        found["clocks_mhz"] = self._clocks()
        if isinstance(self.power, BoardPower):
            found["power_w"] = dict(self.power.rails())
        if not isinstance(self.temperature, Absent):
            found["temperature_c"] = dict(self.temperature.read_all())
        if not isinstance(self.throttle, Absent):
            found["throttling_events"] = dict(self.throttle.counts())
            found["throttling_now"] = {"devices": ", ".join(self.throttle.active()) or "none"}
        fan = read_fan(self.sysfs)
        if fan is not None:
            found["fan"] = {"speed_rpm": fan.rpm, "pwm": fan.pwm, "profile": fan.profile}
        return {group: values for group, values in found.items() if values}

    def _load(self) -> Values:
        """Return the load of the GPU and, where debugfs can be read, of the memory; not of what shows none."""
        found: Values = {}
        thousandths = next((n for path in _GPU_LOAD if (n := self.sysfs.read_int(path)) is not None), None)
        if (load := self.gpu_load() if thousandths is None else thousandths / 10) is not None:
            found["gpu"] = load
        hz = None if self._emc is None else self.sysfs.read_int(self._emc)
        for path in _MEMORY_ACTIVITY:
            if hz and (active_khz := self.sysfs.read_int(path)) is not None:
                found["memory"] = round(100 * active_khz / (hz / 1e3), 1)
                break
        return found

    def _clocks(self) -> Values:
        """Return the present clocks, which do not show throttling by the power supply."""
        found: Values = {**cpu_clocks_mhz(self.sysfs)}
        for path in self.sysfs.glob("sys/class/devfreq/*/cur_freq"):
            found[path.split("/")[-2]] = self._mhz(path)
        if self._emc is not None and not self._emc.startswith("sys/class/devfreq/"):
            found["memory"] = self._mhz(self._emc)
        return found

    def _mhz(self, path: str) -> float | None:
        hz = self.sysfs.read_int(path)
        return None if hz is None else hz / 1e6
