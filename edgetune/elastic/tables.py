"""Kept pieces of kernels to the rows of a file and back to look-ups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgetune.artifacts.elastic_table import ElasticRow, ElasticTable
from edgetune.elastic.abi import Dim
from edgetune.elastic.forms import Forms
from edgetune.elastic.kept import Kept, Shape
from edgetune.elastic.shrink import Design, Shrunk
from edgetune.elastic.work import Logical


def rows_of(shrunk: Shrunk, forms: Forms) -> Iterator[ElasticRow]:
    """Yield a row for every kept piece, by leftover, then one for every piece that was kept for none."""
    logical = shrunk.logical
    launch = {
        "kernel": shrunk.kernel,
        "grid": logical.grid,
        "block": logical.block,
        "dynamic_shared_bytes": logical.dynamic_shared_bytes,
    }
    for place in shrunk.places:
        form = forms.elastic[place.shape.per_thread]
        yield ElasticRow(
            **launch, symbol=form.symbol, count=place.shape.count, per_thread=place.shape.per_thread,
            threads=place.threads, critical_blocks=place.critical_blocks, critical_threads=place.critical_threads,
            rank=place.rank, blocks=place.shape.blocks, score=place.score,
            registers_per_thread=form.resources.registers_per_thread,
        )  # fmt: skip
    kept = {(place.shape.count, place.shape.per_thread) for place in shrunk.places}
    for design in shrunk.designs:
        if (design.count, design.per_thread) not in kept:
            form = forms.elastic[design.per_thread]
            yield ElasticRow(
                **launch, symbol=form.symbol, count=design.count, per_thread=design.per_thread,
                threads=design.threads, status="dropped", reason=_reason(design),
                registers_per_thread=form.resources.registers_per_thread,
            )  # fmt: skip


def tables_of(table: ElasticTable) -> dict[tuple[str, Logical], Kept]:
    """Return the look-ups that a file of kept pieces holds."""
    best: dict[tuple[str, Logical], list[ElasticRow]] = {}
    for row in table.rows:
        found = best.setdefault((row.kernel, logical_of(row)), [])
        if row.rank == 0:
            found.append(row)
    return {key: _looked_up(*key, table.sm_count, rows) for key, rows in best.items()}


def logical_of(row: ElasticRow) -> Logical:
    """Return the logical launch that a row is of."""
    return Logical(_dim(row.grid), _dim(row.block), row.dynamic_shared_bytes)


def _reason(design: Design) -> str:
    if design.flaw is not None:
        return design.flaw
    return "others score more" if design.cheap else "too many launches"


def _looked_up(kernel: str, logical: Logical, sm_count: int, rows: Sequence[ElasticRow]) -> Kept:
    limits: list[list[int]] = [[] for _ in range(sm_count)]
    shapes: list[list[Shape]] = [[] for _ in range(sm_count)]
    for row in sorted(rows, key=lambda row: row.critical_threads or 0):
        assert row.critical_blocks is not None  # the three of a kept row are there, as was checked when it was read
        assert row.critical_threads is not None
        assert row.blocks is not None
        limits[row.critical_blocks].append(row.critical_threads)
        shapes[row.critical_blocks].append(Shape(row.count, row.per_thread, row.blocks))
    return Kept(kernel, logical, sm_count, tuple(map(tuple, limits)), tuple(map(tuple, shapes)))


def _dim(numbers: Sequence[int]) -> Dim:
    x, y, z = numbers
    return x, y, z
