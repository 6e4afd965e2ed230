"""Reads cooperative groups of a block or of a warp as the builtins that they stand for.

    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    sum += warp.shfl_down(sum, 16);                       sum += __shfl_down_sync(0xffffffffu, sum, 16);
    if (warp.thread_rank() == 0) part[...] = sum;         if ((... % 32) == 0) part[...] = sum;
    block.sync();                                         __syncthreads();

A function is read so if its groups are used in these ways only. Otherwise it stays, and its kernels are refused: where
it passes a group to another function, or has groups of the grid or a cluster, tiles of other sizes, or groups of the
active threads. Source: CUDA C++ Programming Guide, "Cooperative Groups".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgetune.stages.elastic.source.builtins import LINEAR_THREAD
from edgetune.stages.elastic.source.macros import Expanded
from edgetune.stages.elastic.source.syntax import (
    Edit,
    Node,
    arguments,
    find,
    replaced,
    spliced,
    squeezed,
    text_of,
)

HEADER = "cooperative_groups.h"
LIBRARY = "cooperative_groups"
_RANK = f"({LINEAR_THREAD})"
_SIZE = "(blockDim.x * blockDim.y * blockDim.z)"
_ALL = "0xffffffffu"

Kind = Literal["block", "tile"]

_WITHOUT_ARGUMENTS: Mapping[Kind, Mapping[str, str]] = {
    "block": {
        "sync": "__syncthreads()", "thread_rank": _RANK, "size": _SIZE, "num_threads": _SIZE,
        "group_index": "blockIdx", "thread_index": "threadIdx", "group_dim": "blockDim", "dim_threads": "blockDim",
    },
    "tile": {
        "sync": "__syncwarp()", "thread_rank": f"({_RANK} % 32u)", "size": "32u", "num_threads": "32u",
        "meta_group_rank": f"({_RANK} / 32u)", "meta_group_size": f"(({_SIZE} + 31u) / 32u)",
    },
}  # fmt: skip
_WITH_ARGUMENTS = {
    **{f"shfl{how}": f"__shfl{how}_sync" for how in ("", "_up", "_down", "_xor")},
    **{vote: f"__{vote}_sync" for vote in ("any", "all", "ballot")},
}
"""Methods of tiles."""


@dataclass(slots=True)
class _Function:
    """A function and what is known of its groups.

    Args:
        groups: The kind of each group, by name.
        edits: The replacements in it.
        clear: Whether all uses of its groups are known.
    """

    groups: dict[str, Kind] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    clear: bool = True


def without_groups(out: Expanded, root: Node) -> Expanded:
    """Return a source with builtins in place of its groups; the same where there are none that are known.

    Args:
        out: The source with macros written out.
        root: Its tree.
    """
    if LIBRARY.encode() not in out.text:
        return out
    spaces = _spaces(root)
    functions = [_read(body, spaces) for node in find(root, "function_definition") for body in _body(node)]
    clear = [edit for each in functions if each.clear for edit in each.edits]
    edits = sorted(clear, key=lambda each: (each.start, each.end))
    if not edits:
        return out
    kept = [
        Edit(each.start, each.end, each.text + "\n" * out.text.count(b"\n", each.start, each.end)) for each in edits
    ]
    stretches = tuple((each.start, each.end, len(each.text.encode())) for each in kept)
    return Expanded(
        spliced(out.text, kept).encode("utf-8", "surrogateescape"), (*out.stretches, stretches), grouped=True
    )


def _spaces(root: Node) -> set[str]:
    """Return the scopes before the names of the library: its own, aliases, and none after ``using namespace``."""
    found = {f"{LIBRARY}::"}
    for node in find(root, "namespace_alias_definition"):
        names = [text_of(each) for each in node.named_children]
        if names[1:] == [LIBRARY]:
            found.add(f"{names[0]}::")
    if any(squeezed(each) == f"usingnamespace{LIBRARY};" for each in find(root, "using_declaration")):
        found.add("")
    return found


def _body(function: Node) -> list[Node]:
    return [each for each in function.children_by_field_name("body") if each.type == "compound_statement"]


def _read(body: Node, spaces: set[str]) -> _Function:
    """Return what is known of the groups in a function."""
    found = _Function()
    for statement in find(body, "declaration", "expression_statement"):
        group = _declared(statement, spaces)
        if group is not None:
            found.groups[group[0]] = group[1]
            found.edits.append(replaced(statement, ";"))
    taken = [(edit.start, edit.end) for edit in found.edits]
    for use in _uses(body, found.groups, spaces):
        if not any(start <= use.start_byte < end for start, end in taken):
            _replace(use, found, spaces)
    return found


def _declared(statement: Node, spaces: set[str]) -> tuple[str, Kind] | None:
    """Return the name and kind of the group that a statement makes; ``None`` if it makes none that is known.

    By its text: the parser may take ``tile<32> warp = ...`` for comparisons.
    """
    text = re.sub(r" ?([<>=(),;]) ?", r"\1", " ".join(text_of(statement).split()))
    space = f"(?:{'|'.join(map(re.escape, spaces))})"
    block = f"{space}this_thread_block\\(\\)"
    made: dict[Kind, str] = {
        "block": f"{space}thread_block (\\w+)={block};|auto (\\w+)={block};",
        "tile": f"(?:{space}thread_block_tile<32(?:,{space}thread_block)?>|auto )(\\w+)="
        f"{space}tiled_partition<32>\\((?:\\w+|{block})\\);",
    }
    for kind, pattern in made.items():
        found = re.fullmatch(f"(?:const )?(?:{pattern})", text)
        if found is not None:
            return next(filter(None, found.groups())), kind
    return None


def _is_block(node: Node, spaces: set[str]) -> bool:
    return squeezed(node) in {f"{space}this_thread_block()" for space in spaces}


def _uses(body: Node, groups: Mapping[str, Kind], spaces: set[str]) -> Iterator[Node]:
    """Yield the places that use a group: its name, or a call that makes one."""
    for node in find(body, "identifier", "call_expression"):
        if text_of(node) in groups if node.type == "identifier" else _is_block(node, spaces):
            yield node


def _replace(use: Node, found: _Function, spaces: set[str]) -> None:
    """Add the replacement of the expression around a use, or note that it is unknown."""
    kind = found.groups.get(text_of(use), "block")
    outer = use.parent
    call = None if outer is None else outer.parent
    if outer is not None and call is not None and call.type == "call_expression":
        if outer.type == "field_expression" and outer.child_by_field_name("argument") == use:
            method = outer.child_by_field_name("field")
            edit = None if method is None else _method(call, kind, text_of(method))
            if edit is not None:
                found.edits.append(edit)
                return
        if outer.type == "argument_list":
            function = call.child_by_field_name("function")
            name = "" if function is None else squeezed(function)
            given = arguments(call)
            if name in {f"{space}sync" for space in spaces} and len(given) == 1:
                found.edits.append(replaced(call, _WITHOUT_ARGUMENTS[kind]["sync"]))
                return
    found.clear = False


def _method(call: Node, kind: Kind, name: str) -> Edit | None:
    """Return the replacement of a call of a method; its arguments stay, for they may hold others."""
    given = arguments(call)
    if not given:
        text = _WITHOUT_ARGUMENTS[kind].get(name)
        return None if text is None else replaced(call, text)
    if kind == "block" or name not in _WITH_ARGUMENTS:
        return None
    return Edit(call.start_byte, given[0].start_byte, f"{_WITH_ARGUMENTS[name]}({_ALL}, ")
