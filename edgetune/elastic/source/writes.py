"""Where a variable is changed, and whether its address is taken.

s >>= 1;              changed by an expression that is seen whole
p.x = 1;  f(s);       changed in a way that cannot be followed: in part, or by a function that takes a reference
q = &s;               so is this, and from here on anything may change it
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from edgetune.elastic.source.names import Use, hidden_words
from edgetune.elastic.source.nodes import callee, find, text_of, words
from edgetune.elastic.source.unit import Macro, ParsedFile

if TYPE_CHECKING:
    from tree_sitter import Node

_STATEMENTS = (
    "compound_statement",
    "expression_statement",
    "init_declarator",
    "declaration",
    "return_statement",
    "condition_clause",
    "else_clause",
    "case_statement",
    "if_statement",
    "while_statement",
    "do_statement",
    "for_statement",
    "for_range_loop",
    "switch_statement",
    "labeled_statement",
    "lambda_expression",
)
_LVALUES = (
    "parenthesized_expression",
    "field_expression",
    "subscript_expression",
    "conditional_expression",
    "comma_expression",
)
_BY_REFERENCE = ("swap", "move", "forward", "get")
"""Of the C++ library; what CUDA C itself has takes values and pointers."""
_EFFECT = re.compile(r"(?<![=<>!])=(?!=)|<<=|>>=|\+\+|--|(?:^|[=(,;:?+\-*/%|^])\s*&")


def root_of(node: Node) -> Node:
    """Return the whole expression around ``node`` whose value is not used any further, one of several with commas."""
    here = node
    while (around := here.parent) is not None and around.type not in _STATEMENTS:
        if around.type == "comma_expression" and _thrown_away(around):
            return here
        here = around
    return here


def parts_of(expression: Node) -> list[Node]:
    """Return the expressions between the commas of one whose value is not used, in order."""
    if expression.type != "comma_expression":
        return [expression]
    return [part for each in expression.named_children if each.type != "comment" for part in parts_of(each)]


def _thrown_away(comma: Node) -> bool:
    around = comma.parent
    if around is None or around.type == "expression_statement":
        return True
    if around.type == "comma_expression":
        return _thrown_away(around)
    return around.type == "for_statement" and comma != around.child_by_field_name("condition")


def harmless(macro: str, macros: Mapping[str, Sequence[Macro]], functions: Collection[str]) -> bool:
    """Whether a macro changes nothing: no assignment, no address, and no call of a function of the file."""
    for name in {macro, *hidden_words(macro, macros)}:
        for each in macros.get(name, ()):
            if _EFFECT.search(each.body) or set(words(each.body)) & set(functions):
                return False
    return True


def written(  # noqa: PLR0911 - a row for each kind of node
    use: Use, unit: ParsedFile, locals_: Collection[str]
) -> tuple[bool, Node | None]:
    """Return whether a use may change its variable, and the whole expression that does.

    Args:
        use: Of a variable.
        unit: The file, for what its functions and macros do with what they are given.
        locals_: Names of all variables of the kernel: what is called by one of them is a lambda.

    Returns:
        ``(False, None)`` where it only reads; ``(True, None)`` where what happens cannot be followed.
    """
    if use.hidden:
        return not harmless(text_of(use.node), unit.macros, unit.functions), None
    here, whole = use.node, True
    while (around := here.parent) is not None:
        if around.type == "assignment_expression":
            left = around.child_by_field_name("left")
            return here == left, root_of(around) if here == left and whole else None
        if around.type == "update_expression":
            return True, root_of(around) if whole else None
        if around.type == "argument_list":
            return whole and not _by_value(around.parent, unit, locals_), None
        if around.type not in _LVALUES:
            return _bound(around, here), None
        if around.type in ("field_expression", "subscript_expression"):
            if not _part_of(use, here, around, unit):
                return False, None
            whole = False
        here = around
    return False, None


def _part_of(use: Use, here: Node, around: Node, unit: ParsedFile) -> bool:
    """Whether ``x.y`` or ``x[i]`` around ``x`` is a part of x itself, and not memory that x points to."""
    if here != around.child_by_field_name("argument") or any(each.type == "->" for each in around.children):
        return False
    if around.type == "field_expression" or use.variable.dimensions > 0:
        return True
    member = here.child_by_field_name("field") if here.type == "field_expression" else None
    return member is not None and not _points(text_of(member), unit)


def _points(member: str, unit: ParsedFile) -> bool:
    """Whether every member of this name that the file has is a pointer."""
    found = [
        each
        for pieces in unit.definitions.values()
        for piece in pieces
        if piece.kind == "type" and piece.node is not None
        for node in find(piece.node, "field_declaration")
        for each in node.children_by_field_name("declarator")
        if any(text_of(name) == member for name in find(each, "field_identifier"))
    ]
    return bool(found) and all(each.type == "pointer_declarator" for each in found)


def _bound(around: Node, here: Node) -> bool:
    """Whether something other than an assignment or a call lets others change what it holds."""
    if around.type == "pointer_expression":
        return text_of(around).startswith("&")
    if around.type == "init_declarator":
        declarator = around.child_by_field_name("declarator")
        return declarator is not None and any(True for _ in find(declarator, "reference_declarator"))
    if around.type == "cast_expression":
        return "&" in text_of(around.child_by_field_name("type") or around)
    if around.type == "for_range_loop":
        return here == around.child_by_field_name("right")
    if around.type == "call_expression":
        return here.type == "field_expression"  # a method of it
    return around.type == "lambda_capture_specifier" or around.type.startswith("gnu_asm")


def _by_value(call: Node | None, unit: ParsedFile, locals_: Collection[str]) -> bool:
    """Whether a call cannot change a variable that it is given by name."""
    if call is None or call.type != "call_expression":
        return call is not None and call.type == "init_declarator"
    name = callee(call)
    if name in unit.macros:
        return harmless(name, unit.macros, unit.functions)
    if name.endswith("_cast"):
        return "&" not in text_of(call.child_by_field_name("function") or call)
    if name in unit.functions:
        declarators = (each.node.child_by_field_name("declarator") for each in unit.functions[name])
        return not any(True for each in declarators if each is not None for _ in find(each, "reference_declarator"))
    return name not in locals_ and "::" not in name and name not in _BY_REFERENCE
