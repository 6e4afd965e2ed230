"""The shape of a piece of a kernel: which fits beside a resident critical kernel, and how large it is to be.

    critical leaves          threads of its blocks
    of its last wave         up to 512      up to 768     up to 896    more
      0 blocks  (mod SMs)   49 on 16 x 512  16 x 256      16 x 128     nothing
      4 blocks              49 on 12 x 512  12 x 256      12 x 128     nothing

A table is for one kernel at one logical launch on one GPU, and is computed before a run. Its keys are those of Miriam
(Zhao et al. 2023): blocks of the critical launch modulo multiprocessors, and threads of one of its blocks.

    launch   |--- launch_s ---|
    GPU      [p0][p1]          [p2][p3]           two deep, shorter than that: the GPU waits for the host
    GPU      [p0     ][p1     ][p2     ]          as long as that: it does not

The duration of a piece is estimated from the operations and bytes of its blocks at the speeds of the GPU (Williams et
al. 2009, Roofline): real kernels reach less, so that pieces rather last longer. Or it is estimated from measured times:
a piece takes no less than one of its physical blocks does alone, nor than its share of the whole kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from edgetune.stages.elastic.gpu import Call, Gpu, Resources, blocks_resident


@dataclass(frozen=True, slots=True)
class PieceShape:
    """The shape of a piece of a kernel, wherever it begins.

    Args:
        count: Logical blocks; the last piece may have fewer.
        per_thread: Logical threads in a physical one.
        blocks: Physical blocks.
    """

    count: int
    per_thread: int
    blocks: int


@dataclass(frozen=True, slots=True)
class LeftoverTable:
    """The best shape for everything that a critical kernel can leave.

    Args:
        rows: For every number of critical blocks modulo multiprocessors: ascending numbers of threads of a critical
            block, each with the shape that is the best up to it.
    """

    rows: tuple[tuple[tuple[int, PieceShape], ...], ...]

    def choose(self, critical_blocks_mod_sms: int, critical_threads: int) -> PieceShape | None:
        """Return the best shape that fits beside a critical kernel; ``None``: nothing fits.

        Args:
            critical_blocks_mod_sms: Its physical blocks modulo multiprocessors.
            critical_threads: Threads of one of its blocks.
        """
        return next((shape for most, shape in self.rows[critical_blocks_mod_sms] if most >= critical_threads), None)


def whole_beside(call: Call, gpu: Gpu) -> LeftoverTable:
    """Return the table of a kernel that is launched whole: all of its blocks, where each gets a multiprocessor."""
    logical = call.logical
    threads, idle = gpu.threads_per_sm - logical.threads, gpu.sm_count - logical.blocks
    row = ((threads, PieceShape(logical.blocks, 1, logical.blocks)),) if threads >= 0 else ()
    return LeftoverTable(tuple(row if critical_blocks <= idle else () for critical_blocks in range(gpu.sm_count)))


SATURATING_THREADS = 640
"""On a multiprocessor, from which on it reaches its peak. 512 are the least: 4 schedulers x 4 cycles until the next
instruction of a warp x 32 threads (NVIDIA, Volta to Hopper tuning guides; Volkov 2016, Understanding Latency Hiding on
GPUs). With loads in between it takes more: of these, networks take about as long as on all and on 16 multiprocessors of
an H100 (``tests/benchmarks/elastic_model.py``)."""
WAIT_S = 345e-9
"""Time of one wait of ``Call.waits_per_block``: with it the recurrent networks take 0.87 to 1.08 times as long as on
all and on 16 multiprocessors of an H100 (``tests/benchmarks/elastic_model.py``), whose memory answers within 0.27 us
where it is idle (Luo et al. 2024, Benchmarking and Dissecting the Nvidia Hopper GPU Architecture)."""
_KEPT = 4096
"""Durations and shapes that are kept, of each kind: many times those of the largest network."""
UNKNOWN = Resources(registers_per_thread=0)
"""Of a kernel that was not compiled: threads and shared memory of the launch decide how many blocks fit."""


def wave(gpu: Gpu, call: Call) -> int:
    """Return how many blocks of the original kernel the GPU holds at once; 0 where it holds none."""
    logical, resources = call.logical, call.resources.get(1, UNKNOWN)
    return gpu.sm_count * blocks_resident(gpu, resources, logical.threads, logical.dynamic_shared_bytes)


def about_s(gpu: Gpu, call: Call, shape: PieceShape) -> float | None:
    """Return about how long a piece takes on an idle GPU, s; ``None`` where that is unknown.

    Args:
        gpu: With fewer threads on a multiprocessor than saturate it, it is slower in proportion.
        call: The call that is cut.
        shape: Of the piece.
    """
    turns = math.ceil(shape.count / max(1, min(shape.blocks, wave(gpu, call))))
    if call.block_s is not None:
        slower = _reached(call.logical.threads) / _reached(call.logical.threads / shape.per_thread)
        return max(turns * slower * call.block_s, shape.count / call.logical.blocks * (call.whole_s or 0.0))
    threads = math.ceil(call.logical.threads / shape.per_thread) * math.ceil(shape.blocks / gpu.sm_count)
    reached = _reached(threads) * min(1.0, shape.blocks / gpu.sm_count)
    waited_s = turns * shape.per_thread * call.waits_per_block * WAIT_S
    # of a block's operations, or of its bytes, at the speeds of all of the GPU
    work_s = max(
        call.flop_per_block / (call.efficiency * gpu.flop_per_s), call.bytes_per_block / gpu.bandwidth_bytes_per_s
    )
    return max(shape.count * work_s / reached, waited_s) or None


@lru_cache(_KEPT)
def took_s(gpu: Gpu, call: Call, count: int, per_thread: int, blocks: int) -> float:
    """Return about how long a piece takes, s; as long as launching it where that is unknown."""
    found_s = about_s(gpu, call, PieceShape(count, per_thread, blocks))
    return gpu.launch_s if found_s is None else found_s


def block_s(gpu: Gpu, call: Call, shape: PieceShape) -> float:
    """Return how long a physical block of a piece stays on an idle GPU, s; if unknown, a launch.

    That is as long as alone on a multiprocessor or, where it is longer, beside the other blocks that the GPU holds.
    """
    turn_s = _turn_s(gpu, call, shape.per_thread)
    if turn_s is None:
        return gpu.launch_s
    together = max(1, min(shape.blocks, wave(gpu, call)))
    turn_s = max(turn_s, about_s(gpu, call, PieceShape(together, shape.per_thread, together)) or 0.0)
    return math.ceil(shape.count / shape.blocks) * turn_s


def _turn_s(gpu: Gpu, call: Call, per_thread: int) -> float | None:
    """Return how long a block takes for a logical one, alone on a multiprocessor, s; ``None`` where unknown."""
    return about_s(gpu, replace(call, whole_s=None), PieceShape(1, per_thread, 1))


@lru_cache(_KEPT)
def alone(gpu: Gpu, call: Call) -> PieceShape:
    """Return the piece for an idle GPU: waves of unchanged blocks, or all blocks without an elastic form."""
    blocks = wave(gpu, call) if call.elastic else 0
    waves = times(gpu, call, PieceShape(blocks, 1, blocks)) if blocks else 0
    blocks = min(call.logical.blocks, blocks * waves) or call.logical.blocks
    return PieceShape(blocks, 1, blocks)


@lru_cache(_KEPT)
def lasting(gpu: Gpu, call: Call, shape: PieceShape) -> PieceShape:
    """Return a shape with so many more logical blocks that it lasts as long as launching it takes.

    Its blocks stay no longer than that, unless a logical one does: shorter pieces would leave the GPU waiting for the
    host, and longer ones keep the next critical kernel waiting for nothing.
    """
    count = min(call.logical.blocks, shape.count * times(gpu, call, shape))
    turn_s = _turn_s(gpu, call, shape.per_thread)
    if turn_s is not None:
        count = min(count, max(1, int(gpu.launch_s / turn_s)) * shape.blocks)
    return PieceShape(count, shape.per_thread, shape.blocks)


def _reached(threads: float) -> float:
    """Return the share of its peak that a multiprocessor reaches with so many threads."""
    return min(1.0, threads / SATURATING_THREADS)


def times(gpu: Gpu, call: Call, shape: PieceShape) -> int:
    """Return the factor of logical blocks with which a piece lasts as long as launching one takes."""
    took_s = about_s(gpu, call, shape)
    return 1 if took_s is None else max(1, math.ceil(gpu.launch_s / took_s))
