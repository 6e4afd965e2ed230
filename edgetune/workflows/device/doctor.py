"""Reports installed libraries, capabilities of devices and permissions of the user, without changing anything.

Libraries are found without an import, and modules that need a library of the core are imported where they are used,
so that the report works without that library.
"""

import dataclasses
import importlib
import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from edgetune.devices.capabilities import Absent, MonotonicClock
from edgetune.devices.device import Device, list_devices, open_device
from edgetune.devices.guardian.controls import open_jetson_control
from edgetune.devices.jetson.control import JetsonControl
from edgetune.devices.jetson.detect import Jetson, detect_jetson
from edgetune.devices.jetson.power import open_board_power
from edgetune.devices.jetson.restore import nvpmodel_in_force
from edgetune.devices.jetson.sensors import open_board_thermometer
from edgetune.devices.jetson.throttle import open_board_throttle
from edgetune.devices.software import REMEDIES, version_of
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError
from edgetune.plugins import installed, plugin_error
from edgetune.processes.privilege import holds_root
from edgetune.version import __version__
from edgetune.workflows.device.options import DoctorOptions

CORE = ("typer", "rich", "pyyaml", "pydantic", "numpy", "scipy", "pyarrow", "onnx", "psutil", "networkx")
EXTRAS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("ort", ("onnxruntime", "onnxruntime-gpu"), "run ONNX networks"),
    ("torch", ("torch",), "run training steps"),
    ("tensorrt", ("tensorrt",), "run TensorRT engines"),
    ("nvidia", ("nvidia-ml-py",), "read NVIDIA GPUs"),
    ("jetson", ("jetson-stats",), "read more of a Jetson (AGPL)"),
    ("cuda", ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"), "compile CUDA kernels"),
    ("cuda", ("cuda-bindings",), "compile and launch CUDA kernels"),
    ("cuda", ("nvidia-nvjitlink", "nvidia-nvjitlink-cu12"), "find the registers of CUDA kernels"),
    ("plot", ("matplotlib",), "draw figures"),
    ("bayes", ("optuna",), "search by tpe and gp"),
    ("fleet", ("distributed", "cryptography"), "one sweep over many boards"),
    ("optimum", ("ortools",), "find optimal schedules"),
)
"""Extras, the distributions of which one is enough, and what it is for."""


def inventory(jetpack: int | None) -> list[dict[str, str | None]]:
    """Return every library of the core and of the extras; where one is missing, ``remedy`` installs it."""
    found: list[dict[str, str | None]] = []
    for extra, names, purpose in (*((None, (name,), "core") for name in CORE), *EXTRAS):
        name = next((name for name in names if version_of(name)), names[0])
        known = {"name": name, "extra": extra, "purpose": purpose, "version": version_of(name)}
        found.append({**known, "remedy": None if known["version"] else _remedy(extra, name, jetpack)})
    return found


def _remedy(extra: str | None, name: str, jetpack: int | None) -> str:
    if jetpack in REMEDIES and extra in ("ort", "torch"):
        remedy = REMEDIES[jetpack]
        return next((command for command in remedy.commands if name in command), remedy.note)
    if extra == "tensorrt" and jetpack is not None:
        return "sudo apt install python3-libnvinfer"
    if extra == "cuda" and jetpack == 6:
        return "pip install 'edgetune[cuda12]'"  # its driver is one of CUDA 12
    return f"pip install 'edgetune[{extra}]'" if extra else "pip install edgetune"


def conflicts(jetpack: int | None) -> list[str]:
    """Return the conflicts between libraries, each as one sentence with its remedy."""
    found = []
    if version_of("onnxruntime") and version_of("onnxruntime-gpu"):
        found.append(
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other's files: "
            "pip uninstall both, then install one"
        )
    remedy = REMEDIES.get(jetpack or 0)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if remedy is not None and remedy.python != here:
        found.append(f"this is Python {here}; NVIDIA's wheels for this JetPack are for {remedy.python}: {remedy.note}")
    return found


Capability = TypeVar("Capability")
Row = dict[str, str]
"""``what``, its ``state`` (yes, as root, no) and a ``note``."""

_SETTINGS = {"cpu_cores": "CPU cores", "cpu_mhz": "CPU clock", "gpu_mhz": "GPU clock", "mem_mhz": "memory clock"}


def board_files(root: Path) -> tuple[Sysfs, str | None]:
    """Return the kernel's files below ``root``, and the description of a fake board if they are one's."""
    if root == Path("/"):
        return Sysfs(root), None
    from edgetune.testing.fake_jetson import MADE_UP, is_fake
    from edgetune.testing.fake_kernel import FakeKernel

    return (FakeKernel(root), MADE_UP) if is_fake(root) else (Sysfs(root), None)


def examine_board(root: Path) -> dict[str, Any] | None:
    """Return the identity and capabilities of the Jetson below ``root`` as plain data; ``None`` without one."""
    sysfs, made_up = board_files(root)
    jetson = detect_jetson(sysfs)
    if jetson is None:
        return None
    try:
        control: JetsonControl | DeviceError = open_jetson_control(sysfs)
    except DeviceError as error:
        control = error
    nvpmodel = nvpmodel_in_force(sysfs, knobs=None if isinstance(control, DeviceError) else control.knobs)
    power_mode, notes = None, (nvpmodel,) if isinstance(nvpmodel, str) else nvpmodel.notes
    if not isinstance(nvpmodel, str) and nvpmodel.active_model is not None:
        power_mode = f"{nvpmodel.active_model.name} (number {nvpmodel.active} of {nvpmodel.path})"
    return {
        **{fact: getattr(jetson, fact) for fact in ("model", "module", "soc", "l4t", "jetpack", "kernel", "container")},
        "made_up": made_up,
        "power_mode": power_mode,
        "notes": [*jetson.notes, *notes],
        "abilities": [*_readings(sysfs, jetson), *_settings(sysfs, control), journal_row("jetson", root)],
    }


def _readings(sysfs: Sysfs, jetson: Jetson) -> Iterator[Row]:
    power = open_board_power(sysfs, MonotonicClock(), jetson.soc or "")
    yield _present("read power", power, lambda found: "; ".join(filter(None, (found.source, found.note))))
    yield _present("read temperatures", open_board_thermometer(sysfs), lambda found: ", ".join(found.read_all()))
    throttle = open_board_throttle(sysfs)
    yield _present("read throttling", throttle, lambda found: ", ".join(found.counts()) or "throttling devices")


def _present(what: str, capability: Capability | Absent, describe: Callable[[Capability], str]) -> Row:
    """Return the row of a capability, with its description or the reason for its absence."""
    if isinstance(capability, Absent):
        return row(what, "no", capability.reason)
    return row(what, "yes", describe(capability))


def _settings(sysfs: Sysfs, control: JetsonControl | DeviceError) -> Iterator[Row]:
    """Return a row for each knob, and one for the named modes."""
    if isinstance(control, DeviceError):
        yield row("set modes", "no", control.message)
        return
    space = control.space
    privileged = getattr(sysfs, "user", "root" if holds_root() else "user") == "root"
    for knob, name in _SETTINGS.items():
        if values := space.knobs.get(knob):
            unit = " MHz" if knob.endswith("_mhz") else ""
            yield row(f"set {name}", "yes", f"{len(values)} values, {values[0]:g} to {values[-1]:g}{unit}")
        else:
            why = space.fixed.get(knob, "this kernel does not offer it")
            yield row(f"set {name}", "as root" if "needs root" in why and not privileged else "no", why)
    if privileged and space.presets:
        withheld = f"; not now: {', '.join(space.withheld)}" if space.withheld else ""
        yield row("set named modes", "yes", ", ".join(space.presets) + withheld)


def journal_row(device: str, root: Path) -> Row:
    """Return the row on settings that an earlier run, or ``edgetune device set``, left to be restored."""
    from edgetune.devices.guardian.journal import Journals, journals_left

    journals, found = Journals(device, root), "every setting is as found"
    what, remedy = "left by earlier runs", f"edgetune device restore {device}"

    try:
        left = journals_left() if root == Path("/") else [path.name for path in journals.folder.iterdir()]
    except FileNotFoundError:
        return row(what, "no", found)
    except OSError:
        return row(what, "hidden", f"only root can look; {remedy} puts back what is left, if any")
    if journals.path("run").name in left:
        return row(what, "yes", f"a run is going on, or was killed: {remedy} puts back what it found")
    if journals.path("kept").name in left:
        return row(what, "yes", f"a mode set to stay: {remedy} puts back what was found before")
    return row(what, "no", found)


def row(what: str, state: str, note: str) -> Row:
    """Return one row."""
    return {"what": what, "state": state, "note": note}


CPU_CLOCK = "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq"
ENERGY = "sys/class/powercap/*/energy_uj"


def doctor(opts: DoctorOptions) -> dict[str, Any]:
    """Return the report on this machine, or only on the board whose files are in ``opts.root``.

    Raises:
        DeviceError: the folder is not that of a Jetson.
    """
    report = examine(Path(opts.root or "/"))
    if opts.root is not None and report["board"] is None:
        hint = "give the folder that has its sys and proc"
        raise DeviceError(f"--root {opts.root} is not the folder of a Jetson", hint)
    return report


def examine(root: Path) -> dict[str, Any]:
    """Return the whole report as plain data.

    Args:
        root: The root of the file system; other than ``/``, only the board there is examined.
    """
    from edgetune.workflows.device.guardian_permission import examine_guardian

    board = examine_board(root)
    jetpack = None if board is None else board["jetpack"]
    listings = list_devices() if root == Path("/") else []
    here = [item.name for item in listings if item.available and ":FILE" not in item.name]
    guarded = [name for name in here if name.startswith("nvidia:")]
    if board is not None:
        guarded = ["jetson", "jetson?beyond-caps=on", *guarded]
    elif "host" in here and (root / CPU_CLOCK).exists():
        guarded.append("host")
    remedy = REMEDIES.get(jetpack or 0)
    return {
        "edgetune": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "board": board,
        "install_on_this_board": [*remedy.commands, f"({remedy.note})"] if remedy else [],
        "libraries": inventory(jetpack),
        "conflicts": conflicts(jetpack),
        "plugins": [dict(zip(("group", "name", "package"), each, strict=True)) for each in installed()],
        "devices": [dataclasses.asdict(listing) for listing in listings],
        "abilities": {name: abilities(name) for name in here if name != "jetson"},
        "permissions": permissions(root) if board is None else [],
        "guardian": examine_guardian(guarded, root) if guarded else None,
    }


def capabilities(opened: Device) -> dict[str, dict[str, Any]]:
    """Return the presence and description of each capability, or the reason for its absence."""
    found = {}
    for what in ("power", "modes", "temperature", "throttle"):
        capability = getattr(opened, what)
        absent = isinstance(capability, Absent)
        note = capability.reason if absent else getattr(capability, "source", "")
        found[what] = {"here": "no" if absent else "yes", "note": str(note)}
    return found


def abilities(name: str) -> dict[str, str]:
    """Return the capabilities of a present device by name, or the reason for each absence."""
    try:
        if name.startswith("nvidia:"):  # without starting its guardian
            from edgetune.devices.nvml.device import open_nvidia

            opened = open_nvidia(name, importlib.import_module("pynvml"))
        else:
            opened = open_device(name)
    except ImportError as error:  # a library of the core is missing, which the table of libraries shows
        return {"anything": f"no: {error}"}
    except Exception as error:
        if (broken := plugin_error(error)) is None:
            raise
        return {"anything": f"no: {broken.message}"}
    found = {
        what: state["note"] if state["here"] == "yes" else f"no: {state['note']}"
        for what, state in capabilities(opened).items()
    }
    if not isinstance(opened.modes, Absent):
        space = opened.modes.space
        found["modes"] = ", ".join([*space.knobs, *(f"no {knob}: {why}" for knob, why in space.fixed.items())])
    return found


def permissions(root: Path) -> list[Row]:
    """Return the user's permissions to read and set, each with the remedy for a missing one."""
    sysfs, found = Sysfs(root), []
    for what, pattern, mode, remedy in (
        ("CPU power (RAPL)", ENERGY, os.R_OK, "sudo chmod o+r {path}, or run as root"),
        ("CPU clocks (cpufreq)", CPU_CLOCK, os.W_OK, "setting it needs root, see below"),
    ):
        path = next(iter(sysfs.glob(pattern)), None)
        if path is None:
            found.append(row(what, "absent", "the kernel of this machine does not offer it"))
        elif sysfs.permits(path, mode):
            found.append(row(what, "yes", str(root / path)))
        else:
            found.append(row(what, "not permitted", remedy.format(path=root / path)))
    return found
