"""The capabilities of a device, as small protocols; a missing capability is ``Absent`` with the reason.

A ``Device`` is a record of capabilities. The profiler never asks what kind of device it has: it reads the clock, starts
the power sensor, applies a mode, and runs minibatches through whichever ``source`` the device offers. A ``DeviceKind``
lists the devices of one kind and opens them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from edgetune.artifacts.layers import LayerTimes
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.devices.clock import Clock
from edgetune.devices.cpu import CpuLoad


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
        ...

    @property
    def failure(self) -> str | None:
        """Reason why the readings ended early; ``None`` while the sensor answers."""
        ...


class PowerSensor(Protocol):
    """Reads the power of the part of the machine that ``source`` names."""

    @property
    def source(self) -> str:
        """The part of the machine that readings cover, e.g. ``rapl:package-0`` or ``ina3221:VDD_IN``."""
        ...

    @property
    def refresh_s(self) -> float:
        """Interval between new values, s."""
        ...

    @property
    def settle_s(self) -> float:
        """Time from the start of work until power readings represent it, s."""
        ...

    def record(self) -> AbstractContextManager[PowerRecording]:
        """Record readings while the context is open."""
        ...


class Thermometer(Protocol):
    """Reads the hottest zone."""

    def read_c(self) -> float | None:
        """Return the temperature, degrees Celsius; ``None`` when no zone answers."""
        ...


class ThrottleCounter(Protocol):
    """Counts throttling events since boot, or since it was opened where the device shows only the present state.

    The profiler reads it about once a second while a point runs, to catch short events.
    """

    def read(self) -> int:
        """Return the number of events so far."""
        ...


@runtime_checkable
class SlightThrottleCounter(Protocol):
    """A throttle counter that also counts events too slight to invalidate a measurement; their rate is reported."""

    def slight_counts(self) -> Mapping[str, int]:
        """Return the number of slight events so far, by kind."""
        ...


@dataclass(frozen=True, slots=True)
class ModeSpace:
    """The power modes a device offers, as data.

    Args:
        knobs: Permitted values of each knob that can be set, ascending.
        presets: Named modes, e.g. ``MAXN``.
        fixed: Knobs that exist but cannot be set here, by name, with the reason.
        grids: Named grids of a published study, by their number of modes: values per knob (``grid:441``).
        listed: The only combinations on offer, for a device with a fixed list (a recorded table).
        withheld: Named modes that exist but cannot be set as they are, with the reason.
        limited: Knobs that have higher values than are offered, by name, with the reason.
    """

    knobs: Mapping[str, tuple[float, ...]]
    presets: Mapping[str, Mode] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    grids: Mapping[int, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    listed: tuple[Mode, ...] | None = None
    withheld: Mapping[str, str] = field(default_factory=dict)
    limited: Mapping[str, str] = field(default_factory=dict)


class ModeControl(Protocol):
    """Sets power modes and restores the original settings."""

    @property
    def space(self) -> ModeSpace:
        """The modes that can be set."""
        ...

    def apply(self, mode: Mode) -> Mode:
        """Set ``mode`` and return the mode read back from the device.

        Raises:
            DeviceError: the device refused the mode, or reads back another.
        """
        ...

    def restore(self) -> None:
        """Restore every knob to its value when this control was opened; idempotent.

        Raises:
            NotRestoredError: a setting could not be restored.
        """
        ...


@runtime_checkable
class ModeReader(Protocol):
    """A mode control that can also read the present mode, which shows drift during a measurement."""

    def read(self) -> Mode:
        """Return the present knobs without setting anything."""
        ...


class Telemetry(Protocol):
    """All readings of a device, for live display; reading changes nothing."""

    def read(self) -> Mapping[str, Mapping[str, float | str | None]]:
        """Return readings by group and name, e.g. ``{"power_w": {"VDD_IN": 7.2}}``; ``None`` on failure.

        The name of a group ends in the unit of its numbers: ``clocks_mhz``, ``power_w``, ``temperature_c``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Minibatches:
    """Start and end of consecutive minibatches on the device's clock, integer nanoseconds, equal lengths."""

    start_ns: Sequence[int]
    end_ns: Sequence[int]


class Runner(Protocol):
    """One workload at one batch size, loaded and ready."""

    def run(self, minibatches: int) -> Minibatches:
        """Run ``minibatches`` minibatches back to back and return their start and end times.

        Raises:
            EdgetuneError: the workload failed; the message gives the reason.
        """
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


@dataclass(frozen=True, slots=True)
class LiveSource:
    """Source that runs workloads in a child process.

    Args:
        ort_providers: ONNX Runtime execution providers in order of preference; a silent fallback is an error.
        torch_device: PyTorch device, e.g. ``cpu`` or ``cuda:0``.
        environment: Environment variables of the child, e.g. the visible GPU.
    """

    ort_providers: tuple[str, ...]
    torch_device: str
    environment: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class ModelSource(Protocol):
    """Source that simulates workloads from their operator tables (a twin)."""

    def open(self, ops: OpsTable) -> Runner:
        """Return a runner whose minibatches advance the device's virtual clock."""
        ...


@runtime_checkable
class RoundSource(Protocol):
    """A model source whose noise differs in every round of a sweep."""

    def begin_round(self, number: int) -> None:
        """Set the number of the next round, from 1; earlier rounds may have run in another process."""
        ...


@runtime_checkable
class LayerSource(Protocol):
    """A model source that also predicts the time of each operator."""

    def layer_times(self, ops: OpsTable) -> LayerTimes:
        """Return the time of each row of a table in the present mode."""
        ...


@runtime_checkable
class TableSource(Protocol):
    """Source that looks points up in a table of earlier measurements (a recorded device)."""

    @property
    def rows(self) -> Sequence[ProfileRow]:
        """Every measured row."""
        ...

    def lookup(self, point: Point) -> ProfileRow:
        """Return the row measured at ``point``.

        Raises:
            InputError: the point is not in the table; values are never interpolated.
        """
        ...


@dataclass(frozen=True, slots=True)
class Device:
    """A device and its capabilities.

    Args:
        name: Device name, e.g. ``host``, ``twin:orin-agx``, ``recorded:FILE``.
        description: One line for people.
        simulated: Whether its figures come from a model.
        source: How workloads run on it.
        clock: Clock of all times.
        power, modes, temperature, throttle: Capabilities, or ``Absent`` with the reason.
        conditions: Facts for the artifact header: board, software versions, calibration hash, noise seed.
        telemetry: All readings for live display; ``None`` for no more than the capabilities above.
        exclusive: Context that reserves the device for this process; a host is shared.
        load: Load of the CPUs by other processes; ``None`` where workloads do not run on this machine.
    """

    name: str
    description: str
    simulated: bool
    source: LiveSource | ModelSource | TableSource
    clock: Clock
    power: PowerSensor | Absent
    modes: ModeControl | Absent
    temperature: Thermometer | Absent
    throttle: ThrottleCounter | Absent
    conditions: Mapping[str, Any] = field(default_factory=dict)
    telemetry: Telemetry | None = None
    exclusive: Callable[[], AbstractContextManager[None]] = nullcontext
    load: CpuLoad | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """One entry of the list of devices.

    Args:
        name: Value of ``--device``.
        description: One line for people.
        available: Whether the device can be opened now.
        reason: Reason why not; empty when it can.
    """

    name: str
    description: str
    available: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """One kind of device, registered under the first word of its devices' names.

    Args:
        example: A name of this kind, for messages.
        chosen: Whether ``auto`` may choose it: real hardware only.
        listings: Returns the devices of this kind on this machine.
        open: Opens a device from its whole name and a seed.
    """

    example: str
    chosen: bool
    listings: Callable[[], list[Listing]]
    open: Callable[[str, int], Device]
