"""Tells people what was done to a kernel and why that is safe, and why something was not done.

vadd (line 3)
  grid: vadd__grid
    the body is a function of its own, ...
  block: not made: line 7: goto ... -> write it with if and loops
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from edgetune.elastic.kernel import CudaKernel, ElasticKernel, Refusal, TransformResult
from edgetune.elastic.source.builtins import BLOCK_INDICES
from edgetune.elastic.source.index_parameters import readers
from edgetune.elastic.source.region_tree import BarrierLoop, BarrierStatement, Branch, Piece, Scope, regions
from edgetune.elastic.source.syntax import line_of, text_of, words
from edgetune.elastic.source.translation_unit import ParsedFile, ParsedKernel

if TYPE_CHECKING:
    from edgetune.elastic.source.name_resolution import Variable


def macro_steps(translation_unit: ParsedFile, kernel: ParsedKernel) -> tuple[str, ...]:
    """Return which macros of a kernel are written out in its forms."""
    place, node = translation_unit.expanded.original, kernel.function.outer
    before = translation_unit.text[place(node.start_byte) : place(node.end_byte)].decode("utf-8", "replace")
    after = set(words(text_of(node)))
    names = [word for word in dict.fromkeys(words(before)) if word in translation_unit.macros and word not in after]
    if not names:
        return ()
    return (f"written out in its forms, as they hide loops, indices, barriers or returns: {', '.join(names)}",)


def grid_steps(kernel: ParsedKernel) -> tuple[str, ...]:
    """Return what the grid level does to a kernel and why that is safe."""
    name = kernel.kernel.name
    steps = [
        f"{name}__grid: the body is a function of its own, which is given the logical block's index and the logical "
        "grid: physical blocks go through any part of the logical ones, in any order, because blocks do not wait for "
        "each other",
        "threads keep their places: the physical block has the shape of the logical one",
    ]
    copied = sorted(readers(kernel, BLOCK_INDICES))
    if copied:
        steps.append(f"functions that read the launch are copied and given the logical one: {', '.join(copied)}")
    if kernel.kernel.parameters:
        steps.append("parameters are by value: what a logical block writes to its own, the next one does not see")
    if kernel.kernel.static_shared or kernel.kernel.dynamic_shared:
        steps.append("it uses shared memory: a barrier behind each logical block keeps it from the next one")
    elif kernel.kernel.warp:
        steps.append("it uses warp primitives: the warp comes together behind each logical block")
    if kernel.kernel.float_atomics:
        steps.append("it adds floating-point numbers atomically: the order, and so the last bits, were never fixed")
    return tuple(steps)


def explained(done: TransformResult) -> Iterator[str]:
    """Yield what is told of a file, line by line."""
    for each in done.kernels:
        yield from _kernel(each)
    for refused in done.refusals:
        yield f"line {refused.line}: {describe(refused)}"


def cost(each: ElasticKernel, refused: Refusal) -> str:
    """Return what a refusal costs a kernel."""
    if each.variants:
        return "the grid alone is elastic"
    return "left as it is" if refused.level == "grid" else "nor could its blocks be elastic"


def describe(refused: Refusal) -> str:
    """Return a refusal as one line."""
    return f"{refused.code}: {refused.reason} -> {refused.remedy}"


def _kernel(each: ElasticKernel) -> Iterator[str]:
    yield f"{each.kernel.name} (line {each.kernel.line}): {used(each.kernel)}"
    for level in ("grid", "block"):
        symbols = [variant.symbol for variant in each.variants if variant.level == level]
        if symbols:
            yield f"  {level}: {', '.join(symbols)}"
    for step in each.steps:
        yield f"    {step}"
    for refused in each.refusals:
        yield f"  {cost(each, refused)}: line {refused.line}: {describe(refused)}"


def used(kernel: CudaKernel) -> str:
    """Return what a kernel uses, as words."""
    count = len(kernel.parameters)
    words = [f"{count} parameter{'' if count == 1 else 's'}"]
    if kernel.barriers:
        words.append(f"{kernel.barriers} barrier{'' if kernel.barriers == 1 else 's'}")
    words += ["static shared memory"] * kernel.static_shared + ["dynamic shared memory"] * kernel.dynamic_shared
    words += ["warp primitives"] * kernel.warp + ["floating-point atomics"] * kernel.float_atomics
    return ", ".join(words)


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
