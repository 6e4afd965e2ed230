"""Block records, and times of a GPU whose clock is not the host's and that is sometimes too busy to be asked."""

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_scene import AHEAD_NS, BUILD, KERNELS, TIMER_IMAGE, US, VALUES, Machine, launch, moments, network, task
from ptx_corpus import compiled

from edgetune.stages.elastic.cuda.backend import CudaBackend
from edgetune.stages.elastic.cuda.blocks import BlockRecords, EventTimes, GlobalTimer, with_block_records
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.ptx.parse import parse
from fakes.cuda_gpu import FakeCudaKernel, FakeLaunch, FakeMemory

SMS = 4


def recording(kernel: FakeCudaKernel, first_sm: int = 0) -> FakeCudaKernel:
    """Return a kernel whose blocks run in waves of one on each of four multiprocessors, and note it."""

    def run(memory: FakeMemory, launched: FakeLaunch) -> None:
        assert kernel.run is not None
        kernel.run(memory, launched)
        (address,) = struct.unpack("<Q", launched.arguments[-1])
        blocks = launched.grid[0]
        if not address:
            return
        rows = memory.view(address, np.uint64, 3 * blocks).reshape(-1, 3)
        wave_ns = (launched.end_ns - launched.start_ns) // -(-blocks // SMS)
        for block in range(blocks):
            start_ns = AHEAD_NS + launched.start_ns + block // SMS * wave_ns
            rows[block] = first_sm + 2 * (block % SMS), start_ns, start_ns + wave_ns

    def lasts_ns(grid, arguments):
        return kernel.lasts_ns(grid, arguments[:-1])

    return replace(kernel, sizes=(*kernel.sizes, 8), run=run, duration_ns=lasts_ns)


RECORDING = {name: each if name == "edgetune_timer" else recording(each) for name, each in KERNELS.items()}


def run(*launches, most_blocks: int = 100, kernels: dict[str, FakeCudaKernel] = RECORDING):
    machine = Machine(kernels=kernels)
    with machine.context() as context:
        program = Program(context, network(), replace(BUILD, recorded=True))
        program.write(VALUES)
        records = BlockRecords(context, GlobalTimer(context, TIMER_IMAGE), most_blocks)
        backend = CudaBackend(context, {"a": program}, [task("a")], records=records)
        for each in launches:
            backend.launch(each)
        moments(backend)
        real = [each for each in machine.cuda.launches if each.symbol != "edgetune_timer"]
        return records.residencies(), real, records.unrecorded


def test_blocks_are_told_by_multiprocessor_on_the_clock_of_the_backend() -> None:
    found, (real,), unrecorded = run(launch(7, first=0, count=6, blocks=4))
    assert unrecorded == 0
    assert [(each.launch, each.sm, each.blocks) for each in found] == [(7, sm, 1) for sm in (0, 2, 4, 6)]
    for each in found:
        assert abs(each.start_ns - real.start_ns) < 10 * US
        assert abs(each.end_ns - real.end_ns) < 10 * US


def test_blocks_that_follow_on_a_multiprocessor_are_one_stay() -> None:
    """Six blocks in two waves: two multiprocessors have two blocks, one behind another."""
    found, _, _ = run(launch(0))
    assert [(each.sm, each.blocks) for each in found] == [(0, 2), (2, 2), (4, 1), (6, 1)]


def test_multiprocessors_of_a_part_are_counted_anew() -> None:
    """Green contexts keep the numbers of the whole GPU, here 100, 102, 104 and 106 where 16 are had."""
    kernels = {name: each if name == "edgetune_timer" else recording(each, 100) for name, each in KERNELS.items()}
    found, _, _ = run(launch(0), kernels=kernels)
    assert [(each.sm, each.blocks) for each in found] == [(0, 2), (1, 2), (2, 1), (3, 1)]


def test_launches_that_find_no_room_are_counted_and_run() -> None:
    found, real, unrecorded = run(launch(0), launch(1), launch(2, count=2, blocks=2), most_blocks=8)
    assert len(real) == 3
    assert unrecorded == 1
    assert {each.launch for each in found} == {0, 2}


SOURCE = """
// a comment first
__global__ void plain(float *x) { if (threadIdx.x > 3) return; x[threadIdx.x] = 1; }
extern "C" __global__ void __launch_bounds__(256) bounded(float *x, const int n)
{
    __shared__ float held[32];
    held[threadIdx.x % 32] = n;
    __syncthreads();
    x[0] = held[0];
}
extern "C" __global__ void nothing() {}
__device__ float helper(float x) { return x; }
"""


def test_kernels_take_an_address_more() -> None:
    before = parse(compiled(SOURCE), "mine.ptx")
    after = parse(with_block_records(compiled(SOURCE), "mine.ptx"), "mine.ptx")
    assert [each.name for each in after.entries] == ["plain", "bounded", "nothing"]
    for old, new in zip(before.entries, after.entries, strict=True):
        assert [each.size_bytes for each in new.parameters] == [*(each.size_bytes for each in old.parameters), 8]
        assert new.parameters[-1].name == "edgetune_records"
        assert sum(each.op[0] == "ret" for each in new.instructions) == 1, "all leave by the note of the time"


SECOND_NS = 10**9


class Clocks:
    """Stands for a context and its driver: the host's clock moves by a microsecond with every call, the GPU's faster.

    Args:
        fast: By which share the GPU's clock is fast.
    """

    def __init__(self, fast: float) -> None:
        self.host_ns, self.fast = 0, fast
        self.busy = False
        self.queries = 0
        self.driver = self

    def now_ns(self) -> int:
        self.host_ns += US
        return self.host_ns

    def stream(self, priority: int) -> int:
        return priority

    def priorities(self) -> tuple[int, int]:
        return 0, -5

    def event(self) -> dict[str, float]:
        return {}

    def call(self, function: str, *arguments: Any) -> float | None:
        self.host_ns += US
        if function == "cuEventRecord":
            arguments[0]["gpu_ns"] = self.host_ns * (1 + self.fast)
            return None
        assert function == "cuEventElapsedTime"
        return (arguments[1]["gpu_ns"] - arguments[0]["gpu_ns"]) / 1e6

    def is_over(self, event: dict[str, float]) -> bool:
        assert event
        self.queries += 1
        self.host_ns += US
        return not self.busy


def happened(clocks: Clocks) -> tuple[dict[str, float], int]:
    """Return an event and when it happened on the host's clock."""
    event = clocks.event()
    clocks.call("cuEventRecord", event)
    return event, clocks.host_ns


@pytest.mark.parametrize("fast", [0.0, 20e-6, -50e-6])
def test_how_far_times_may_be_off_holds_also_for_clocks_that_move_apart(fast: float) -> None:
    clocks = Clocks(fast)
    times = EventTimes(clocks)  # type: ignore[arg-type]
    worst_ns = 0
    for _ in range(20):
        clocks.host_ns += SECOND_NS // 3
        event, at_ns = happened(clocks)
        worst_ns = max(worst_ns, abs(times.at_ns(event) - at_ns))
    assert worst_ns <= times.uncertain_ns
    apart_ns = abs(fast) * SECOND_NS * 4 / 3
    assert times.uncertain_ns <= apart_ns + 10 * US


def test_a_gpu_that_is_busy_is_not_asked_again_at_once_and_its_times_stay() -> None:
    clocks = Clocks(0.0)
    times = EventTimes(clocks)  # type: ignore[arg-type]
    clocks.host_ns += 2 * SECOND_NS
    clocks.busy, before = True, clocks.queries
    event, at_ns = happened(clocks)
    for _ in range(1000):
        assert abs(times.at_ns(event) - at_ns) <= times.uncertain_ns
    assert clocks.queries - before <= 50  # one try in 10 ms, and these were 2
    clocks.busy = False
    clocks.host_ns += SECOND_NS
    before = clocks.queries
    times.at_ns(event)
    assert clocks.queries == before + 1
