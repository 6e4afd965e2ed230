"""The fan, read only: how fast it turns, how hard it is driven, and which profile drives it.

A fan that follows another profile cools differently, so two results compare only when it is the same. Nothing here
sets it: on Thor, a fan handed over in the wrong order stands still.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgetune.devices.jetson.board_files import read_text
from edgetune.devices.sysfs import Sysfs

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
    """Return that file of every sensor of that name; their numbers change from boot to boot."""
    found = []
    for path in sysfs.glob("sys/class/hwmon/hwmon*/name"):
        try:
            if sysfs.read(path) == name:
                found.append(f"{path.rpartition('/')[0]}/{file}")
        except (OSError, ValueError):
            continue
    return found


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
