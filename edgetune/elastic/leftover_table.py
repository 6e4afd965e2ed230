"""Which piece of a kernel to launch beside a resident critical kernel: worked out before, looked up then.

    critical leaves          threads of its blocks
    of its last wave         up to 512      up to 768     up to 896    more
      0 blocks  (mod SMs)   49 on 16 x 512  16 x 256      16 x 128     nothing
      4 blocks              49 on 12 x 512  12 x 256      12 x 128     nothing

One table is for one kernel at one logical launch on one GPU. Its keys are those of Miriam (Zhao et al. 2023): blocks of
the critical launch modulo multiprocessors, and threads of one of its blocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.elastic.work import Logical


@dataclass(frozen=True, slots=True)
class PieceShape:
    """A piece of a kernel, wherever it begins.

    Args:
        count: Logical blocks; fewer are left at the end.
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
        kernel: Name of the original.
        logical: The launch whose pieces these are.
        sm_count: Multiprocessors of the GPU.
        limits: For every number of critical blocks modulo multiprocessors: ascending numbers of threads of a critical
            block up to which the shape in the same place is the best.
        shapes: Those shapes.
    """

    kernel: str
    logical: Logical
    sm_count: int
    limits: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[PieceShape, ...], ...]

    def choose(self, critical_blocks_mod_sms: int, critical_threads: int) -> PieceShape | None:
        """Return the best shape that fits beside a critical kernel; ``None``: nothing fits.

        Args:
            critical_blocks_mod_sms: Its physical blocks modulo multiprocessors.
            critical_threads: Threads of one of its blocks.
        """
        shapes = self.shapes[critical_blocks_mod_sms]
        place = bisect_left(self.limits[critical_blocks_mod_sms], critical_threads)
        return shapes[place] if place < len(shapes) else None


Tables = Mapping[tuple[str, Logical], LeftoverTable]
"""By kernel and logical launch."""
