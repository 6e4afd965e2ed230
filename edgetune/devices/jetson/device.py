"""``jetson``: the board this runs on, put together from what its kernel shows.

Reading needs no privilege, nor does running a network. Modes are set by the guardian, the only process that has any.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgetune.devices.clock import Clock, MonotonicClock
from edgetune.devices.cpu_load import CpuLoad
from edgetune.devices.device import Absent, Device, LiveSource, PowerSensor
from edgetune.devices.exclusive import Exclusive
from edgetune.devices.guardian.client import guardian_command, open_guardian_modes
from edgetune.devices.guardian.controls import open_jetson_control
from edgetune.devices.jetson.conditions import board_conditions
from edgetune.devices.jetson.cross_check import differences
from edgetune.devices.jetson.detect import Jetson, detect_jetson
from edgetune.devices.jetson.device_options import JetsonOptions, parse_jetson_options
from edgetune.devices.jetson.jtop import open_jtop_power
from edgetune.devices.jetson.knobs import find_knobs
from edgetune.devices.jetson.power import BoardPower, open_board_power
from edgetune.devices.jetson.telemetry import BoardTelemetry
from edgetune.devices.jetson.thermal import open_board_thermometer
from edgetune.devices.jetson.throttle import open_board_throttle
from edgetune.devices.kind import DeviceKind, Listing
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError
from edgetune.processes.privilege import holds_root

_GPU = LiveSource(ort_providers=("CUDAExecutionProvider",), torch_device="cuda:0")
"""Not TensorRT, which builds an engine for every batch size: minutes before a point, and other kernels each time."""

_WITHOUT_CAPS = "the active nvpmodel mode is not known: nothing above the limits in force now is offered"


def open_jetson_at(root: Path = Path("/"), name: str = "jetson") -> Device:
    """Open the board whose files lie below ``root``.

    Args:
        root: ``/``, or where a container has the board's file system.
        name: ``jetson``, with options; see ``choices``.

    Raises:
        InputError: an option that a Jetson does not have.
        DeviceError: there is no Jetson.
    """
    sysfs = Sysfs(root)
    kind = (
        f"{name.partition('?')[0]}?beyond-caps=on" if parse_jetson_options(name).beyond_caps else name.partition("?")[0]
    )
    return open_jetson(sysfs, name, guardian_command(kind, root), ask=not holds_root() and root == Path("/"))


def open_jetson(
    sysfs: Sysfs,
    name: str,
    guardian: Sequence[str],
    *,
    ask: bool = False,
    source: LiveSource = _GPU,
    clock: Clock | None = None,
    made_up: str | None = None,
) -> Device:
    """Open a board.

    Args:
        sysfs: Its files.
        name: As the user wrote it.
        guardian: Command line of the process that sets its modes.
        ask: Whether the guardian must be asked what can be set, because this process may not look.
        source: How workloads run on it.
        clock: Times everything; the system's monotonic clock by default.
        made_up: What is not real about it; it is then simulated, and says so.

    Raises:
        DeviceError: there is no Jetson.
    """
    jetson, choices = detect_jetson(sysfs), parse_jetson_options(name)
    if jetson is None:
        raise no_jetson(sysfs.root)
    clock = clock or MonotonicClock()
    control = open_jetson_control(sysfs, beyond_caps=choices.beyond_caps)
    modes = open_guardian_modes(guardian, control, ask=ask)
    power = _power(sysfs, clock, jetson, choices)
    temperature, throttle = open_board_thermometer(sysfs), open_board_throttle(sysfs)
    about = jetson.model if made_up is None else f"{jetson.model} ({made_up})"
    return Device(
        name="jetson",
        description=f"{about}, {_software(jetson)}",
        simulated=made_up is not None,
        source=source,
        clock=clock,
        power=power,
        modes=modes,
        temperature=temperature,
        throttle=throttle,
        conditions=_conditions(sysfs, jetson, power, choices, made_up),
        telemetry=BoardTelemetry(sysfs, modes, power, temperature, throttle),
        exclusive=Exclusive("jetson", sysfs.root),
        load=CpuLoad(sysfs) if made_up is None else None,
    )


def no_jetson(root: Path) -> DeviceError:
    """Return what to say where the files below ``root`` are not those of a Jetson."""
    if root == Path("/"):
        return DeviceError("this machine is not a Jetson", "the device twin:orin-agx simulates one")
    return DeviceError(
        f"{root} has no files of a Jetson: neither etc/nv_tegra_release nor proc/device-tree names one",
        "give the folder that has the board's sys, proc and etc",
    )


def _power(sysfs: Sysfs, clock: Clock, jetson: Jetson, choices: JetsonOptions) -> PowerSensor | Absent:
    if choices.jtop:
        return open_jtop_power(clock)
    return open_board_power(sysfs, clock, jetson.soc or "", choice=choices.rails)


def _software(jetson: Jetson) -> str:
    """Return the releases in a few words."""
    known = (("JetPack", jetson.jetpack), ("L4T", jetson.l4t), ("kernel", jetson.kernel_generation))
    return ", ".join(f"{what} {value}" for what, value in known if value) or "unknown release"


def _conditions(
    sysfs: Sysfs, jetson: Jetson, power: PowerSensor | Absent, choices: JetsonOptions, made_up: str | None
) -> dict[str, Any]:
    """Return what a result on this board depends on."""
    tables = find_knobs(sysfs).tables
    facts = board_conditions(sysfs, tables)
    known = any(cap is not None for cap in (facts["caps"] or {}).values())
    facts["board_notes"] = [
        *facts.get("board_notes", ()), *differences(jetson, tables), *([] if known else [_WITHOUT_CAPS])
    ]  # fmt: skip
    facts["beyond_caps"] = choices.beyond_caps
    if isinstance(power, BoardPower):
        facts |= power.conditions()
    elif not isinstance(power, Absent):
        facts["power_source"] = power.source
    if made_up is not None:
        facts |= {"simulated": True, "made_up": made_up}
    return facts


def _listings() -> list[Listing]:
    board = detect_jetson(Sysfs())
    if board is None:
        return [Listing("jetson", "NVIDIA Jetson board", False, no_jetson(Path("/")).message)]
    return [Listing("jetson", board.model)]


def _open(name: str, seed: int) -> Device:  # noqa: ARG001 - every kind is opened alike
    return open_jetson_at(name=name)


KIND = DeviceKind("jetson", True, _listings, _open)
