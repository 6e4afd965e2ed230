"""Reads control groups: the group of this process and those around it, of version 1 and 2, and the limits they set.

    proc/self/cgroup      4:cpu,cpuacct:/system.slice/job.service      the group of this process in each hierarchy
    proc/self/mountinfo   ... /system.slice /sys/fs/cgroup/cpu ...     where it is mounted, and from which group on

Sources: cgroups(7), proc_pid_mountinfo(5), Linux Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst.

Makes control groups with a memory limit, by steps that a process of root carries out where one works for this one.

Each step checks what it is asked: it changes nothing but groups that edgetune has made, and moves no process of others.
"""

import contextlib
import errno
import itertools
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from edgetune.processes import privilege
from edgetune.processes.privilege import by_root

_UNLIMITED_BYTES = 1 << 60
"""Version 1 states no memory limit as a number of pages that no machine has."""


@dataclass(frozen=True, slots=True)
class Mount:
    """The folder where a hierarchy of control groups is mounted, and that of this process's own group below it."""

    point: Path
    own: Path

    @property
    def around(self) -> list[Path]:
        """The own group and its visible ancestors, innermost first."""
        return [self.own, *(group for group in self.own.parents if group.is_relative_to(self.point))]


def mount_of(controller: str, version: int, root: Path = Path("/")) -> Mount | None:
    """Return the mount of a controller's hierarchy; of several, the last that shows the own group."""
    found = None
    with contextlib.suppress(OSError):
        own = _own_path(controller, version, root)
        for line in _text(root / "proc/self/mountinfo").splitlines() if own is not None else ():
            mounted, _, rest = line.partition(" - ")
            fields, (kind, _, options) = mounted.split(), rest.split(maxsplit=2)
            if (kind, version) == ("cgroup2", 2) or (
                (kind, version) == ("cgroup", 1) and controller in options.split(",")
            ):
                point, first = root / fields[4].lstrip("/"), fields[3].rstrip("/")
                group = point / f"{own}/".removeprefix(f"{first}/").strip("/")
                if group.is_dir() or found is None:
                    found = Mount(point, group if group.is_dir() else point)
    return found


def _own_path(controller: str, version: int, root: Path) -> str | None:
    """Return the path of this process's group in a hierarchy."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") if version == 1 else not controllers:
            return path.rstrip("/")
    return None


def _around(controller: str, root: Path) -> list[Path]:
    mounts = (mount_of(controller, version, root) for version in (1, 2))
    return [group for mount in mounts if mount is not None for group in mount.around]


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the smallest CPU quota of the groups around this process, in CPUs; ``None`` for no limit."""
    quotas = []
    for group in _around("cpu", root):
        of_version_1 = [word for name in ("quota", "period") for word in read_words(group / f"cpu.cfs_{name}_us")]
        match read_words(group / "cpu.max") or of_version_1:
            case [limit, period] if limit.isdecimal() and period.isdecimal() and int(period):
                quotas.append(int(limit) / int(period))
    return min(quotas, default=None)


def cpu_periods(root: Path = Path("/")) -> dict[str, tuple[int, int]]:
    """Return, by group around this process, the periods of its CPU quota so far and those that it throttled."""
    tables = {str(group): read_table(group / "cpu.stat") for group in _around("cpu", root)}
    return {group: (of["nr_periods"], of["nr_throttled"]) for group, of in tables.items() if of.get("nr_periods")}


def memory_limits(root: Path = Path("/")) -> dict[Path, int]:
    """Return the memory limits of the groups around this process, bytes, by group."""
    found = {
        group: limit
        for group in _around("memory", root)
        for name in ("memory.limit_in_bytes", "memory.max")
        if (limit := read_number(group / name)) is not None
    }
    return {group: limit for group, limit in found.items() if limit < _UNLIMITED_BYTES}


def read_words(path: Path) -> list[str]:
    """Return the words of a file of a control group; none where it cannot be read."""
    try:
        return _text(path).split()
    except OSError:
        return []


def read_number(path: Path) -> int | None:
    """Return the number in a file of a control group; ``None`` where there is none."""
    words = read_words(path)
    return int(words[0]) if words and words[0].isdecimal() else None


def read_table(path: Path) -> dict[str, int]:
    """Return a file of lines ``name number``; empty where it cannot be read."""
    try:
        lines = [line.split() for line in _text(path).splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdecimal()}


def _text(path: Path) -> str:
    """Return the text of a file, in which names of groups and mounts have any bytes."""
    return os.fsdecode(path.read_bytes())


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
