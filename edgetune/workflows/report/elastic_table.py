"""Pieces of elastic kernels in a report: the critical blocks that each is launched beside, or why it is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from edgetune.plotting.page import SectionWriter
from edgetune.workflows.cells import cell
from edgetune.workflows.report.views import draw_views

if TYPE_CHECKING:
    from edgetune.artifacts.elastic_table import ElasticRow, ElasticTable


def section(table: ElasticTable, out: SectionWriter) -> None:
    """Write every piece of every launch, and the figure of what was pruned."""
    write_pieces(table.rows, out)
    draw_views(table, out)


def write_pieces(rows: Sequence[ElasticRow], out: SectionWriter) -> None:
    """Write each launch with a row per piece: the blocks it is launched beside, or the reason it is dropped."""

    for (kernel, grid, block), of in groupby(rows, lambda row: (row.kernel, row.grid, row.block)):
        launch = f"{kernel}, {_dim(grid)} blocks of {_dim(block)} threads"
        head = f"{launch}; beside: critical blocks, modulo multiprocessors"
        out.note(head)
        out.table(
            ("beside>", "of threads>", "rank>", "piece>", "blocks>", "of threads>", "per thread>", "score>", "dropped"),
            [
                (
                    row.critical_blocks, cell(row.critical_threads, lambda threads: f"to {threads}"),
                    row.rank, row.count, row.blocks, row.threads, row.per_thread,
                    cell(row.score, ".3f"),
                    row.reason or "",
                )
                for row in of
            ],
        )  # fmt: skip


def _dim(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))
