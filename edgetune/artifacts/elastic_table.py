"""Kept pieces of elastic kernels: the pieces to launch beside a critical kernel, by the part of the GPU it leaves.

    kernel  critical blocks  critical threads  rank   blocks  on blocks  of threads   score
            (mod SMs)        (up to)
    conv                  4               512     0       49         12         512    1.00
    conv                  4               512     1       98         12         512    1.00     looked up when launching
    conv                  4               768     0       49         12         256    1.00
    conv                                                  49                     64   dropped: stack

A piece is launched as ``symbol`` on ``blocks`` physical blocks of ``threads`` threads and runs ``count`` logical ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from edgetune.artifacts.artifact import Table
from edgetune.artifacts.columns import NonNegativeFloat, NonNegativeInt, PositiveInt
from edgetune.artifacts.header import Header
from edgetune.errors import InputError

KIND = "elastic_table"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ElasticRow:
    """One piece kept for one leftover, or one dropped piece.

    Args:
        kernel: Name of the original.
        symbol: Symbol of the form to launch.
        grid: Of the logical launch, along x, y, z.
        block: Of the logical launch, along x, y, z.
        dynamic_shared_bytes: Of a block.
        count: Logical blocks of the piece.
        per_thread: Logical threads per physical thread.
        threads: Threads of a physical block.
        status: ``dropped`` for a piece that is never launched; of the columns below it has only the reason.
        reason: Why it was dropped.
        critical_blocks: Physical blocks of the critical kernel modulo multiprocessors.
        critical_threads: Threads of a block of the critical kernel, at most.
        rank: Place among the pieces kept for this leftover; 0 is the best.
        blocks: Physical blocks.
        score: Score of the ranking.
        registers_per_thread: Of the form; ``None`` if it was not compiled.
    """

    kernel: str
    symbol: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    dynamic_shared_bytes: NonNegativeInt
    count: PositiveInt
    per_thread: PositiveInt
    threads: PositiveInt
    status: Literal["kept", "dropped"] = "kept"
    reason: str | None = None
    critical_blocks: NonNegativeInt | None = None
    critical_threads: NonNegativeInt | None = None
    rank: NonNegativeInt | None = None
    blocks: PositiveInt | None = None
    score: NonNegativeFloat | None = None
    registers_per_thread: int | None = None


@dataclass(frozen=True, slots=True)
class ElasticTable(Table):
    """The table: the kept rows of a launch by leftover, the best first, then the dropped rows.

    ``header.conditions["gpu"]`` has the limits of the GPU: ``sm_count``, ``threads_per_sm`` and more.
    """

    header: Header
    rows: tuple[ElasticRow, ...]

    ROW = ElasticRow

    @classmethod
    def from_table(cls, header: Header, table: Any, *, name: str) -> ElasticTable:
        """Return the table after checking that every row can be launched.

        Raises:
            InputError: there are no rows or no limits of the GPU, or a row does not fit its launch or leftover.
        """
        made = super(ElasticTable, cls).from_table(header, table, name=name)
        gpu = header.conditions.get("gpu")
        if not isinstance(gpu, dict) or not all(_count(gpu.get(key)) for key in ("sm_count", "threads_per_sm")):
            raise InputError(f"{name} does not name its GPU: no sm_count and threads_per_sm", _AGAIN)
        if not made.rows:
            raise InputError(f"{name} has no rows", _AGAIN)
        for number, row in enumerate(made.rows, start=1):
            wrong = next(_wrong(row, made), None)
            if wrong is not None:
                raise InputError(f"{name}, row {number}: {wrong}", _AGAIN)
        _check_ranks([row for row in made.rows if row.status == "kept"], name)
        return made

    @property
    def sm_count(self) -> int:
        """Number of multiprocessors of the GPU."""
        return int(self.header.conditions["gpu"]["sm_count"])

    @property
    def threads_per_sm(self) -> int:
        """Maximum number of resident threads per multiprocessor."""
        return int(self.header.conditions["gpu"]["threads_per_sm"])


_AGAIN = "write it again: edgetune schedule kernels shrink"
_OF_KEPT = ("critical_blocks", "critical_threads", "rank", "blocks", "score")
"""Columns that only rows of dropped pieces leave empty."""


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _wrong(row: ElasticRow, table: ElasticTable) -> Iterator[str]:
    for column in ("grid", "block"):
        sizes = getattr(row, column)
        if len(sizes) != 3 or not all(map(_count, sizes)):
            yield f"{column} is {list(sizes)}, not three sizes"
    if row.count > math.prod(row.grid):
        yield f"count is {row.count} of {math.prod(row.grid)} blocks"
    if row.threads != -(-math.prod(row.block) // row.per_thread):
        yield f"{row.threads} threads with {row.per_thread} in each are no block of {math.prod(row.block)}"
    if row.status == "dropped":
        if row.reason is None:
            yield "it was dropped without a reason"
        return
    yield from (f"{column} is empty" for column in _OF_KEPT if getattr(row, column) is None)
    assert row.critical_blocks is not None  # neither is missing, as just seen
    assert row.critical_threads is not None
    assert row.blocks is not None
    idle = table.sm_count - row.critical_blocks
    if idle < 1:
        yield f"critical_blocks is {row.critical_blocks}, modulo {table.sm_count} multiprocessors"
    if row.blocks > min(row.count, idle):
        yield f"{row.blocks} blocks for {row.count} on {idle} multiprocessors"
    if row.critical_threads + row.threads > table.threads_per_sm:
        yield f"{row.threads} threads beside {row.critical_threads} on a multiprocessor of {table.threads_per_sm}"


def _check_ranks(rows: Sequence[ElasticRow], name: str) -> None:
    """Check that every leftover has exactly one best piece."""
    seen = set()
    for key, group in groupby(rows, key=_leftover):
        ranks = [row.rank for row in group]
        if key in seen or ranks != list(range(len(ranks))):
            kernel, *_, blocks, threads = key
            where = f"{name}: {kernel} beside {blocks} blocks of {threads} threads"
            raise InputError(f"{where} has ranks {ranks}", "rows of a leftover follow each other, ranked 0, 1, 2, ...")
        seen.add(key)


def _leftover(row: ElasticRow) -> tuple[Any, ...]:
    return row.kernel, row.grid, row.block, row.dynamic_shared_bytes, row.critical_blocks, row.critical_threads
