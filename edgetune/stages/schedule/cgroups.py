"""Memory limits of a process: control groups of both versions, and a limit that only the runtime's accounts keep.

Version 1: Linux' admin-guide/cgroup-v1/memory.rst. Version 2: admin-guide/cgroup-v2.rst; a group with processes of its
own cannot have limited groups below it there, so that a sibling is made, or systemd is asked for one.

A real memory limit for one process: a control group of its own; else the runtime's own accounts alone.

this process -- group/        memory: unlimited
                  `-- edgetune-4711-0/   memory: 512 MiB, then swap; over that, the kernel kills what is in it
                         the process that runs networks
"""

import contextlib
import errno
import os
import shutil
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from edgetune.errors import DeviceError
from edgetune.processes.cgroup import (
    GROUP_PREFIX,
    make_group,
    mount_of,
    read_number,
    read_table,
    read_words,
    remove_group,
    start_scope,
    systemd_answers,
    write_group,
)

_EMPTIED_WITHIN_S = 5.0
_MOVED_WITHIN_S = 5.0
_POLL_S = 0.02
Enforced = Literal["cgroup-v1", "cgroup-v2", "accounted"]
"""What keeps a limit: the kernel, or only the runtime's own accounts."""
_AnyLimit = TypeVar("_AnyLimit", bound="MemoryLimit")


@dataclass(frozen=True, slots=True)
class CgroupFigures:
    """Figures that the kernel counted of a group; ``None`` where it does not tell.

    Args:
        peak_bytes: Most memory charged at once, page cache among it; never above the limit.
        swap_bytes: Swap in use; of version 2, the most there was, where the kernel keeps it (Linux 6.5).
        major_faults: Page faults that waited for storage.
        limit_hits: Number of times that pages were reclaimed because the limit was met.
        kills: Processes killed because nothing could be reclaimed.
    """

    peak_bytes: int | None = None
    swap_bytes: int | None = None
    major_faults: int | None = None
    limit_hits: int | None = None
    kills: int | None = None


class MemoryLimit:
    """A limit that a process can be put under, to be entered with ``with``; this one only the runtime's accounts keep.

    Args:
        reason: Why the kernel does not enforce it; ``None`` where it does.
    """

    enforced: ClassVar[Enforced] = "accounted"

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason

    def __enter__(self: _AnyLimit) -> _AnyLimit:
        return self

    def __exit__(self, *_: object) -> None: ...

    @property
    def usage(self) -> Path | None:
        """The file with the bytes that are charged to it now; ``None`` where there is none, or not yet."""
        return None

    def admit(self, pid: int) -> None:
        """Put a process under the limit; what it has in memory already is not counted.

        Raises:
            DeviceError: the kernel or systemd refuses it.
        """

    def figures(self) -> CgroupFigures:
        """Return the kernel's counts; once the group is gone, the last ones that were read."""
        return CgroupFigures()


class _Group(MemoryLimit):
    """A control group.

    Args:
        parent: The group to make it in.
        limit_bytes: Of memory.
        swap_bytes: Of swap beside it; ``None`` for as much as the machine has.

    Raises:
        OSError: the group cannot be made here.
    """

    _usage: ClassVar[str]

    def __init__(self, parent: Path, limit_bytes: int, swap_bytes: int | None) -> None:
        super().__init__()
        self._last = CgroupFigures()
        self._path: Path | None = Path(make_group(str(parent)))
        try:
            self._set(self._path, limit_bytes, swap_bytes)
        except OSError:
            _remove(self._path)
            raise

    def __exit__(self, *_: object) -> None:
        self.figures()
        if self._path is not None:
            _remove(self._path)
        self._path = None

    def admit(self, pid: int) -> None:
        """Put a process into the group."""
        assert self._path is not None
        try:
            write_group(str(self._path), "cgroup.procs", pid)
        except OSError as error:
            raise DeviceError(
                f"process {pid} cannot enter {self._path}: {error.strerror}", "run without a memory limit, or as root"
            ) from None

    @property
    def usage(self) -> Path | None:
        """The file with the bytes that are charged to the group now."""
        return None if self._path is None else self._path / self._usage

    def figures(self) -> CgroupFigures:
        """Return the kernel's counts."""
        if self._path is not None and self._path.is_dir():
            self._last = self._read(self._path)
        return self._last

    def _set(self, path: Path, limit_bytes: int, swap_bytes: int | None) -> None:
        raise NotImplementedError

    def _read(self, path: Path) -> CgroupFigures:
        raise NotImplementedError


class GroupV1(_Group):
    """A group of version 1."""

    enforced = "cgroup-v1"
    _usage = "memory.usage_in_bytes"

    def _set(self, path: Path, limit_bytes: int, swap_bytes: int | None) -> None:
        write_group(str(path), "memory.limit_in_bytes", limit_bytes)
        if swap_bytes is not None:  # of memory and swap together; absent where the kernel does not account swap
            _write_if_there(path / "memory.memsw.limit_in_bytes", limit_bytes + swap_bytes)
        if swap_bytes == 0:
            _write_if_there(path / "memory.swappiness", 0)

    def _read(self, path: Path) -> CgroupFigures:
        stat = read_table(path / "memory.stat")
        return CgroupFigures(
            read_number(path / "memory.max_usage_in_bytes"), stat.get("swap"), stat.get("pgmajfault"),
            read_number(path / "memory.failcnt"), read_table(path / "memory.oom_control").get("oom_kill"),
        )  # fmt: skip


class GroupV2(_Group):
    """A group of version 2."""

    enforced = "cgroup-v2"
    _usage = "memory.current"

    def _set(self, path: Path, limit_bytes: int, swap_bytes: int | None) -> None:
        write_group(str(path), "memory.max", limit_bytes)
        if swap_bytes is not None:
            _write_if_there(path / "memory.swap.max", swap_bytes)

    def _read(self, path: Path) -> CgroupFigures:
        stat, events = read_table(path / "memory.stat"), read_table(path / "memory.events")
        peak = read_number(path / "memory.swap.peak")
        return CgroupFigures(
            read_number(path / "memory.peak"), read_number(path / "memory.swap.current") if peak is None else peak,
            stat.get("pgmajfault"), events.get("max"), events.get("oom_kill"),
        )  # fmt: skip


class ScopeV2(GroupV2):
    """A group of version 2 that systemd makes for the process: a transient scope, see its org.freedesktop.systemd1(5).

    It is removed with its last process, also where the kernel killed that between two looks. The group above counts
    kills in its own memory.events too, admin-guide/cgroup-v2.rst says, so that more of them there are taken for this.

    Args:
        root: Of the file system.
        mount: The mount point of version 2.
        limit_bytes, swap_bytes: As of version 1.
    """

    def __init__(self, root: Path, mount: Path, limit_bytes: int, swap_bytes: int | None) -> None:
        MemoryLimit.__init__(self)
        self._path, self._last = None, CgroupFigures()
        self._root, self._mount = root, mount
        self._limits = (limit_bytes, swap_bytes)
        self._above: Path | None = None
        self._kills_above: int | None = None

    def __exit__(self, *_: object) -> None:
        self.figures()  # systemd removes it with its last process
        self._path = self._above = None

    def figures(self) -> CgroupFigures:
        """Return the kernel's counts; of a scope that is gone, with the kills that the group above counted."""
        counted = super().figures()
        if self._above is None or self._path is None or self._path.is_dir():
            return counted
        kills = _kills(self._above)
        if kills is not None and self._kills_above is not None:
            self._last = replace(counted, kills=kills - self._kills_above)
        return self._last

    def admit(self, pid: int) -> None:
        """Ask systemd to put the process into a scope of its own."""
        try:
            self._path = self._entered(pid, start_scope(pid, *self._limits))
            self._above = self._path.parent
            self._kills_above = _kills(self._above)
        except OSError as error:
            raise DeviceError(
                f"systemd makes no scope for process {pid}: {error.strerror}", "run without a memory limit, or as root"
            ) from None

    def _entered(self, pid: int, name: str) -> Path:
        """Wait for the process to be in the scope and return its folder.

        Raises:
            TimeoutError: it never was.
        """
        deadline_s = time.monotonic() + _MOVED_WITHIN_S
        while time.monotonic() < deadline_s:
            for line in (self._root / f"proc/{pid}/cgroup").read_text().splitlines():
                if line.startswith("0::") and line.endswith(f"/{name}"):
                    return self._mount / line.removeprefix("0::/")
            time.sleep(_POLL_S)
        raise TimeoutError(errno.ETIMEDOUT, f"it is not in its scope after {_MOVED_WITHIN_S:g} s")


def _remove(path: Path) -> None:
    """Kill what is in a group and remove it; a process leaves it a little after it was killed."""
    deadline_s = time.monotonic() + _EMPTIED_WITHIN_S
    while time.monotonic() < deadline_s:
        for pid in read_words(path / "cgroup.procs"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            remove_group(str(path))
        except OSError as error:
            if error.errno != errno.EBUSY:
                return
        else:
            return
        time.sleep(_POLL_S)


def _write_if_there(path: Path, value: int) -> None:
    if path.exists():
        write_group(str(path.parent), path.name, value)


def _kills(group: Path) -> int | None:
    return read_table(group / "memory.events").get("oom_kill")


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
