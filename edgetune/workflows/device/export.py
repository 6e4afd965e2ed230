"""Writes the mode of a plan as text for other tools: an nvpmodel mode, a systemd unit or a shell script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgetune.artifacts.io import read
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Plan
from edgetune.choices import choose
from edgetune.devices.guardian.client import LAUNCHER
from edgetune.devices.guardian.controls import is_guarded
from edgetune.devices.jetson.catalog import CatalogueBoard, board_names, board_of_module, load_board
from edgetune.devices.jetson.cpu import choose as choose_cores
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.jetson.knobs import find_knobs
from edgetune.devices.jetson.mode_block import catalogue_lines, lines_of, nvpmodel_block
from edgetune.devices.jetson.nvpmodel import read_nvpmodel
from edgetune.devices.mode_script import host_script, jetson_script, nvidia_script
from edgetune.devices.sysfs import Sysfs
from edgetune.devices.twin.device import load_twin
from edgetune.errors import DeviceError, InputError
from edgetune.workflows.device.options import ExportOptions

FORMATS = ("nvpmodel", "systemd", "shell")
_KNOBS = {
    "jetson": ("cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz"),
    "nvidia": ("gpu_mhz", "mem_mhz", "power_limit_w"),
    "host": ("cpu_mhz",),
}


def export(opts: ExportOptions) -> str:
    """Return the text of a plan's mode; nothing is installed or set.

    Raises:
        InputError: the format is unknown, the plan has no mode, or its device is another or cannot set a knob of it.
        DeviceError: ``root`` has no board, or the board is not at hand and the format needs its files.
    """
    choose(opts.format, FORMATS, what="format")
    plan = read(Plan, opts.plan)
    mode = Mode.of(plan.configuration.mode.knobs())
    if not mode.knobs():
        raise InputError(f"{opts.plan} has no mode: it sets no knob", "edgetune search --modes all finds one")
    name = opts.device or str(plan.header.conditions.get("device", ""))
    kind, board = _target(name, plan, opts)
    for knob, value in mode.knobs().items():
        if knob not in _KNOBS[kind]:
            raise InputError(f"{name} cannot set {knob}={value:g}", f"it sets {', '.join(_KNOBS[kind])}")
    head = [f"The mode of an edgetune plan: {mode}"]
    if plan.header.conditions.get("simulated"):
        head.append("SIMULATED: this mode was found on a model, not on a device.")
    if opts.format == "systemd":
        return _commented(head) + _unit("jetson" if kind == "jetson" else name.partition("?")[0], mode)
    if opts.format == "nvpmodel":
        if kind != "jetson":
            raise InputError(f"{name} has no nvpmodel", "write --format systemd or shell")
        return _nvpmodel(head, mode, board, opts.root)
    head.append("sh FILE set: set it. sh FILE restore: put back what was found. sh FILE run COMMAND: both. Needs root.")
    return "#!/bin/sh\n" + _commented(head) + _script(mode, kind, name, opts.root)


def _commented(lines: list[str]) -> str:
    return "".join(f"# {line}\n" for line in lines)


def _target(name: str, plan: Plan, opts: ExportOptions) -> tuple[str, CatalogueBoard | None]:
    """Return ``jetson``, ``nvidia`` or ``host``, and the board of the catalogue if known; check them with the plan.

    Raises:
        InputError: the device is of no such kind, or is not that of the plan.
    """
    planned = str(plan.header.conditions.get("device", name))
    (kind, board), (planned_kind, planned_board) = _kind(name), _kind(planned)
    module = plan.header.conditions.get("module")
    planned_board = planned_board or (board_of_module(str(module)) if module else None)
    if kind == "jetson" and (opts.root or board is None):
        here = detect_jetson(Sysfs(Path(opts.root or "/")))
        if opts.root and here is None:
            raise DeviceError(f"{opts.root} has no files of a Jetson", "give the folder of the board's sys and proc")
        board = (board_of_module(here.module) if here and here.module else None) or board
    board = board or planned_board
    differ = None not in (board, planned_board) and board != planned_board
    if kind is None:
        raise InputError(f"{opts.plan} names no device that has a mode to set: {name!r}", "name a board: -d jetson")
    if (planned_kind and kind != planned_kind) or differ:
        was = planned_board.name if differ and planned_board else planned
        now = board.name if differ and board else name
        raise InputError(f"{opts.plan} is a plan for {was}, not for {now}", "search on that device, or leave -d out")
    return kind, board


def _kind(name: str) -> tuple[str | None, CatalogueBoard | None]:
    bare = name.partition("?")[0]
    if bare.startswith("twin:"):
        return "jetson", load_board(load_twin(name)[0].catalogue)
    if bare in board_names():
        return "jetson", load_board(bare)
    kind = bare.partition(":")[0]
    return (kind if is_guarded(bare) else None), None


def _unit(name: str, mode: Mode) -> str:
    pattern = ",".join(f"{knob}={value:g}" for knob, value in mode.knobs().items())
    tool = LAUNCHER.with_name("edgetune")
    return f"""\
# Install edgetune below /opt/edgetune (edgetune help power-modes), save this as
# /etc/systemd/system/edgetune-mode.service, then
#   systemctl daemon-reload; systemctl enable --now edgetune-mode.service
[Unit]
Description=Power mode: {mode}
# nvpmodel sets its own mode at boot, so this unit comes after it
After=local-fs.target nvpmodel.service nvpower.service nvidia-persistenced.service

[Service]
# one command sets the mode, and the unit stays active until it is stopped
Type=oneshot
RemainAfterExit=yes
# set the knobs, each verified by reading it back
ExecStart={tool} device set {name} {pattern}
# put back what was found
ExecStop={tool} device restore {name}

[Install]
WantedBy=multi-user.target
"""


def _nvpmodel(head: list[str], mode: Mode, board: CatalogueBoard | None, root: str | None) -> str:
    sysfs = Sysfs(Path(root or "/"))
    if root is not None or detect_jetson(sysfs) is not None:
        found = read_nvpmodel(sysfs)
        if isinstance(found, str):
            raise DeviceError(
                f"the modes of this board are not known: {found}", "name a board of the catalogue with -d"
            )
        _check_values(mode, find_knobs(sysfs).tables)
        models = {model.id: model.name for model in found.config.models}
        base, source = lines_of(found.active_model or found.config.models[0]), found.path
    elif board is not None:
        tables = {"cpu_mhz": board.cpu, "gpu_mhz": board.gpu, "mem_mhz": board.emc}
        values = {knob: [khz / 1e3 for table in each for khz in table.khz or ()] for knob, each in tables.items()}
        _check_values(mode, {**values, "cpu_cores": [float(n) for n in range(1, len(board.cpus) + 1)]})
        models = {preset.id: preset.name for file in board.presets for preset in file.modes}
        base, source = catalogue_lines(board), f"the catalogue's {board.name}, not the board's own file: compare them"
    else:
        raise InputError("the board is not known", f"name it: -d {board_names()[0]}, or give --root")
    identity = max(models) + 1
    name = "EDGETUNE" if "EDGETUNE" not in models.values() else f"EDGETUNE_{identity}"
    head += [
        f"ID={identity} is free according to {source}",
        f"Install: append this to /etc/nvpmodel.conf, then: sudo nvpmodel -m {identity}",
    ]
    return _commented(head) + nvpmodel_block(mode, base, identity, name)


def _check_values(mode: Mode, tables: Mapping[str, Sequence[float]]) -> None:
    """Check that the board has every value.

    Raises:
        InputError: it lacks one; the hint names the nearest.
    """
    for knob, value in mode.knobs().items():
        table = tables.get(knob, ())
        if not table:
            raise InputError(f"this board cannot set {knob}={value:g}", f"it sets {', '.join(tables)}")
        near = min(table, key=lambda each: abs(each - value))
        if abs(near - value) > 1e-6:
            raise InputError(f"this board has no {knob} of {value:g}", f"the nearest is {near:g}")


def _script(mode: Mode, kind: str, name: str, root: str | None) -> str:
    if kind == "nvidia":
        index = name.partition("?")[0].partition(":")[2]
        if not (index.isascii() and index.isdecimal()):
            raise InputError(f"{name} does not say which GPU", "e.g. -d nvidia:0")
        return nvidia_script(mode, int(index))
    if kind == "host":
        return host_script(mode)
    sysfs = Sysfs(Path(root or "/"))
    if detect_jetson(sysfs) is None:
        raise DeviceError(
            "a shell script needs the files of the board, whose names differ between kernels",
            "run this on the board, or give --root; --format nvpmodel and systemd need no board",
        )
    knobs = find_knobs(sysfs)
    _check_values(mode, knobs.tables)
    running = {path: sysfs.text(path) for path in knobs.cores.settable}
    return jetson_script(mode, knobs, choose_cores(mode.cpu_cores, knobs.cores, running))
