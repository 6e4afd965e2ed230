"""The memory budget of a run: what a limit leaves for tasks, and how it shrinks while others need memory.

    available |'''''''\\________                  ________/''''''
    budget    |'''''''''\\______              ___________/'''''      held back until it has been calm for a while
                        little left             plenty left

What is available is what the kernel says (MemAvailable), or less where a control group around this process has a limit.
Standard library only.
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from edgetune.errors import InfeasibleError
from edgetune.processes.cgroup import memory_left_bytes
from edgetune.processes.families import counter_bytes
from edgetune.units import NS, format_bytes


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


_LOOK_NS = NS // 10
"""Time between looks: each reads three small files, in some 50 microseconds."""
_CALM_NS = 2 * NS
"""How long there must be plenty before the budget grows: memory that was let go is not taken back at once."""
_RESERVE_SHARE = 0.05
_RESERVE_MOST_BYTES = 256 << 20
"""The memory left to others: a twentieth of the machine, which on the smallest boards (2 GB) is 100 MB, and not more
than the kernel's own watermarks and page cache need on large ones."""
_STALLED = 10.0
"""Percent of the last 10 s in which something waited for memory, from which on a kernel that has little to spare is
taken to be short of it (accounting/psi.rst). Where there is plenty it is a control group that waits, as this run's may.
"""
_STEP = 0.1
"""Share by which the budget shrinks at each reading while tasks wait for memory."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The memory that is available to others.

    Args:
        available_bytes: Memory that can be used without swapping.
        stalled: Percent of the last 10 s in which something waited for memory; ``None`` where the kernel does not tell.
    """

    available_bytes: int
    stalled: float | None


class MemorySensor:
    """Reads the memory figures of the kernel.

    Args:
        root: Of the file system.
        groups: Folders of control groups around this process whose limits are not the run's own.
    """

    def __init__(self, root: Path = Path("/"), groups: Sequence[Path] = ()) -> None:
        self._meminfo, self._psi = root / "proc/meminfo", root / "proc/pressure/memory"
        self._groups = groups
        self.total_bytes = counter_bytes(self._meminfo, "MemTotal") or 0

    def read(self) -> Reading | None:
        """Return the figures of now; ``None`` where the kernel has none."""
        available_bytes = counter_bytes(self._meminfo, "MemAvailable")
        if available_bytes is None:
            return None
        return Reading(min([available_bytes, *map(memory_left_bytes, self._groups)]), self._stalled())

    def _stalled(self) -> float | None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return float(self._psi.read_text().split("avg10=", 1)[1].split()[0])
        return None


class Adaptation:
    """The budget as memory comes and goes.

    Args:
        budget_bytes: The most.
        reserve_bytes: What is left to others: below it the budget shrinks by what is missing, above twice that it
            grows by half of what is to spare.
        least_bytes: Its lower bound: with less than the hungriest layer needs, no task could run.
    """

    def __init__(self, budget_bytes: int, reserve_bytes: int, least_bytes: int = 0) -> None:
        self._most_bytes = self.budget_bytes = budget_bytes
        self._least_bytes = min(least_bytes, budget_bytes)
        self._reserve_bytes = reserve_bytes
        self._calm_since_ns: int | None = None

    def adapt(self, reading: Reading, held_bytes: int, now_ns: int) -> int:
        """Return the budget after a reading.

        Args:
            reading: Of now.
            held_bytes: What this process holds: there is nothing to gain from shrinking a budget that it does not use,
                unless to below that.
            now_ns: Of the same clock each time.
        """
        missing_bytes = self._reserve_bytes - reading.available_bytes
        plenty = reading.available_bytes > 2 * self._reserve_bytes
        stalled = reading.stalled is not None and reading.stalled >= _STALLED
        if missing_bytes > 0:
            self._shrink(min(self.budget_bytes, held_bytes) - missing_bytes)
        elif stalled and not plenty:
            self._shrink(round((1 - _STEP) * min(self.budget_bytes, held_bytes)))
        if not plenty:
            self._calm_since_ns = None
        elif self._calm_since_ns is None:
            self._calm_since_ns = now_ns
        elif now_ns - self._calm_since_ns >= _CALM_NS:
            spare_bytes = reading.available_bytes - 2 * self._reserve_bytes
            self.budget_bytes = min(self._most_bytes, self.budget_bytes + spare_bytes // 2)
        return self.budget_bytes

    def _shrink(self, to_bytes: int) -> None:
        self.budget_bytes = max(self._least_bytes, min(self.budget_bytes, to_bytes))


class PressureObserver:
    """The budget of a run, looked at now and then.

    Args:
        budget_bytes: The most.
        sensor: Reads how much memory there is.
        least_bytes: See ``Adaptation``.
    """

    def __init__(self, budget_bytes: int, sensor: MemorySensor, least_bytes: int = 0) -> None:
        reserve_bytes = min(_RESERVE_MOST_BYTES, round(_RESERVE_SHARE * sensor.total_bytes))
        self._sensor, self._adaptation = sensor, Adaptation(budget_bytes, reserve_bytes, least_bytes)
        self._looked_ns: int | None = None

    def budget_bytes(self, held_bytes: Callable[[], int], now_ns: int) -> int:
        """Return the memory budget, see ``Adaptation.adapt``; a run begins with the most."""
        if self._looked_ns is None or now_ns < self._looked_ns:  # the clock begins anew with the run
            self._looked_ns = now_ns
        elif now_ns - self._looked_ns >= _LOOK_NS:
            self._looked_ns = now_ns
            reading = self._sensor.read()
            if reading is not None:
                self._adaptation.adapt(reading, held_bytes(), now_ns)
        return self._adaptation.budget_bytes


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

    def mapped_bytes(self) -> int:
        """Return the mapped bytes, libraries included."""
        return int(os.pread(self._statm, 100, 0).split()[1]) * self._page_bytes

    def bytes(self) -> int:
        """Return the bytes in use."""
        return self.mapped_bytes() if self._usage is None else int(os.pread(self._usage, 100, 0))
