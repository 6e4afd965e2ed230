"""The memory budget of a run: what a limit leaves for tasks. Standard library only."""

import os
from collections.abc import Mapping
from types import MappingProxyType

from edgetune.errors import InfeasibleError
from edgetune.units import format_bytes


def check_budget(
    budget_bytes: int, least_bytes: Mapping[str, int], *, beside_bytes: int = 0, margin_bytes: int = 0
) -> None:
    """Check that every network runs in the budget, a layer at a time.

    Args:
        budget_bytes: The memory budget of tasks.
        least_bytes: The least memory of each network, by name.
        beside_bytes: Other memory of the process, which a memory limit has to include.
        margin_bytes: Possible growth of that in the next run, for the budget that is named.

    Raises:
        InfeasibleError: a network does not fit; the smallest budget that works for all is named, rounded up.
    """
    hungriest = max(least_bytes, key=lambda name: (least_bytes[name], name), default=None)
    if hungriest is None or least_bytes[hungriest] <= budget_bytes:
        return
    needed = least_bytes[hungriest] + beside_bytes + margin_bytes
    unit, name = (2**20, "MiB") if needed >= 10 * 2**20 else (2**10, "KiB")
    beside = f", and {format_bytes(beside_bytes)} are taken before anything is loaded" if beside_bytes else ""
    raise InfeasibleError(
        f"the memory budget of {format_bytes(budget_bytes + beside_bytes)} is too small: network {hungriest} needs "
        f"{format_bytes(least_bytes[hungriest])} for its hungriest layer{beside}",
        f"the smallest budget that works for all networks here is {-(-needed // unit)}{name}",
    )


_ALLOWANCE_BYTES, _CHARGED_ALLOWANCE_BYTES = 8 << 20, 1 << 20
"""Memory of this process beside its base and that of tasks: pages of ONNX Runtime's code touched when it first runs,
workspaces of its kernels, records not sent yet. 3 to 8 MB resident for nine networks of the zoo, YOLOv8n the most; a
control group is charged less than 1 MB of it: it gives back pages of code before it is short of memory."""


UNSTEADY_BYTES = 1 << 20
"""By how much the base may grow in the next run, with another layout in memory: six runs differed by 0.1 MB."""


def left_bytes(
    limit_bytes: int, base_bytes: int, least_bytes: Mapping[str, int] = MappingProxyType({}), *, charged: bool = False
) -> int:
    """Return the part of a memory limit that is left for tasks, bytes.

    Args:
        limit_bytes: Of the process.
        base_bytes: Its memory before any load; 0 where that is unknown, and all of the limit counts as left.
        least_bytes: The least memory of each requested network, by name.
        charged: Whether the base is what a control group is charged, else what is resident.

    Raises:
        InfeasibleError: less than a network needs, or nothing; the smallest limit that works is named.
    """
    if not base_bytes:
        check_budget(limit_bytes, least_bytes)
        return limit_bytes
    beside_bytes = base_bytes + (_CHARGED_ALLOWANCE_BYTES if charged else _ALLOWANCE_BYTES)
    budget_bytes = limit_bytes - beside_bytes
    check_budget(budget_bytes, least_bytes, beside_bytes=beside_bytes, margin_bytes=UNSTEADY_BYTES)
    if budget_bytes <= 0:
        raise InfeasibleError(
            f"the memory limit of {format_bytes(limit_bytes)} leaves nothing: ONNX Runtime and the sessions of "
            f"all layers take {format_bytes(base_bytes)} before anything is loaded",
            f"give it more than {format_bytes(beside_bytes + UNSTEADY_BYTES)}",
        )
    return budget_bytes


class MemoryInUse:
    """The memory of this process, as the kernel counts it.

    Args:
        usage: File of its control group that says what is charged to it, each page once, page cache among it; without
            one it is what is mapped (proc_pid_statm(5)), where a page counts as often as it is mapped.
    """

    def __init__(self, usage: str | None) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC
        self._statm = os.open("/proc/self/statm", flags)
        self._usage = None if usage is None else os.open(usage, flags)
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    @property
    def charged(self) -> bool:
        """Whether it is what a control group is charged."""
        return self._usage is not None

    def bytes(self) -> int:
        """Return the bytes in use, of mapped ones libraries included."""
        if self._usage is not None:
            return int(os.pread(self._usage, 100, 0))
        return int(os.pread(self._statm, 100, 0).split()[1]) * self._page_bytes
