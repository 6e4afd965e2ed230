"""A real memory limit for one process: a control group of its own; else the runtime's own accounts alone.

this process -- group/        memory: unlimited
                  `-- edgetune-4711-0/   memory: 512 MiB, then swap; over that, the kernel kills what is in it
                         the process that runs networks
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from edgetune.stages.schedule.cgroups import (
    GROUP_PREFIX,
    GroupV1,
    GroupV2,
    MemoryLimit,
    ScopeV2,
    read_number,
    read_words,
    remove_group,
    systemd_answers,
)


def make_limit(limit_bytes: int, *, swap_bytes: int | None = None, root: Path = Path("/")) -> MemoryLimit:
    """Return the strictest limit that this machine allows this user, to be entered with ``with``.

    Args:
        limit_bytes: Of memory, page cache among it.
        swap_bytes: Of swap beside it; ``None`` for as much as the machine has.
        root: Of the file system.
    """
    tried: list[str] = []
    for group, version in ((GroupV1, 1), (GroupV2, 2)):
        for parent in parents(root, version):
            try:
                sweep(parent, root)
                return group(parent, limit_bytes, swap_bytes)
            except OSError as error:
                tried.append(f"{parent}: {error.strerror}")
    mount = scopes(root)
    if mount is not None:
        return ScopeV2(root, mount, limit_bytes, swap_bytes)
    return MemoryLimit("; ".join(tried) or "there is no control group for memory in which this user may make one")


_UNLIMITED_BYTES = 1 << 60
"""Version 1 says so by a number of pages that no machine has."""


@dataclass(frozen=True, slots=True)
class _Mount:
    """The folder where control groups are mounted, and that of the group that this process is in, if it has one."""

    point: Path
    own: Path | None


def _mount(root: Path, version: int) -> _Mount | None:
    """Return the mount of the memory controller, see proc_pid_mountinfo(5)."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/mountinfo").read_text().splitlines():
            mounted, _, kind = line.partition(" - ")
            fields, (kind, _, options) = mounted.split(), kind.split(maxsplit=2)
            if (kind == "cgroup" and version == 1 and "memory" in options.split(",")) or (
                kind == "cgroup2" and version == 2
            ):
                point = root / fields[4].lstrip("/")
                return _Mount(point, _own(root, version, point, fields[3]))
    return None


def parents(root: Path, version: int) -> list[Path]:
    """Return the groups that a limited one can be made in: the own one, and of version 2 rather the one above it."""
    mount = _mount(root, version)
    if mount is None or (own := mount.own) is None:
        return []
    if version == 1:
        return [own]
    above = [own, own.parent] if own != mount.point else [own]
    return [group for group in above if "memory" in read_words(group / "cgroup.subtree_control")]


def _own(root: Path, version: int, point: Path, group: str) -> Path | None:
    """Return the group that this process is in, see cgroups(7); ``group`` is that of the mount point."""
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if (version == 1 and "memory" in controllers.split(",")) or (version == 2 and controllers == ""):
            return point / path.removeprefix(group).lstrip("/")
    return None


def limited_around(root: Path) -> list[Path]:
    """Return the groups around this process, its own among them, that have a memory limit."""
    found = []
    for version, name in ((1, "memory.limit_in_bytes"), (2, "memory.max")):
        mount = _mount(root, version)
        if mount is None or (own := mount.own) is None:
            continue
        around = [own, *(group for group in own.parents if group.is_relative_to(mount.point))]
        found += [group for group in around if (read_number(group / name) or _UNLIMITED_BYTES) < _UNLIMITED_BYTES]
    return found


def sweep(parent: Path, root: Path) -> None:
    """Remove empty groups of processes that have ended without removing them."""
    for left in parent.glob(f"{GROUP_PREFIX}*-*"):
        pid = left.name.removeprefix(GROUP_PREFIX).partition("-")[0]
        if pid.isdecimal() and not (root / "proc" / pid).exists():
            with contextlib.suppress(OSError):
                remove_group(str(left))


def scopes(root: Path) -> Path | None:
    """Return where version 2 is mounted, if systemd can be asked for limited scopes in it."""
    mount = _mount(root, 2)
    if (
        mount is None
        or "memory" not in read_words(mount.point / "cgroup.controllers")
        or shutil.which("busctl") is None
    ):
        return None
    return mount.point if systemd_answers() else None
