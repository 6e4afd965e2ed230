"""Capabilities that a device may have, as small protocols; a missing capability is ``Absent`` with the reason.

The clock of a device: the system's monotonic clock, or a virtual one on a twin.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from edgetune.artifacts.mode import Mode
from edgetune.errors import DeviceError
from edgetune.visible import one_line


@dataclass(frozen=True, slots=True)
class Absent:
    """A missing capability and the reason; shown to the user, never treated as zero."""

    reason: str


@dataclass(frozen=True, slots=True)
class PowerReading:
    """Mean power over the sensor's refresh interval that ends at ``time_ns`` of the device's clock."""

    time_ns: int
    power_w: float


class PowerRecording(Protocol):
    """Readings taken while the recording was open, oldest first; complete once it is closed."""

    @property
    def readings(self) -> Sequence[PowerReading]:
        """Fresh readings only, without repeats of a value that the sensor has not renewed."""

    @property
    def failure(self) -> str | None:
        """Reason why the readings ended early; ``None`` while the sensor answers."""


class PowerSensor(Protocol):
    """Reads the power of the part of the machine that ``source`` names."""

    @property
    def source(self) -> str:
        """The part of the machine that readings cover, e.g. ``rapl:package-0`` or ``ina3221:VDD_IN``."""

    @property
    def refresh_s(self) -> float:
        """Interval between new values, s."""

    @property
    def settle_s(self) -> float:
        """Time from the start of work until power readings represent it, s."""

    def record(self) -> AbstractContextManager[PowerRecording]:
        """Record readings while the context is open."""


class Thermometer(Protocol):
    """Reads the hottest zone."""

    def read_c(self) -> float | None:
        """Return the temperature, degrees Celsius; ``None`` when no zone answers."""


class ThrottleCounter(Protocol):
    """Counts throttling events since boot, or since it was opened where the device shows only the present state.

    The profiler reads it about once a second while a point runs, to catch short events.
    """

    def read(self) -> int:
        """Return the number of events so far."""


@runtime_checkable
class SlightThrottleCounter(Protocol):
    """A throttle counter that also counts events too slight to invalidate a measurement; their rate is reported."""

    def slight_counts(self) -> Mapping[str, int]:
        """Return the number of slight events so far, by kind."""

    def counts(self) -> Mapping[str, int]:
        """Return the number of all events so far, by kind: the slight ones, and those that ``read`` counts."""


@dataclass(frozen=True, slots=True)
class ModeSpace:
    """The power modes a device offers, as data.

    Args:
        knobs: Permitted values of each knob that can be set, ascending.
        presets: Named modes, e.g. ``MAXN``.
        fixed: Knobs that exist but cannot be set here, by name, with the reason.
        listed: The only combinations on offer, for a device with a fixed list (a recorded table).
        withheld: Named modes that exist but cannot be set as they are, with the reason.
        limited: Knobs that have higher values than are offered, by name, with the reason.
    """

    knobs: Mapping[str, tuple[float, ...]]
    presets: Mapping[str, Mode] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    listed: tuple[Mode, ...] | None = None
    withheld: Mapping[str, str] = field(default_factory=dict)
    limited: Mapping[str, str] = field(default_factory=dict)


def check_mode(knobs: Mapping[str, float], space: ModeSpace, device: str) -> Mode:
    """Return the mode of ``knobs`` after checking that the device offers each value.

    Raises:
        DeviceError: the device lacks a knob, a value is not in its table, or the combination is not listed.
    """
    hint = f"`edgetune device {device}` lists what it can set"
    for knob, value in knobs.items():
        table = space.knobs.get(knob)
        if table is None:
            reason = space.fixed.get(knob, "there is no such knob")
            raise DeviceError(f"{device} cannot set {one_line(knob, 200)}: {reason}", hint)
        if value not in table:
            limit = f": {space.limited[knob]}" if knob in space.limited and value > table[-1] else ""
            nearest = min(table, key=lambda other: abs(other - value))
            message = f"{device} offers no {knob} of {value:g}{limit}"
            raise DeviceError(message, f"the nearest value is {nearest:g}; {hint}")
    mode = Mode.of(knobs)
    if space.listed is not None and knobs and mode not in space.listed:
        raise DeviceError(f"{device} does not offer {mode} together", hint)
    return mode


class ModeControl(Protocol):
    """Sets power modes and restores the original settings."""

    @property
    def space(self) -> ModeSpace:
        """The modes that can be set."""

    def apply(self, mode: Mode) -> Mode:
        """Set ``mode`` and return the mode read back from the device.

        Raises:
            DeviceError: the device refused the mode, or reads back another.
        """

    def restore(self) -> None:
        """Restore every knob to its value when this control was opened; idempotent.

        Raises:
            NotRestoredError: a setting could not be restored.
        """


@runtime_checkable
class ModeReader(Protocol):
    """A mode control that can also read the present mode, which shows drift during a measurement."""

    def read(self) -> Mode:
        """Return the present knobs without setting anything."""


@runtime_checkable
class FanControl(Protocol):
    """A mode control that also sets the fan to its highest speed, with each mode, if ``fan_to_maximum`` is true."""

    fan_to_maximum: bool


class Telemetry(Protocol):
    """All readings of a device, for live display; reading changes nothing."""

    def read(self) -> Mapping[str, Mapping[str, float | str | None]]:
        """Return readings by group and name, e.g. ``{"power_w": {"VDD_IN": 7.2}}``; ``None`` on failure.

        The name of a group ends in the unit of its numbers: ``clocks_mhz``, ``power_w``, ``temperature_c``.
        """


class Clock(Protocol):
    """The clock that times minibatches and stamps power samples; virtual on a twin."""

    def now_ns(self) -> int:
        """Return monotonic time, integer nanoseconds."""

    def sleep_s(self, seconds: float) -> None:
        """Wait ``seconds``; a virtual clock advances at once."""


class MonotonicClock:
    """CLOCK_MONOTONIC: one clock for all processes, never set back, so parent and child can compare times."""

    def now_ns(self) -> int:
        """Return monotonic time, ns."""
        return time.monotonic_ns()

    def sleep_s(self, seconds: float) -> None:
        """Wait ``seconds``."""
        time.sleep(seconds)


class VirtualClock:
    """A clock that only ``sleep_s`` and ``advance_ns`` advance, at once."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return the time, ns."""
        return self._now_ns

    def sleep_s(self, seconds: float) -> None:
        """Advance the clock by seconds."""
        self._now_ns += max(round(seconds * 1e9), 0)

    def advance_ns(self, duration_ns: int) -> None:
        """Advance the clock by integer nanoseconds."""
        self._now_ns += duration_ns
