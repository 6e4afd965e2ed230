"""What is in a kernel, found by looking at its text and at what it reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgetune.elastic.kernel import CudaKernel, Parameter
from edgetune.elastic.source.builtins import BARRIERS, WARP, atomic
from edgetune.elastic.source.syntax import arguments, callee, calls, declared_name, find, line_of, plain, text_of
from edgetune.elastic.source.translation_unit import Definition, function_declarator

if TYPE_CHECKING:
    from tree_sitter import Node

    from edgetune.elastic.source.translation_unit import ParsedFunction

_INTEGERS = frozenset({
    "int", "unsigned", "long", "short", "char", "int32_t", "uint32_t", "int64_t", "uint64_t", "size_t", "uint",
})  # fmt: skip
_REINTERPRETED = frozenset({"__int_as_float", "__uint_as_float", "__longlong_as_double", "__ushort_as_half"})
_ADDING = ("atomicAdd", "atomicSub", "atomicAdd_block", "atomicAdd_system")

_AXIS = re.compile(r"\bthreadIdx[\s.]*\b([xyz])\b")


def described(function: ParsedFunction, reach: Sequence[Definition]) -> CudaKernel:
    """Return what is known of a kernel.

    Args:
        function: It.
        reach: Its own definition and those that it reaches.
    """
    tokens = [token for piece in reach for token in piece.tokens]
    return CudaKernel(
        name=function.name,
        line=line_of(function.node),
        parameters=tuple(parameter_of(each) for each in parameter_nodes(function.node)),
        barriers=sum(token in BARRIERS for token in tokens),
        static_shared=any(not dynamic for dynamic in _shared(reach)),
        dynamic_shared=any(_shared(reach)),
        warp=any(token in WARP for token in tokens),
        float_atomics=any(_float_atomics(piece, reach) for piece in reach),
        extern_c=_extern_c(function.node),
        axes=max((_axes(piece) for piece in reach), default=1),
    )


def _axes(piece: Definition) -> int:
    """Return on how many axes of the block a definition asks where a thread is."""
    text = " ".join(piece.tokens) if piece.node is None else text_of(piece.node)
    return max((" xyz".index(axis) for axis in _AXIS.findall(text)), default=1)


def parameter_nodes(function: Node) -> list[Node]:
    """Return the parameters of a function as they are declared; of ``(void)`` none."""
    declarator = function_declarator(function)
    given = None if declarator is None else declarator.child_by_field_name("parameters")
    if given is None:
        return []
    found = [each for each in given.children if (each.is_named and each.type != "comment") or each.type == "..."]
    return [] if [text_of(each) for each in found] == ["void"] else found


def parameter_of(node: Node) -> Parameter:
    """Return a parameter; its name is empty where it has none."""
    name = declared_name(node.child_by_field_name("declarator"))
    left_out = [] if name is None else [name]
    return Parameter(plain(node, [*left_out, *_default(node)]), "" if name is None else text_of(name))


def parameter_text(node: Node) -> str:
    """Return a parameter as another function may declare it: without its default and what only kernels may say."""
    return plain(node, [*_default(node), *(each for each in node.children if text_of(each) == "__grid_constant__")])


def _default(node: Node) -> list[Node]:
    return [*node.children_by_field_name("default_value"), *(each for each in node.children if each.type == "=")]


def _shared(reach: Sequence[Definition]) -> Iterator[bool]:
    """Yield, for each declaration of shared memory, whether the launch gives its size."""
    for piece in reach:
        if piece.node is None or "__shared__" not in piece.tokens:
            if piece.node is None and "__shared__" in piece.tokens:
                yield "extern" in piece.tokens
            continue
        seen = 0
        for node in find(piece.node, "declaration"):
            direct = {text_of(each) for each in node.children}
            if "__shared__" in direct:
                seen += 1
                yield "extern" in direct
        if piece.tokens.count("__shared__") > seen:  # in a place where none is expected
            yield False


def _float_atomics(piece: Definition, reach: Sequence[Definition]) -> bool:
    """Return whether a definition adds floating-point numbers atomically; where the type is not plain, it may."""
    if piece.node is None:
        return any(token in _ADDING for token in piece.tokens)
    if any(map(atomic, piece.tokens)) and _REINTERPRETED & set(piece.tokens):
        return True
    return any(not _integer_target(call, reach) for call in calls(piece.node, *_ADDING))


def _integer_target(call: Node, reach: Sequence[Definition]) -> bool:
    """Return whether what an atomic function adds to is declared as an integer everywhere that its name is declared."""
    given = arguments(call)
    target = next((text_of(each) for each in find(given[0], "identifier")), "") if given else ""
    types = [
        text_of(kind)
        for piece in reach
        if piece.node is not None and target in piece.declared
        for node in find(piece.node, "declaration", "parameter_declaration", "optional_parameter_declaration")
        if _declares(node, target)
        for kind in node.children_by_field_name("type")
    ]
    return bool(types) and all(set(each.split()) & _INTEGERS for each in types)


def _declares(node: Node, name: str) -> bool:
    found = [declared_name(each) for each in node.children_by_field_name("declarator")]
    return any(each is not None and text_of(each) == name for each in found)


def _extern_c(function: Node) -> bool:
    here = function.parent
    while here is not None:
        if here.type == "linkage_specification":
            value = here.child_by_field_name("value")
            return value is not None and text_of(value) == '"C"'
        here = here.parent
    return False


def barrier_calls(node: Node) -> list[Node]:
    """Return the barriers that stand in ``node`` itself, in order."""
    return [each for each in calls(node) if callee(each) in BARRIERS]
