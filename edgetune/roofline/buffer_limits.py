"""How much memory kernels may take on a device, and how large the cache is that they must not fit into."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgetune.devices.device import Device, LiveSource
from edgetune.devices.sysfs import Sysfs

_SIMULATED_BYTES = 8 << 30
"""Nothing is allocated on a simulated device, and beyond this its rates no longer change with size."""

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """Memory for kernels.

    Args:
        memory_bytes: What is free now; on an NVIDIA card, all it has.
        cache_bytes: The last-level caches together; ``None`` where nobody says.
    """

    memory_bytes: int
    cache_bytes: int | None


def buffer_limits_on(device: Device, sysfs: Sysfs | None = None) -> BufferLimits:
    """Return the room on a device.

    Args:
        device: A GPU that does not say how much memory it has shares that of the host, as on a Jetson.
        sysfs: The kernel's files.
    """
    sysfs = sysfs or Sysfs()
    if not isinstance(device.source, LiveSource):
        return BufferLimits(_SIMULATED_BYTES, None)
    on_host = device.source.torch_device == "cpu"
    own_bytes = device.conditions.get("gpu_memory_bytes")
    free_bytes = own_bytes or _meminfo_bytes(sysfs, "MemAvailable") or 0
    return BufferLimits(int(free_bytes), _cache_bytes(sysfs) if on_host else None)


def memory_of(device: Device, sysfs: Sysfs | None = None) -> int | None:
    """Return all the memory that a network can be in on a device; ``None`` where nobody says.

    A GPU with memory of its own has that, all others the host's. A simulated board has what its name in the catalogue
    says, e.g. ``jetson-agx-orin-64gb``: memory is sold in powers of two. Its system takes a part of it.
    """
    if isinstance(device.source, LiveSource):
        own_bytes = device.conditions.get("gpu_memory_bytes")
        return int(own_bytes) if own_bytes else _meminfo_bytes(sysfs or Sysfs(), "MemTotal")
    named = re.search(r"-(\d+)gb$", str(device.conditions.get("board", "")))
    return int(named[1]) << 30 if named else None


def _meminfo_bytes(sysfs: Sysfs, key: str) -> int | None:
    """Return a line of the kernel's account of memory; see its Documentation/filesystems/proc.rst."""
    try:
        for line in sysfs.read("proc/meminfo").splitlines():
            name, _, rest = line.partition(":")
            if name == key:
                return int(rest.split()[0]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cache_bytes(sysfs: Sysfs) -> int | None:
    """Return the size of all caches of the highest level, each counted once.

    Source: the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu, ``cache/index*``.
    """
    found: dict[tuple[int, str], int] = {}
    for folder in sysfs.glob("sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        try:
            size = sysfs.read(f"{folder}/size")
            key = int(sysfs.read(f"{folder}/level")), sysfs.read(f"{folder}/shared_cpu_list")
            found[key] = int(size[:-1]) * _UNITS[size[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue
    highest = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == highest) or None
