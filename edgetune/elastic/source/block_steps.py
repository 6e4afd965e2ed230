"""Says what was done to a kernel at block level, and why its results stay what they are."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from edgetune.elastic.source.nodes import line_of
from edgetune.elastic.source.region_tree import BarrierLoop, BarrierStatement, Branch, Piece, Scope, regions

if TYPE_CHECKING:
    from edgetune.elastic.kernel import CudaKernel
    from edgetune.elastic.source.name_resolution import Variable

_WARPS = (
    "warp primitives: logical threads keep their lanes where the physical block is a multiple of 32 threads and the "
    "logical block is one too; no other launch of these forms is right"
)


def strided_steps(kernel: CudaKernel) -> tuple[str, ...]:
    """Return the steps of a kernel without barriers."""
    steps = [
        f"{kernel.name}__block: no barriers, so nothing orders the threads of a block, and each physical thread may "
        "run several of them one after another; one form does for every size of the physical block",
        "threadIdx and blockDim are those of the logical launch; a return ends one logical thread; each has parameters "
        "of its own",
    ]
    return (*steps, *([_WARPS] if kernel.warp else []))


def fission_steps(
    kernel: CudaKernel, pieces: list[Piece], many: Collection[Variable], single: Collection[Variable], *, live: bool
) -> tuple[str, ...]:
    """Return the steps of a kernel that was taken apart at its barriers.

    Args:
        kernel: It.
        pieces: What it was taken apart into.
        many: Variables that became arrays.
        single: Variables of which a physical thread has one.
        live: Whether threads return while others go on to barriers.
    """
    barriers, parts = _count(pieces), len(regions(pieces))
    steps = [
        f"{kernel.name}__block2, 4 and 8: taken apart at {_counted(barriers, 'barrier')} into "
        f"{_counted(parts, 'region')}, each of which every physical thread runs for its logical threads: between "
        "barriers nothing orders threads",
        "threadIdx and blockDim are those of the logical launch",
    ]
    if live:
        steps.append(
            "some threads return while others go on to barriers: they are left out from there on, and the block ends "
            "when nobody is left (one barrier more for each return); the grid form is made in the same way, with one "
            "logical thread in a physical one"
        )
    if many:
        steps.append(f"an element for each logical thread: {_list(many)} (needed behind a barrier)")
    if single:
        steps.append(f"one for all logical threads: {_list(single)} (the same for all threads of a block)")
    for line in sorted(set(_votes(pieces))):
        steps.append(
            f"line {line}: it is not seen that all threads of a block go the same way here, so they vote (one barrier "
            "more)"
        )
    return (*steps, *([_WARPS] if kernel.warp else []))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _list(variables: Collection[Variable]) -> str:
    in_order = sorted(variables, key=lambda each: each.declarator.start_byte)
    return ", ".join(dict.fromkeys(each.name for each in in_order))


def _count(pieces: list[Piece]) -> int:
    return sum(
        1 if isinstance(each, BarrierStatement) else sum(_count(inner) for inner in _inside(each)) for each in pieces
    )  # fmt: skip


def _votes(pieces: list[Piece]) -> list[int]:
    found: list[int] = []
    for each in pieces:
        if isinstance(each, Branch | BarrierLoop) and each.vote is not None:
            found.append(line_of(each.node))
        found += [line for inner in _inside(each) for line in _votes(inner)]
    return found


def _inside(piece: Piece) -> list[list[Piece]]:
    match piece:
        case Scope():
            return [piece.pieces]
        case Branch():
            return [piece.then, piece.otherwise or []]
        case BarrierLoop():
            return [piece.pieces, piece.update]
        case _:
            return []
