"""A fake GPU, and a network of two kernels that Python runs: y = 2 x, then z = y + 1, block by block."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgetune.stages.elastic import kernel as abi
from edgetune.stages.elastic.cuda.backend import CudaBackend
from edgetune.stages.elastic.cuda.blocks import DELAY_KERNEL, TIMER_KERNEL
from edgetune.stages.elastic.cuda.building import Build
from edgetune.stages.elastic.cuda.context import HANG_S, Context, open_context
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.gpu import (
    Argument,
    Call,
    GpuTask,
    KernelBuffer,
    KernelSequence,
    Logical,
    Pointer,
    Resources,
    Scalar,
)
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import FORWARD, CpuLaunch
from edgetune.stages.elastic.view import Launch, LaunchEvent
from edgetune.testing.fake_jetson import FakeClock
from edgetune.workloads.cuda_driver import Driver
from fakes.cuda_driver import FakeCuda, fake_image
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel, FakeLaunch, FakeMemory
from fakes.cuda_state import ticking

US = 1000
THREADS, BLOCKS = 64, 6
SIZE = THREADS * BLOCKS - 10  # the last block is not full
BLOCK_US = 20
TIMER_IMAGE = fake_image(TIMER_KERNEL, DELAY_KERNEL)


def _part(memory: FakeMemory, launch: FakeLaunch, *, elastic: bool, factor: int, more: int) -> None:
    """Do what either kernel does, for the logical blocks that the launch is of."""
    source, target, size = (struct.unpack("<Q" if len(each) == 8 else "<i", each)[0] for each in launch.arguments[:3])
    first, count = 0, launch.grid[0]
    if elastic:
        numbers = struct.unpack("<8I", launch.arguments[3])
        assert numbers[:6] == (BLOCKS, 1, 1, THREADS, 1, 1), "the logical launch"
        first, count = numbers[6:]
    begin, end = first * THREADS, min((first + count) * THREADS, size)
    x, y = memory.view(source, np.int32, size), memory.view(target, np.int32, size)
    y[begin:end] = factor * x[begin:end] + more


def _lasts(grid: tuple[int, int, int], arguments: tuple[bytes, ...]) -> int:
    """One logical block after the other; the elastic form is told how many."""
    count = struct.unpack("<8I", arguments[3])[7] if len(arguments) > 3 else grid[0]
    return int(count) * BLOCK_US * US


def kernel(factor: int, more: int, *, elastic: bool, **changed: Any) -> FakeCudaKernel:
    def run(memory: FakeMemory, launch: FakeLaunch) -> None:
        _part(memory, launch, elastic=elastic, factor=factor, more=more)

    return FakeCudaKernel((8, 8, 4, *([abi.SIZE_BYTES] if elastic else [])), _lasts, run, **changed)


def timer(memory: FakeMemory, launch: FakeLaunch) -> None:
    """What the timer kernel does, on a GPU whose timer is an hour ahead of the host's clock."""
    (address,) = struct.unpack("<Q", launch.arguments[0])
    memory.view(address, np.uint64, 1)[0] = launch.start_ns + AHEAD_NS


AHEAD_NS = 3600 * 10**9
KERNELS = {
    "double_it": kernel(2, 0, elastic=False),
    "double_it__grid": kernel(2, 0, elastic=True),
    "double_it__block2": kernel(2, 0, elastic=True),
    "add_one": kernel(1, 1, elastic=False),
    "add_one__grid": kernel(1, 1, elastic=True),
    TIMER_KERNEL: FakeCudaKernel((8,), 0, timer),
    DELAY_KERNEL: FakeCudaKernel((8,), lambda grid, arguments: int(struct.unpack("<Q", arguments[0])[0])),
}
ASKED = Resources(registers_per_thread=32)
FORMS = {"double_it": {None: ASKED, 1: ASKED, 2: ASKED}, "add_one": {None: ASKED, 1: ASKED}}
PARAMETERS = (abi.Parameter("u64[8]", "x"), abi.Parameter("u64[8]", "y"), abi.Parameter("u32[4]", "n"))
BUILD = Build(fake_image(*KERNELS), FORMS, kernels={name: abi.CudaKernel(name, 1, PARAMETERS) for name in FORMS})
VALUES = {"x": np.arange(SIZE, dtype=np.int32)}


def network(name: str = "pair", *, kernels: tuple[str, str] = ("double_it", "add_one")) -> KernelSequence:
    logical, size = Logical((BLOCKS, 1, 1), (THREADS, 1, 1)), Scalar(struct.pack("<i", SIZE))
    return KernelSequence(
        name,
        (
            Call(kernels[0], logical, (Pointer("x"), Pointer("y"), size), resources={1: ASKED, 2: ASKED}),
            Call(kernels[1], logical, (Pointer("y"), Pointer("z"), size), resources={1: ASKED}),
        ),
        f"// {name}",
        (
            KernelBuffer("x", (SIZE,), "int32", "input"),
            KernelBuffer("y", (SIZE,), "int32"),
            KernelBuffer("z", (SIZE,), "int32", "output"),
        ),
    )


def task(name: str, priority: int = 0, **more: Any) -> GpuTask:
    return GpuTask(name, network(), priority, **more)


@dataclass
class Machine:
    """A machine with fake GPUs."""

    gpus: list[FakeCudaGpu] = field(default_factory=lambda: [FakeCudaGpu()])
    kernels: dict[str, FakeCudaKernel] = field(default_factory=lambda: dict(KERNELS))
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = FakeClock(1_000_000)
        self.cuda = FakeCuda(self.gpus, self.clock, kernels=self.kernels, **self.more)

    @contextmanager
    def context(self) -> Iterator[Context]:
        with open_context(Driver(self.cuda), 0, now_ns=ticking(self.clock), sleep_s=self.clock.sleep_s) as context:
            yield context

    @contextmanager
    def program(self) -> Iterator[tuple[Context, Program]]:
        with self.context() as context:
            program = Program(context, network(), BUILD)
            program.write(VALUES)
            yield context, program

    @contextmanager
    def backend(self, *tasks: GpuTask, hang_s: float = HANG_S) -> Iterator[CudaBackend]:
        with self.context() as context:
            programs = {}
            for each in tasks:
                programs[each.name] = Program(context, each.network, BUILD)
                programs[each.name].write(VALUES)
            self.programs = programs
            self.gpu = context.facts.gpu
            yield CudaBackend(context, programs, tasks, hang_s=hang_s)


def interpreted(done: TransformResult, gpu: FakeCudaGpu) -> Machine:
    """Return a machine whose GPU runs the kernels of PTX in the interpreter, with the arguments that it is handed."""
    program = PtxProgram(done.source, "k.ptx")

    def run_it(memory: FakeMemory, launch: FakeLaunch) -> None:
        places = {base: memory.view(base, np.uint8, size) for base, size in memory.allocations()}
        for value in launch.arguments:  # words amid an allocation
            address = struct.unpack("<Q", value)[0] if len(value) == 8 else 0
            for base, size in memory.allocations():
                if base < address < base + size:
                    del places[base]
                    places[address] = memory.view(address, np.uint8, base + size - address)

        def argument(value: bytes) -> Argument:
            address = struct.unpack("<Q", value)[0] if len(value) == 8 else None
            return Pointer(f"{address}") if address in places else Scalar(value)

        asked = CpuLaunch(
            launch.symbol, launch.grid, launch.block, tuple(map(argument, launch.arguments)), launch.shared_bytes
        )
        outcome = next(program.run_all([([asked], FORWARD)], {f"{base}": array for base, array in places.items()}))
        assert outcome.status == "ok", outcome.message
        for base, array in places.items():
            array[:] = outcome.buffers[f"{base}"]

    kernels = {}
    for entry in program.module.entries:
        sizes = tuple(each.size_bytes for each in entry.parameters)
        kernels[entry.name] = FakeCudaKernel(sizes, 5000, run_it, registers=40, static_shared_bytes=0)
    return Machine([gpu], kernels=kernels, more={"version": 13000})


def launch(number: int, task: str = "a", call: int = 0, **more: Any) -> Launch:
    what = network().calls[call]
    return Launch(number, task, 0, call, what, **{"first": 0, "count": what.logical.blocks, **more})


def moments(backend: CudaBackend) -> list[LaunchEvent]:
    found: list[LaunchEvent] = []
    while some := backend.wait(None):
        found += some
    return found
