"""GPUs of the catalogue ``gpus.yaml``, and how many blocks fit on one of their multiprocessors.

SM   threads   [####....]    a block needs its share of each of the four;
     registers [######..]    the scarcest limits how many are resident
     shared    [##......]
     blocks    [###.....]

The work of a GPU: networks as chains of kernel launches, and tasks that request them.

task detect (priority 1, poisson 10/s)  ->  request 0, 1, 2 ...
request                                 ->  call 0 (conv1) -> call 1 (pool1) -> ...   in order, on the task's stream
call                                    ->  logical blocks 0 .. n-1, independent of each other
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from edgetune.artifacts.kernel_tasks import KernelBuffer
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.choices import choose
from edgetune.stages.elastic.kernel import WARP_THREADS, Dim

_REGISTERS_UNIT = 256
"""A warp gets registers in units of 256 (CUDA Occupancy Calculator, compute capability 5.0 and later)."""


@dataclass(frozen=True, slots=True, eq=False)
class Gpu:
    """Limits and speeds of a GPU; one object is one GPU, whatever others are like.

    Args:
        name: As in the catalogue, e.g. ``orin-agx``.
        sm_count: Multiprocessors.
        compute_capability: E.g. ``8.7``.
        threads_per_sm: Resident at most.
        blocks_per_sm: Resident at most.
        threads_per_block: At most.
        registers_per_sm: 32-bit registers.
        shared_bytes_per_sm: Shared memory for blocks.
        shared_bytes_per_block: At most, where a kernel asks for more than the usual 48 KiB.
        flop_per_s: Single precision, multiply-adds counted as two, of all multiprocessors.
        bandwidth_bytes_per_s: Of device memory.
        launch_s: From a launch until its first block runs, on an idle GPU. Of a real GPU that runs tasks it includes
            the time that the host needs to see an end and to decide.
        source: Where the numbers are from.
    """

    name: str
    sm_count: int
    compute_capability: str
    threads_per_sm: int
    blocks_per_sm: int
    threads_per_block: int
    registers_per_sm: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    flop_per_s: float
    bandwidth_bytes_per_s: float
    launch_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Resources:
    """What a compiled kernel needs.

    Args:
        registers_per_thread: 32-bit registers.
        static_shared_bytes: Of a block, without what the launch adds.
        stack_bytes: Of a thread, in local memory.
        spill_bytes: Stored to and loaded from there for want of registers.
    """

    registers_per_thread: int
    static_shared_bytes: int = 0
    stack_bytes: int = 0
    spill_bytes: int = 0


def allocated(resources: Resources, threads: int) -> tuple[int, int]:
    """Return the threads and registers that a multiprocessor allocates for a block of so many threads: whole warps."""
    warps = -(-threads // WARP_THREADS)
    per_warp = -(-resources.registers_per_thread * WARP_THREADS // _REGISTERS_UNIT) * _REGISTERS_UNIT
    return warps * WARP_THREADS, warps * per_warp


def blocks_resident(gpu: Gpu, resources: Resources, threads: int, dynamic_shared_bytes: int = 0) -> int:
    """Return how many blocks fit on one multiprocessor at once; 0 where not even one does.

    Args:
        gpu: The GPU.
        resources: Of the compiled kernel.
        threads: Of a block.
        dynamic_shared_bytes: Of a block, as the launch gives them.
    """
    shared_bytes = resources.static_shared_bytes + dynamic_shared_bytes
    if threads > gpu.threads_per_block or shared_bytes > gpu.shared_bytes_per_block:
        return 0
    taken, registers = allocated(resources, threads)
    fits = [gpu.blocks_per_sm, gpu.threads_per_sm // taken]
    if registers:
        fits.append(gpu.registers_per_sm // registers)
    if shared_bytes:
        fits.append(gpu.shared_bytes_per_sm // shared_bytes)
    return min(fits)


_FILE = "gpus.yaml"


@cache
def catalogue() -> dict[str, Gpu]:
    """Return every GPU of the catalogue by name."""
    document = load_yaml(files(__package__).joinpath(_FILE).read_text("utf-8"), name=_FILE)
    found = {}
    for name, facts in document["gpus"].items():
        values = {field: fact["value"] for field, fact in facts.items()}
        limits = dict(document["capabilities"][values["compute_capability"]])
        sources = {"limits": limits.pop("source"), **{field: fact["source"] for field, fact in facts.items()}}
        source = "; ".join(f"{field}: {text}" for field, text in sources.items())
        found[name] = Gpu(name=name, **values, **limits, source=source)
    return found


def find_gpu(name: str) -> Gpu:
    """Return the GPU of this name.

    Raises:
        InputError: the catalogue has none; the hint names the nearest.
    """
    return catalogue()[choose(name, catalogue(), what="GPU")]


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


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One kernel of a network, launched once for every request; one object is one kernel, whatever others are like.

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


@dataclass(frozen=True, slots=True, eq=False)
class KernelSequence:
    """A chain of kernels; one object is one network.

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
    def critical(self) -> bool:
        """Whether best-effort work gives way to it."""
        return self.priority > 0
