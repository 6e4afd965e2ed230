"""Permission to set modes: the guardian, the only program that runs as root, and its line of sudoers.

This module neither starts nor installs the guardian: an administrator reviews and installs it.
"""

import os
import pwd
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgetune.processes.privilege import holds_root

_NAMED = 3
"""Files named in a warning: enough to see what is wrong."""

_SPECIAL = re.compile(r"([,:=\\*?\[\]])")
"""What a backslash makes plain in the arguments of a command, wildcards included. Source: sudoers(5), "Cmnd"."""
_QUOTED = r"\\\1"
_PLAIN_USER = re.compile(r"[a-z_][a-z0-9_-]*")


def examine_guardian(devices: Sequence[str], root: Path, launcher: Path | None = None) -> dict[str, Any]:
    """Return whether the guardian can be started and, if not, the commands for an administrator.

    Args:
        devices: Names of the devices to set, as the guardian takes them.
        root: Where the file system starts.
        launcher: The script that runs as root, ``LAUNCHER`` unless in tests.
    """
    from edgetune.devices.guardian.client import LAUNCHER

    launcher = LAUNCHER if launcher is None else launcher
    user = _user()
    found: dict[str, Any] = {"install": [], "sudoers": None, "warnings": []}
    if root != Path("/"):
        return found | {"state": "yes", "note": "below --root it needs no privilege"}
    if user is None:
        return found | {"state": "yes", "note": "this is root"}
    allowing = found | {"sudoers": sudoers_line(user, devices, launcher), "warnings": _warnings(launcher)}
    if not launcher.exists():
        folder, extra = launcher.parent.parent, "'.[nvidia]'" if any(d.startswith("nvidia") for d in devices) else "."
        pip = f"sudo {folder}/bin/pip install {extra}   # in a clone of edgetune"
        allowing["install"] = [f"sudo python3 -m venv {folder}", pip]
    if holds_root():
        return allowing | {"state": "yes", "note": "root starts it, for edgetune was called through sudo"}
    if shutil.which("sudo") is None:
        return found | {"state": "no", "note": "sudo is not installed: run edgetune as root"}
    note = "`sudo -v` before edgetune allows it for some minutes, the line below for good"
    if launcher.exists():
        note = f"to see whether sudo allows it: sudo -n -l {launcher} {devices[0]}"
    return allowing | {"state": "not tried", "note": note}


def _user() -> str | None:
    """Return the user to permit, as sudoers names a user; ``None`` for root."""
    uid = os.geteuid()
    if uid == 0:
        return None
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    return name if _PLAIN_USER.fullmatch(name) else f"#{uid}"


def sudoers_line(user: str, devices: Sequence[str], launcher: Path) -> str:
    """Return the sudoers line that permits only the guardian with exactly these devices as arguments."""
    commands = [f"{launcher} {_SPECIAL.sub(_QUOTED, device)}" for device in devices]
    return f"{user} ALL=(root) NOPASSWD: {', '.join(commands)}"


def _warnings(launcher: Path) -> list[str]:
    open_to_others = [str(path) for path in changeable(launcher)]
    if not open_to_others:
        return []
    more = len(open_to_others) - _NAMED
    named = ", ".join(open_to_others[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return [
        f"others than root can change {named}: with the line, whoever can is root; first give them to root alone, "
        "e.g. by installing there anew, as root and without -e"
    ]


def changeable(launcher: Path) -> list[Path]:
    """Return the files that root would run and other users can change: script, Python, modules, their folders.

    Args:
        launcher: The script; without this file the result is empty.
    """
    if not launcher.exists():
        return []
    environment = launcher.resolve().parent.parent
    roots = [launcher, environment, *_interpreter(launcher), *_linked(environment)]
    looked_at = dict.fromkeys(parent for path in roots for parent in (path, *path.parents))
    within = (Path(folder, name) for folder, *names in os.walk(environment) for group in names for name in group)
    return sorted({path for path in (*looked_at, *within) if _open_to_others(path)})


def _interpreter(launcher: Path) -> Iterator[Path]:
    """Return the interpreter of the script's first line and the Python beside it, with and without links resolved."""
    try:
        first = launcher.read_bytes().split(b"\n", 1)[0]
    except OSError:
        return
    words = first.removeprefix(b"#!").split()[:1] if first.startswith(b"#!") else []
    for path in (*(Path(os.fsdecode(word)) for word in words), launcher.resolve().parent / "python3"):
        if path.exists():
            yield from (path, path.resolve())


def _linked(environment: Path) -> Iterator[Path]:
    """Return the folders outside the environment that it imports modules from, as after ``pip install -e``."""
    for file in environment.glob("lib/python*/site-packages/*.pth"):
        for line in file.read_text(errors="replace").splitlines():
            path = Path(line.strip())
            if path.is_absolute() and path.is_dir():
                yield from (path.resolve(), *path.resolve().rglob("*.py"))


def _open_to_others(path: Path) -> bool:
    """Return whether a user other than root owns or may write a file; in a sticky folder each file's mode decides."""
    try:
        found = path.lstat()
    except OSError:
        return False
    if stat.S_ISLNK(found.st_mode):  # anybody may seem to write a link; its folder decides
        return found.st_uid != 0
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
    return found.st_uid != 0 or bool(shared)
