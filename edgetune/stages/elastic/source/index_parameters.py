"""Functions that read the launch indices themselves, in copies that take the logical ones as parameters.

    __device__ int row() { return blockIdx.x; }
    -> static __device__ int edgetune_vadd_row(const uint3 edgetune_blockIdx, ...) { return edgetune_blockIdx.x; }

Each kernel gets copies of its own, with the indices as parameters before the function's own; calls in the kernel and in
other copies pass them on. A function that is used other than by a call of its plain name cannot be copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from edgetune.stages.elastic.source.builtins import INDICES
from edgetune.stages.elastic.source.kernel_scan import parameter_nodes
from edgetune.stages.elastic.source.syntax import (
    CLASSES,
    CONDITIONS,
    Edit,
    Node,
    above,
    arguments,
    around,
    child,
    edited,
    find,
    has,
    line_mark,
    line_of,
    mentions,
    replaced,
    squeezed,
    text_of,
    texts,
)
from edgetune.stages.elastic.source.translation_unit import (
    Definition,
    ParsedFile,
    ParsedFunction,
    ParsedKernel,
    function_declarator,
    naming,
)


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
    names, found = naming(builtins, functions), dict[str, Definition]()
    for each in functions:
        if each.name in names and set(each.tokens) & {*builtins, *names - {each.name}}:
            found.setdefault(each.name, each)
    return found


def unreachable_indices(
    kernel: ParsedKernel, hidden: frozenset[str], builtins: frozenset[str]
) -> Iterator[tuple[Literal["hidden", "helper"], Definition, Node | str | None, dict[str, str]]]:
    """Yield what reads an index of the launch and cannot take the logical one.

    Args:
        kernel: The kernel.
        hidden: The built-in variables that no type and no variable of the file may read.
        builtins: Those that functions get as parameters.

    Yields:
        Whether the index is hidden or a helper function reads it; the definition; the node or the word that reads it,
        where there is one; and the fields of the reason.
    """
    for piece in kernel.reach[1:]:
        for index in sorted(hidden & set(piece.tokens)) if piece.kind in ("type", "variable") else ():
            yield "hidden", piece, index, {"name": piece.name or "a class"}
    copied = readers(kernel, builtins)
    for name, piece in copied.items():
        why = _why_not(kernel, name, copied)
        if why is not None:
            yield "helper", piece, None, {"name": name, "why": why}
    for piece in (kernel.reach[0], *copied.values()):
        for node in mentions(piece.node, {*builtins, *copied}):
            what = _hiding_scope(node, piece)
            if what is not None:
                yield "hidden", piece, node, {"name": what}


def _hiding_scope(node: Node, piece: Definition) -> str | None:
    """Return what around a node hides it: a class, a default value, a lambda that names its captures."""
    if around(node, "optional_parameter_declaration", within=piece.node) is not None:
        return "a default value"
    scope = around(node, "lambda_expression", *CLASSES, within=piece.node)
    if scope is None:
        return None
    captures = scope.child_by_field_name("captures")
    everything = captures is not None and squeezed(captures)[1:2] in ("=", "&")
    if everything and around(scope, *CLASSES, within=piece.node) is None:
        return None
    return "a lambda" if scope.type == "lambda_expression" else "a class in the kernel"


def _why_not(kernel: ParsedKernel, name: str, copied: Collection[str]) -> str | None:
    """Return why a function cannot take the logical indices, or ``None`` where it can.

    Args:
        kernel: The kernel that calls it.
        name: Of the function.
        copied: All functions that would be copied with it.
    """
    source, behind = kernel.source, kernel.node.start_byte
    functions = source.functions.get(name, ())
    reasons = {
        "it belongs to a class or is an operator": (
            not functions or name == "operator" or any(each.member for each in functions)
        ),
        "it is given cooperative groups of several kinds": name in source.expanded.several,
        "its text cannot be read in full": any(each.node.has_error for each in functions),
        "it reads them before its body begins": any(_outside(each) for each in functions),
        "it stands in another namespace or under another #if than the kernel": any(
            _place(each) != _place(kernel.function) for each in functions
        ),
        "functions that it calls are overloaded between it and the kernel": _overloaded_since(
            source, functions, behind
        ),
        "it is defined behind the kernel": any(
            each.file == source.name and each.node.start_byte > behind for each in functions
        ),
    }
    return next((reason for reason, so in reasons.items() if so), None) or _used_otherwise(kernel, name, copied)


def _used_otherwise(kernel: ParsedKernel, name: str, copied: Collection[str]) -> str | None:
    """Return where a function is used such that it can take no index."""
    for piece in kernel.reach:
        copy = piece is kernel.reach[0] or piece.name in copied
        if name in piece.tokens and not (copy or (piece.kind == "variable" and _prototype(piece, name))):
            return f"{piece.name} uses it too, and is no function that could hand them on"
        if copy and piece.node is not None and not all(_call(each) for each in _uses(piece.node, name)):
            return "it is not only called by its plain name"
    return None


def _overloaded_since(source: ParsedFile, functions: Sequence[ParsedFunction], end: int) -> bool:
    """Return whether a copy in front of ``end`` might call another function than the original does."""
    start = min((int(each.node.start_byte) for each in functions if each.file == source.name), default=0)
    called = {name for each in functions for name in texts(find(each.body, "identifier"))}
    overloads = (source.functions[name] for name in called if len(source.functions.get(name, ())) > 1)
    return any(each.file == source.name and start < each.node.start_byte < end for one in overloads for each in one)


def _outside(function: ParsedFunction) -> bool:
    start, end = int(function.body.start_byte), int(function.body.end_byte)
    return any(not start <= each.start_byte < end for each in mentions(function.outer, INDICES))


def _prototype(piece: Definition, name: str) -> bool:
    """Return whether a definition is a mere declaration of a function."""
    return piece.name == name and has(piece.node, "function_declarator")


def _uses(node: Node, name: str) -> Iterator[Node]:
    """Yield the mentions of a function, except where it is defined."""
    for each in mentions(node, {name}):
        outer = each.parent
        if outer is not None and outer.type == "template_function":
            outer = outer.parent
        if outer is None or outer.type != "function_declarator":
            yield each


def _call(name: Node) -> Node | None:
    """Return the call whose function is ``name``, its plain name; ``None`` where it is used otherwise."""
    function, here = name, name.parent
    if here is not None and here.type == "template_function":
        function, here = here, here.parent
    if here is None or here.type != "call_expression" or here.child_by_field_name("function") != function:
        return None
    return here


def _place(function: ParsedFunction) -> tuple[str, ...]:
    """Return the namespaces and conditions around a function, innermost first, without a header's guard."""
    found = []
    for here in above(function.outer):
        if here.type == "namespace_definition":
            found.append(text_of(here.child_by_field_name("name")))
        elif here.type in CONDITIONS and not _guard(here):
            found.append(f"#{here.start_byte}")
    return tuple(found)


def _guard(node: Node) -> bool:
    """Return whether a condition is the guard of a header or file: ``#ifndef X``, then ``#define X``."""
    first = next((each for each in node.named_children if each.type == "preproc_def"), None)
    defined = child(first, "name")
    return defined is not None and text_of(defined) == text_of(node.child_by_field_name("name"))


def index_edits(node: Node, indices: Sequence[Index]) -> list[Edit]:
    """Return the edits that put parameters in place of built-in variables."""
    names = {each.builtin: each.name for each in indices}
    return [replaced(each, names[text_of(each)]) for each in mentions(node, names)]


def call_edits(node: Node, copies: Mapping[str, str], indices: Sequence[Index]) -> list[Edit]:
    """Return the edits that call copies in place of functions and pass the indices on.

    Args:
        node: The code with the calls.
        copies: The name of each copy by that of its function.
        indices: The parameters of the copies.
    """
    edits = []
    for name in mentions(node, copies):
        call = _call(name)
        given = child(call, "arguments")
        if call is None or given is None:
            continue
        handed = ", ".join(each.name for each in indices) + (", " if arguments(call) else "")
        edits += [replaced(name, copies[text_of(name)]), Edit(given.start_byte + 1, given.start_byte + 1, handed)]
    return edits


def copies_of(
    source: ParsedFile, functions: Collection[str], indices: Sequence[Index], prefix: str
) -> tuple[str, dict[str, str]]:
    """Return the copies of a kernel's functions, declarations first, and their names by those of the functions.

    Args:
        source: The file.
        functions: Their names; each can take the indices.
        indices: The parameters that they get.
        prefix: Of the names of the copies.
    """
    names = {each: f"{prefix}{each}" for each in functions}
    found = sorted(
        (each for name in functions for each in source.functions[name]),
        key=lambda each: (each.file == source.name, int(each.node.start_byte)),
    )
    heads = bodies = ""
    for each in found:
        head = _head(each, names, indices)
        if not each.template and not has(each.node, "optional_parameter_declaration"):  # defaults are given once
            heads += f"{head};\n"
        edits = [*index_edits(each.body, indices), *call_edits(each.body, names, indices)]
        bodies += f"{head}\n{line_mark(line_of(each.body), each.file)}{edited(each.body, edits)}\n"
    return heads + bodies, names


def _head(function: ParsedFunction, names: Mapping[str, str], indices: Sequence[Index]) -> str:
    """Return the head of a copy: the original's with another name and more parameters."""
    declarator = function_declarator(function.node)
    assert declarator is not None  # or it would not be in the table of functions
    name, given = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("parameters")
    assert given is not None
    named = next(find(name, "identifier"))  # of a specialisation, without its arguments
    first = ", ".join(f"{each.type} {each.name}" for each in indices)
    inside = given.start_byte + 1
    cut = replaced(given, f"({first})") if not parameter_nodes(function.node) else Edit(inside, inside, f"{first}, ")
    whole = edited(function.outer, [replaced(named, names[function.name]), cut, replaced(function.body, "")])
    return whole.rstrip()
