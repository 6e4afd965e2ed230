"""What the arguments of templates mean at the end of a file, where no names of functions are known.

const int n = 4;
using T = float;
k<T, n + 1><<<1, 32>>>(x);              float, (4 + 1)

void go(int n) { k<n> ... }             nothing: a parameter is no constant
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from edgetune.stages.elastic.source.syntax import (
    Edit,
    Node,
    above,
    around,
    child,
    find,
    mentions,
    replaced,
    spliced,
    text_of,
    texts,
)
from edgetune.stages.elastic.source.translation_unit import declares, leading_words

_SIMPLE = re.compile(r"[\w:.]+")
_INTEGERS = ("int", "unsigned", "unsigned int", "size_t", "bool", "auto")
"""Types that keep the value of a constant."""
_MOST_LEVELS = 8
"""Constants of a function that are made of constants of it."""


def _substituted(node: Node, bound: Mapping[str, str]) -> str:
    return spliced(bytes(node.text or b""), edits_for(node, bound), int(node.start_byte)).strip()


def meant(argument: Node, bound: Mapping[str, str], levels: int = _MOST_LEVELS) -> str | None:
    """Return what an argument means at the end of the file; ``None`` where a name in it has no such meaning.

    ``const int n = 4; k<n><<<1, 32>>>();`` means ``k<4>``.
    """
    known, local = dict(bound), _names_of_function(argument)
    for name in texts(mentions(argument, local.keys())):
        value = local[name]
        text = None if value is None or not levels else meant(value, bound, levels - 1)
        if text is None:
            return None
        known[name] = text
    return _substituted(argument, known)


def _names_of_function(node: Node) -> dict[str, Node | None]:
    """Return the names that the function around a node declares: values of constants and types, and ``None``."""
    found: dict[str, Node | None] = {}
    function = around(node, "function_definition")
    if function is None:
        return found
    for scope in above(node, function):
        for each in reversed([each for each in scope.children if each.end_byte <= node.start_byte]):
            for name in declares(each):
                found.setdefault(text_of(name), _constant(each))
    for parameter in find(function, "parameter_declaration", "optional_parameter_declaration"):
        for name in declares(parameter):
            found.setdefault(text_of(name), None)
    return found


def _constant(declaration: Node) -> Node | None:
    """Return the value of an integer constant or the type of an alias; ``None`` of everything else."""
    kind = declaration.child_by_field_name("type")
    declarators = declaration.children_by_field_name("declarator")
    if declaration.type == "alias_declaration":
        return kind
    if declaration.type == "type_definition":
        plain = [each.type for each in declarators] == ["type_identifier"]
        return kind if plain and "type_qualifier" not in [each.type for each in declaration.children] else None
    if not {"const", "constexpr"} & leading_words(declaration) or kind is None or text_of(kind) not in _INTEGERS:
        return None
    inner, value = (
        child(declarators[0], field) if len(declarators) == 1 else None for field in ("declarator", "value")
    )
    plain = inner is not None and value is not None and inner.type == "identifier" and value.type != "initializer_list"
    return value if plain else None


def edits_for(node: Node, bound: Mapping[str, str]) -> list[Edit]:
    """Return the edits that put arguments in place of parameters."""
    edits = []
    for each in mentions(node, bound.keys()):
        text = bound[text_of(each)]
        called = each.parent is not None and each.parent.type == "call_expression"
        value = each.type == "identifier" and not _SIMPLE.fullmatch(text)
        edits.append(replaced(each, f"({text})" if value or (called and " " in text) else text))
    return edits
