"""Poll a power sensor in a thread, and read all present values of a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from edgetune.devices.capabilities import Absent, ModeControl, ModeReader, PowerReading
from edgetune.devices.device import Device
from edgetune.errors import DeviceError

Read = Callable[[], PowerReading | None]
"""Returns a reading, or ``None`` when the sensor has no new value."""


class SensorStoppedError(Exception):
    """The sensor gives no more reliable readings.

    Args:
        message: The reason.
        since_ns: Time of its last new value on the device's clock; later readings are dropped.
    """

    def __init__(self, message: str, *, since_ns: int | None = None) -> None:
        super().__init__(message)
        self.since_ns = since_ns


class PolledRecording:
    """Readings taken so far; ``failure`` is the reason why the recording ended early."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._readings: list[PowerReading] = []
        self.failure: str | None = None

    @property
    def readings(self) -> Sequence[PowerReading]:
        """Fresh readings, oldest first."""
        return tuple(self._readings)

    def poll(self) -> None:
        """Read the sensor once and keep a new value; after the first failure do nothing."""
        if self.failure is not None:
            return
        try:
            reading = self._read()
        except SensorStoppedError as stopped:
            self._stop(stopped)
            return
        except (OSError, ValueError) as error:  # a sensor that disappears must not end the measurement
            self.failure = str(error)
            return
        if reading is not None and (not self._readings or reading.time_ns > self._readings[-1].time_ns):
            self._readings.append(reading)

    def _stop(self, stopped: SensorStoppedError) -> None:
        """Record the reason, and drop readings that were repeats of an old value."""
        self.failure = str(stopped)
        if stopped.since_ns is not None:
            self._readings = [reading for reading in self._readings if reading.time_ns <= stopped.since_ns]


@contextmanager
def polled(read: Read, period_s: float) -> Iterator[PolledRecording]:
    """Call ``read`` every ``period_s`` seconds in a thread while the context is open, and once at its end."""
    recording, stop = PolledRecording(read), threading.Event()

    def loop() -> None:
        while not stop.wait(period_s):
            recording.poll()

    thread = threading.Thread(target=loop, name="edgetune-power", daemon=True)
    thread.start()
    try:
        yield recording
    finally:
        stop.set()
        thread.join()
        recording.poll()


Readings = Mapping[str, Mapping[str, float | str | None]]
"""Readings by group and name; a group's name ends in the unit of its numbers."""


def read_telemetry(device: Device) -> Readings:
    """Return the present readings: the device's own, else its mode, hottest zone and throttle counter.

    Power is left out of the latter, because an energy sensor needs an interval.
    """
    if device.telemetry is not None:
        return device.telemetry.read()
    found: dict[str, dict[str, float | str | None]] = {}
    if mode := present_mode(device.modes):
        found["mode"] = mode
    if not isinstance(device.temperature, Absent):
        found["temperature_c"] = {"hottest": device.temperature.read_c()}
    if not isinstance(device.throttle, Absent):
        found["throttling_events"] = {"since boot": device.throttle.read()}
    return found


def present_mode(modes: ModeControl | Absent) -> dict[str, float | str | None]:
    """Return the present knobs, ``None`` for one that is not pinned; empty where they cannot be read."""
    if isinstance(modes, Absent) or not isinstance(modes, ModeReader):
        return {}
    try:
        now = modes.read().knobs()
    except DeviceError:
        return {}
    return {**dict.fromkeys(modes.space.knobs), **now}
