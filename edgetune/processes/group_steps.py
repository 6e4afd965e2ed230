"""Makes control groups with a memory limit, by steps that a process of root carries out where one works for this one.

Each step checks what it is asked: it changes nothing but groups that edgetune has made, and moves no process of others.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import subprocess
from pathlib import Path

from edgetune.processes import privilege
from edgetune.processes.cgroup import mount_of
from edgetune.processes.privilege import by_root

GROUP_PREFIX = "edgetune-"
_numbers = itertools.count()
_SYSTEMD_TIMEOUT_S = 10.0
_SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")

_SETTINGS = (
    "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.swappiness", "memory.max", "memory.swap.max",
    "cgroup.procs",
)  # fmt: skip
_made: set[str] = set()
"""Groups that this process has made."""


@by_root
def make_group(parent: str) -> str:
    """Make a group in another and return its path; a process of the same number, long ended, may have left some.

    Raises:
        OSError: it cannot be made here.
    """
    _require_group(Path(parent))
    while True:
        path = Path(parent, f"{GROUP_PREFIX}{os.getpid()}-{next(_numbers)}")
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            _made.add(str(path))
            return str(path)


@by_root
def remove_group(path: str) -> None:
    """Remove an empty group that edgetune has made.

    Raises:
        OSError: it is not empty, or no such group.
    """
    group = Path(path)
    _require_group(group.parent)
    if not group.name.startswith(GROUP_PREFIX):
        raise _refused(path)
    group.rmdir()


@by_root
def write_group(path: str, name: str, value: int) -> None:
    """Write a number into a file of a group that this program has made; groups hold no links.

    Raises:
        OSError: the kernel refuses it, or the process to move there is not the caller's.
    """
    if path not in _made or name not in _SETTINGS:
        raise _refused(path)
    if name == "cgroup.procs":
        _require_own(value)
    Path(path, name).write_text(str(int(value)))


@by_root
def systemd_answers() -> bool:
    """Whether systemd's manager can be asked: the user's own, or of root the machine's."""
    with contextlib.suppress(OSError):
        _ask_systemd("get-property", "Version")
        return True
    return False


@by_root
def start_scope(pid: int, limit_bytes: int, swap_bytes: int | None) -> str:
    """Ask systemd for a scope with a process in it and return its name.

    Raises:
        OSError: systemd does not answer, or refuses.
    """
    _require_own(pid)
    name = f"{GROUP_PREFIX}{os.getpid()}-{next(_numbers)}.scope"
    properties = [("PIDs", "au", "1", int(pid)), ("MemoryMax", "t", int(limit_bytes))]
    properties += [] if swap_bytes is None else [("MemorySwapMax", "t", int(swap_bytes))]
    given = [str(word) for each in properties for word in each]
    _ask_systemd("call", "StartTransientUnit", "ssa(sv)a(sa(sv))", name, "fail", str(len(properties)), *given, "0")
    return name


def _require_group(path: Path) -> None:
    """Check, in the process of root, that a folder is a control group of the kernel."""
    mounts = [] if privilege.served_user is None else [mount_of("memory", version) for version in (1, 2)]
    if mounts and not any(mount and mount.point.stat().st_dev == path.stat().st_dev for mount in mounts):
        raise _refused(str(path))


def _require_own(pid: int) -> None:
    """Check, in the process of root, that a process is the caller's."""
    user = privilege.served_user
    if user is not None and os.stat(f"/proc/{int(pid)}").st_uid != user:
        raise PermissionError(errno.EPERM, f"process {pid} is another user's")


def _refused(path: str) -> PermissionError:
    return PermissionError(errno.EPERM, f"{path} is no control group of edgetune")


def _ask_systemd(verb: str, *arguments: str) -> None:
    """Call systemd's manager.

    Raises:
        OSError: systemd does not answer, or refuses.
    """
    command = ["busctl", *([] if os.geteuid() == 0 else ["--user"]), verb, *_SYSTEMD, *arguments]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=_SYSTEMD_TIMEOUT_S)
    except subprocess.SubprocessError as error:
        said = getattr(error, "stderr", None) or str(error).encode()
        raise OSError(errno.EIO, " ".join(said.decode(errors="replace").split())[:200]) from None
