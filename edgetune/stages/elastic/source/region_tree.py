"""The parts of a kernel that is split at its barriers.

int n = ...;              UniformStatement   the same for all threads: run once by each physical thread
float s = x[i];           Region             run for each logical thread of a physical one
for (...) {               BarrierLoop        a loop that holds a barrier: run once, around pieces
    tile[tx] = s;         Region
    __syncthreads();      BarrierStatement
}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from edgetune.stages.elastic.source.name_resolution import Variable
from edgetune.stages.elastic.source.syntax import Node


@dataclass(frozen=True, slots=True)
class RegionPart:
    """A stretch of a region.

    Args:
        node: Its source.
        kind: A ``statement`` as it stands; an ``expression`` without its semicolon; a part that ``declares`` variables;
            a ``directive`` or comment, which stays in front of the next part; a ``condition`` that is voted on.
        variables: The variables that it declares.
    """

    node: Node
    kind: Literal["statement", "expression", "declares", "directive", "condition"] = "statement"
    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Code that is run for each logical thread.

    Args:
        number: Unique in its kernel.
        parts: In order.
    """

    number: int
    parts: list[RegionPart]

    @property
    def votes(self) -> bool:
        """Whether it evaluates a condition that threads vote on."""
        return self.parts[0].kind == "condition"


@dataclass(frozen=True, slots=True, eq=False)
class UniformStatement:
    """A statement, or the declaration of one variable, that each physical thread runs once."""

    node: Node
    variable: Variable | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BarrierStatement:
    """``__syncthreads();``."""

    node: Node


@dataclass(frozen=True, slots=True, eq=False)
class UniformExit:
    """A ``return`` of all threads of the block, or a ``break`` or ``continue`` of all that are in a loop."""

    node: Node


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """Pieces between braces."""

    pieces: list[Piece]


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """An ``if`` around pieces.

    Args:
        node: The statement.
        condition: Its condition.
        vote: The region that evaluates the condition for each thread; ``None`` where it is uniform.
        then: Its pieces.
        otherwise: The pieces of its ``else``; ``None`` where there is none.
    """

    node: Node
    condition: Node
    vote: Region | None
    then: list[Piece]
    otherwise: list[Piece] | None


@dataclass(frozen=True, slots=True, eq=False)
class BarrierLoop:
    """A loop around pieces.

    Args:
        node: The statement.
        condition: ``None`` where it has none.
        vote: The region that evaluates the condition for each thread; ``None`` where it is uniform.
        header: Whether it keeps the header of its ``for``, all of which is uniform.
        pieces: Its pieces.
        update: The last part of its header, where the header is not kept.
        directives: In front of it, e.g. ``#pragma unroll``.
    """

    node: Node
    condition: Node | None
    vote: Region | None
    header: bool
    pieces: list[Piece]
    update: list[Piece] = field(default_factory=list)
    directives: tuple[Node, ...] = ()


Piece = Region | UniformStatement | BarrierStatement | UniformExit | Scope | Branch | BarrierLoop


def inside(piece: Piece) -> list[Piece]:
    """Return the pieces that a piece directly holds, the region of its vote included, in the order of the source."""
    match piece:
        case Scope():
            return piece.pieces
        case Branch():
            return [*([] if piece.vote is None else [piece.vote]), *piece.then, *(piece.otherwise or [])]
        case BarrierLoop():
            return [*([] if piece.vote is None else [piece.vote]), *piece.pieces, *piece.update]
        case _:
            return []


def walk_pieces(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield pieces and all that they hold, in the order of the source as far as loops go round."""
    for piece in pieces:
        yield piece
        yield from walk_pieces(inside(piece))


def regions(pieces: list[Piece]) -> list[Region]:
    """Return all regions, in the order of the source as far as loops go round."""
    return [each for each in walk_pieces(pieces) if isinstance(each, Region)]
