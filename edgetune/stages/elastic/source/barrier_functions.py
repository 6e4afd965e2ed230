"""Functions and methods at whose barriers or warp primitives the threads of a kernel meet.

    __device__ void f(float *s, int n) { if (n > 3) return; ... __syncthreads(); }      a barrier of f is a place where
    __device__ void g(float *s, int n) { f(s, n + 1); }                                 threads of f's and g's callers
    __global__ void k(float *x) { ... g(s, 5); ... }                                    meet, if all of them get there

A parameter of such a function is the same for all threads of a block if every call gives it a value that is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

from edgetune.stages.elastic.source.builtins import BARRIERS
from edgetune.stages.elastic.source.kernel_scan import name_of, parameter_nodes
from edgetune.stages.elastic.source.operand_types import class_of
from edgetune.stages.elastic.source.syntax import (
    DEFAULTS,
    LOOPS,
    Node,
    above,
    arguments,
    around,
    called_name,
    calls,
    mentioning,
    names,
    own,
    text_of,
    texts,
    walk,
)
from edgetune.stages.elastic.source.translation_unit import (
    CALLED_BY,
    Definition,
    ParsedKernel,
    declares,
    name_parts,
    naming,
)
from edgetune.stages.elastic.source.uniformity import Uniformity, uniformity

_AROUND_NAMES = ("template_function", "template_method", "dependent_name", "qualified_identifier",
                 "parenthesized_expression", "field_expression")  # fmt: skip
_LITERALS = ("number_literal", "true", "false", "char_literal")


@dataclass(slots=True, eq=False)
class Holder:
    """A function that holds a barrier or a warp primitive, itself or in functions that it calls.

    Args:
        name: Without scopes.
        node: Its definition.
        body: Its statements.
        piece: The definition that it is, or is a method of.
        varying: Names of the parameters that may differ between threads of a block.
    """

    name: str
    node: Node
    body: Node
    piece: Definition
    varying: set[str] = field(default_factory=set)


def holders(kernel: ParsedKernel, wanted: Collection[str]) -> list[Holder]:
    """Return the functions and methods that a kernel reaches and that come to a call of one of these functions.

    Args:
        kernel: The kernel.
        wanted: Barriers, or warp primitives.
    """
    every = [each for piece in kernel.reach[1:] if piece.node is not None for each in _functions(piece)]
    found = mentioning(wanted, [(each.name, texts(_used(each.body))) for each in every])
    return [each for each in every if each.name in found]


def _functions(piece: Definition) -> Iterator[Holder]:
    for node in piece.find("function_definition"):
        body, parts = node.child_by_field_name("body"), name_parts(node)
        if body is not None and body.type == "compound_statement":
            yield Holder(parts[-1] if parts else "operator", node, body, piece)


def meetings(body: Node, wanted: Collection[str]) -> list[Node]:
    """Return the names in code that call one of some functions or methods, or mean one of the functions."""
    return [each for each in _used(body) if text_of(each) in wanted]


@lru_cache(maxsize=64)  # several rules ask, for barriers and for warp primitives
def _used(body: Node) -> tuple[Node, ...]:
    """Return the names in code that are called, and those that mean neither a variable of the code nor a field."""
    local = texts(name for node in walk(body) for name in declares(node))
    return tuple(
        name
        for name in names(body)
        if _is_called(name) or (name.type != "field_identifier" and text_of(name) not in local)
    )


def _is_called(name: Node) -> bool:
    here, outer = name, name.parent
    while outer is not None and outer.type in _AROUND_NAMES:
        here, outer = outer, outer.parent
    return outer is not None and outer.type == "call_expression" and outer.child_by_field_name("function") == here


def called_word(call: Node) -> str:
    """Return the name that a call names, without scopes and also of ``(f)(x)``; empty where it has none."""
    inside = call.child_by_field_name("function")
    if inside is not None and inside.type == "parenthesized_expression":
        return next((text_of(each) for each in reversed(list(names(inside)))), "")
    return text_of(called_name(call))


def called_unseen(holder: Holder) -> bool:
    """Return whether a function is an operator, a constructor or a destructor, or one of ranges: calls do not show."""
    unseen = {*chain.from_iterable(CALLED_BY.values()), class_of(holder.node)}
    return "operator" in (holder.name, *name_parts(holder.node)) or holder.name in unseen


def names_of(kernel: ParsedKernel, held: Collection[Holder]) -> set[str]:
    """Return the names of functions, and of the macros that name one of them, or another such macro."""
    functions = {each.name for each in held}
    return functions | naming(functions, (each for each in kernel.reach if each.kind == "macro"))


def hidden(
    kernel: ParsedKernel, held: Collection[Holder], wanted: Collection[str]
) -> Iterator[tuple[Node, Definition]]:
    """Yield the names of barriers, and of functions with some, from which it does not show where they are called.

    These are names in default values and lists that initialise fields, in lambdas, and names that are not called.

    Args:
        kernel: The kernel.
        held: The functions that come to a call of one of ``wanted``.
        wanted: Barriers, or warp primitives.
    """
    every = {*wanted, *names_of(kernel, held)}
    for piece in kernel.reach:
        values = (each.child_by_field_name("default_value") for each in piece.find(*DEFAULTS))
        for part in (*values, *piece.find("field_initializer_list")):
            yield from ((name, piece) for name in names(part) if text_of(name) in every)
    for body, piece in ((kernel.body, kernel.reach[0]), *((each.body, each.piece) for each in held)):
        for name in meetings(body, every):
            if not _is_called(name) or around(name, "lambda_expression", within=body) is not None:
                yield name, piece


def parted(kernel: ParsedKernel) -> tuple[set[str], set[str]]:
    """Return the functions that hold a barrier, and those of them at whose last barrier not all threads may meet."""
    held = holders(kernel, BARRIERS)
    if not held:
        return set(), set()
    uniform = _with_parameters(kernel, held)
    every, found = {each.name for each in held}, set[str]()

    def parts(each: Holder) -> bool:
        return bool(apart(each.body, BARRIERS | every, found, uniform[each], _end(each.body, uniform[each])))

    while more := {each.name for each in held if each.name not in found and parts(each)}:
        found |= more
    return every, found


def apart(
    body: Node, wanted: Collection[str], parts: Collection[str], uniform: Uniformity, end: int | None = None
) -> list[Node]:
    """Return the calls at which only some threads may meet, behind the last one at which all do.

    Args:
        body: Of a kernel or a function.
        wanted: Barriers, and the functions that hold one.
        parts: The functions at whose own last barrier not all threads may meet.
        uniform: The uniform values of the code.
        end: Where some threads leave the code, in bytes; ``None`` where all get to its end or it does not matter.
    """

    def together(name: Node) -> bool:
        return (
            (end is None or name.start_byte <= end) and text_of(name) not in parts and uniform.same_for_all(name, body)
        )

    found = [(each, together(each)) for each in meetings(body, wanted)]
    last = max((int(each.start_byte) for each, all_there in found if all_there), default=-1)
    return [each for each, all_there in found if not all_there and each.start_byte > last]


def _end(body: Node, uniform: Uniformity) -> int | None:
    """Return where some threads leave a function, and others do not."""
    returns = own(body, "return_statement")
    return min((start_of(each, body) for each in returns if not uniform.all_return(each)), default=None)


def start_of(leave: Node, body: Node) -> int:
    """Return from where on code is behind a ``return``: the start of the outermost loop around it, or its own."""
    loops = [each for each in above(leave, body) if each.type in (*LOOPS, "for_range_loop")]
    return int(loops[-1].start_byte if loops else leave.start_byte)


def _with_parameters(kernel: ParsedKernel, held: list[Holder]) -> Mapping[Holder, Uniformity]:
    """Return the uniform values of functions, given what their calls give them."""
    by_name: dict[str, list[Holder]] = {}
    for each in held:
        by_name.setdefault(each.name, []).append(each)
        each.varying |= {name_of(node) for node in parameter_nodes(each.node) if _varying_default(node)}
    while True:
        before = sum(len(each.varying) for each in held)
        uniform = {each: uniformity(kernel, each.node, each.body, varying=frozenset(each.varying)) for each in held}
        for body, known in [(kernel.body, uniformity(kernel)), *((each.body, uniform[each]) for each in held)]:
            for call in calls(body):
                for other in by_name.get(called_word(call), ()):
                    given = zip(parameter_nodes(other.node), arguments(call), strict=False)
                    other.varying |= {name_of(node) for node, value in given if not known.expression(value)}
        if sum(len(each.varying) for each in held) == before:
            return uniform


def _varying_default(node: Node) -> bool:
    value = node.child_by_field_name("default_value")
    return value is not None and value.type not in _LITERALS
