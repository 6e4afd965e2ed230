"""Waiting until a device has cooled, so that every point starts alike: a hot one throttles sooner and leaks more power.

temperature   ~~~~\\___            the point before | waiting | the next point
                   `--- to_c -----------------------^
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgetune.devices.device import Absent, Device
from edgetune.errors import InputError
from edgetune.profiling.options import ProfileOptions

_EVERY_S = 1.0
"""A heat sink takes many seconds for a degree; more looks would only keep the processor awake."""


@dataclass(frozen=True, slots=True)
class Cooling:
    """Where the wait is: degrees Celsius now (``None``: no sensor answers) and those waited for."""

    now_c: float | None
    to_c: float


OnCooling = Callable[[Cooling], None]


def check_cooling(device: Device, options: ProfileOptions) -> None:
    """Refuse to wait for a temperature that nothing measures.

    Raises:
        InputError: there is no thermometer.
    """
    if options.cool_to_c is not None and isinstance(device.temperature, Absent):
        raise InputError(
            f"--cool-to: {device.name} has no thermometer: {device.temperature.reason}", "leave --cool-to out"
        )


def cool_down(device: Device, options: ProfileOptions, on_cooling: OnCooling | None = None) -> bool:
    """Wait until the device has cooled as asked; return whether it has. Without being asked to there is no wait.

    Args:
        device: With a thermometer, see ``check_cooling``.
        options: To which temperature, and for how long at most.
        on_cooling: Told about once a second.
    """
    if options.cool_to_c is None or isinstance(device.temperature, Absent):
        return True
    begun_ns = device.clock.now_ns()
    while True:
        now_c = device.temperature.read_c()
        if now_c is not None and now_c <= options.cool_to_c:
            return True
        left_s = options.cool_timeout_s - (device.clock.now_ns() - begun_ns) / 1e9
        if left_s <= 0:
            return False
        if on_cooling is not None:
            on_cooling(Cooling(now_c, options.cool_to_c))
        device.clock.sleep_s(min(_EVERY_S, left_s))
