"""The work of a GPU: networks as chains of kernel launches, and tasks that request them.

task detect (priority 1, poisson 10/s)  ->  request 0, 1, 2 ...
request                                 ->  call 0 (conv1) -> call 1 (pool1) -> ...   in order, on the task's stream
call                                    ->  logical blocks 0 .. n-1, independent of each other
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgetune.artifacts.kernel_tasks import Role
from edgetune.serving.arrivals import parse_arrivals
from edgetune.stages.elastic.abi import Dim
from edgetune.stages.elastic.gpu import Resources


@dataclass(frozen=True, slots=True)
class Pointer:
    """An argument: the address of a buffer."""

    buffer: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """An argument by value, packed as the kernel reads it."""

    value: bytes


Argument = Pointer | Scalar


@dataclass(frozen=True, slots=True)
class Logical:
    """A launch as the program asks for it.

    Args:
        grid: Blocks along x, y, z.
        block: Threads along x, y, z.
        dynamic_shared_bytes: Of each block.
    """

    grid: Dim
    block: Dim
    dynamic_shared_bytes: int = 0

    @property
    def blocks(self) -> int:
        """Blocks in all."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel of a network, launched once for every request.

    Args:
        kernel: Its name in the source.
        logical: Its launch.
        arguments: In the order of its parameters; empty where it is only simulated.
        flop_per_block: Floating-point operations of one logical block, multiply-adds counted as two.
        efficiency: Share of the peak that its blocks reach where they saturate a multiprocessor: the rest of the time
            goes to what are no floating-point operations.
        bytes_per_block: Bytes of device memory that one logical block reads and writes, cache hits left out.
        waits_per_block: How often a thread of a block waits for memory or for its block, one wait after another; 0
            where they are unknown, or hidden behind computing.
        block_s: Measured time of one logical block alone on a multiprocessor, in place of all above, s.
        whole_s: Measured time of the original alone on the GPU, s.
        resources: Of the compiled forms, by logical threads per physical thread (1: the original).
        elastic: Whether its kernel has elastic forms; else all its blocks are launched at once, as they are.
        persistent: Whether it has a persistent form too.
    """

    kernel: str
    logical: Logical
    arguments: tuple[Argument, ...] = ()
    flop_per_block: float = 0.0
    bytes_per_block: float = 0.0
    waits_per_block: int = 0
    efficiency: float = 1.0
    block_s: float | None = None
    whole_s: float | None = None
    resources: Mapping[int, Resources] = field(default_factory=dict)
    elastic: bool = True
    persistent: bool = True


@dataclass(frozen=True, slots=True)
class KernelBuffer:
    """Device memory of a network.

    Args:
        name: Unique in the network.
        shape, dtype, role: As in ``BufferEntry``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    role: Role = "scratch"


@dataclass(frozen=True, slots=True)
class KernelSequence:
    """A chain of kernels.

    Args:
        name: Of the network.
        calls: In order; each may read what those before it wrote.
        source: CUDA C of all its kernels; empty where it is only simulated.
        buffers: The buffers that its arguments point to.
    """

    name: str
    calls: Sequence[Call]
    source: str = ""
    buffers: Sequence[KernelBuffer] = ()


@dataclass(frozen=True, slots=True)
class GpuTask:
    """A source of requests for a network.

    Args:
        name: Unique in a run.
        network: The network.
        priority: 0 is best effort; of two others the higher one is more critical.
        arrivals: In the words of ``edgetune.serving``: ``closed``, ``uniform:10/s``, ``poisson:10/s``, a trace.
        deadline_s: A request is due this long after its arrival; ``None`` for no deadline.
        sms: The most multiprocessors that its kernels may use; ``None`` for all.
    """

    name: str
    network: KernelSequence
    priority: int = 0
    arrivals: str = "closed"
    deadline_s: float | None = None
    sms: int | None = None

    @property
    def closed(self) -> bool:
        """Whether its requests come when earlier ones have been answered, and have no rate."""
        return parse_arrivals(self.arrivals).kind == "closed"

    @property
    def critical(self) -> bool:
        """Whether best-effort work gives way to it."""
        return self.priority > 0
