"""Kernel tasks: who shares a GPU kernel by kernel, how urgently, and when their requests come and are due.

kind: kernel_tasks
version: 1
gpu: orin-agx
policy: elastic
duration: 2s
tasks:
- {name: detect, network: 'mdtb:alexnet', priority: 1, arrivals: 'uniform:10/s', deadline: 50ms}
- {name: sort, network: mine}
networks:
  mine:
    source: sort.cu
    calls: [{kernel: sort, grid: [49], block: [256], flop_per_block: 1e6, bytes_per_block: 64KiB}]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgetune.artifacts.header import Header

KIND = "kernel_tasks"
VERSION = 1

DEFAULT_GPU = "orin-agx"
DEFAULT_POLICY = "elastic"
DEFAULT_DURATION_S = 2.0


@dataclass(frozen=True, slots=True)
class KernelBuffer:
    """Device memory of a network: see ``elastic.work.Buffer``."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    role: str = "scratch"


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A launch of a network.

    Args:
        kernel: Its name in the source.
        grid, block: Blocks, and threads of a block, along x, y and z.
        shared_bytes: Shared memory that the launch gives each block.
        arguments: Names of buffers, and values as ``{int: 5}`` or ``{float: 0.5}``; empty where it is only simulated.
        flop_per_block, bytes_per_block: Of one block, for simulation.
        block_s: What one block takes alone on a multiprocessor, s, instead of these two.
        registers: Of a thread, where the kernel is not compiled; ``None`` for what simulation assumes.
        static_shared_bytes: Shared memory that the kernel declares.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    arguments: tuple[str | Mapping[str, float], ...] = ()
    flop_per_block: float = 0.0
    bytes_per_block: float = 0.0
    block_s: float | None = None
    registers: int | None = None
    static_shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class KernelNetwork:
    """A network of one's own, or one of the benchmark's in another size.

    Args:
        name: What tasks call it; unique.
        mdtb: Name of a network of the benchmark; ``None`` for one of its own.
        sizes: Of that one, e.g. ``{side: 64}``.
        source: CUDA C file of all kernels; ``None`` where it is only simulated.
        calls: In order.
        buffers: Which arguments name.
    """

    name: str
    mdtb: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    source: str | None = None
    calls: tuple[KernelCall, ...] = ()
    buffers: tuple[KernelBuffer, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelTask:
    """Somebody who asks a network again and again.

    Args:
        name: Unique.
        network: ``mdtb:NAME`` for one of the benchmark's, else one of those in the document.
        priority: 0 is best effort; of two others the higher one is more critical.
        arrivals: How requests come, in words (``closed``, ``uniform:10/s``, ``poisson:10/s``, ``trace:FILE``).
        deadline_s: A request is due this long after it came, s; ``None`` where it never is.
    """

    name: str
    network: str
    priority: int = 0
    arrivals: str = "closed"
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class KernelTasks:
    """Everything that is to run.

    Args:
        header: Of a file written by hand, its kind and version alone.
        tasks: Not empty.
        networks: Those that tasks name without ``mdtb:``.
        gpu: Which one is simulated, by name in the catalogue.
        policy: Which one decides.
        duration_s: How long requests come, s.
        seed: Of random arrivals.
    """

    header: Header
    tasks: tuple[KernelTask, ...]
    networks: tuple[KernelNetwork, ...] = ()
    gpu: str = DEFAULT_GPU
    policy: str = DEFAULT_POLICY
    duration_s: float = DEFAULT_DURATION_S
    seed: int = 0
