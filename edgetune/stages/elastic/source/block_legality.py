"""Reasons to refuse a kernel, or its block level, that depend on which threads of a block or warp take part.

    threadIdx in code that cannot take the logical index, barriers in functions, tensor cores      block level
    if (i < n) { ... __syncwarp(); ... }      only some lanes come to a primitive that waits for all
    if (i >= n) return; ... __syncthreads();  some threads return and others go on to a barrier

In the original, nothing waits for threads that have returned or reached the end. In an elastic form they go on to the
next logical block, and the others would wait for them, or take them for one of theirs. Where all threads meet once more
behind the branch, the original itself is only right if all take it. A primitive whose mask was computed waits only for
the lanes of the mask.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache, partial

from edgetune.stages.elastic.kernel import Refusal
from edgetune.stages.elastic.source.barrier_functions import (
    Holder,
    apart,
    called_unseen,
    called_word,
    hidden,
    holders,
    meetings,
    names_of,
    parted,
    start_of,
)
from edgetune.stages.elastic.source.builtins import BARRIERS, GROUP_PREFIX, INDICES, TENSOR_CORE, THREAD_INDICES, WARP
from edgetune.stages.elastic.source.index_parameters import unreachable_indices
from edgetune.stages.elastic.source.kernel_scan import name_of, parameter_nodes
from edgetune.stages.elastic.source.masks import Masks
from edgetune.stages.elastic.source.settled_reads import settled_reads
from edgetune.stages.elastic.source.syntax import (
    CLASSES,
    Node,
    above,
    arguments,
    around,
    callee,
    calls,
    find,
    line_of,
    mentions,
    names,
    own,
    squeezed,
    text_of,
    texts,
)
from edgetune.stages.elastic.source.translation_unit import ParsedKernel
from edgetune.stages.elastic.source.uniformity import Uniformity, condition_of, uniformity

_WARP = WARP - {"warpSize"}
_WAITING = _WARP - {"__activemask"}
_WARP_LANES = 32
_TILE = re.compile(r"\(0x([137f]+)u<<\(")
"""The mask of a tile, as ``group_words`` writes it."""


def block_illegalities(kernel: ParsedKernel) -> tuple[Refusal, ...]:
    """Return the reasons against the block level of a kernel that show without splitting it at its barriers."""
    hidden = unreachable_indices(kernel, THREAD_INDICES, INDICES)
    found = [kernel.refusal(f"{kind}-thread-index", None, **why) for kind, _, _, why in hidden] + list(
        _barriers(kernel)
    )
    for piece in kernel.reach:
        if any(each.startswith(GROUP_PREFIX) for each in piece.tokens):
            found.append(kernel.refusal("group-argument", name=piece.name))
            break
    if any(TENSOR_CORE & set(piece.tokens) for piece in kernel.reach):
        found.append(kernel.refusal("tensor-core", name="a wmma fragment"))
    for piece in kernel.reach:  # a macro would leave another loop than in the original
        if piece.kind == "macro" and kernel.kernel.barriers and {"break", "continue", "case"} & set(piece.tokens):
            found.append(kernel.refusal("macro-exit", piece.line, name=piece.name))
    return tuple(sorted(dict.fromkeys(found), key=lambda each: (each.line, each.code)))


def _barriers(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the functions and classes that hold a barrier."""
    for piece in kernel.reach[1:]:
        if piece.kind != "macro" and BARRIERS & set(piece.tokens):
            yield kernel.refusal("helper-barrier", name=piece.name)
    for each in mentions(kernel.body, BARRIERS):  # (__syncthreads)(), ::__syncthreads(), and classes in the kernel
        called = each.parent is not None and each.parent.type == "call_expression"
        if not called or around(each, *CLASSES, within=kernel.body) is not None:
            yield kernel.refusal("barrier-place", line_of(each), name=text_of(each))


def returns_before_warp(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the returns of some threads of a warp in front of its primitives; whole warps may return."""
    if not kernel.kernel.warp:
        return
    of_block, of_warp = uniformity(kernel), uniformity(kernel, of_warps=True)
    for leave in _early(kernel, _WARP):
        if not of_block.all_return(leave) and not of_warp.all_return(leave):
            yield kernel.refusal("return-before-warp", line_of(leave))
    for each in names(kernel.body):
        if text_of(each) == "__activemask":
            yield kernel.refusal("active-mask", line_of(each))


def warps_return(kernel: ParsedKernel) -> bool:
    """Return whether whole warps return in front of warp primitives: rows of the block must then be whole warps."""
    return kernel.kernel.warp and not all(uniformity(kernel).all_return(each) for each in _early(kernel, _WARP))


def returns_before_barriers(kernel: ParsedKernel) -> tuple[Refusal, ...]:
    """Return the returns of some threads in front of barriers, which make the plain grid-elastic form wrong.

    In that form such a thread would be counted at the end of the logical block, and let the others pass too early.
    """
    if not kernel.kernel.barriers:
        return ()
    uniform = uniformity(kernel)
    lines: list[int | None] = [line_of(each) for each in _early(kernel, BARRIERS) if not uniform.all_return(each)]
    lines += [None for each in kernel.reach if each.kind == "macro" and "return" in each.tokens]
    return tuple(kernel.refusal("return-before-barrier", each) for each in lines)


def _early(kernel: ParsedKernel, wanted: Collection[str]) -> Iterator[Node]:
    """Yield the returns in front of calls of these functions, or in a loop with some."""
    through = {each.name for each in holders(kernel, wanted)}
    starts = [each.start_byte for each in meetings(kernel.body, {*wanted, *through})]
    for leave in own(kernel.body, "return_statement"):
        if any(each > start_of(leave, kernel.body) for each in starts):
            yield leave


def lanes_apart(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the warp primitives that would wait for lanes that do not come."""
    if not kernel.kernel.warp:
        return
    body = kernel.body
    held = holders(kernel, _WAITING)
    waiting = names_of(kernel, held)
    settled = _settled(kernel)
    of_lanes = cache(lambda lanes: uniformity(kernel, of_warps=True, lanes=lanes, settled=settled))
    uniform, masks = of_lanes(_WARP_LANES), Masks(kernel, held)
    primitives = _primitives(body, waiting)
    last = _last_meeting(primitives, body, uniform)
    for each in primitives:
        alone = each.start_byte > last and not of_lanes(_lanes(each, held, set())).same_for_all(each, body)
        if alone and not _masked(each, masks, None):
            yield kernel.refusal("warp-branch", line_of(each), name=callee(each))
    for name, piece in hidden(kernel, held, _WAITING):
        yield kernel.refusal("warp-branch", kernel.line(name, piece), name=text_of(name))
    for function in held:
        yield from _in_function(function, kernel, held)
        if called_unseen(function) and not all(
            _masked(each, masks, function) for each in _primitives(function.body, waiting)
        ):
            yield kernel.refusal("warp-branch", kernel.line(function.node, function.piece), name=function.piece.name)


def threads_apart(kernel: ParsedKernel) -> tuple[Refusal, ...]:
    """Return the barriers that only some threads of a block may come to, while the others have reached the end.

    In the plain grid-elastic form these would be counted at the end of the logical block.
    """
    if not kernel.kernel.barriers:
        return ()
    if not _all_seen(kernel):
        return (kernel.refusal("barrier-branch"),)
    every, parts = parted(kernel)
    found = apart(kernel.body, BARRIERS | every, parts, uniformity(kernel))
    if found and _settled(kernel):
        return ()
    return tuple(kernel.refusal("barrier-branch", line_of(each)) for each in found)


def _all_seen(kernel: ParsedKernel) -> bool:
    """Return whether all calls of barriers, and of functions with some, show in the source."""
    held = holders(kernel, BARRIERS)
    if names_of(kernel, held) != {each.name for each in held}:
        return False  # what a macro gives to a function does not show
    return not any(map(called_unseen, held)) and next(hidden(kernel, held, BARRIERS), None) is None


@lru_cache(maxsize=16)  # several rules ask
def _settled(kernel: ParsedKernel) -> frozenset[int]:
    """Return what all threads read alike from shared memory, given that all then meet at each barrier; else nothing."""
    settled, body = settled_reads(kernel), kernel.body
    every, parts = parted(kernel) if settled else (set(), set())
    uniform = uniformity(kernel, settled=settled)
    meet = meetings(body, {*BARRIERS, *every})
    met = all(uniform.same_for_all(each, body) and text_of(each) not in parts for each in meet)
    return settled if met and _all_seen(kernel) else frozenset()


@lru_cache(maxsize=16)  # each form of a kernel asks
def lanes_in_rows(kernel: ParsedKernel) -> int:
    """Return of how many threads rows of a block must be multiples, as branches around primitives go by rows; or 0."""
    held = holders(kernel, _WAITING)
    names, masks, found = names_of(kernel, held), Masks(kernel, held), {0}
    for node, body, holder in ((None, kernel.body, None), *((each.node, each.body, each) for each in held)):
        alike = _settled(kernel) if node is None else frozenset()
        of_lanes = partial(uniformity, kernel, node, body, of_warps=True, rows=False, settled=alike)
        uniform, primitives = of_lanes(lanes=_WARP_LANES), _primitives(body, names)
        last = _last_meeting(primitives, body, uniform) if node is None else -1
        returns = [each for each in own(body, "return_statement") if node is not None and not uniform.all_return(each)]
        for each in primitives:
            lanes = _lanes(each, held, set())
            behind = any(start_of(leave, body) < each.start_byte for leave in returns)
            alone = each.start_byte > last and not of_lanes(lanes=lanes).same_for_all(each, body)
            if (alone or behind) and not _masked(each, masks, holder):
                found.add(lanes if alone else _WARP_LANES)
    return max(found)


def _last_meeting(primitives: Sequence[Node], body: Node, uniform: Uniformity) -> int:
    """Return where the last primitive or barrier begins to which all lanes come; -1 without one."""
    together = (each for each in (*primitives, *calls(body, *BARRIERS)) if uniform.same_for_all(each, body))
    return max((int(each.start_byte) for each in together), default=-1)


def _lanes(call: Node, held: Sequence[Holder], seen: set[str]) -> int:
    """Return how many lanes in a row a call may wait for: those of a tile whose mask is written out, else a warp."""
    name = called_word(call)
    inside = [each for each in held if each.name == name]
    if inside and name not in seen:
        within = {each.name for each in held}
        found = [each for one in inside for each in _primitives(one.body, within)]
        return max((_lanes(each, held, seen | {name}) for each in found), default=_WARP_LANES)
    mask = _TILE.match(squeezed(arguments(call)[0])) if arguments(call) and name in _WAITING else None
    return _WARP_LANES if mask is None else int(mask[1], 16).bit_count()


def _in_function(function: Holder, kernel: ParsedKernel, held: Sequence[Holder]) -> Iterator[Refusal]:
    """Yield the primitives of a function under an ``if`` or behind a ``return`` that may depend on the thread."""
    body, piece = function.body, function.piece
    of_lanes = cache(lambda lanes: uniformity(kernel, function.node, body, of_warps=True, lanes=lanes))
    uniform, masks = of_lanes(_WARP_LANES), Masks(kernel, held)
    given = {name_of(each) for each in parameter_nodes(function.node)}
    left = [
        start_of(each, body)
        for each in own(body, "return_statement")
        if not uniform.all_return(each) or _depends(each, body, given)
    ]
    for each in _primitives(body, names_of(kernel, held)):
        known = of_lanes(_lanes(each, held, set())).same_for_all(each, body) and not _depends(each, body, given)
        known = known and not any(at < each.start_byte for at in left)
        if not known and not _masked(each, masks, function):
            yield kernel.refusal("warp-branch", kernel.line(each, piece), name=f"{callee(each)} in {piece.name}")


def _depends(node: Node, body: Node, given: set[str]) -> bool:
    """Return whether an ``if`` around a node names a parameter of the function, which may differ between lanes."""
    conditions = (condition_of(each) for each in above(node, body) if each.type == "if_statement")
    return not given.isdisjoint(texts(name for each in conditions for name in find(each, "identifier")))


def _primitives(body: Node, functions: set[str]) -> list[Node]:
    """Return the calls of warp primitives, and of functions with some."""
    return [each for each in calls(body) if called_word(each) in _WAITING | functions]


def _masked(call: Node, masks: Masks, function: Holder | None) -> bool:
    """Return whether the mask of a primitive, or of all those in a function that is called, was computed."""
    given = arguments(call)
    if callee(call) not in _WAITING:
        return masks.given(call, function)
    named = callee(call).endswith(("_sync", "syncwarp"))
    return named and bool(given) and masks.computed(given[0], function)
