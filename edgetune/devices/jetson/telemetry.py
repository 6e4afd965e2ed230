"""Everything a Jetson shows of itself to any user: clocks, rails, zones, throttling, the fan. Nothing is set."""

from __future__ import annotations

from edgetune.devices.device import Absent, ModeControl
from edgetune.devices.jetson.emc_files import find_emc
from edgetune.devices.jetson.fan import read_fan
from edgetune.devices.jetson.power import BoardPower
from edgetune.devices.jetson.thermal import BoardThermometer
from edgetune.devices.jetson.throttle import BoardThrottle
from edgetune.devices.sysfs import Sysfs
from edgetune.devices.telemetry import Readings, present_mode

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
