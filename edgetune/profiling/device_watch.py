"""What may go wrong with the device while a point runs: its temperature, what slows it, and a mode not asked for.

Between calls of the runner, and at most once a second, because a look costs the board a few file reads (a power daemon
that changes the mode, or somebody who runs nvpmodel, is noticed soon enough for the attempt to be given up early).
"""

from __future__ import annotations

from edgetune.artifacts.mode import Mode
from edgetune.devices.device import Absent, Device, ModeReader

_TOLERANCE = 0.02
"""A clock read back within this fraction of what was asked is the clock asked for: drivers round to their steps."""

LOOK_EVERY_S = 1.0
"""Sensors of temperature move by a fraction of a degree in a second; a look takes about a millisecond."""


class DeviceWatch:
    """Looks after a device while a point is measured on it; made when work is about to begin.

    Args:
        device: The device, in the mode that was applied.
        asked: The mode that was asked for.

    Attributes:
        temp_start_c: Temperature when it was made, degrees Celsius; ``None`` where there is none.
        temp_max_c: The highest since.
        drift: How the mode was found to differ from the one asked for; empty while it does not.
    """

    def __init__(self, device: Device, asked: Mode) -> None:
        self._device = device
        self._asked = asked
        self._looked_ns = device.clock.now_ns()
        self.temp_start_c = self._temperature_c()
        self.temp_max_c = self.temp_start_c
        self.drift = ""

    @property
    def needed(self) -> bool:
        """Whether there is anything to look at."""
        return isinstance(self._device.modes, ModeReader) or not isinstance(self._device.temperature, Absent)

    def poll(self) -> bool:
        """Look, unless that was done within the last second; return whether the device is still in its mode."""
        if self._device.clock.now_ns() - self._looked_ns >= LOOK_EVERY_S * 1e9:
            if not isinstance(self._device.throttle, Absent):
                self._device.throttle.read()  # what slows a board shows only while it does; its counter keeps that
            self.poll_now()
        return not self.drift

    def poll_now(self) -> None:
        """Read the temperature and the mode."""
        now_c = self._temperature_c()
        if now_c is not None:
            self.temp_max_c = now_c if self.temp_max_c is None else max(self.temp_max_c, now_c)
        if not self.drift and isinstance(self._device.modes, ModeReader):
            self.drift = mode_difference(self._asked, self._device.modes.read())
        self._looked_ns = self._device.clock.now_ns()

    def _temperature_c(self) -> float | None:
        return None if isinstance(self._device.temperature, Absent) else self._device.temperature.read_c()


def mode_difference(asked: Mode, found: Mode) -> str:
    """Say which knobs are not as asked, or return an empty string."""
    now = found.knobs()
    return ", ".join(
        f"{name} is {f'{now[name]:g}' if name in now else 'not fixed'}, not {value:g}"
        for name, value in asked.knobs().items()
        if name not in now or abs(now[name] - value) > _TOLERANCE * value
    )
