"""What a device can do, as small capabilities; one that is missing is ``Absent``, with the reason.

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
    """A capability this device does not have here, and why; shown to the user, never treated as zero."""

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
        """Fresh readings only: a value the sensor has not renewed is not repeated."""
        ...

    @property
    def failure(self) -> str | None:
        """Why there were no more readings from some moment on; ``None`` while the sensor answers."""
        ...


class PowerSensor(Protocol):
    """Reads the power of what ``source`` names.

    ``refresh_s`` is how often the sensor has a new value, ``settle_s`` how long power takes to settle once work starts.
    """

    @property
    def source(self) -> str:
        """What the figure covers, e.g. ``rapl:package-0`` or ``ina3221:VDD_IN``."""
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
        """Take readings for as long as the context is open."""
        ...


class Thermometer(Protocol):
    """Reads the hottest zone."""

    def read_c(self) -> float | None:
        """Return degrees Celsius, or ``None`` when no zone answers now."""
        ...


class ThrottleCounter(Protocol):
    """Counts throttling events since boot, or, where the device shows only what slows it now, since it was opened.

    It is read about once a second while a point runs, so that what begins and ends in between is seen.
    """

    def read(self) -> int:
        """Return the number of events so far."""
        ...


@runtime_checkable
class SlightThrottleCounter(Protocol):
    """A throttle counter that also counts events too slight to spoil a measurement; their rate is reported too."""

    def slight_counts(self) -> Mapping[str, int]:
        """Return the number of such events so far, by kind."""
        ...


@dataclass(frozen=True, slots=True)
class ModeSpace:
    """The power modes a device offers, as data.

    Args:
        knobs: Permitted values of each knob that can be set, ascending.
        presets: Named modes, e.g. ``MAXN``.
        fixed: Knobs that exist but cannot be set here, by name, with the reason.
        grids: Named grids of a published study, by their number of modes: values per knob (``grid:441``).
        listed: When the device offers only certain combinations (a recorded table), exactly those.
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
    """Sets power modes and puts back what was found."""

    @property
    def space(self) -> ModeSpace:
        """The modes that can be set."""
        ...

    def apply(self, mode: Mode) -> Mode:
        """Set ``mode`` and return it as read back from the device.

        Raises:
            DeviceError: the device refused it or reads back otherwise.
        """
        ...

    def restore(self) -> None:
        """Put every knob back as it was when this control was opened; harmless when repeated.

        Raises:
            NotRestoredError: something could not be put back.
        """
        ...


@runtime_checkable
class ModeReader(Protocol):
    """A mode control that can also tell the present mode; what drifted while a point was measured is then seen."""

    def read(self) -> Mode:
        """Return the knobs as they are now, without setting anything."""
        ...


class Telemetry(Protocol):
    """Everything a device shows of itself, for people who watch it; reading it changes nothing."""

    def read(self) -> Mapping[str, Mapping[str, float | str | None]]:
        """Return readings by group and name, e.g. ``{"power_w": {"VDD_IN": 7.2}}``; what does not answer is ``None``.

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
        """Run that many minibatches back to back and return when each started and ended.

        Raises:
            EdgetuneError: the workload failed; the message says how.
        """
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


@dataclass(frozen=True, slots=True)
class LiveSource:
    """Workloads really run here, in a child process.

    Args:
        ort_providers: ONNX Runtime execution providers to ask for, in order; a silent fallback is an error.
        torch_device: PyTorch device, e.g. ``cpu`` or ``cuda:0``.
        environment: Environment variables of the child, e.g. which GPU it is shown.
    """

    ort_providers: tuple[str, ...]
    torch_device: str
    environment: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class ModelSource(Protocol):
    """Workloads are simulated from their operator tables (a twin)."""

    def open(self, ops: OpsTable) -> Runner:
        """Return a runner whose minibatches advance the device's virtual clock."""
        ...


@runtime_checkable
class RoundSource(Protocol):
    """A model whose noise is another in every round of a sweep."""

    def begin_round(self, number: int) -> None:
        """Note which round comes next, from 1, also where earlier rounds ran in another process."""
        ...


@runtime_checkable
class LayerSource(Protocol):
    """A model that also tells the time of each operator by itself."""

    def layer_times(self, ops: OpsTable) -> LayerTimes:
        """Return what each row of a table takes in the present mode."""
        ...


@runtime_checkable
class TableSource(Protocol):
    """Points are looked up in a table of earlier measurements (a recorded device)."""

    @property
    def rows(self) -> Sequence[ProfileRow]:
        """Every measured row."""
        ...

    def lookup(self, point: Point) -> ProfileRow:
        """Return the row measured at ``point``.

        Raises:
            InputError: the point is not in the table; it is never interpolated.
        """
        ...


@dataclass(frozen=True, slots=True)
class Device:
    """A device and what it can do here.

    Args:
        name: As the user names it, e.g. ``host``, ``twin:orin-agx``, ``recorded:FILE``.
        description: One line for people.
        simulated: Whether its figures come from a model.
        source: How workloads run on it.
        clock: Times everything.
        power, modes, temperature, throttle: Capabilities, or ``Absent`` with the reason.
        conditions: Facts for the artifact header: board, software versions, calibration hash, noise seed.
        telemetry: What there is to watch; ``None`` where it is no more than the capabilities above.
        exclusive: Gives the device to this process for as long as the context is open; a host is shared.
        load: Tells what other processes use of the CPUs; ``None`` where workloads do not run on this machine.
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
    """One device that can be named.

    Args:
        name: What to write after ``--device``.
        description: One line for people.
        available: Whether it can be opened now.
        reason: Why not; empty when it can.
    """

    name: str
    description: str
    available: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """One kind of device, under the first word of its devices' names.

    Args:
        example: A name of this kind, for messages.
        chosen: Whether ``auto`` may take it: real hardware only.
        listings: Returns the devices of this kind that can be named here.
        open: Opens a device from its whole name and a seed.
    """

    example: str
    chosen: bool
    listings: Callable[[], list[Listing]]
    open: Callable[[str, int], Device]
