"""Explains what was done to a kernel and why that is safe, and why something was not done.

vadd (line 3)
  grid: vadd__grid
    the body is a function of its own, ...
  block: not made: line 7: goto ... -> write it with if and loops
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import get_args

from edgetune.stages.elastic.abi import Level, persistent_symbol
from edgetune.stages.elastic.kernel import CudaKernel, ElasticKernel, Refusal, TransformResult
from edgetune.stages.elastic.source.block_loops import FormOptions
from edgetune.stages.elastic.source.builtins import BLOCK_INDICES
from edgetune.stages.elastic.source.index_parameters import readers
from edgetune.stages.elastic.source.name_resolution import Variable
from edgetune.stages.elastic.source.places import shown_place
from edgetune.stages.elastic.source.region_tree import (
    BarrierLoop,
    BarrierStatement,
    Branch,
    Piece,
    regions,
    walk_pieces,
)
from edgetune.stages.elastic.source.syntax import line_of, text_of, words
from edgetune.stages.elastic.source.translation_unit import ParsedKernel

_WARPS = (
    "warp primitives: logical threads keep their lanes where the physical block is a multiple of 32 threads and the "
    "logical block is one too; no other launch of these forms is right"
)

_MOST_NAMED = 3
"""Kernels that one line names, and places besides the first."""


def macro_steps(kernel: ParsedKernel) -> tuple[str, ...]:
    """Return which macros of a kernel are written out in its forms."""
    source, node = kernel.source, kernel.function.outer
    place = source.expanded.original
    before = source.text[place(node.start_byte) : place(node.end_byte)].decode("utf-8", "replace")
    after = set(words(text_of(node)))
    names = [word for word in dict.fromkeys(words(before)) if word in source.macros and word not in after]
    if not names:
        return ()
    return (f"written out in its forms, as they hide loops, indices, barriers or returns: {', '.join(names)}",)


def grid_steps(kernel: ParsedKernel, options: FormOptions) -> tuple[str, ...]:
    """Return what the grid level does to a kernel and why that is safe."""
    steps = [
        f"{kernel.name}__grid: the body is a function of its own, which is given the logical block's index and the "
        "logical grid: physical blocks go through any part of the logical ones, in any order, because blocks do not "
        "wait for each other",
        "threads keep their places: the physical block has the shape of the logical one",
    ]
    copied = sorted(readers(kernel, BLOCK_INDICES))
    if copied:
        steps.append(f"functions that read the launch are copied and given the logical one: {', '.join(copied)}")
    if kernel.kernel.parameters:
        steps.append("parameters are by value: what a logical block writes to its own, the next one does not see")
    if kernel.shared:
        steps.append("it uses shared memory: a barrier behind each logical block keeps it from the next one")
    elif kernel.kernel.warp:
        steps.append("it uses warp primitives: the warp comes together behind each logical block")
    if options.persistent:
        steps.append(
            f"{persistent_symbol(kernel.name)}: the first thread of a physical block takes the next logical block from "
            "a counter, for all threads: a barrier in front of each logical block shows them which, and one behind it "
            "keeps it in place; a block whose rank is no longer below the quota leaves before it takes"
        )
    if kernel.kernel.float_atomics:
        steps.append("it adds floating-point numbers atomically: the order, and so the last bits, were never fixed")
    return tuple(steps)


def strided_steps(kernel: CudaKernel) -> tuple[str, ...]:
    """Return what the block level does to a kernel without barriers."""
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
    """Return what the block level does to a kernel that was split at its barriers.

    Args:
        kernel: The kernel.
        pieces: Its parts.
        many: Variables that became arrays.
        single: Variables of which a physical thread has one.
        live: Whether threads return while others go on to barriers.
    """
    every = list(walk_pieces(pieces))
    barriers = sum(isinstance(each, BarrierStatement) for each in every)
    steps = [
        f"{kernel.name}__block2, 4 and 8: taken apart at {_counted(barriers, 'barrier')} into "
        f"{_counted(len(regions(pieces)), 'region')}, each of which every physical thread runs for its logical "
        "threads: between barriers nothing orders threads",
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
    votes = (each for each in every if isinstance(each, Branch | BarrierLoop) and each.vote is not None)
    for line in sorted({line_of(each.node) for each in votes}):
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


def explained(done: TransformResult) -> Iterator[str]:
    """Yield the explanation of a file, line by line."""
    for each in done.kernels:
        yield f"{each.kernel.name} ({shown_place(each.kernel.file, each.kernel.line)}): {used(each.kernel)}"
        for level in get_args(Level):
            symbols = [variant.symbol for variant in each.variants if variant.level == level]
            if symbols:
                yield f"  {level}: {', '.join(symbols)}"
        yield from (f"    {step}" for step in each.steps)
        yield from (f"  {cost(each, refused)}: {located(refused)}" for refused in each.refusals)
    yield from map(located, done.refusals)


def cost(each: ElasticKernel, refused: Refusal) -> str:
    """Return what a refusal costs a kernel."""
    if each.variants:
        return "the grid alone is elastic"
    return "left as it is" if refused.level == "grid" else "nor could its blocks be elastic"


def reasons(done: TransformResult) -> list[str]:
    """Return the refusals of a file, a line each; one of several kernels, as of instances, or places is given once."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for each in done.kernels:
        places: dict[str, list[str]] = {}
        for refused in each.refusals:
            text = f"{cost(each, refused)}: {describe(refused)}"
            places.setdefault(text, []).append(shown_place(refused.file, refused.line))
        for text, some in places.items():
            found.setdefault((text, tuple(some)), []).append(each.kernel.name)
    lines = []
    for (text, places_of), names in found.items():
        first, *others = dict.fromkeys(places_of)
        others = [*others[:_MOST_NAMED], *["..."] * (len(others) > _MOST_NAMED)]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        also = f" (also {', '.join(others)})" if others else ""
        lines.append(f"{first}: {', '.join(names[:_MOST_NAMED])}{more}: {text}{also}")
    return [*lines, *map(located, done.refusals)]


def located(refused: Refusal) -> str:
    """Return a refusal as one line with its place."""
    return f"{shown_place(refused.file, refused.line)}: {describe(refused)}"


def describe(refused: Refusal) -> str:
    """Return a refusal as one line."""
    return f"{refused.code}: {refused.reason} -> {refused.remedy}"


def used(kernel: CudaKernel) -> str:
    """Return what a kernel uses, as words."""
    words = [_counted(len(kernel.parameters), "parameter")]
    words += [_counted(kernel.barriers, "barrier")] * bool(kernel.barriers)
    words += ["static shared memory"] * kernel.static_shared + ["dynamic shared memory"] * kernel.dynamic_shared
    words += ["warp primitives"] * kernel.warp + ["floating-point atomics"] * kernel.float_atomics
    return ", ".join(words)
