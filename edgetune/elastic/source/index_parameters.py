"""Functions that read the launch for themselves, in forms that are given the logical one.

    __device__ int row() { return blockIdx.x; }
    -> static __device__ int edgetune_vadd_row(const uint3 edgetune_blockIdx, ...) { return edgetune_blockIdx.x; }

A kernel's function is copied for it, with the indices as parameters in front of its own; calls in the kernel and in
other copies are given them. A function that is anything but called by its plain name cannot be copied so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.elastic.source.builtins import INDICES
from edgetune.elastic.source.syntax import (
    Edit,
    arguments,
    edited,
    find,
    line_mark,
    line_of,
    mentions,
    replaced,
    text_of,
)
from edgetune.elastic.source.translation_unit import Definition, function_declarator

if TYPE_CHECKING:
    from tree_sitter import Node

    from edgetune.elastic.source.translation_unit import ParsedFile, ParsedFunction, ParsedKernel

_CONDITIONS = ("preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef")


@dataclass(frozen=True, slots=True)
class Index:
    """A built-in variable and the parameter that takes its place.

    Args:
        builtin: E.g. ``blockIdx``.
        name: E.g. ``edgetune_blockIdx``.
        type: Of the parameter.
    """

    builtin: str
    name: str
    type: str


BLOCK_INDEX = Index("blockIdx", "edgetune_blockIdx", "const uint3")
GRID_DIM = Index("gridDim", "edgetune_gridDim", "const dim3")
THREAD_INDEX = Index("threadIdx", "edgetune_threadIdx", "const uint3")
BLOCK_DIM = Index("blockDim", "edgetune_blockDim", "const dim3")


def readers(kernel: ParsedKernel, builtins: Collection[str]) -> dict[str, Definition]:
    """Return the functions that a kernel reaches and that read one of these variables, or call one that does."""
    functions = [piece for piece in kernel.reach[1:] if piece.kind == "function"]
    found: dict[str, Definition] = {}
    grown = True
    while grown:
        grown = False
        for piece in functions:
            if piece.name not in found and (set(piece.tokens) - {piece.name}) & {*builtins, *found}:
                found[piece.name] = piece
                grown = True
    return found


def why_not(translation_unit: ParsedFile, kernel: ParsedKernel, name: str, copied: Collection[str]) -> str | None:
    """Return why a function cannot be given the logical indices, or ``None`` where it can.

    Args:
        translation_unit: The file.
        kernel: Which calls it.
        name: Of the function.
        copied: All functions that would be copied with it.
    """
    functions = translation_unit.functions.get(name, ())
    behind = kernel.node.start_byte
    reasons = {
        "it belongs to a class or is an operator": (
            not functions or name == "operator" or any(each.member for each in functions)
        ),
        "its text cannot be read in full": any(each.node.has_error for each in functions),
        "it reads them before its body begins": any(_outside(each) for each in functions),
        "it stands in another namespace or under another #if than the kernel": any(
            _place(each) != _place(kernel.function) for each in functions
        ),
        "functions that it calls are overloaded between it and the kernel": _overloaded_since(
            translation_unit, functions, behind
        ),
        "it is defined behind the kernel": any(
            each.file == translation_unit.name and each.node.start_byte > behind for each in functions
        ),
    }
    return next((reason for reason, so in reasons.items() if so), None) or _used_otherwise(kernel, name, copied)


def _used_otherwise(kernel: ParsedKernel, name: str, copied: Collection[str]) -> str | None:
    """Return where a function is used such that no index can be handed to it."""
    for piece in kernel.reach:
        copy = piece is kernel.reach[0] or piece.name in copied
        if name in piece.tokens and not (copy or (piece.kind == "variable" and _prototype(piece, name))):
            return f"{piece.name} uses it too, and is no function that could hand them on"
        if copy and piece.node is not None and not all(_called(each) for each in _uses(piece.node, name)):
            return "it is not only called by its plain name"
    return None


def _overloaded_since(translation_unit: ParsedFile, functions: Sequence[ParsedFunction], end: int) -> bool:
    """Return whether a copy in front of ``end`` might call another function than the original does."""
    start = min((int(each.node.start_byte) for each in functions if each.file == translation_unit.name), default=0)
    called = {text_of(each) for one in functions for each in find(one.body, "identifier")}
    overloads = [
        each
        for name in called
        for each in translation_unit.functions.get(name, ())
        if len(translation_unit.functions[name]) > 1
    ]
    return any(each.file == translation_unit.name and start < each.node.start_byte < end for each in overloads)


def _outside(function: ParsedFunction) -> bool:
    within = (int(function.body.start_byte), int(function.body.end_byte))
    return any(not within[0] <= each.start_byte < within[1] for each in mentions(function.outer, INDICES))


def _defaults(function: ParsedFunction) -> bool:
    """Return whether a function has default arguments, which may be said but once."""
    return any(find(function.node, "optional_parameter_declaration"))


def _prototype(piece: Definition, name: str) -> bool:
    """Return whether a declaration only says that a function is there."""
    return piece.name == name and piece.node is not None and any(find(piece.node, "function_declarator"))


def _uses(node: Node, name: str) -> Iterator[Node]:
    """Yield the mentions of a function, but where it is defined."""
    for each in mentions(node, {name}):
        around_it = each.parent
        if around_it is not None and around_it.type == "template_function":
            around_it = around_it.parent
        if around_it is None or around_it.type != "function_declarator":
            yield each


def _call(name: Node) -> Node | None:
    """Return the call of which ``name`` is the function, by its plain name."""
    here = name.parent
    function = name
    if here is not None and here.type == "template_function":
        function, here = here, here.parent
    if here is None or here.type != "call_expression" or here.child_by_field_name("function") != function:
        return None
    return here


def _called(name: Node) -> bool:
    return _call(name) is not None


def _place(function: ParsedFunction) -> tuple[str, ...]:
    """Return the namespaces and conditions around a function, outermost first; a header's guard is none."""
    found = []
    here = function.outer.parent
    while here is not None:
        if here.type == "namespace_definition":
            name = here.child_by_field_name("name")
            found.append("" if name is None else text_of(name))
        elif here.type in _CONDITIONS and not _guard(here):
            found.append(f"#{here.start_byte}")
        here = here.parent
    return tuple(reversed(found))


def _guard(node: Node) -> bool:
    """Return whether a condition is that of a header's or a file's guard: ``#ifndef X`` and at once ``#define X``."""
    name = node.child_by_field_name("name")
    first = next((each for each in node.named_children if each.type == "preproc_def"), None)
    defined = None if first is None else first.child_by_field_name("name")
    return name is not None and defined is not None and text_of(name) == text_of(defined)


def index_edits(node: Node, indices: Sequence[Index]) -> list[Edit]:
    """Return the edits that put parameters in place of built-in variables."""
    names = {each.builtin: each.name for each in indices}
    return [replaced(each, names[text_of(each)]) for each in mentions(node, names)]


def call_edits(node: Node, copies: Mapping[str, str], indices: Sequence[Index]) -> list[Edit]:
    """Return the edits that call copies instead of functions, and hand the indices on.

    Args:
        node: In which there are calls.
        copies: The name of the copy by that of the function.
        indices: What the copies are given.
    """
    edits = []
    for name in mentions(node, copies):
        call = _call(name)
        if call is None:
            continue
        given = call.child_by_field_name("arguments")
        assert given is not None  # a call has arguments, if none
        handed = ", ".join(each.name for each in indices) + (", " if arguments(call) else "")
        edits += [replaced(name, copies[text_of(name)]), Edit(given.start_byte + 1, given.start_byte + 1, handed)]
    return edits


def copies_of(
    translation_unit: ParsedFile, functions: Collection[str], indices: Sequence[Index], prefix: str
) -> tuple[str, dict[str, str]]:
    """Return the copies of a kernel's functions, declarations first, and their names by those of the functions.

    Args:
        translation_unit: The file.
        functions: Their names; ``why_not`` has nothing against them.
        indices: What they are given.
        prefix: Of the names of the copies.
    """
    names = {each: f"{prefix}{each}" for each in functions}
    found = sorted(
        (each for name in functions for each in translation_unit.functions[name]),
        key=lambda each: (each.file == translation_unit.name, int(each.node.start_byte)),
    )
    heads = "".join(f"{_head(each, names, indices)};\n" for each in found if not each.template and not _defaults(each))
    bodies = ""
    for each in found:
        edits = [*index_edits(each.body, indices), *call_edits(each.body, names, indices)]
        bodies += f"{_head(each, names, indices)}\n{line_mark(line_of(each.body), each.file)}"
        bodies += f"{edited(each.body, edits)}\n"
    return heads + bodies, names


def _head(function: ParsedFunction, names: Mapping[str, str], indices: Sequence[Index]) -> str:
    """Return the head of a copy on lines of its own: the original's with another name and more parameters."""
    declarator = function_declarator(function.node)
    assert declarator is not None  # or it would not be in the table of functions
    name, given = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("parameters")
    assert name is not None
    assert given is not None
    named = next(find(name, "identifier"))  # of a specialisation, without its arguments
    parameters = [each for each in given.children if (each.is_named and each.type != "comment") or each.type == "..."]
    none = not parameters or [text_of(each) for each in parameters] == ["void"]
    first = ", ".join(f"{each.type} {each.name}" for each in indices)
    cut = Edit(given.start_byte, given.end_byte, f"({first})") if none else Edit(
        given.start_byte + 1, given.start_byte + 1, f"{first}, "
    )  # fmt: skip
    body = function.body
    whole = edited(function.outer, [replaced(named, names[function.name]), cut, replaced(body, "")])
    return whole.rstrip()
