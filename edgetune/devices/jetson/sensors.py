r"""What a board shows of itself to any user: temperatures, throttling, the fan, all readings at once. Nothing is set.

A zone of a power-gated block (CV on Orin, the GPU on Thor) answers EAGAIN and has no temperature then. Old BSPs show
-256 degrees for the same. ``PMIC-Die`` shows a constant 100 degrees on every board (board captures) and is left out.
Source: kernel Documentation/driver-api/thermal/sysfs-api.rst; values in thousandths of a degree Celsius.

Clocks do not show throttling. Over-current events and cooling devices that slow the board do:

    OC1  under-voltage of the input       \  a measurement that saw one is no measurement of the mode
    OC2  average power over its limit     /
    OC3  a peak over its limit: about 1 ms at half the clock. In MAXN_SUPER 1 to 30 a second even near idle, 0.9 % of
         the time (board measurements): a rate to be told with the result, not a fault. Counted in batches of 2 s.

Sources: kernel attributes ``oc*_event_cnt`` (hwmon ``soctherm_oc``, cumulative since boot, world-readable); NVIDIA
Jetson Linux guide r36.4 for their meaning. ``thermal_trip_event`` of the ``*-throttle-alert`` devices is the state that
their cooling device shows too, no count.

A fan that follows another profile cools differently, so two results compare only when its profile is the same. The fan
is never set: on Thor, a fan handed over in the wrong order stands still.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgetune.devices.device import Absent, ModeControl
from edgetune.devices.jetson.board_files import read_text
from edgetune.devices.jetson.emc import find_emc
from edgetune.devices.jetson.power import BoardPower
from edgetune.devices.sysfs import Sysfs
from edgetune.devices.telemetry import Readings, present_mode

_IGNORED = frozenset({"PMIC-Die"})

_JUNCTION = ("tj-thermal", "tj-therm")
"""The zone in which the firmware gives the hottest junction: JetPack 6 and later, and JetPack 5 (Orin, Thor)."""


class BoardThermometer:
    """The thermal zones of a board.

    Args:
        sysfs: Where they are.
        zones: Folder of each zone, by its name.
    """

    def __init__(self, sysfs: Sysfs, zones: dict[str, str]) -> None:
        self._sysfs = sysfs
        self._zones = zones
        self._junction = next((zones[name] for name in _JUNCTION if name in zones), None)

    def read_all(self) -> dict[str, float | None]:
        """Return every zone's temperature, degrees Celsius; ``None`` for those that have none now."""
        return {name: _read_c(self._sysfs, f"{folder}/temp") for name, folder in self._zones.items()}

    def read_c(self) -> float | None:
        """Return the hottest junction, else the hottest zone, degrees Celsius; ``None`` when no zone answers now."""
        if self._junction is not None:
            junction_c = _read_c(self._sysfs, f"{self._junction}/temp")
            if junction_c is not None:
                return junction_c
        return max((value for value in self.read_all().values() if value is not None), default=None)

    @property
    def critical_c(self) -> float | None:
        """Temperature at which the board switches itself off: the junction's, else the lowest of any zone."""
        if self._junction is not None:
            junction_c = self._critical_c(self._junction)
            if junction_c is not None:
                return junction_c
        found = (self._critical_c(folder) for folder in self._zones.values())
        return min((value for value in found if value is not None), default=None)

    def _critical_c(self, folder: str) -> float | None:
        """Return the lowest critical trip point of a zone."""
        found = []
        for path in self._sysfs.glob(f"{folder}/trip_point_*_type"):
            if self._sysfs.text(path) == "critical":
                found.append(_read_c(self._sysfs, path.removesuffix("_type") + "_temp"))
        return min((value for value in found if value is not None), default=None)


def _read_c(sysfs: Sysfs, path: str) -> float | None:
    """Return degrees Celsius, or ``None``: below zero stands for a sensor that is off."""
    value = sysfs.read_int(path)
    return None if value is None or value < 0 else value / 1000


def open_board_thermometer(sysfs: Sysfs) -> BoardThermometer | Absent:
    """Return the board's zones, those included that do not answer now, or why there are none."""
    zones: dict[str, str] = {}
    for path in sysfs.glob("sys/class/thermal/thermal_zone*/type"):
        folder, name = path.rpartition("/")[0], sysfs.text(path)
        if name and name not in _IGNORED:
            zones[f"{name} ({folder.rpartition('/')[2]})" if name in zones else name] = folder
    if not zones:
        return Absent("this kernel shows no thermal zones")
    return BoardThermometer(sysfs, zones)


_SERIOUS = frozenset({"oc1", "oc2"})

_ALERT = "-throttle-alert"
"""How NVIDIA's throttling devices end: ``cpu-throttle-alert``, ``soc012-throttle-alert``, ..."""

_FREQUENCY_CAPS = ("cpufreq-", "devfreq-", "thermal-cpufreq-", "thermal-devfreq-")
"""How the kernel's own begin (drivers/thermal/cpufreq_cooling.c, devfreq_cooling.c; the longer names before 5.8).
A fan is a cooling device too, and slows nothing."""


class BoardThrottle:
    """Over-current counters and throttling devices of a board.

    Args:
        sysfs: Where they are.
        counters: File of each over-current counter, by name, e.g. ``oc3``.
        cooling: State file of each throttling device, by its type.
    """

    def __init__(self, sysfs: Sysfs, counters: dict[str, str], cooling: dict[str, str]) -> None:
        self._sysfs = sysfs
        self._counters = counters
        self._cooling = cooling
        self._serious: dict[str, int] = {}
        self._seen = 0

    def counts(self) -> dict[str, int]:
        """Return every over-current counter since boot, those left out that do not answer now."""
        found = {name: self._sysfs.read_int(path) for name, path in self._counters.items()}
        return {name: count for name, count in found.items() if count is not None}

    def slight_counts(self) -> dict[str, int]:
        """Return the counters of events too slight to spoil a measurement."""
        return {name: count for name, count in self.counts().items() if name not in _SERIOUS}

    def active(self) -> list[str]:
        """Return the devices that slow the board now, by type."""
        return [kind for kind, path in self._cooling.items() if (self._sysfs.read_int(path) or 0) > 0]

    def read(self) -> int:
        """Return the serious events since boot, plus one for every time that a device was seen slowing the board.

        A device that slows the board from one reading to the next thus counts as an event between them.
        """
        serious = {name: count for name, count in self.counts().items() if name in _SERIOUS}
        self._serious.update(serious)  # one that does not answer now stays as it was
        self._seen += len(self.active())
        return sum(self._serious.values()) + self._seen


def open_board_throttle(sysfs: Sysfs) -> BoardThrottle | Absent:
    """Return the board's throttling, or why nothing shows it."""
    counters: dict[str, str] = {}
    for path in sysfs.glob("sys/class/hwmon/hwmon*/oc*_event_cnt"):
        folder, _, file = path.rpartition("/")
        if sysfs.text(f"{folder}/name") == "soctherm_oc":
            counters[file.removesuffix("_event_cnt")] = path
    cooling: dict[str, str] = {}
    for path in sysfs.glob("sys/class/thermal/cooling_device*/type"):
        folder, kind = path.rpartition("/")[0], sysfs.text(path)
        if kind.endswith(_ALERT) or kind.startswith(_FREQUENCY_CAPS):
            cooling[f"{kind} ({folder.rpartition('/')[2]})" if kind in cooling else kind] = f"{folder}/cur_state"
    if not counters and not cooling:
        return Absent("this kernel shows neither over-current counters nor throttling devices")
    if all(sysfs.read_int(path) is None for path in (*counters.values(), *cooling.values())):
        return Absent("neither the over-current counters nor the throttling devices of this kernel answer")
    return BoardThrottle(sysfs, counters, cooling)


FULL_PWM = 255
"""A fan driven all the time. Source: Linux Documentation/hwmon/sysfs-interface.rst, ``pwm``."""

_OLD = "sys/devices/pwm-fan"
"""JetPack 4. Source: NVIDIA's jetson_clocks of R32."""

_STATE, _DEFAULTS = "var/lib/nvfancontrol/status", "etc/nvfancontrol.conf"


@dataclass(frozen=True, slots=True)
class Fan:
    """The fan now; what cannot be read is ``None``.

    Args:
        rpm: Turns per minute, as measured.
        pwm: How hard it is driven, 0 to ``FULL_PWM``.
        profile: Curve in force or, where nothing tells that, of the configuration, e.g. ``quiet``.
        governor: What follows the curve, e.g. ``pid``.
        control: ``open_loop`` or ``close_loop``.
    """

    rpm: int | None
    pwm: int | None
    profile: str | None
    governor: str | None
    control: str | None


def read_fan(sysfs: Sysfs, fan_mode: str | None = None) -> Fan | None:
    """Return the fan, or ``None`` when the kernel shows none.

    Args:
        sysfs: The board's files.
        fan_mode: The profile that nvpmodel noted together with the power mode (JetPack 4).
    """
    pwm = _first(sysfs, [f"{_OLD}/cur_pwm", *_hwmon(sysfs, "pwmfan", "pwm1")])
    tachometers = [*_hwmon(sysfs, "pwmfan", "fan1_input"), *_hwmon(sysfs, "pwm_tach", "rpm")]
    rpm = _first(sysfs, [f"{_OLD}/rpm_measured", *tachometers, *_hwmon(sysfs, "pwm_tach", "fan1_input")])
    if pwm is None and rpm is None:
        return None
    said = {what: _nvfancontrol(sysfs, what) for what in ("PROFILE", "GOVERNOR", "CONTROL")}
    return Fan(rpm, pwm, fan_mode or said["PROFILE"], said["GOVERNOR"], said["CONTROL"])


def _hwmon(sysfs: Sysfs, name: str, file: str) -> list[str]:
    """Return the path of ``file`` in every hwmon folder with this name; their numbers change from boot to boot."""
    names = sysfs.glob("sys/class/hwmon/hwmon*/name")
    return [f"{path.rpartition('/')[0]}/{file}" for path in names if sysfs.text(path) == name]


def _first(sysfs: Sysfs, paths: list[str]) -> int | None:
    return next((value for value in map(sysfs.read_int, paths) if value is not None), None)


def _nvfancontrol(sysfs: Sysfs, what: str) -> str | None:
    """Return what NVIDIA's fan daemon noted as in force, else what its configuration says for the next start.

    The note is taken to look like the answer of ``nvfancontrol -q``, ``FAN1:FAN_PROFILE:quiet``; that is not verified.
    """
    noted = re.search(rf"FAN_{what}:(\w+)", read_text(sysfs.root, _STATE) or "")
    default = re.search(rf"^[ \t]*FAN_DEFAULT_{what}[ \t]+(\w+)", read_text(sysfs.root, _DEFAULTS) or "", re.MULTILINE)
    found = noted or default
    return found[1] if found else None


Values = dict[str, "float | str | None"]


class BoardTelemetry:
    """A board's readings.

    Args:
        sysfs: The board's files.
        modes: Tells the mode; a clock that moves within limits has none.
        power, temperature, throttle: The board's sensors, or why there are none.
    """

    def __init__(
        self,
        sysfs: Sysfs,
        modes: ModeControl | Absent,
        power: object,
        temperature: BoardThermometer | Absent,
        throttle: BoardThrottle | Absent,
    ) -> None:
        self._sysfs = sysfs
        self._modes = modes
        self._power = power
        self._temperature = temperature
        self._throttle = throttle
        emc = find_emc(sysfs)
        self._emc = None if isinstance(emc, str) else emc.rate.now

    def read(self) -> Readings:
        """Return every reading by group; what does not answer now is ``None``."""
        found: dict[str, Values] = {}
        found["mode"] = present_mode(self._modes)
        found["clocks_mhz"] = self._clocks()
        if isinstance(self._power, BoardPower):
            found["power_w"] = dict(self._power.rails())
        if not isinstance(self._temperature, Absent):
            found["temperature_c"] = dict(self._temperature.read_all())
        if not isinstance(self._throttle, Absent):
            found["throttling_events"] = dict(self._throttle.counts())
            found["throttling_now"] = {"devices": ", ".join(self._throttle.active()) or "none"}
        fan = read_fan(self._sysfs)
        if fan is not None:
            found["fan"] = {"speed_rpm": fan.rpm, "pwm": fan.pwm, "profile": fan.profile}
        return {group: values for group, values in found.items() if values}

    def _clocks(self) -> Values:
        """Return the clocks as they are now; throttling by the power supply does not show in them."""
        found: Values = {}
        for path in self._sysfs.glob("sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq"):
            khz = self._sysfs.read_int(path)
            found[f"cpu {path.split('/')[-2]}"] = None if khz is None else khz / 1e3
        for path in self._sysfs.glob("sys/class/devfreq/*/cur_freq"):
            found[path.split("/")[-2]] = self._mhz(path)
        if self._emc is not None and not self._emc.startswith("sys/class/devfreq/"):
            found["memory"] = self._mhz(self._emc)
        return found

    def _mhz(self, path: str) -> float | None:
        hz = self._sysfs.read_int(path)
        return None if hz is None else hz / 1e6
