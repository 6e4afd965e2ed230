"""Kept pieces of elastic kernels: what to launch beside a critical kernel, by what that leaves of the GPU.

    kernel  critical blocks  critical threads  rank   blocks  on blocks  of threads   score
            (mod SMs)        (up to)
    conv                  4               512     0       49         12         512    1.00
    conv                  4               512     1       98         12         512    1.00     looked up when launching
    conv                  4               768     0       49         12         256    1.00
    conv                                                  49                     64   dropped: stack

A piece is launched as ``symbol`` on ``blocks`` physical blocks of ``threads`` threads and runs ``count`` logical ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgetune.artifacts.header import Header

KIND = "elastic_table"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ElasticRow:
    """One piece that was kept for one leftover, or one that was kept for none.

    Args:
        kernel: Name of the original.
        symbol: Of the form to launch.
        grid: Of the logical launch, along x, y, z.
        block: Of the logical launch, along x, y, z.
        dynamic_shared_bytes: Of a block.
        count: Logical blocks of the piece.
        per_thread: Logical threads in a physical one.
        threads: Of a physical block.
        status: ``dropped``: it is never launched, and the columns below say no more than why.
        reason: Why it was dropped.
        critical_blocks: Physical blocks of the critical kernel modulo multiprocessors.
        critical_threads: Threads of a block of the critical kernel, at most.
        rank: Place among the pieces kept for this leftover; 0 is the best.
        blocks: Physical blocks.
        score: By which pieces were ranked.
        registers_per_thread: Of the form; ``None`` where nobody compiled it.
    """

    kernel: str
    symbol: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    dynamic_shared_bytes: int
    count: int
    per_thread: int
    threads: int
    status: Literal["kept", "dropped"] = "kept"
    reason: str | None = None
    critical_blocks: int | None = None
    critical_threads: int | None = None
    rank: int | None = None
    blocks: int | None = None
    score: float | None = None
    registers_per_thread: int | None = None


@dataclass(frozen=True, slots=True)
class ElasticTable:
    """The table: kept rows of a launch by leftover, the best first, then those dropped.

    ``header.conditions["gpu"]`` has the limits of the GPU: ``sm_count``, ``threads_per_sm`` and more.
    """

    header: Header
    rows: tuple[ElasticRow, ...]

    @property
    def sm_count(self) -> int:
        """Multiprocessors of the GPU that it is for."""
        return int(self.header.conditions["gpu"]["sm_count"])

    @property
    def threads_per_sm(self) -> int:
        """Threads that are resident on each of them at most."""
        return int(self.header.conditions["gpu"]["threads_per_sm"])
