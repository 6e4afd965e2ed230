"""Warp primitives that only some lanes come to, though they wait for all.

    if (i < n) { ... __syncwarp(); ... }     the other lanes are through: the original has nothing more for them to do
    }                                        an elastic form has: they wait at the end of the logical block

In the original such lanes end, and nobody waits for those that have ended. In an elastic form they are still there, and
each half of the warp would wait for the other. Where all lanes meet once more behind the branch, at a barrier or at
another primitive, the original itself is only right if whole warps take it; and a primitive whose mask was computed
waits for no more than those lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgetune.elastic.kernel import Refusal
from edgetune.elastic.source.builtins import BARRIERS, WARP
from edgetune.elastic.source.definitions import Definition
from edgetune.elastic.source.diagnostics import refusal
from edgetune.elastic.source.kernel_scan import parameter_nodes, parameter_of
from edgetune.elastic.source.name_resolution import resolve
from edgetune.elastic.source.nodes import arguments, callee, calls, find, line_of, mentions, text_of
from edgetune.elastic.source.uniformity import Uniformity, condition_of, uniformity

if TYPE_CHECKING:
    from tree_sitter import Node

    from edgetune.elastic.source.translation_unit import ParsedFile, ParsedKernel

_WAITING = WARP - {"warpSize", "__activemask"}
_CALCULATED = ("identifier", "call_expression", "field_expression", "subscript_expression")


def lanes_apart(translation_unit: ParsedFile, kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the warp primitives that would wait for lanes that do not come.

    Args:
        translation_unit: The file.
        kernel: One of its kernels.
    """
    if not kernel.kernel.warp:
        return
    waiting = {piece.name for piece in kernel.reach[1:] if _WAITING & set(piece.tokens)}
    uniform = _warp_uniformity(translation_unit, kernel.node, kernel.body)
    together = [each for each in _primitives(kernel.body, waiting) if uniform.same_for_all(each, kernel.body)]
    barriers = [each for each in calls(kernel.body, *BARRIERS) if uniform.same_for_all(each, kernel.body)]
    last = max((int(each.start_byte) for each in (*together, *barriers)), default=-1)
    for each in _primitives(kernel.body, waiting):
        if (
            each.start_byte > last
            and not uniform.same_for_all(each, kernel.body)
            and not _masked(each, translation_unit)
        ):
            yield refusal("warp-branch", line_of(each), kernel.kernel.name, name=callee(each))
    for piece in kernel.reach[1:]:
        if piece.name in waiting and piece.node is not None:
            yield from _in_function(piece, translation_unit, kernel)


def threads_apart(translation_unit: ParsedFile, kernel: ParsedKernel) -> tuple[Refusal, ...]:
    """Return the barriers that only some threads of a block may come to, while the others are through.

    In the original these end, and the barrier does not count them; in the plain grid-elastic form they would be counted
    at the end of the logical block, and let the others pass too early. Where all meet once more behind the branch, the
    original itself is only right if all take it.
    """
    if not kernel.kernel.barriers:
        return ()
    uniform = uniformity(kernel.body, resolve(kernel.node, kernel.body, translation_unit.macros), translation_unit)
    holding = {piece.name for piece in kernel.reach[1:] if BARRIERS & set(piece.tokens)}
    found = list(mentions(kernel.body, BARRIERS | holding))
    together = [int(each.start_byte) for each in found if uniform.same_for_all(each, kernel.body)]
    last = max(together, default=-1)
    return tuple(
        refusal("barrier-branch", line_of(each), kernel.kernel.name)
        for each in found
        if each.start_byte > last and not uniform.same_for_all(each, kernel.body)
    )


def _in_function(piece: Definition, translation_unit: ParsedFile, kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the primitives of a function under an ``if`` that may depend on the thread."""
    assert piece.node is not None  # macros have no conditions of their own
    for function in find(piece.node, "function_definition"):
        body = function.child_by_field_name("body")
        if body is None or body.type != "compound_statement":
            continue
        uniform = _warp_uniformity(translation_unit, function, body)
        given = {parameter_of(each).name for each in parameter_nodes(function)}
        for each in _primitives(body, set()):
            known = uniform.same_for_all(each, body) and not _depends(each, body, given)
            if not known and not _masked(each, translation_unit):
                at = line_of(each) if piece.file == translation_unit.name else kernel.kernel.line
                yield refusal("warp-branch", at, kernel.kernel.name, name=f"{callee(each)} in {piece.name}")


def _depends(node: Node, body: Node, given: set[str]) -> bool:
    """Return whether an ``if`` around a node names what the function was given: each lane may get another value."""
    here = node.parent
    while here is not None and here != body:
        condition = condition_of(here) if here.type == "if_statement" else None
        if condition is not None and given & {text_of(each) for each in find(condition, "identifier")}:
            return True
        here = here.parent
    return False


def _warp_uniformity(translation_unit: ParsedFile, function: Node, body: Node) -> Uniformity:
    return uniformity(body, resolve(function, body, translation_unit.macros), translation_unit, of_warps=True)


def _primitives(body: Node, functions: set[str]) -> list[Node]:
    """Return the calls of warp primitives, and of functions with some."""
    return [each for each in calls(body) if callee(each).split("::")[-1] in _WAITING | functions]


def _masked(call: Node, translation_unit: ParsedFile) -> bool:
    """Return whether a primitive is given a mask that was computed, and is no constant."""
    given = arguments(call)
    if callee(call) not in _WAITING or not callee(call).endswith(("_sync", "syncwarp")) or not given:
        return False
    mask = given[0]
    named = {text_of(each) for each in find(mask, "identifier")}
    return (
        mask.type in _CALCULATED and not named & set(translation_unit.macros) and not _constant(named, translation_unit)
    )


def _constant(named: set[str], translation_unit: ParsedFile) -> bool:
    """Return whether a mask is a constant of the file by name."""
    return any(piece.kind == "variable" for name in named for piece in translation_unit.definitions.get(name, ()))
