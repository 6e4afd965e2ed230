"""``edgetune doctor``: what is installed, what the devices can do, and what to install."""

from __future__ import annotations

import dataclasses
import importlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from edgetune.cli.options import Json, Root
from edgetune.cli.screen import answer, print_folded, print_lines, table
from edgetune.errors import DeviceError
from edgetune.version import __version__

if TYPE_CHECKING:
    from edgetune.devices.device import Device
    from edgetune.devices.sysfs import Sysfs

app = typer.Typer(rich_markup_mode=None, add_completion=False)
CPU_CLOCK = "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq"
ENERGY = "sys/class/powercap/*/energy_uj"


@app.command()
def doctor(*, root: Root = None, json: Json = False) -> None:
    """Say what is installed, what each device can do, and what to install for what is missing.

    On a board also what this user may read and set, and the line of sudoers that permits the rest. Nothing is changed,
    and nothing is tried as root. Ends with 0 when the core works, and with 4 when a library it needs is missing. With
    --root only the libraries and that board are told.
    """

    report = examine(Path(root or "/"))
    if root is not None and report["board"] is None:
        raise DeviceError(f"--root {root} is not the folder of a Jetson", "give the folder that has its sys and proc")
    answer(report) if json else show(report)
    if any(library["extra"] is None and library["version"] is None for library in report["libraries"]):
        raise typer.Exit(4)


def examine(root: Path) -> dict[str, Any]:
    """Return everything the report tells, as plain data.

    Args:
        root: Where the file system starts; elsewhere than at ``/`` is a board alone, without this machine's devices.
    """
    from edgetune.cli.doctor_board import examine_board
    from edgetune.cli.doctor_guardian import examine_guardian
    from edgetune.cli.libraries import conflicts, inventory
    from edgetune.devices.discover import list_devices
    from edgetune.devices.software import REMEDIES, detect_board

    board, release = examine_board(root), detect_board(root)
    listings = list_devices() if root == Path("/") else []
    here = [item.name for item in listings if item.available and ":FILE" not in item.name]
    guarded = guarded_devices(here, root, jetson=board is not None)
    remedy = REMEDIES.get(release.jetpack) if release is not None and release.jetpack is not None else None
    return {
        "edgetune": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "board": board,
        "install_on_this_board": [*remedy.commands, f"({remedy.note})"] if remedy else [],
        "libraries": [dataclasses.asdict(library) for library in inventory(release)],
        "conflicts": conflicts(release),
        "devices": [dataclasses.asdict(listing) for listing in listings],
        "abilities": {name: abilities(name) for name in here if name != "jetson"},
        "permissions": permissions(root) if board is None else [],
        "guardian": examine_guardian(guarded, root) if guarded else None,
    }


def guarded_devices(here: Sequence[str], root: Path, *, jetson: bool) -> list[str]:
    """Return the devices whose modes the guardian sets, as it is given their names.

    Args:
        here: Names of the devices of this machine.
        root: Where the file system starts.
        jetson: Whether that is a Jetson's.
    """
    boards = ["jetson", "jetson?beyond-caps=on"] if jetson else []
    host = ["host"] if not jetson and "host" in here and (root / CPU_CLOCK).exists() else []
    return [*boards, *(name for name in here if name.startswith("nvidia:")), *host]


def abilities(name: str) -> dict[str, str]:
    """Return what a device that is here can do, by capability, or why it cannot."""
    from edgetune.cli.device import capabilities
    from edgetune.devices.device import Absent

    try:
        opened = _looked_at(name)
    except ImportError as error:  # a library of the core is missing, which the table of libraries shows
        return {"anything": f"no: {error}"}
    found = {
        what: state["note"] if state["here"] == "yes" else f"no: {state['note']}"
        for what, state in capabilities(opened).items()
    }
    if not isinstance(opened.modes, Absent):
        space = opened.modes.space
        found["modes"] = ", ".join([*space.knobs, *(f"no {knob}: {why}" for knob, why in space.fixed.items())])
    return found


def _looked_at(name: str) -> Device:
    """Open a device without its guardian, which would be started to say what it offers to root."""
    from edgetune.devices.discover import open_device
    from edgetune.devices.nvml.device import open_nvidia

    return open_nvidia(name, importlib.import_module("pynvml")) if name.startswith("nvidia:") else open_device(name)


def permissions(root: Path) -> list[dict[str, str]]:
    """Return what this user may read and set, each with what it takes to change that."""
    from edgetune.devices.sysfs import Sysfs

    sysfs = Sysfs(root)
    return [
        _permission("CPU power (RAPL)", sysfs, ENERGY, os.R_OK, "sudo chmod o+r {path}, or run as root"),
        _permission("CPU clocks (cpufreq)", sysfs, CPU_CLOCK, os.W_OK, "setting it needs root, see below"),
    ]


def _permission(what: str, sysfs: Sysfs, pattern: str, mode: int, remedy: str) -> dict[str, str]:
    path = next(iter(sysfs.glob(pattern)), None)
    if path is None:
        return {"what": what, "state": "absent", "note": "the kernel of this machine does not offer it"}
    if sysfs.permits(path, mode):
        return {"what": what, "state": "yes", "note": str(sysfs.root / path)}
    return {"what": what, "state": "not permitted", "note": remedy.format(path=sysfs.root / path)}


def show(report: dict[str, Any]) -> None:
    """Print the report for people."""

    print_lines(f"edgetune {report['edgetune']}, Python {report['python']}, {report['system']}")
    libraries = [
        (library["name"], library["version"] or "missing", library["purpose"], library["remedy"] or "")
        for library in report["libraries"]
    ]
    print_lines("", "Libraries")
    table(("name", "version", "for", "to install"), libraries)
    for command in report["install_on_this_board"]:
        print_lines(f"On this board: {command}")
    for sentence in report["conflicts"]:
        print_lines(f"Conflict: {sentence}")
    if report["devices"]:
        print_lines("", "Devices")
        devices = [
            (d["name"], "yes" if d["available"] else "no", d["reason"] or d["description"]) for d in report["devices"]
        ]
        table(("name", "here", "what or why not"), devices)
    for name, able in report["abilities"].items():
        print_lines("", f"{name}")
        table(("can", "what or why not"), list(able.items()))
    if report["board"]:
        _show_board(report["board"])
    print_lines("", "Permissions")
    guardian = report["guardian"]
    rows = [(p["what"], p["state"], p["note"]) for p in report["permissions"]]
    if guardian:
        rows.append(("guardian, which sets modes", guardian["state"], guardian["note"]))
    table(("what", "state", "note"), rows)
    if guardian and guardian["sudoers"]:
        show_sudoers(guardian)


def _show_board(board: dict[str, Any]) -> None:

    made_up = f" ({board['made_up']})" if board["made_up"] else ""
    print_lines("", f"Board: {board['model']}{made_up}")
    facts = {
        "module": board["module"],
        "chip": board["soc"],
        "JetPack": board["jetpack"],
        "L4T": board["l4t"],
        "kernel": board["kernel"],
        "power mode": board["power_mode"],
        "in a container": board["container"] or "no",
    }
    rows = [(name, "unknown" if value is None else value) for name, value in facts.items()]
    table(("fact", "value"), [*rows, *(("note", note) for note in board["notes"])])
    print_lines()
    table(
        ("may this user", "state", "what or why not"), [(a["what"], a["state"], a["note"]) for a in board["abilities"]]
    )


def show_sudoers(guardian: dict[str, Any]) -> None:
    """Print what an administrator would type."""

    print_lines("", "To let this user set modes (an administrator types it; nothing of this has been done)")
    for command in guardian["install"]:
        print_lines(f"  {command}")
    print_lines("  sudo visudo -f /etc/sudoers.d/edgetune   # with this line, which allows these command lines alone:")
    print_lines(f"  {guardian['sudoers']}")
    print_lines("  or, for a group and without sudo, units of systemd: see edgetune device units --help")
    for warning in guardian["warnings"]:
        print_folded(f"WARNING: {warning}")
