"""``jetson``: assemble the local board as a device, and collect the conditions that a result on it depends on.

Reading sensors and running networks needs no privilege; modes are set by the guardian, the only privileged process.
Conditions go into the header of every artifact, ``None`` where unknown.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from edgetune.devices.capabilities import Absent, Clock, MonotonicClock, PowerSensor
from edgetune.devices.cpu import CpuLoad, MachineMemory
from edgetune.devices.device import Device, DeviceKind, Listing, LiveSource
from edgetune.devices.guardian.client import guardian_command, open_guardian_modes
from edgetune.devices.guardian.controls import BEYOND_CAPS, open_jetson_control
from edgetune.devices.guardian.lock import Exclusive
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.jetson.gpu import gpu_folder
from edgetune.devices.jetson.knobs import JetsonKnobs, caps_of
from edgetune.devices.jetson.power import BoardPower
from edgetune.devices.jetson.restore import nvpmodel_in_force
from edgetune.devices.jetson.sensors import BoardTelemetry, open_board_thermometer, read_fan
from edgetune.devices.jetson.throttle import open_board_throttle
from edgetune.devices.nvml.gpu import gpu_load
from edgetune.devices.software import software_versions
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError, InputError
from edgetune.plugins import Registry
from edgetune.processes.privilege import holds_root

POWER_SENSORS: Registry[Callable[[Sysfs, Clock, str, str | None], PowerSensor | Absent]] = Registry(
    "source of power",
    {
        "board": "edgetune.devices.jetson.power:open_board_power",
        "jtop": "edgetune.devices.jetson.power:open_jtop_power",
    },
)
"""Openers of a board's power sensor by the value of ``source=``; arguments: files, clock, SoC and chosen rails."""

_EXAMPLE = "e.g. jetson?beyond-caps=on or jetson?rails=VDD_GPU_SOC+VDD_CPU_CV"


@dataclass(frozen=True, slots=True)
class JetsonOptions:
    """Options of a ``jetson`` device name: ``jetson?beyond-caps=on&rails=VDD_GPU_SOC+VDD_CPU_CV``.

    Args:
        beyond_caps: Offer clocks and cores above what the active power mode allows: NVIDIA's qualified limits.
        rails: Power rails to add up instead of the board's usual total, joined by ``+``.
        source: Power sensor, one of ``POWER_SENSORS``: the board's own files, or a running jetson-stats.
    """

    beyond_caps: bool = False
    rails: str | None = None
    source: str = "board"


def parse_jetson_options(name: str) -> JetsonOptions:
    """Return the options in a Jetson's device name.

    Raises:
        InputError: ``name`` is not a Jetson, or has an unknown option.
    """
    kind, _, query = name.partition("?")
    if kind != "jetson":
        raise InputError(f"unknown device {name!r}", "write jetson")
    given: dict[str, str] = {}
    for part in filter(None, query.split("&")):  # a plus is a plus here: rails are joined by it
        option, _, value = part.partition("=")
        if option in given:
            raise InputError(f"{name!r} gives {option} twice", _EXAMPLE)
        given[option] = unquote(value)
    beyond, rails, source = given.pop("beyond-caps", "off"), given.pop("rails", None), given.pop("source", "board")
    if given:
        raise InputError(f"{name!r} has an unknown option {min(given)!r}", _EXAMPLE)
    if beyond not in ("on", "off"):
        raise InputError(f"beyond-caps is on or off, not {beyond!r}", _EXAMPLE)
    if source not in POWER_SENSORS:
        raise InputError(
            f"the source of power is {' or '.join(POWER_SENSORS)}, not {source!r}", "e.g. jetson?source=jtop"
        )
    if rails is not None and (source != "board" or not rails):
        why = f"{source} chooses its own" if rails else "none are named"
        raise InputError(f"rails cannot be chosen: {why}", _EXAMPLE)
    return JetsonOptions(beyond == "on", rails, source)


_CPU_GOVERNORS = "sys/devices/system/cpu/cpufreq/policy*/scaling_governor"


def board_conditions(sysfs: Sysfs, knobs: JetsonKnobs | None = None) -> dict[str, Any]:
    """Return the conditions of the board that a measurement depends on.

    Args:
        sysfs: The board's files.
        knobs: The board's knobs, for the limits of the active mode.
    """
    board = detect_jetson(sysfs)
    nvpmodel = nvpmodel_in_force(sysfs, knobs=knobs)
    known = None if isinstance(nvpmodel, str) else nvpmodel
    fan, gpu = read_fan(sysfs, known.fan_profile if known else None), gpu_folder(sysfs)
    names = ("module", "soc", "super_variant", "jetpack", "l4t", "kernel", "container")
    power_mode: dict[str, Any] = {"mode": None, "id": None, "file": None, "sha256": None, "notes": [nvpmodel]}
    if known is not None:
        mode = known.active_model.name if known.active_model else None
        power_mode = {"mode": mode, "id": known.active, "file": known.path, "sha256": known.sha256}
        power_mode["notes"] = list(known.notes)
    governors = {word for path in sysfs.glob(_CPU_GOVERNORS) if (word := sysfs.text(path))}
    return {
        "board": board.model if board else None,
        **{name: getattr(board, name) if board else None for name in names},
        "board_notes": list(board.notes) if board else ["this is not a Jetson"],
        "nvpmodel": power_mode,
        "caps": caps_of(known, knobs.tables) if known and knobs else None,
        "governors": {
            "cpu": ", ".join(sorted(governors)) or None,
            "gpu": (sysfs.text(f"{gpu}/governor") or None) if gpu else None,
        },
        "fan": asdict(fan) if fan else None,
        **software_versions(),
    }


_GPU = LiveSource(ort_providers=("CUDAExecutionProvider",), torch_device="cuda:0")
"""TensorRT is left out: it builds an engine for every batch size, which takes minutes and may select other kernels."""

_WITHOUT_CAPS = "the active nvpmodel mode is not known: nothing above the limits in force now is offered"


def open_jetson_at(root: Path = Path("/"), name: str = "jetson") -> Device:
    """Open the board whose files lie below ``root``.

    Args:
        root: ``/``, or the board's file system inside a container.
        name: ``jetson``, with options; see ``choices``.

    Raises:
        InputError: ``name`` has an unknown option.
        DeviceError: this machine is no Jetson.
    """
    sysfs = Sysfs(root)
    kind = BEYOND_CAPS if parse_jetson_options(name).beyond_caps else "jetson"
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
        name: Device name with options.
        guardian: Command line of the process that sets its modes.
        ask: Whether to ask the guardian for the settable modes, because this process may not read them.
        source: How workloads run on the board.
        clock: Clock of the device; the system's monotonic clock by default.
        made_up: Which parts are simulated; the device is then marked as simulated.

    Raises:
        DeviceError: this machine is no Jetson.
    """
    jetson, choices = detect_jetson(sysfs), parse_jetson_options(name)
    if jetson is None:
        raise no_jetson(sysfs.root)
    clock = clock or MonotonicClock()
    control = open_jetson_control(sysfs, beyond_caps=choices.beyond_caps)
    modes = open_guardian_modes(guardian, control, ask=ask)
    power = POWER_SENSORS[choices.source](sysfs, clock, jetson.soc or "", choices.rails)
    temperature, throttle = open_board_thermometer(sysfs), open_board_throttle(sysfs)
    facts = board_conditions(sysfs, control.knobs)
    about = jetson.model if made_up is None else f"{jetson.model} ({made_up})"
    known = (("JetPack", jetson.jetpack), ("L4T", jetson.l4t), ("kernel", jetson.kernel_generation))
    software = ", ".join(f"{what} {value}" for what, value in known if value) or "unknown release"
    return Device(
        name="jetson",
        description=f"{about}, {software}",
        simulated=made_up is not None,
        source=source,
        clock=clock,
        power=power,
        modes=modes,
        temperature=temperature,
        throttle=throttle,
        conditions=_conditions(facts, power, choices, made_up),
        telemetry=BoardTelemetry(
            sysfs, modes, power, temperature, throttle, gpu_load=gpu_load if sysfs.root == Path("/") else lambda: None
        ),
        exclusive=Exclusive("jetson", sysfs.root),
        load=CpuLoad(sysfs) if made_up is None else None,
        memory=MachineMemory(sysfs) if made_up is None else None,
    )


def no_jetson(root: Path) -> DeviceError:
    """Return the error for a ``root`` that is not the file system of a Jetson."""
    if root == Path("/"):
        return DeviceError("this machine is not a Jetson", "the device twin:orin-agx simulates one")
    message = f"{root} has no files of a Jetson: neither etc/nv_tegra_release nor proc/device-tree names one"
    return DeviceError(message, "give the folder that has the board's sys, proc and etc")


def _conditions(
    facts: dict[str, Any], power: PowerSensor | Absent, choices: JetsonOptions, made_up: str | None
) -> dict[str, Any]:
    """Return the conditions of a result on this board: its own, and how it was opened."""
    known = any(cap is not None for cap in (facts["caps"] or {}).values())
    facts["board_notes"] += [] if known else [_WITHOUT_CAPS]
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


KIND = DeviceKind("jetson", True, _listings, lambda name, _seed: open_jetson_at(name=name))
