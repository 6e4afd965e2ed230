"""Converts kept pieces of kernels to the rows of a file, and rows back to look-ups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgetune.artifacts import io
from edgetune.artifacts.elastic_table import ElasticRow, ElasticTable
from edgetune.errors import InputError
from edgetune.stages.elastic.abi import Dim
from edgetune.stages.elastic.forms import Forms
from edgetune.stages.elastic.gpu import Gpu
from edgetune.stages.elastic.pieces import LeftoverTable, PieceShape
from edgetune.stages.elastic.shrink import ShapeCandidate, Shrunk, overhead_score
from edgetune.stages.elastic.work import Logical


def rows_of(shrunk: Shrunk, forms: Forms) -> Iterator[ElasticRow]:
    """Yield a row for every kept piece, by leftover, then one for every piece that is kept for none."""
    logical = shrunk.logical

    def row(count: int, per_thread: int, threads: int) -> ElasticRow:
        form = forms.elastic[per_thread]
        return ElasticRow(
            shrunk.kernel, form.symbol, logical.grid, logical.block, logical.dynamic_shared_bytes, count, per_thread,
            threads, registers_per_thread=form.resources.registers_per_thread,
        )  # fmt: skip

    for place in shrunk.places:
        yield replace(
            row(place.shape.count, place.shape.per_thread, place.threads),
            critical_blocks=place.critical_blocks,
            critical_threads=place.critical_threads,
            rank=place.rank,
            blocks=place.shape.blocks,
            score=place.score,
        )
    kept = {(place.shape.count, place.shape.per_thread) for place in shrunk.places}
    for design in shrunk.designs:
        if (design.count, design.per_thread) not in kept:
            dropped = row(design.count, design.per_thread, design.threads)
            yield replace(dropped, status="dropped", reason=_reason(design, shrunk))


def tables_of(table: ElasticTable) -> dict[tuple[str, Logical], LeftoverTable]:
    """Return the look-ups that a file of kept pieces holds."""
    best: dict[tuple[str, Logical], list[ElasticRow]] = {}
    for row in table.rows:
        found = best.setdefault((row.kernel, logical_of(row)), [])
        if row.rank == 0:
            found.append(row)
    return {key: LeftoverTable.of(*key, table.sm_count, map(_fit, rows)) for key, rows in best.items()}


def read_tables(sources: Sequence[str], gpu: Gpu) -> dict[tuple[str, Logical], LeftoverTable]:
    """Return the look-ups of several files for a GPU; of two for one launch, the later.

    Raises:
        InputError: a file cannot be read, or is for a GPU with other limits.
    """
    found: dict[tuple[str, Logical], LeftoverTable] = {}
    for source in sources:
        table = io.read(ElasticTable, source)
        if (table.sm_count, table.threads_per_sm) != (gpu.sm_count, gpu.threads_per_sm):
            raise InputError(
                f"{source} is for {table.sm_count} multiprocessors of {table.threads_per_sm} threads, and {gpu.name} "
                f"has {gpu.sm_count} of {gpu.threads_per_sm}",
                f"make it again: edgetune schedule kernels shrink ... --gpu {gpu.name}",
            )
        found |= tables_of(table)
    return found


def logical_of(row: ElasticRow) -> Logical:
    """Return the logical launch that a row is of."""
    return Logical(_dim(row.grid), _dim(row.block), row.dynamic_shared_bytes)


def _reason(design: ShapeCandidate, shrunk: Shrunk) -> str:
    if design.flaw is not None:
        return design.flaw
    if not design.cheap:
        limits = shrunk.rules.limits(shrunk.gpu)
        launches = overhead_score(limits, shrunk.logical.blocks // design.count, 0)
        return "too many turns" if launches else "too many launches"
    if shrunk.rules.strict and design.count > shrunk.gpu.sm_count:
        return "more blocks than multiprocessors"
    return "others score more"


def _fit(row: ElasticRow) -> tuple[int, int, PieceShape]:
    assert row.critical_blocks is not None  # the three of a kept row are there, as was checked when it was read
    assert row.critical_threads is not None
    assert row.blocks is not None
    return row.critical_blocks, row.critical_threads, PieceShape(row.count, row.per_thread, row.blocks)


def _dim(numbers: Sequence[int]) -> Dim:
    x, y, z = numbers
    return x, y, z
