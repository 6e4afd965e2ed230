"""Looks for reasons to leave the blocks of a kernel alone that show without taking it apart.

threadIdx out of reach -> barriers in functions -> tensor cores -> returns that warp primitives do not wait for
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from edgetune.elastic.kernel import Refusal
from edgetune.elastic.source.builtins import BARRIERS, INDICES, TENSOR_CORE, THREAD_INDICES, WARP
from edgetune.elastic.source.diagnostics import refusal
from edgetune.elastic.source.index_parameters import readers, why_not
from edgetune.elastic.source.kernel_scan import parameter_nodes, parameter_of
from edgetune.elastic.source.name_resolution import resolve
from edgetune.elastic.source.syntax import (
    arguments,
    around,
    callee,
    calls,
    find,
    line_of,
    mentions,
    names,
    own,
    text_of,
)
from edgetune.elastic.source.translation_unit import Definition
from edgetune.elastic.source.uniformity import Uniformity, condition_of, uniformity

if TYPE_CHECKING:
    from tree_sitter import Node

    from edgetune.elastic.source.translation_unit import ParsedFile, ParsedKernel


_CLASSES = ("class_specifier", "struct_specifier", "union_specifier")
_SCOPES = ("lambda_expression", *_CLASSES)
_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
_WARP = WARP - {"warpSize"}


def block_illegalities(translation_unit: ParsedFile, kernel: ParsedKernel) -> tuple[Refusal, ...]:
    """Return why the blocks of a kernel are left alone: empty where nothing that shows at once speaks against it."""
    found = [
        *_out_of_reach(translation_unit, kernel),
        *_in_functions(kernel),
        *_tensor_cores(kernel),
        *_in_macros(kernel),
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda each: (each.line, each.code)))


def _out_of_reach(translation_unit: ParsedFile, kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield what reads the thread's index and cannot be told the logical one."""
    name = kernel.kernel.name
    for piece in kernel.reach[1:]:
        if piece.kind in ("type", "variable") and THREAD_INDICES & set(piece.tokens):
            yield refusal("hidden-thread-index", kernel.kernel.line, name, name=piece.name or "a class")
    copied = readers(kernel, INDICES)
    for each in copied:
        why = why_not(translation_unit, kernel, each, copied)
        if why is not None:
            yield refusal("helper-thread-index", kernel.kernel.line, name, name=each, why=why)
    for piece in (kernel.reach[0], *copied.values()):
        if piece.node is None:
            continue
        for node in mentions(piece.node, {*INDICES, *copied}):
            scope = around(node, *_SCOPES, within=piece.node)
            if scope is not None and not _captures_all(scope):
                what = "a lambda" if scope.type == "lambda_expression" else "a class in the kernel"
                yield refusal("hidden-thread-index", kernel.kernel.line, name, name=what)


def _captures_all(scope: Node) -> bool:
    captures = scope.child_by_field_name("captures")
    return captures is not None and text_of(captures).replace(" ", "")[1:2] in ("=", "&")


def _in_functions(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the functions and classes that hold a barrier."""
    for piece in kernel.reach[1:]:
        if piece.kind != "macro" and BARRIERS & set(piece.tokens):
            yield refusal("helper-barrier", kernel.kernel.line, kernel.kernel.name, name=piece.name)
    for each in mentions(kernel.body, BARRIERS):  # (__syncthreads)(), ::__syncthreads(), and classes in the kernel
        called = each.parent is not None and each.parent.type == "call_expression"
        if not called or around(each, *_CLASSES, within=kernel.body) is not None:
            yield refusal("barrier-place", line_of(each), kernel.kernel.name, name=text_of(each))


def _tensor_cores(kernel: ParsedKernel) -> Iterator[Refusal]:
    if any(TENSOR_CORE & set(piece.tokens) for piece in kernel.reach):
        yield refusal("tensor-core", kernel.kernel.line, kernel.kernel.name, name="a wmma fragment")


def left_behind(translation_unit: ParsedFile, kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the returns of some threads of a warp in front of its primitives.

    In the original such a thread is gone, and nobody waits for it. In an elastic form its lane goes on to other logical
    threads, and the warp would wait for it, or take it for one of them. Whole warps may return.
    """
    if not kernel.kernel.warp:
        return
    of_block, of_warp = (_uniform(translation_unit, kernel, of_warps=each) for each in (False, True))
    for leave in _early(kernel, _WARP):
        if not of_block.all_return(leave) and not of_warp.all_return(leave):
            yield refusal("return-before-warp", line_of(leave), kernel.kernel.name)
    for each in names(kernel.body):
        if text_of(each) == "__activemask":
            yield refusal("active-mask", line_of(each), kernel.kernel.name)


def warps_return(translation_unit: ParsedFile, kernel: ParsedKernel) -> bool:
    """Return whether whole warps return in front of warp primitives: they are whole where rows of the block are."""
    uniform = _uniform(translation_unit, kernel, of_warps=False)
    return kernel.kernel.warp and not all(uniform.all_return(each) for each in _early(kernel, _WARP))


def returns_before_barriers(translation_unit: ParsedFile, kernel: ParsedKernel) -> tuple[Refusal, ...]:
    """Return why the plain grid-elastic form of a kernel would be wrong: threads return while others go on to barriers.

    In the original such a thread is gone, and barriers do not count it. In a form that goes on to the next logical
    block it would be counted at the end of this one, and let the others pass too early.
    """
    if not kernel.kernel.barriers:
        return ()
    uniform = _uniform(translation_unit, kernel, of_warps=False)
    found = [each for each in _early(kernel, BARRIERS) if not uniform.all_return(each)]
    name = kernel.kernel.name
    hidden = [each for each in kernel.reach if each.kind == "macro" and "return" in each.tokens]
    lines = [line_of(each) for each in found] + [kernel.kernel.line for _ in hidden]
    return tuple(refusal("return-before-barrier", each, name) for each in lines)


def _early(kernel: ParsedKernel, wanted: Collection[str]) -> Iterator[Node]:
    """Yield the returns in front of calls of what is ``wanted``, or in a loop with some."""
    through = {piece.name for piece in kernel.reach[1:] if {*wanted} & set(piece.tokens)}
    calls = [each.start_byte for each in names(kernel.body) if text_of(each) in {*wanted, *through}]
    for leave in own(kernel.body, "return_statement"):
        loop = _outermost_loop(leave, kernel.body)
        from_here = leave.start_byte if loop is None else loop.start_byte
        if any(each > from_here for each in calls):
            yield leave


def _uniform(translation_unit: ParsedFile, kernel: ParsedKernel, *, of_warps: bool) -> Uniformity:
    known = resolve(kernel.node, kernel.body, translation_unit.macros)
    return uniformity(kernel.body, known, translation_unit, of_warps=of_warps)


def _outermost_loop(node: Node, body: Node) -> Node | None:
    found, here = None, around(node, *_LOOPS, within=body)
    while here is not None:
        found, here = here, around(here, *_LOOPS, within=body)
    return found


def _in_macros(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the macros that leave a loop: the loop that holds a barrier is another one in the elastic forms."""
    for piece in kernel.reach:
        if piece.kind == "macro" and kernel.kernel.barriers and {"break", "continue", "case"} & set(piece.tokens):
            yield refusal("macro-exit", piece.line, kernel.kernel.name, name=piece.name)


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
