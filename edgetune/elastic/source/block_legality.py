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
from edgetune.elastic.source.name_resolution import resolve
from edgetune.elastic.source.nodes import around, line_of, mentions, names, own, text_of
from edgetune.elastic.source.uniformity import Uniformity, uniformity

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
