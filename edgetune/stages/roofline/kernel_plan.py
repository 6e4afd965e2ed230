"""The kernels, with their sizes, that measure the peaks of a device.

Square products find the peak of arithmetic, element-wise work, copies and transposes that of memory, and thin products
lie between the two, so that the energy of an operation and of a byte can be separated. Sizes are powers of two up to
what fits, because the best size of a library is not known beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.devices.device import Device, LiveSource
from edgetune.devices.memory import MachineMemory
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import InputError
from edgetune.units import format_bytes
from edgetune.workloads.kernels import MATMUL, PRECISIONS, BenchmarkKernel

_SIMULATED_BYTES = 8 << 30
"""Nothing is allocated on a simulated device, and beyond this its rates no longer change with size."""

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """Memory for kernels.

    Args:
        memory_bytes: What is free now; on an NVIDIA card, all it has.
        cache_bytes: The last-level caches together; ``None`` where it is unknown.
    """

    memory_bytes: int
    cache_bytes: int | None


def buffer_limits_on(device: Device, sysfs: Sysfs | None = None) -> BufferLimits:
    """Return the memory for kernels on a device.

    Args:
        device: A GPU that does not say how much memory it has shares that of the host, as on a Jetson.
        sysfs: The kernel's files.
    """
    sysfs = sysfs or Sysfs()
    if not isinstance(device.source, LiveSource):
        return BufferLimits(_SIMULATED_BYTES, None)
    on_host = device.source.torch_device == "cpu"
    own_bytes = device.conditions.get("gpu_memory_bytes")
    free_bytes = own_bytes or MachineMemory(sysfs).available_bytes() or 0
    return BufferLimits(int(free_bytes), _cache_bytes(sysfs) if on_host else None)


def memory_of(device: Device, sysfs: Sysfs | None = None) -> int | None:
    """Return all the memory that a network can be in on a device; ``None`` where it is unknown.

    A GPU with memory of its own has that, all others the host's. A simulated board has what its name in the catalogue
    says, e.g. ``jetson-agx-orin-64gb``: memory is sold in powers of two. Its system takes a part of it.
    """
    if isinstance(device.source, LiveSource):
        own_bytes = device.conditions.get("gpu_memory_bytes")
        return int(own_bytes) if own_bytes else MachineMemory(sysfs or Sysfs()).total_bytes()
    named = re.search(r"-(\d+)gb$", str(device.conditions.get("board", "")))
    return int(named[1]) << 30 if named else None


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


REPETITIONS = 10
"""Steps timed of each kernel; their median counts. Source: Pagoda (2025), section on microbenchmarks."""

STREAMS = ("relu", "transpose", "copy")

_SMALLEST = 1024
"""Rows of the smallest product: below, starting a kernel takes longer than running it on any accelerator."""

_SMALLEST_QUICK = 2048
"""With powers of four, 2048, 8192, 32768: a CPU comes near its best at the first, a board's GPU at the second."""

_INNER = (16, 32, 64, 128, 256, 512)
_INNER_QUICK = (32, 256)
"""Inner lengths of thin products: 8 to 256 FLOP per byte in FP32, on either side of the balance of every device the
studies measure (67 to 113 on a Jetson Orin AGX). Multiples of 16, as tensor cores want them."""

_ROOM = 0.5
"""Share of the memory that operands may take: libraries' workspaces, contexts and, on a board, the whole system share
the rest."""

_CACHES = 4
"""How many times the last-level cache each operand is at least, so that hardly any of it is there still when it is read
again. Source: the run rules of STREAM (McCalpin, University of Virginia)."""

_CACHE_BYTES = 64 << 20
"""Last-level cache where it is unknown: more than accelerators have (50 MiB on an H100, 4 on a Jetson Orin)."""


def plan_kernels(
    memory_bytes: float, precisions: Sequence[str], *, cache_bytes: float | None = None, quick: bool = False
) -> list[BenchmarkKernel]:
    """Return kernels by precision and family, each family by ascending size.

    Args:
        memory_bytes: Memory there is for them and everything around them.
        precisions: Keys of ``workloads.kernels.PRECISIONS``.
        cache_bytes: Last-level cache; see ``_CACHE_BYTES`` where unknown.
        quick: Fewer sizes: products in powers of four, memory at one size, two thin products.

    Raises:
        InputError: an unknown precision, or too little memory for any product or for anything beyond the cache.
    """
    unknown = [name for name in precisions if name not in PRECISIONS]
    if unknown:
        raise InputError(f"kernels have no precision {unknown[0]!r}", f"known: {', '.join(PRECISIONS)}")
    limits = _ROOM * memory_bytes
    return [
        kernel
        for precision in dict.fromkeys(precisions)
        for kernel in _of_precision(precision, limits, _CACHE_BYTES if cache_bytes is None else cache_bytes, quick)
    ]


def _of_precision(precision: str, room_bytes: float, cache_bytes: float, quick: bool) -> list[BenchmarkKernel]:
    width = PRECISIONS[precision].operand_bytes
    beyond = _SMALLEST
    while beyond * beyond * width < _CACHES * cache_bytes:
        beyond *= 2
    smallest, growth = (_SMALLEST_QUICK, 4) if quick else (_SMALLEST, 2)
    products = _up_to(room_bytes, BenchmarkKernel.square(MATMUL, smallest, precision), growth)
    streams = [_up_to(room_bytes, BenchmarkKernel.square(name, beyond, precision), 2) for name in STREAMS]
    if not products or not all(streams):
        needed = BenchmarkKernel.square("copy", beyond, precision).bytes_moved / _ROOM
        raise InputError(
            f"{format_bytes(room_bytes / _ROOM)} of memory is too little to measure {precision} beyond the cache",
            f"free at least {format_bytes(needed)}",
        )
    thin = [BenchmarkKernel(MATMUL, beyond, beyond, inner, precision) for inner in (_INNER_QUICK if quick else _INNER)]
    fitting = [kernel for kernel in thin if kernel.bytes_moved <= room_bytes]
    return [*products, *(kernel for family in streams for kernel in family[: 1 if quick else None]), *fitting]


def _up_to(room_bytes: float, kernel: BenchmarkKernel, growth: int) -> list[BenchmarkKernel]:
    """Return the kernel and its larger sizes that fit into the memory."""
    found: list[BenchmarkKernel] = []
    while kernel.bytes_moved <= room_bytes:
        found.append(kernel)
        kernel = BenchmarkKernel.square(kernel.name, kernel.rows * growth, kernel.precision)
    return found
