"""Reads CUDA C.

    text -> tree -> functions and macros, those of headers beside the file included -> kernels

The tree is of the text as it stands, but macros that hide loops, indices, barriers or exits are written out first (see
``macros.expanded``). Other macros are not expanded, and both branches of an ``#if`` are in the tree. ``illegalities``
decides about what that leaves unclear.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgetune.errors import InputError
from edgetune.stages.elastic.kernel import Refusal
from edgetune.stages.elastic.source.builtins import HEADERS, danger
from edgetune.stages.elastic.source.diagnostics import refusal
from edgetune.stages.elastic.source.groups import without_groups
from edgetune.stages.elastic.source.kernel_scan import described
from edgetune.stages.elastic.source.macros import Macro, expanded, for_parser, used, without_invocations
from edgetune.stages.elastic.source.syntax import (
    CLASSES,
    Node,
    Tree,
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

_MOST_HEADERS = 200
"""Headers that are read for one file: enough for a library of kernels. Headers may include each other."""
_LONGEST_HEAD = 400
"""Bytes of an unreadable kernel that count as its head."""
_DECLARED = ("declaration", "field_declaration", "template_instantiation", "friend_declaration")


@dataclass(slots=True)
class _Read:
    """The trees that were read so far with their files' names, and the headers that were not found."""

    roots: list[tuple[Node, str]] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)


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
    tree = _tree(for_parser(source))
    read = _Read([(tree.root_node, name)])
    _read_headers(read, tree.root_node, folders, top=True)
    out = expanded(source, [bytes(root.text or b"") for root, _ in read.roots[1:]])
    if out.stretches:
        tree = _tree(for_parser(out.text))
        read.roots[0] = (tree.root_node, name)
    headers = [b"\n" * root.start_point[0] + bytes(root.text or b"") for root, _ in read.roots[1:]]
    out, headers_read = without_groups(out, headers)
    if out.grouped:
        tree = _tree(for_parser(out.text))
        others = zip(headers_read, read.roots[1:], strict=True)
        read.roots = [(tree.root_node, name), *((tree_of(text).root_node, file) for text, (_, file) in others)]
    macros, functions = _macros(read.roots), _functions(read.roots)
    notes = tuple(_notes(tree.root_node, name, macros, used(source) - used(out.text)))
    parsed = ParsedFile(
        source, out, name, tree, functions, macros, definitions(read.roots, macros), read.missing,
        _changes(read.roots), _asked(tree.root_node), notes,
    )  # fmt: skip
    kernels = (each for some in functions.values() for each in some if "__global__" in each.words and each.file == name)
    for function in sorted(kernels, key=lambda each: int(each.node.start_byte)):
        start = piece_of(function.node, function.name, "function", function.file)
        reached = tuple(reach(start, parsed.definitions))
        parsed.kernels.append(ParsedKernel(described(function, reached), function, reached, parsed))
    if not parsed.kernels and not notes:
        code = re.sub(rb"//[^\n]*|/\*.*?\*/", b" ", source, flags=re.DOTALL)
        wrong = tree.root_node.has_error and b"__global__" in code
        raise InputError(
            f"{name} {'cannot be read as CUDA C' if wrong else 'has no kernel'}",
            "a kernel is a function with __global__ in front of it and a body, in the file itself",
        )
    return parsed


def _tree(source: bytes) -> Tree:
    """Return the syntax of a file, without invocations of its macros at file level where they break the tree."""
    tree = tree_of(source)
    if not tree.root_node.has_error:
        return tree
    defined = find(tree.root_node, "preproc_function_def")
    called = {text_of(name) for each in defined for name in each.children_by_field_name("name")}
    without = without_invocations(source, called)
    return tree if without == source else tree_of(without)


def _read_headers(read: _Read, root: Node, folders: Sequence[Path], top: bool) -> None:
    """Add the trees of the headers that ``root`` includes, and of those that they include."""
    for node in find(root, "preproc_include"):
        wanted = included(node)
        if not wanted or any(file == wanted for _, file in read.roots):
            continue
        found = next((each / wanted for each in folders if _readable(each / wanted)), None)
        if found is None or len(read.roots) > _MOST_HEADERS:
            if not HEADERS.fullmatch(wanted):
                read.missing.setdefault(wanted, line_of(node) if top else 1)
            continue
        inner = tree_of(for_parser(found.read_bytes())).root_node
        read.roots.append((inner, wanted))
        _read_headers(read, inner, [found.parent, *folders], top=False)


def included(node: Node) -> str:
    """Return the header that an ``#include`` names, without brackets or quotes; empty where it names none."""
    path = node.child_by_field_name("path")
    return "" if path is None else text_of(path).strip('<>" \t')


def _readable(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # too long a name, or one with a NUL character
        return False


def _macros(roots: Sequence[tuple[Node, str]]) -> dict[str, tuple[Macro, ...]]:
    found: dict[str, list[Macro]] = {}
    for root, file in roots:
        for node in find(root, "preproc_def", "preproc_function_def"):
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            given = node.child_by_field_name("parameters")
            if name is not None:
                parameters = None if given is None else tuple(words(text_of(given)))
                macro = Macro(text_of(name), line_of(node), parameters, "" if value is None else text_of(value), file)
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
