"""``jetson``: assemble the local board as a device, and collect the conditions that a result on it depends on.

Reading sensors and running networks needs no privilege; modes are set by the guardian, the only privileged process.
Conditions go into the header of every artifact, ``None`` where unknown. The board's own values take precedence over
the catalogue, and a note reports each difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgetune.devices.capabilities import Absent, Clock, MonotonicClock, PowerSensor
from edgetune.devices.cpu import CpuLoad
from edgetune.devices.device import Device, DeviceKind, Listing, LiveSource
from edgetune.devices.guardian.client import guardian_command, open_guardian_modes
from edgetune.devices.guardian.controls import BEYOND_CAPS, open_jetson_control
from edgetune.devices.guardian.lock import Exclusive
from edgetune.devices.jetson.catalog import CatalogueBoard, ClockTable, board_of_module
from edgetune.devices.jetson.detect import Jetson, detect_jetson
from edgetune.devices.jetson.gpu import gpu_folder
from edgetune.devices.jetson.knobs import JetsonKnobs, caps_of
from edgetune.devices.jetson.nvpmodel import Nvpmodel
from edgetune.devices.jetson.options import POWER_SENSORS, JetsonOptions, parse_jetson_options
from edgetune.devices.jetson.power import BoardPower
from edgetune.devices.jetson.restore import nvpmodel_in_force
from edgetune.devices.jetson.sensors import BoardTelemetry, open_board_thermometer, read_fan
from edgetune.devices.jetson.throttle import open_board_throttle
from edgetune.devices.memory import MachineMemory
from edgetune.devices.nvml.gpu import gpu_load
from edgetune.devices.software import software_versions
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError
from edgetune.processes.privilege import holds_root

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
    return {
        **_identity(board),
        **_power_mode(nvpmodel),
        "caps": caps_of(known, knobs.tables) if known and knobs else None,
        "governors": {"cpu": _cpu_governors(sysfs), "gpu": (sysfs.text(f"{gpu}/governor") or None) if gpu else None},
        "fan": asdict(fan) if fan else None,
        **software_versions(),
    }


def _identity(board: Jetson | None) -> dict[str, Any]:
    names = ("model", "module", "soc", "super_variant", "jetpack", "l4t", "kernel", "container")
    facts = {name: getattr(board, name) if board else None for name in names}
    facts["board"] = facts.pop("model")
    return facts | {"board_notes": list(board.notes) if board else ["this is not a Jetson"]}


def _power_mode(nvpmodel: Nvpmodel | str) -> dict[str, Any]:
    """Return the active mode and the file that defines it, or the reason why it is unknown."""
    if isinstance(nvpmodel, str):
        return {"nvpmodel": {"mode": None, "id": None, "file": None, "sha256": None, "notes": [nvpmodel]}}
    model = nvpmodel.active_model
    facts = {"mode": model.name if model else None, "id": nvpmodel.active, "file": nvpmodel.path}
    return {"nvpmodel": {**facts, "sha256": nvpmodel.sha256, "notes": list(nvpmodel.notes)}}


def _cpu_governors(sysfs: Sysfs) -> str | None:
    """Return the cpufreq governor, or every governor where policies differ."""
    found = sorted({word for path in sysfs.glob(_CPU_GOVERNORS) if (word := sysfs.text(path))})
    return ", ".join(found) or None


_KHZ_PER_MHZ = 1000


def differences(jetson: Jetson, tables: Mapping[str, tuple[float, ...]]) -> list[str]:
    """Return one sentence for each difference from the catalogue; empty when the catalogue lacks the module.

    Args:
        jetson: The detected board.
        tables: The board's values of each knob, MHz for clocks.
    """
    published = board_of_module(jetson.module) if jetson.module else None
    if published is None:
        return []
    found = [_clocks(published, what, name, tables.get(knob, ())) for what, name, knob in (
        ("CPU", "cpu", "cpu_mhz"), ("GPU", "gpu", "gpu_mhz"), ("memory", "emc", "mem_mhz"),
    )]  # fmt: skip
    cores = tables.get("cpu_cores", ())
    if cores and len(cores) != len(published.cpus):
        found.append(f"{published.name} has {len(published.cpus)} cores as published, this board has {len(cores)}")
    return [sentence for sentence in found if sentence]


def _clocks(board: CatalogueBoard, what: str, name: str, offered: Sequence[float]) -> str:
    """Return a sentence if no published table matches the clocks on offer; empty on a match or without tables."""
    published: tuple[ClockTable, ...] = getattr(board, name)
    lists = [table.khz for table in published if table.khz]
    khz = tuple(round(mhz * _KHZ_PER_MHZ) for mhz in offered)
    if not lists or not khz or khz in lists or khz in [(each[0], each[-1]) for each in lists]:
        return ""  # the Nano's kernel lists only the lowest and highest memory clock
    nearest = min(lists, key=lambda each: len(set(each) ^ set(khz)))
    strange = len(set(khz) - set(nearest))
    return (
        f"the {what} clocks are in no table published for {board.name}: there are {len(khz)}, {strange} of them not "
        f"among the {len(nearest)} of the nearest table; the board's own are used"
    )


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
        conditions=_conditions(facts, power, differences(jetson, control.knobs.tables), choices, made_up),
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
    return DeviceError(
        f"{root} has no files of a Jetson: neither etc/nv_tegra_release nor proc/device-tree names one",
        "give the folder that has the board's sys, proc and etc",
    )


def _software(jetson: Jetson) -> str:
    """Return the software releases in a short phrase."""
    known = (("JetPack", jetson.jetpack), ("L4T", jetson.l4t), ("kernel", jetson.kernel_generation))
    return ", ".join(f"{what} {value}" for what, value in known if value) or "unknown release"


def _conditions(
    facts: dict[str, Any],
    power: PowerSensor | Absent,
    strange: Sequence[str],
    choices: JetsonOptions,
    made_up: str | None,
) -> dict[str, Any]:
    """Return the conditions of a result on this board: its own, and how it differs from the catalogue."""
    known = any(cap is not None for cap in (facts["caps"] or {}).values())
    facts["board_notes"] = [
        *facts.get("board_notes", ()), *strange, *([] if known else [_WITHOUT_CAPS])
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


KIND = DeviceKind("jetson", True, _listings, lambda name, _seed: open_jetson_at(name=name))
