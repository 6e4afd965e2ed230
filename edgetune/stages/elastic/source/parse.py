"""Reads CUDA C.

    text -> tree -> functions and macros, those of headers beside the file included -> kernels

The tree is of the text as it stands, but macros that hide loops, indices, barriers or exits are written out first (see
``macros.expanded``). Other macros are not expanded, and both branches of an ``#if`` are in the tree. ``illegalities``
decides about what that leaves unclear.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from edgetune.errors import InputError
from edgetune.stages.elastic.kernel import Refusal
from edgetune.stages.elastic.source.builtins import danger
from edgetune.stages.elastic.source.diagnostics import Line, refusal
from edgetune.stages.elastic.source.directives import code_only, without_decided
from edgetune.stages.elastic.source.groups import without_groups
from edgetune.stages.elastic.source.headers import MOST_HEADERS, found_header, included, is_missing
from edgetune.stages.elastic.source.host_launches import host_launches
from edgetune.stages.elastic.source.kernel_scan import described
from edgetune.stages.elastic.source.macros import Macro, expanded, readable_tree, used
from edgetune.stages.elastic.source.operand_types import code_of
from edgetune.stages.elastic.source.parser_text import for_parser
from edgetune.stages.elastic.source.syntax import (
    CLASSES,
    Node,
    around,
    find,
    line_of,
    text_of,
    tree_of,
    walk,
    words,
)
from edgetune.stages.elastic.source.translation_unit import (
    ParsedFile,
    ParsedFunction,
    ParsedKernel,
    definitions,
    function_declarator,
    leading_words,
    name_parts,
    piece_of,
    reach,
)

_LONGEST_HEAD = 400
"""Bytes of an unreadable kernel that count as its head."""
_DECLARED = ("declaration", "field_declaration", "template_instantiation", "friend_declaration")


@dataclass(slots=True)
class _Read:
    """The trees that were read so far with their files' names, and the headers that were not found."""

    roots: list[tuple[Node, str]] = field(default_factory=list)
    missing: dict[str, Line] = field(default_factory=dict)


def parse(text: str, name: str, folders: Sequence[Path] = ()) -> ParsedFile:
    """Read a source file.

    Args:
        text: Its text.
        name: For messages.
        folders: Folders of headers, in the order of the search.

    Raises:
        InputError: the file has no kernel.
        DeviceError: tree-sitter is not installed.
    """
    source = text.encode("utf-8", "surrogateescape")
    tree = readable_tree(for_parser(source))
    read = _Read([(tree.root_node, name)])
    _read_headers(read, tree.root_node, folders)
    headers = [b"\n" * root.start_point[0] + bytes(root.text or b"") for root, _ in read.roots[1:]]
    broken = bool(tree.root_node.has_error)  # as by a macro for __device__ in front of a constructor
    out = expanded(without_decided(source, headers, read.missing), headers, specifiers=broken)
    if out.text != source:
        tree = readable_tree(for_parser(out.text))
        read.roots[0] = (tree.root_node, name)
    out, headers_read = without_groups(out, headers)
    if out.grouped:
        tree = readable_tree(for_parser(out.text))
        others = zip(headers_read, read.roots[1:], strict=True)
        read.roots = [(tree.root_node, name), *((tree_of(text).root_node, file) for text, (_, file) in others)]
    macros, functions = _macros(read.roots), _functions(read.roots)
    notes = tuple(_notes(tree.root_node, name, macros, used(source) - used(out.text)))
    parsed = ParsedFile(
        source, out, name, tree, functions, macros, definitions(read.roots, macros), read.missing,
        _changes(read.roots), _asked(tree.root_node), notes,
    )  # fmt: skip
    kernels = [each for some in functions.values() for each in some if "__global__" in each.words and each.file == name]
    launches = host_launches(tree.root_node, {each.name for each in kernels}, macros, parsed.definitions)
    for function in sorted(kernels, key=lambda each: int(each.node.start_byte)):
        start = piece_of(function.node, function.name, "function", function.file)
        reached = tuple(reach(start, parsed.definitions))
        facts = described(function, reached, parsed.definitions, launches.get(function.name, ()))
        parsed.kernels.append(ParsedKernel(facts, function, reached, parsed))
    if not parsed.kernels and not notes:
        raise _no_kernel(parsed)
    return parsed


def _no_kernel(source: ParsedFile) -> InputError:
    """Return the error for a file without kernels, which names those of a header that is not read in its place."""
    every = (each for some in source.functions.values() for each in some if "__global__" in each.words)
    for file, kernels in groupby(every, key=lambda each: each.file):
        names = ", ".join(each.name for each in kernels)
        return InputError(
            f"{source.name} has no kernel that can be made elastic; {file} has: {names}",
            f"give {file} a guard (#pragma once), and include it once, between definitions and under no #if",
        )
    wrong = source.tree.root_node.has_error and b"__global__" in code_only(source.text)
    return InputError(
        f"{source.name} {'cannot be read as CUDA C' if wrong else 'has no kernel'}",
        "a kernel is a function with __global__ in front of it and a body, in the file or in a header beside it",
    )


def _read_headers(read: _Read, root: Node, folders: Sequence[Path], header: str | None = None) -> None:
    """Add the trees of the headers that ``root`` includes, and of those that they include."""
    for node in find(root, "preproc_include"):
        wanted = included(node)
        if not wanted or any(file == wanted for _, file in read.roots):
            continue
        found = found_header(wanted, folders)
        if found is None or len(read.roots) > MOST_HEADERS:
            if found is not None or is_missing(wanted, folders):
                read.missing.setdefault(wanted, line_of(node) if header is None else (header, line_of(node)))
            continue
        inner = tree_of(for_parser(found.read_bytes())).root_node
        read.roots.append((inner, wanted))
        _read_headers(read, inner, [found.parent, *folders], wanted)


def _macros(roots: Sequence[tuple[Node, str]]) -> dict[str, tuple[Macro, ...]]:
    found: dict[str, list[Macro]] = {}
    for root, file in roots:
        for node in find(root, "preproc_def", "preproc_function_def"):
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            given = node.child_by_field_name("parameters")
            if name is not None:
                parameters = None if given is None else tuple(words(text_of(given)))
                body = "" if value is None else code_of(value).strip()
                macro = Macro(text_of(name), line_of(node), parameters, body, file)
                found.setdefault(macro.name, []).append(macro)
    return {name: tuple(each) for name, each in found.items()}


def _changes(roots: Sequence[tuple[Node, str]]) -> dict[str, tuple[int, ...]]:
    """Return where a file defines and undefines macros; any of its headers may redefine one that is defined again."""
    (root, _), *headers = roots
    found = _changed(root)
    files = {file for _, file in headers}
    includes = [int(at.start_byte) for at in find(root, "preproc_include") if included(at) in files]
    inner: dict[str, int] = {}
    for header, _ in headers:
        for name, places in _changed(header).items():
            inner[name] = inner.get(name, 0) + len(places)
    for name, often in inner.items():
        if often + len(found.get(name, ())) > 1:
            found.setdefault(name, []).extend(includes)
    return {name: tuple(each) for name, each in found.items()}


def _changed(root: Node) -> dict[str, list[int]]:
    """Return where one file defines and undefines macros."""
    found: dict[str, list[int]] = {}
    for node in find(root, "preproc_def", "preproc_function_def", "preproc_call"):
        if node.type == "preproc_call":
            directive, argument = node.child_by_field_name("directive"), node.child_by_field_name("argument")
            undone = directive is not None and text_of(directive).replace(" ", "") == "#undef" and argument is not None
            named = words(text_of(argument))[:1] if undone and argument is not None else []
        else:
            named = [text_of(each) for each in node.children_by_field_name("name")]
        for name in named:
            found.setdefault(name, []).append(int(node.start_byte))
    return found


def _asked(root: Node) -> frozenset[str]:
    """Return the names that a file tests with ``#ifdef`` and ``defined``."""
    conditions = find(root, "preproc_ifdef", "preproc_elifdef", "preproc_defined")
    return frozenset(text_of(each) for node in conditions for each in node.named_children[:1])


def _functions(roots: Sequence[tuple[Node, str]]) -> dict[str, tuple[ParsedFunction, ...]]:
    found: dict[str, list[ParsedFunction]] = {}
    for root, file in roots:
        for node in find(root, "function_definition"):
            body, parts = node.child_by_field_name("body"), name_parts(node)
            if body is None or body.type != "compound_statement" or not parts or function_declarator(node) is None:
                continue
            outer = node
            while outer.parent is not None and outer.parent.type == "template_declaration":
                outer = outer.parent
            member = len(parts) > 1 or around(outer, *CLASSES) is not None
            function = ParsedFunction(parts[-1], node, body, outer, leading_words(node), member, file)
            found.setdefault(function.name, []).append(function)
    return {name: tuple(each) for name, each in found.items()}


def _lost(node: Node, root: Node) -> Refusal:
    """Return the refusal of a kernel whose definition the parser does not see as one, with its head."""
    source = bytes(root.text or b"")[node.start_byte - root.start_byte :]
    head = source[:_LONGEST_HEAD].split(b"{")[0].decode("utf-8", "replace")
    for word in words(head):
        if (code := danger(word)) is not None:
            return refusal(code, line_of(node), None, name=word)
    return refusal("unparsable", line_of(node), None, name=" ".join(head.split())[:60])


def _notes(
    root: Node, name: str, macros: Mapping[str, tuple[Macro, ...]], written_out: Collection[str]
) -> Iterator[Refusal]:
    """Yield what looks like a kernel and is none: declared only, defined by a macro, or in text that cannot be read."""
    for each in (one for some in macros.values() for one in some):
        seen = each.name == "__global__" or each.name in written_out
        if each.file == name and not seen and "__global__" in words(each.body):
            yield refusal("macro-kernel", each.line, None, name=each.name)
    defined, declared = set(), []
    for node in walk(root):
        if node.children or text_of(node) != "__global__":
            continue
        function = around(node, "function_definition", *_DECLARED, "preproc_def")
        lost = function is None or (function.type == "function_definition" and not name_parts(function))
        lost = lost or (function is not None and function.type == "declaration" and function.has_error)
        if lost:
            yield _lost(node, root)
        elif function is not None and function.type == "function_definition":
            defined.add(name_parts(function)[-1])
        elif function is not None and function.type == "declaration" and function_declarator(function) is not None:
            declared.append(function)
    for declaration in declared:
        parts = name_parts(declaration)
        if parts and parts[-1] not in defined:
            yield refusal("declared-only", line_of(declaration), None, name=parts[-1])
