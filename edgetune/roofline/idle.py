"""Static power: what a device draws in a power mode with nothing running."""

from __future__ import annotations

from statistics import fmean

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.roofline import KernelRun
from edgetune.devices.device import Absent, Device, PowerSensor
from edgetune.errors import DeviceError
from edgetune.roofline.fit import IDLE

READINGS = 5
"""Readings that the mean is of: as many as a profile's power needs at least."""

_SPARE_READINGS = 2
"""One may straddle the start and one come late."""

_SETTLING_INTERVALS = 2
"""Refresh intervals until a reading covers the new mode alone: one began before it, and one until it is shown."""


def idle_run(device: Device, mode: Mode) -> KernelRun | None:
    """Apply ``mode``, wait until power has settled, and return the mean of at least ``READINGS`` readings.

    The mode stays set; whoever opened the device restores it.

    Args:
        device: With nothing of ours running on it.
        mode: Without knobs it is left as found.

    Returns:
        ``None`` where there is no power sensor, or too few readings came.

    Raises:
        DeviceError: the mode cannot be set.
    """
    if isinstance(device.power, Absent):
        return None
    if not isinstance(device.modes, Absent):
        device.modes.apply(mode)
    elif mode.knobs():
        raise DeviceError(f"{device.name} cannot set {mode}: {device.modes.reason}", "leave its mode as it is")
    refresh_s = device.power.refresh_s
    device.clock.sleep_s(_settling_s(device.power))
    begun_ns = device.clock.now_ns()
    with device.power.record() as recording:
        device.clock.sleep_s(_reading_s(device.power))
    refresh_ns = round(refresh_s * 1e9)
    counted = [reading.power_w for reading in recording.readings if reading.time_ns - refresh_ns >= begun_ns]
    if len(counted) < READINGS:
        return None
    return KernelRun(IDLE, 0, "", mode, 0.0, 0.0, len(counted) * refresh_s, fmean(counted))


def longest_idle_s(power: PowerSensor) -> float:
    """Return how long the power at rest of one mode takes to measure, s."""
    return _settling_s(power) + _reading_s(power)


def _settling_s(power: PowerSensor) -> float:
    return max(power.settle_s, _SETTLING_INTERVALS * power.refresh_s)


def _reading_s(power: PowerSensor) -> float:
    return (READINGS + _SPARE_READINGS) * power.refresh_s
