"""Reads control groups: the group of this process and those around it, of version 1 and 2, and the limits they set.

    proc/self/cgroup      4:cpu,cpuacct:/system.slice/job.service      the group of this process in each hierarchy
    proc/self/mountinfo   ... /system.slice /sys/fs/cgroup/cpu ...     where it is mounted, and from which group on

Sources: cgroups(7), proc_pid_mountinfo(5), Linux Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

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


def memory_left_bytes(group: Path) -> int:
    """Return the memory that a group may still use, its reclaimable page cache included, bytes."""
    for limit, usage in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        limit_bytes, used_bytes = read_number(group / limit), read_number(group / usage)
        if limit_bytes is not None and used_bytes is not None:
            stat = read_table(group / "memory.stat")
            return limit_bytes - used_bytes + stat.get("total_inactive_file", stat.get("inactive_file", 0))
    return 1 << 62


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
