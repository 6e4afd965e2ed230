"""How large a piece is to be: no shorter than launching it takes, else the GPU waits for whoever launches.

    launch   |--- launch_s ---|
    GPU      [p0][p1]          [p2][p3]           two deep, shorter than that: the GPU waits
    GPU      [p0     ][p1     ][p2     ]          as long as that: it does not

What a piece takes is estimated from what its blocks compute and move at the speeds of the GPU (Williams et al. 2009,
Roofline): real kernels reach less, so that pieces are rather longer than thought. Or from what was measured: a piece
takes no less than one of its physical blocks does alone, nor than its share of the whole kernel.
"""

from __future__ import annotations

import math

from edgetune.elastic.gpu import Gpu, Resources, blocks_resident
from edgetune.elastic.leftover_table import PieceShape
from edgetune.elastic.work import Call

_SATURATING_THREADS = 512
"""On a multiprocessor, from which on it reaches its peak: 4 schedulers x 4 cycles until the next instruction of a warp
x 32 threads (NVIDIA, Volta to Hopper tuning guides; Volkov 2016, Understanding Latency Hiding on GPUs)."""
_UNKNOWN = Resources(registers_per_thread=0)
"""Of a kernel that nobody compiled: threads and shared memory of the launch decide how many blocks fit."""


def wave(gpu: Gpu, call: Call) -> int:
    """Return how many blocks of the original kernel the GPU holds at once; 0 where it holds none."""
    logical, resources = call.logical, call.resources.get(1, _UNKNOWN)
    return gpu.sm_count * blocks_resident(gpu, resources, logical.threads, logical.dynamic_shared_bytes)


def about_s(gpu: Gpu, call: Call, shape: PieceShape) -> float | None:
    """Return about how long a piece takes on an idle GPU, s; ``None`` where nobody knows.

    Args:
        gpu: Where it runs; with fewer threads on a multiprocessor than saturate it, it is as much slower.
        call: What it is a piece of.
        shape: Its blocks.
    """
    if call.block_s is not None:
        slower = _reached(call.logical.threads) / _reached(call.logical.threads / shape.per_thread)
        turns = math.ceil(shape.count / max(1, min(shape.blocks, wave(gpu, call))))
        return max(turns * slower * call.block_s, shape.count / call.logical.blocks * (call.whole_s or 0.0))
    threads = math.ceil(call.logical.threads / shape.per_thread) * math.ceil(shape.blocks / gpu.sm_count)
    reached = _reached(threads) * min(1.0, shape.blocks / gpu.sm_count)
    block_s = max(call.flop_per_block / gpu.flop_per_s, call.bytes_per_block / gpu.bandwidth_bytes_per_s)
    return shape.count * block_s / reached or None


class Sizes:
    """The same for one GPU, worked out once for each kernel and shape, so that it costs nothing in a run.

    Args:
        gpu: Where.
    """

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._took_s: dict[tuple[int, int, int, int], tuple[Call, float]] = {}
        """By identity of the call, which is kept so that nothing else gets it."""
        self._alone: dict[int, tuple[Call, PieceShape]] = {}
        self._lasting: dict[tuple[int, PieceShape], tuple[Call, PieceShape]] = {}

    def about_s(self, call: Call, count: int, per_thread: int, blocks: int) -> float:
        """Return about how long a piece takes, s: as long as launching it where nobody knows."""
        key = (id(call), count, per_thread, blocks)
        found = self._took_s.get(key)
        if found is None:
            took_s = about_s(self.gpu, call, PieceShape(count, per_thread, blocks))
            found = self._took_s[key] = call, self.gpu.launch_s if took_s is None else took_s
        return found[1]

    def alone(self, call: Call) -> PieceShape:
        """Return as many blocks, unchanged, as the GPU holds at once, or some such waves; all that cannot be parted."""
        found = self._alone.get(id(call))
        if found is None:
            blocks = wave(self.gpu, call) if call.elastic else 0
            blocks = blocks * times(self.gpu, call, PieceShape(blocks, 1, blocks)) if blocks else call.logical.blocks
            found = self._alone[id(call)] = call, PieceShape(blocks, 1, blocks)
        return found[1]

    def lasting(self, call: Call, shape: PieceShape) -> PieceShape:
        """Return a shape with so many more logical blocks that it lasts as long as launching it takes."""
        found = self._lasting.get((id(call), shape))
        if found is None:
            count = shape.count * times(self.gpu, call, shape)
            found = self._lasting[id(call), shape] = call, PieceShape(count, shape.per_thread, shape.blocks)
        return found[1]


def _reached(threads: float) -> float:
    """Return the share of its peak that a multiprocessor reaches with so many threads."""
    return min(1.0, threads / _SATURATING_THREADS)


def times(gpu: Gpu, call: Call, shape: PieceShape) -> int:
    """Return by how much a piece is to have more logical blocks, so that it lasts as long as launching one takes."""
    took_s = about_s(gpu, call, shape)
    return 1 if took_s is None else max(1, math.ceil(gpu.launch_s / took_s))
