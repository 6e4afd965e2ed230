"""Facts about a kernel, from its text and from what it reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from edgetune.stages.elastic.kernel import CudaKernel, HostLaunch, Parameter
from edgetune.stages.elastic.source.builtins import BARRIERS, WARP, atomic
from edgetune.stages.elastic.source.layouts import holds_pointers, parameter_layout
from edgetune.stages.elastic.source.syntax import (
    DECLARATIONS,
    Node,
    arguments,
    calls,
    child,
    declared_name,
    first_name,
    line_of,
    listed,
    plain,
    text_of,
    texts,
)
from edgetune.stages.elastic.source.translation_unit import Definition, ParsedFunction, declares, function_declarator

_INTEGERS = frozenset({
    "int", "unsigned", "long", "short", "char", "int32_t", "uint32_t", "int64_t", "uint64_t", "size_t", "uint",
})  # fmt: skip
_REINTERPRETED = frozenset({"__int_as_float", "__uint_as_float", "__longlong_as_double", "__ushort_as_half"})
_ADDING = ("atomicAdd", "atomicSub", "atomicAdd_block", "atomicAdd_system")
_AXIS = re.compile(r"\bthreadIdx[\s.]*\b([xyz])\b")


def described(
    function: ParsedFunction,
    reach: Sequence[Definition],
    known: Mapping[str, tuple[Definition, ...]],
    launches: tuple[HostLaunch, ...],
) -> CudaKernel:
    """Return the facts of a kernel.

    Args:
        function: The kernel.
        reach: Its own definition and those that it reaches.
        known: The definitions of its file, by name.
        launches: Its launches in the file.
    """
    tokens = [token for piece in reach for token in piece.tokens]
    shared = list(_shared(reach))
    return CudaKernel(
        name=function.name,
        line=line_of(function.node),
        parameters=tuple(parameter_of(each, known) for each in parameter_nodes(function.node)),
        barriers=sum(token in BARRIERS for token in tokens),
        static_shared=not all(shared),
        dynamic_shared=any(shared),
        warp=any(token in WARP for token in tokens),
        float_atomics=any(_float_atomics(piece, reach) for piece in reach),
        axes=max((_axes(piece) for piece in reach), default=1),
        tables=any(piece.kind == "variable" and "__constant__" in piece.tokens for piece in reach),
        launches=launches,
    )


def _axes(piece: Definition) -> int:
    """Return on how many axes of the block a definition reads the thread's index."""
    text = " ".join(piece.tokens) if piece.node is None else text_of(piece.node)
    return max((" xyz".index(axis) for axis in _AXIS.findall(text)), default=1)


def parameter_nodes(function: Node) -> list[Node]:
    """Return the parameters of a function as they are declared; of ``(void)`` none."""
    declarator = function_declarator(function)
    given = child(declarator, "parameters")
    found = [] if given is None else [*listed(given), *(each for each in given.children if each.type == "...")]
    return [] if [text_of(each) for each in found] == ["void"] else found


def parameter_of(node: Node, known: Mapping[str, tuple[Definition, ...]]) -> Parameter:
    """Return a parameter; its name is empty where it has none."""
    name = declared_name(node.child_by_field_name("declarator"))
    written = plain(node, [*([] if name is None else [name]), *_default(node)])
    members, pointer = parameter_layout(written, known)
    inner = not members and holds_pointers(written, known)
    return Parameter(written, text_of(name), members, pointer, inner)


def name_of(parameter: Node) -> str:
    """Return the name of a parameter, empty where it has none."""
    return text_of(declared_name(parameter.child_by_field_name("declarator")))


def parameter_text(node: Node) -> str:
    """Return a parameter as another function may declare it: without its default and words that only kernels take."""
    return plain(node, [*_default(node), *(each for each in node.children if text_of(each) == "__grid_constant__")])


def _default(node: Node) -> list[Node]:
    return [*node.children_by_field_name("default_value"), *(each for each in node.children if each.type == "=")]


def _shared(reach: Sequence[Definition]) -> Iterator[bool]:
    """Yield, for each declaration of shared memory, whether the launch gives its size."""
    for piece in reach:
        declared = [texts(node.children) for node in piece.find("declaration")]
        declared = [each for each in declared if "__shared__" in each]
        yield from ("extern" in each for each in declared)
        if piece.tokens.count("__shared__") > len(declared):  # in a macro, or in a place where none is expected
            yield piece.node is None and "extern" in piece.tokens


def _float_atomics(piece: Definition, reach: Sequence[Definition]) -> bool:
    """Return whether a definition adds floating-point numbers atomically; where the type is not plain, it may."""
    if piece.node is None:
        return any(token in _ADDING for token in piece.tokens)
    if any(map(atomic, piece.tokens)) and _REINTERPRETED & set(piece.tokens):
        return True
    return any(not _integer_target(call, reach) for call in calls(piece.node, *_ADDING))


def _integer_target(call: Node, reach: Sequence[Definition]) -> bool:
    """Return whether every declaration of the name that an atomic function adds to declares an integer."""
    given = arguments(call)
    target = first_name(given[0]) if given else ""
    types = [
        text_of(kind)
        for piece in reach
        if target in piece.declared
        for node in piece.find(*DECLARATIONS)
        if target in texts(declares(node))
        for kind in node.children_by_field_name("type")
    ]
    return bool(types) and all(set(each.split()) & _INTEGERS for each in types)
