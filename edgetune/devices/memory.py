"""The memory of the whole machine, which CPU and GPU share on a board; Documentation/filesystems/proc.rst."""

import os

from edgetune.devices.sysfs import Sysfs
from edgetune.processes.families import counter, counter_bytes


class MachineMemory:
    """Reads the kernel's accounts of memory; each figure is ``None`` where the kernel does not show it.

    Args:
        sysfs: The kernel's files.
    """

    def __init__(self, sysfs: Sysfs) -> None:
        self._proc = sysfs.root / "proc"

    def total_bytes(self) -> int | None:
        """Return all memory that the kernel manages, bytes."""
        return counter_bytes(self._proc / "meminfo", "MemTotal")

    def available_bytes(self) -> int | None:
        """Return what programs can take without swapping, bytes."""
        return counter_bytes(self._proc / "meminfo", "MemAvailable")

    def swap_bytes(self) -> tuple[int, int] | None:
        """Return the used and the whole swap, bytes; ``None`` also without swap."""
        whole = counter_bytes(self._proc / "meminfo", "SwapTotal")
        free = counter_bytes(self._proc / "meminfo", "SwapFree")
        return (whole - free, whole) if whole and free is not None else None

    def swapped_in_bytes(self) -> int | None:
        """Return what was read back from swap, compressed memory (zram) among it, since the system booted, bytes."""
        pages = counter(self._proc / "vmstat", "pswpin")
        return None if pages is None else pages * os.sysconf("SC_PAGE_SIZE")
