"""Source text rewritten in places, and otherwise left byte for byte as it was.

out[blockIdx.x] = f(1);   + edits at blockIdx and before )   ->   out[edgetune_block.x] = f(1, edgetune_block);
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.elastic.source.nodes import line_of, walk

if TYPE_CHECKING:
    from tree_sitter import Node

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
