"""Fake temperatures, over-current counters, cooling devices and fan.

Sources: names and gated zones as captured on boards; the counters of ``nvidia,tegra234-oc-event``; NVIDIA's
jetson_clocks for the fan. Temperatures are made up.
"""

import errno
import random

from edgetune.devices.capabilities import Clock
from edgetune.devices.jetson.catalog import ThermalZones
from edgetune.testing import fake_power
from edgetune.testing.fake_description import FakeBoard
from edgetune.testing.fake_files import Answer, KernelFiles, refuse

_ZONES = "sys/devices/virtual/thermal"
_OC = "sys/devices/platform/soctherm-oc-event/hwmon"
_STEP_MC = 125
_PMIC_MC = 100_000  # a constant on every board that has the zone


def zones(board: FakeBoard) -> ThermalZones:
    """Return the thermal zones of the release."""
    return next(group for group in board.catalogue.thermal if board.kernel in group.kernels)


def boot(files: KernelFiles, board: FakeBoard) -> None:
    """Create the files of zones, cooling devices, fan and counters."""
    for number, name in enumerate(zones(board).zones):
        folder = f"{_ZONES}/thermal_zone{number}"
        files.link(f"sys/class/thermal/thermal_zone{number}", folder)
        files.put(f"{folder}/type", name, 0o444)
        files.put(f"{folder}/temp", 0, 0o444)
    for number, name in enumerate(_cooling(board)):
        folder = f"{_ZONES}/cooling_device{number}"
        files.link(f"sys/class/thermal/cooling_device{number}", folder)
        files.put(f"{folder}/type", name, 0o444)
        files.put(f"{folder}/cur_state", 0)
    if board.kernel == "4.9":
        fan = "sys/devices/pwm-fan"
        files.put(f"{fan}/target_pwm", 80)
        files.put(f"{fan}/cur_pwm", 80, 0o444)
        files.put(f"{fan}/temp_control", 1)
        files.put(f"{fan}/rpm_measured", 1850, 0o444)
    else:
        _put_hwmon(files, board)


def _cooling(board: FakeBoard) -> list[str]:
    more = ["soc012-throttle-alert", "devfreq-gpu-gpc-0"] if board.soc == "tegra264" else []
    return ["cpu-throttle-alert", "gpu-throttle-alert", *more, "pwm-fan", "cpufreq-cpu0"]


def _put_hwmon(files: KernelFiles, board: FakeBoard) -> None:
    numbers = fake_power.hwmon_numbers(files, board, fake_power.hwmon_names(board))
    places = {
        "pwmfan": "sys/devices/platform/pwm-fan/hwmon",
        "pwm_tach": "sys/devices/platform/39c0000.tachometer/hwmon",
        "soctherm_oc": _OC,
    }
    for name, above in places.items():
        folder = f"{above}/hwmon{numbers[name]}"
        files.link(f"sys/class/hwmon/hwmon{numbers[name]}", folder)
        files.put(f"{folder}/name", name, 0o444)
        if name == "pwmfan":
            files.put(f"{folder}/pwm1", 88)
            files.put(f"{folder}/pwm1_enable", 1)
        elif name == "pwm_tach":
            files.put(f"{folder}/rpm", 2100, 0o444)
        else:
            for channel in (1, 2, 3):
                files.put(f"{folder}/oc{channel}_event_cnt", 0, 0o444)


def oc_path(files: KernelFiles, board: FakeBoard, channel: int) -> str:
    """Return the file that counts the over-current events of a channel, 1 to 3."""
    number = fake_power.hwmon_numbers(files, board, fake_power.hwmon_names(board))["soctherm_oc"]
    return f"{_OC}/hwmon{number}/oc{channel}_event_cnt"


def answers(files: KernelFiles, board: FakeBoard, clock: Clock) -> dict[str, Answer]:
    """Return the ``Answer`` of each file, by path."""
    found = {}
    for number, name in enumerate(zones(board).zones):

        def temperature(name: str = name) -> str:
            if name in zones(board).gated:
                refuse(errno.EAGAIN, name)
            if name == "PMIC-Die":
                return str(_PMIC_MC)
            warmth = float(files.hidden("warmth_mc", "45000"))
            noise = random.Random(f"{board.seed}/{name}/{clock.now_ns() // 1_000_000_000}")
            above = 500 if name.startswith("tj") else noise.uniform(-500, 500)  # tj is the highest of all
            return str(round((warmth + above) / _STEP_MC) * _STEP_MC)

        found[f"{_ZONES}/thermal_zone{number}/temp"] = Answer(read=temperature)
    return found
