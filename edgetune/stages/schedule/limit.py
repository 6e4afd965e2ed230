"""A real memory limit for one process: a control group of its own; else the runtime's own accounts alone.

this process -- group/        memory: unlimited
                  `-- edgetune-4711-0/   memory: 512 MiB, then swap; over that, the kernel kills what is in it
                         the process that runs networks
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from edgetune.processes.cgroup import mount_of, read_words
from edgetune.processes.group_steps import GROUP_PREFIX, remove_group, systemd_answers
from edgetune.stages.schedule.cgroups import GroupV1, GroupV2, MemoryLimit, ScopeV2


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


def parents(root: Path, version: int) -> list[Path]:
    """Return the groups that a limited one can be made in: the own one, and of version 2 rather the one above it."""
    mount = mount_of("memory", version, root)
    if mount is None:
        return []
    own = mount.own
    if version == 1:
        return [own]
    above = [own, own.parent] if own != mount.point else [own]
    return [group for group in above if "memory" in read_words(group / "cgroup.subtree_control")]


def sweep(parent: Path, root: Path) -> None:
    """Remove empty groups of processes that have ended without removing them."""
    for left in parent.glob(f"{GROUP_PREFIX}*-*"):
        pid = left.name.removeprefix(GROUP_PREFIX).partition("-")[0]
        if pid.isdecimal() and not (root / "proc" / pid).exists():
            with contextlib.suppress(OSError):
                remove_group(str(left))


def scopes(root: Path) -> Path | None:
    """Return where version 2 is mounted, if systemd can be asked for limited scopes in it."""
    mount = mount_of("memory", 2, root)
    if (
        mount is None
        or "memory" not in read_words(mount.point / "cgroup.controllers")
        or shutil.which("busctl") is None
    ):
        return None
    return mount.point if systemd_answers() else None
