"""The pieces of a kernel as rows: those kept for each leftover, the best first, then those kept for none, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from edgetune.stages.elastic.forms import Forms
from edgetune.stages.elastic.shrink import ShapeCandidate, Shrunk, overhead_score


@dataclass(frozen=True, slots=True)
class PieceRow:
    """One piece kept for one leftover, or one dropped piece.

    A piece is launched as ``symbol`` on ``blocks`` physical blocks of ``threads`` threads and runs ``count`` logical
    ones.

    Args:
        symbol: Symbol of the form to launch.
        count: Logical blocks of the piece.
        per_thread: Logical threads per physical thread.
        threads: Threads of a physical block.
        registers_per_thread: Of the form.
        status: ``dropped`` for a piece that is never launched; of what is below it has only the reason.
        reason: Why it was dropped.
        critical_blocks: Physical blocks of the critical kernel modulo multiprocessors.
        critical_threads: Threads of a block of the critical kernel, at most.
        rank: Place among the pieces kept for this leftover; 0 is the best.
        blocks: Physical blocks.
        score: Score of the ranking.
    """

    symbol: str
    count: int
    per_thread: int
    threads: int
    registers_per_thread: int
    status: Literal["kept", "dropped"] = "kept"
    reason: str | None = None
    critical_blocks: int | None = None
    critical_threads: int | None = None
    rank: int | None = None
    blocks: int | None = None
    score: float | None = None


def rows_of(shrunk: Shrunk, forms: Forms) -> Iterator[PieceRow]:
    """Yield a row for every kept piece, by leftover, then one for every piece that is kept for none."""

    def row(count: int, per_thread: int, threads: int) -> PieceRow:
        form = forms.elastic[per_thread]
        return PieceRow(form.symbol, count, per_thread, threads, form.resources.registers_per_thread)

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
