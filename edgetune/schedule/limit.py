"""A real memory limit for one process: a control group of its own, or, where none can be made, none but the runtime's.

this process -- group/        memory: unlimited
                  `-- edgetune-4711-0/   memory: 512 MiB, then swap; over that, the kernel kills what is in it
                         the process that runs networks
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol

from edgetune.schedule.cgroups import CgroupFigures, GroupV1, GroupV2, ScopeV2, parents, scopes, sweep

Enforced = Literal["cgroup-v1", "cgroup-v2", "accounted"]
"""By what a limit is kept: the kernel, or only the runtime's own account."""


class MemoryLimit(Protocol):
    """A limit that a process can be put under."""

    @property
    def enforced(self) -> Enforced:
        """By what it is kept."""
        ...

    @property
    def reason(self) -> str | None:
        """Why the kernel does not enforce it; ``None`` where it does."""
        ...

    @property
    def usage(self) -> Path | None:
        """The file that says what is charged to it now; ``None`` where there is none, or not yet."""
        ...

    def __enter__(self) -> MemoryLimit: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def admit(self, pid: int) -> None:
        """Put a process under the limit; what it has in memory already is not counted.

        Raises:
            DeviceError: the kernel or systemd refuses it.
        """
        ...

    def figures(self) -> CgroupFigures:
        """Return what the kernel has counted so far; the last it told, once the group is gone."""
        ...


class UnenforcedLimit:
    """No limit of the kernel: the runtime keeps its own account, and nobody checks it.

    Args:
        reason: Why.
    """

    enforced: Enforced = "accounted"
    usage: Path | None = None

    def __init__(self, reason: str) -> None:
        self.reason: str | None = reason

    def __enter__(self) -> UnenforcedLimit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def admit(self, pid: int) -> None:
        """Do nothing."""

    def figures(self) -> CgroupFigures:
        """Return nothing: nobody counts."""
        return CgroupFigures()


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
    return UnenforcedLimit("; ".join(tried) or "there is no control group for memory in which this user may make one")
