"""What any device shows of itself, made of its capabilities where it has no telemetry of its own."""

from __future__ import annotations

from collections.abc import Mapping

from edgetune.devices.device import Absent, Device, ModeControl, ModeReader, Telemetry
from edgetune.errors import DeviceError

Readings = Mapping[str, Mapping[str, float | str | None]]
"""Readings by group and name; a group's name ends in the unit of its numbers."""


class FromCapabilities:
    """The present mode, the hottest zone and the throttle counter of a device.

    Power is missing: a sensor of energy has none to show until time has passed.
    """

    def __init__(self, device: Device) -> None:
        self._device = device

    def read(self) -> Readings:
        """Return what the capabilities answer now."""
        device, found = self._device, dict[str, dict[str, float | str | None]]()
        if mode := present_mode(device.modes):
            found["mode"] = mode
        if not isinstance(device.temperature, Absent):
            found["temperature_c"] = {"hottest": device.temperature.read_c()}
        if not isinstance(device.throttle, Absent):
            found["throttling_events"] = {"since boot": device.throttle.read()}
        return found


def telemetry_of(device: Device) -> Telemetry:
    """Return the device's own telemetry, else what its capabilities show."""
    return device.telemetry or FromCapabilities(device)


def present_mode(modes: ModeControl | Absent) -> dict[str, float | str | None]:
    """Return the knobs as they are now, ``None`` for one that is not pinned; none where they cannot be read now."""
    if isinstance(modes, Absent) or not isinstance(modes, ModeReader):
        return {}
    try:
        now = modes.read().knobs()
    except DeviceError:
        return {}
    return {**dict.fromkeys(modes.space.knobs), **now}
