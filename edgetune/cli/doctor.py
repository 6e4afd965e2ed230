"""``edgetune doctor``: what is installed, what the devices can do, and what to install."""

from __future__ import annotations

import dataclasses
import os
import platform
from pathlib import Path
from typing import Any

import typer

from edgetune import __version__
from edgetune.cli.options import Json

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def doctor(json: Json = False) -> None:
    """Say what is installed, what each device can do, and what to install for what is missing.

    Ends with 0 when the core works, and with 4 when a library it needs is missing.
    """
    from edgetune.cli.screen import answer

    report = examine(Path("/"))
    answer(report) if json else show(report)
    if any(library["extra"] is None and library["version"] is None for library in report["libraries"]):
        raise typer.Exit(4)


def examine(root: Path) -> dict[str, Any]:
    """Return everything the report tells, as plain data.

    Args:
        root: Where the file system starts; another folder in tests.
    """
    from edgetune.cli.libraries import conflicts, inventory
    from edgetune.devices.discover import list_devices
    from edgetune.devices.jetpack import REMEDIES, detect_board

    board, listings = detect_board(root), list_devices()
    remedy = REMEDIES.get(board.jetpack) if board is not None and board.jetpack is not None else None
    return {
        "edgetune": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "board": dataclasses.asdict(board) if board else None,
        "install_on_this_board": [*remedy.commands, f"({remedy.note})"] if remedy else [],
        "libraries": [dataclasses.asdict(library) for library in inventory(board)],
        "conflicts": conflicts(board),
        "devices": [dataclasses.asdict(listing) for listing in listings],
        "abilities": {
            item.name: abilities(item.name) for item in listings if item.available and ":FILE" not in item.name
        },
        "permissions": permissions(root),
    }


def abilities(name: str) -> dict[str, str]:
    """Return what a device that is here can do, by capability, or why it cannot."""
    from edgetune.cli.device import capabilities
    from edgetune.devices.device import Absent
    from edgetune.devices.discover import open_device

    try:
        opened = open_device(name)
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


def permissions(root: Path) -> list[dict[str, str]]:
    """Return what this user may read and set, each with what it takes to change that."""
    rapl = next(iter(sorted((root / "sys/class/powercap").glob("*/energy_uj"))), None)
    clock = root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq"
    return [
        _permission("CPU power (RAPL)", rapl, os.R_OK, "sudo chmod o+r {path}, or run as root"),
        _permission("CPU clocks (cpufreq)", clock if clock.exists() else None, os.W_OK, "run as root to set clocks"),
    ]


def _permission(what: str, path: Path | None, mode: int, remedy: str) -> dict[str, str]:
    if path is None:
        return {"what": what, "state": "absent", "note": "the kernel of this machine does not offer it"}
    if os.access(path, mode):
        return {"what": what, "state": "yes", "note": str(path)}
    return {"what": what, "state": "not permitted", "note": remedy.format(path=path)}


def show(report: dict[str, Any]) -> None:
    """Print the report for people."""
    from edgetune.cli.screen import table

    print(f"edgetune {report['edgetune']}, Python {report['python']}, {report['system']}")
    if report["board"]:
        board = report["board"]
        print(f"{board['model']}: L4T {board['l4t'] or 'unknown'}, JetPack {board['jetpack'] or 'unknown'}")
    rows = [
        (library["name"], library["version"] or "missing", library["purpose"], library["remedy"] or "")
        for library in report["libraries"]
    ]
    print("\nLibraries")
    table(("name", "version", "for", "to install"), rows)
    print("\nDevices")
    devices = [
        (d["name"], "yes" if d["available"] else "no", d["reason"] or d["description"]) for d in report["devices"]
    ]
    table(("name", "here", "what or why not"), devices)
    for name, able in report["abilities"].items():
        print(f"\n{name}")
        table(("can", "what or why not"), list(able.items()))
    print("\nPermissions")
    table(("what", "state", "note"), [(p["what"], p["state"], p["note"]) for p in report["permissions"]])
    for sentence in report["conflicts"]:
        print(f"\nConflict: {sentence}")
    for command in report["install_on_this_board"]:
        print(f"On this board: {command}")
