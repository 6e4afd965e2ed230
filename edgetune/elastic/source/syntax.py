"""Small questions to a syntax tree.

    for (int i = 0; i < n; ++i) y[i] = 0;      for_statement
                                                 declaration, binary_expression, update_expression, expression_statement

Nodes are those of tree-sitter, with its CUDA grammar. They know their own text, so that a node of a header and a node
of the file itself are asked alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


NAME = re.compile(r"[A-Za-z_]\w*")
_NO_NAME = re.compile(
    r'//.*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|(?<!\w)\.?\d(?:[eEpP][+-]|\'(?=\w)|[\w.])*', re.DOTALL
)
"""Comments, strings, characters, and numbers (as the C++ standard, [lex.ppnumber], has them)."""
_MEMBER = re.compile(r"(?:(?<!\.)\.|->)\s*[A-Za-z_]\w*")

_NAMES = ("identifier", "type_identifier", "field_identifier", "namespace_identifier", "statement_identifier")
_SCOPES = ("lambda_expression", "class_specifier", "struct_specifier", "union_specifier")


def text_of(node: Node) -> str:
    """Return the source of a node, byte for byte: what is no UTF-8 survives as surrogates."""
    return bytes(node.text or b"").decode("utf-8", "surrogateescape")


def line_of(node: Node) -> int:
    """Return the line on which a node begins, from 1."""
    return int(node.start_point[0]) + 1


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all below it, in the order of the source."""
    stack = [node]
    while stack:
        here = stack.pop()
        yield here
        stack.extend(reversed(here.children))


def deeper_than(node: Node, levels: int) -> bool:
    """Return whether anything in ``node`` is nested deeper than this."""
    here, depth = [node], 0
    while here and depth <= levels:
        here, depth = [child for each in here for child in each.children], depth + 1
    return bool(here)


def find(node: Node, *types: str) -> Iterator[Node]:
    """Yield the nodes of these types in ``node``, itself included, in the order of the source."""
    return (each for each in walk(node) if each.type in types)


def names(node: Node) -> Iterator[Node]:
    """Yield every node that is a name: of a variable, a type, a field, a namespace or a label."""
    return (each for each in walk(node) if each.type in _NAMES)


def mentions(node: Node, wanted: Collection[str]) -> Iterator[Node]:
    """Yield the plain identifiers in ``node`` with one of these names (fields of structs are none).

    ``dim3 size(blockDim);`` reads as a function that takes a type blockDim: types are names too.
    """
    return (each for each in find(node, "identifier", "type_identifier") if text_of(each) in wanted)


def callee(call: Node) -> str:
    """Return what a call calls, without template arguments: ``f``, ``a::f``, ``s.f``; ``""`` where it has no name."""
    function = call.child_by_field_name("function")
    if function is not None and function.type in ("template_function", "template_method"):
        function = function.child_by_field_name("name")
    return "" if function is None else re.sub(r"\s+", "", text_of(function))


def calls(node: Node, *wanted: str) -> Iterator[Node]:
    """Yield the calls in ``node`` of functions with one of these names; all calls where none is given."""
    return (each for each in find(node, "call_expression") if not wanted or callee(each) in wanted)


def arguments(call: Node) -> list[Node]:
    """Return the arguments of a call."""
    given = call.child_by_field_name("arguments")
    return [] if given is None else [each for each in given.named_children if each.type != "comment"]


def around(node: Node, *types: str, within: Node) -> Node | None:
    """Return the nearest node of one of these types around ``node`` and inside ``within``, or ``None``."""
    here = node.parent
    while here is not None and here != within:
        if here.type in types:
            return here
        here = here.parent
    return None


def own(node: Node, *types: str) -> Iterator[Node]:
    """Yield nodes as ``find`` does, but none of lambdas and classes inside ``node``: their ``return`` is their own."""
    stack = list(reversed(node.children))
    while stack:
        here = stack.pop()
        if here.type in _SCOPES:
            continue
        if here.type in types:
            yield here
        stack.extend(reversed(here.children))


def declared_name(declarator: Node | None) -> Node | None:
    """Return the name that a declarator declares: of ``*(&a)[3] = ...`` the ``a``; ``None`` where there is none."""
    here = declarator
    while here is not None and here.type not in _NAMES:
        inner = here.child_by_field_name("declarator")
        if inner is None:  # parentheses and references have no field for what is in them
            inside = [each for each in here.named_children if "declarator" in each.type or each.type in _NAMES]
            inner = inside[-1] if inside else None
        here = inner
    return here


def free_words(text: str) -> list[str]:
    """Return the names in a piece of source that has no tree, without those of members: of ``(v).x`` the ``v``."""
    return NAME.findall(_MEMBER.sub(" ", _NO_NAME.sub(" ", text)))


def words(text: str) -> list[str]:
    """Return the names in a piece of source that has no tree, e.g. the body of a macro; 1e-5f and 16U hold none."""
    return NAME.findall(_NO_NAME.sub(" ", text))


_WHOLE = ("string_literal", "raw_string_literal", "char_literal")


@dataclass(frozen=True, slots=True)
class Edit:
    """A stretch of source and what stands there instead.

    Args:
        start: First byte, counted in the file as nodes do.
        end: Byte behind the last; ``start`` to put something in between.
        text: The new text.
    """

    start: int
    end: int
    text: str


def replaced(node: Node, text: str) -> Edit:
    """Return the edit that puts ``text`` in place of a node."""
    return Edit(node.start_byte, node.end_byte, text)


def edited(node: Node, edits: Iterable[Edit]) -> str:
    """Return the source of ``node`` with edits made; edits do not overlap."""
    return spliced(bytes(node.text or b""), edits, int(node.start_byte))


def spliced(source: bytes, edits: Iterable[Edit], start: int = 0) -> str:
    """Return source with edits made.

    Args:
        source: Bytes of a file.
        edits: That do not overlap.
        start: Position in the file of the first of these bytes.
    """
    at, out = start, []
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        out.append(source[at - start : edit.start - start])
        out.append(edit.text.encode("utf-8", "surrogateescape"))
        at = edit.end
    out.append(source[at - start :])
    return b"".join(out).decode("utf-8", "surrogateescape")


def plain(node: Node, without: Iterable[Node] = ()) -> str:
    """Return the source of ``node`` on one line: its tokens with spaces between, no comments.

    Args:
        node: What is written out.
        without: Nodes in it that are left out.
    """
    left_out, out, stack = {each.id for each in without}, [], [node]
    while stack:
        here = stack.pop()
        if here.id in left_out or here.type == "comment":
            continue
        if here.type in _WHOLE or not here.children:
            out.append(bytes(here.text or b"").decode("utf-8", "surrogateescape"))
        else:
            stack.extend(reversed(here.children))
    return " ".join(token for token in out if token)


def line_mark(line: int, name: str) -> str:
    """Return the directive that makes compilers count from ``line`` of ``name`` again, with its newline."""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'#line {line} "{quoted}"\n'


def marked(node: Node, name: str, edits: Iterable[Edit] = ()) -> str:
    """Return the source of ``node`` with edits made, and with its own lines in the messages of compilers."""
    return "\n" + line_mark(line_of(node), name) + edited(node, edits)


def leaves(node: Node) -> Iterable[Node]:
    """Yield the tokens of ``node``, comments left out."""
    return (each for each in walk(node) if not each.children and each.type != "comment")
