"""The memory of the whole machine, which CPU and GPU share on a board; Documentation/filesystems/proc.rst."""

from __future__ import annotations

import os

from edgetune.devices.sysfs import Sysfs


class MachineMemory:
    """Reads the kernel's accounts of memory.

    Args:
        sysfs: The kernel's files.
    """

    def __init__(self, sysfs: Sysfs) -> None:
        self._sysfs = sysfs

    def total_bytes(self) -> int | None:
        """Return all memory that the kernel manages, bytes; ``None`` where it does not tell, as with the others."""
        return self._of("proc/meminfo", "MemTotal:", 1 << 10)

    def available_bytes(self) -> int | None:
        """Return what programs can take without swapping, bytes."""
        return self._of("proc/meminfo", "MemAvailable:", 1 << 10)

    def swap_bytes(self) -> tuple[int, int] | None:
        """Return the used and the whole swap, bytes; ``None`` also without swap."""
        whole = self._of("proc/meminfo", "SwapTotal:", 1 << 10)
        free = self._of("proc/meminfo", "SwapFree:", 1 << 10)
        return (whole - free, whole) if whole and free is not None else None

    def swapped_in_bytes(self) -> int | None:
        """Return what was read back from swap, compressed memory (zram) among it, since the system booted, bytes."""
        return self._of("proc/vmstat", "pswpin", os.sysconf("SC_PAGE_SIZE"))

    def _of(self, path: str, name: str, unit_bytes: int) -> int | None:
        for line in self._sysfs.text(path).splitlines():
            words = line.split()
            if len(words) > 1 and words[0] == name and words[1].isdigit():
                return int(words[1]) * unit_bytes
        return None
