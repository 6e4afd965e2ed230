"""A device: its capabilities and the source that runs workloads on it, and a kind of devices.

A ``Device`` is a record of ``capabilities``. The profiler never asks what kind of device it has: it reads the
clock, starts the power sensor, applies a mode, and runs minibatches through whichever ``source`` the device offers. A
``DeviceKind`` lists the devices of one kind and opens them by name.

How networks slow each other down where the driver shares a device between them.

Devices by name: the registry of kinds, the list of devices on this machine, and opening by name.

``auto`` chooses the first real accelerator, else the host, and never a simulated or recorded device.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from edgetune.artifacts.columns import PositiveFloat
from edgetune.artifacts.layers import LayerTimes
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.choices import closest
from edgetune.devices.capabilities import (
    Absent,
    Clock,
    ModeControl,
    PowerSensor,
    Telemetry,
    Thermometer,
    ThrottleCounter,
)
from edgetune.devices.cpu import CpuLoad, MachineMemory
from edgetune.errors import DeviceError, InputError
from edgetune.plugins import Registry


@dataclass(frozen=True, slots=True)
class Contention:
    """How many times as long minibatches take while one of another network is on the device all the time.

    Time slices of equal length are 2 for both. Several values are as likely as each other; a minibatch has one of them.

    Args:
        urgent: Of a network that answers by deadlines, beside one without a deadline.
        background: Of a network without a deadline, beside one that answers.
        source: Which pairs were measured.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    urgent: tuple[PositiveFloat, ...]
    background: tuple[PositiveFloat, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Minibatches:
    """Start and end of consecutive minibatches on the device's clock, integer nanoseconds, equal lengths.

    ``columns`` are further columns of a profile's row, over all minibatches of the runner so far.
    """

    start_ns: Sequence[int]
    end_ns: Sequence[int]
    columns: Mapping[str, Any] = field(default_factory=dict)


class Runner(Protocol):
    """One workload at one batch size, loaded and ready."""

    def run(self, minibatches: int) -> Minibatches:
        """Run ``minibatches`` minibatches back to back and return their start and end times.

        Raises:
            EdgetuneError: the workload failed; the message gives the reason.
        """

    def close(self) -> None:
        """Release all resources."""


@runtime_checkable
class HasProcesses(Protocol):
    """A runner whose work is done by processes of this machine."""

    def processes(self) -> Sequence[int]:
        """Return the ids of the processes whose memory is that of the workload."""


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


@runtime_checkable
class RoundSource(Protocol):
    """A model source whose noise differs in every round of a sweep."""

    def begin_round(self, number: int) -> None:
        """Set the number of the next round, from 1; earlier rounds may have run in another process."""


@runtime_checkable
class LayerSource(Protocol):
    """A model source that also predicts the time of each operator."""

    def layer_times(self, ops: OpsTable) -> LayerTimes:
        """Return the time of each row of a table in the present mode."""


@runtime_checkable
class TableSource(Protocol):
    """Source that looks points up in a table of earlier measurements (a recorded device)."""

    @property
    def rows(self) -> Sequence[ProfileRow]:
        """Every measured row."""

    def lookup(self, point: Point) -> ProfileRow:
        """Return the row measured at ``point``.

        Raises:
            InputError: the point is not in the table; values are never interpolated.
        """


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
        memory: Memory of this machine; ``None`` where workloads do not run on it.
        contention: How networks slow each other down, by the engine of ``edgetune interleave`` that shares the device;
            empty where it is not known.
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
    memory: MachineMemory | None = None
    contention: Mapping[str, Contention] = field(default_factory=dict)


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


AUTO = "auto"

DEVICES: Registry[DeviceKind] = Registry(
    "device",
    {
        "jetson": "edgetune.devices.jetson.device:KIND",
        "nvidia": "edgetune.devices.nvml.device:KIND",
        "host": "edgetune.devices.host:KIND",
        "twin": "edgetune.devices.twin:KIND",
        "recorded": "edgetune.devices.recorded:KIND",
    },
    group="edgetune.devices",
    contract=DeviceKind,
)
"""Every kind of device, by the first word of its name, in the order that ``auto`` tries them."""


def open_device(name: str, *, seed: int = 0) -> Device:
    """Open a device by name.

    Args:
        name: ``auto``, ``host``, ``recorded:FILE``, ``twin:BOARD``, ``nvidia:0`` or ``jetson``.
        seed: Seed of a twin's noise.

    Raises:
        InputError: the name is unknown.
        DeviceError: the device, its driver or its library is missing.
    """
    name = auto_name() if name == AUTO else name
    return _kind_of(name).open(name, seed)


def list_devices() -> list[Listing]:
    """Return the devices of this machine, real ones first, with the reason why one cannot be opened."""
    return [listing for kind in DEVICES.values() for listing in kind.listings()]


def auto_name() -> str:
    """Return the name of the device that ``auto`` chooses.

    Raises:
        DeviceError: no device can be opened.
    """
    for kind in DEVICES.values():
        if kind.chosen:
            for listing in kind.listings():
                if listing.available:
                    return listing.name
    raise DeviceError("no device was found", "`edgetune device` lists the devices by name")


_MEANT = {"cpu": "host", "gpu": "nvidia", "cuda": "nvidia"}
"""Words that other programs have for a device."""


def _kind_of(name: str) -> DeviceKind:
    word = name.partition(":")[0].partition("?")[0]
    if word in DEVICES:
        return DEVICES[word]
    names = [AUTO, *(kind.example for kind in DEVICES.values())]
    near = _MEANT.get(name.lower()) or closest(name, [*names, *DEVICES])
    if not near and Path(name).is_file():
        raise InputError(f"unknown device {name!r}", f"to use a file as a device write recorded:{name}")
    known = f"known: {', '.join(names)}; `edgetune device` says what each is"
    if not near:
        raise InputError(f"unknown device {name!r}", known)
    meant = DEVICES[near].example if near in DEVICES else near
    raise InputError(f"unknown device {name!r}", f"did you mean {meant}? {known}")
