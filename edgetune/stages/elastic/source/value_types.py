"""Types of variables: numbers, and objects that are made, copied and read without code of the file.

typedef unsigned int count;                                 count: a number
template <typename T> void f(T n);  f<float>(3);            T: a number, as every call gives it one
struct Size { int x, y; };                                  Size: an object without code
struct Place { int x = threadIdx.x; };                      Place: not so, nor with a constructor or an operator
"""

from __future__ import annotations

import re
from functools import lru_cache

from edgetune.stages.elastic.source.builtins import known
from edgetune.stages.elastic.source.operand_types import Types, is_number
from edgetune.stages.elastic.source.syntax import (
    ALIASES,
    CLASSES,
    NUMBERS,
    Node,
    above,
    child,
    closure,
    declared_name,
    find,
    listed,
    names,
    text_of,
    words,
)
from edgetune.stages.elastic.source.translation_unit import ParsedFile, declares, function_declarator

_ALIAS = re.compile(r"typedef\s+([\w\s]+)\s\w+\s*;|using\s+\w+\s*=\s*([\w\s]+);")
"""A name for a type that words alone name."""


@lru_cache(maxsize=512)  # each variable asks
def is_number_type(kind: Node, source: ParsedFile) -> bool:
    """Whether a type is that of numbers, by C, by a name for such a type, or in each call of a template.

    That of a variable with ``auto`` counts as one: its value decides.

    Args:
        kind: Of a variable; that of a template stands in the template.
        source: The file.
    """
    word, plain = text_of(kind), Types()
    if kind.type == "placeholder_type_specifier":
        return word == "auto" and (kind.parent is None or "parameter" not in kind.parent.type)
    if kind.type in NUMBERS:
        return True
    template = next((each for each in above(kind) if word in _parameters(each)), None)
    if template is not None:
        given = _given(word, template, source)
        return bool(given) and all(each is not None and is_number_type(each, source) for each in given)
    outer = [each for each in above(kind) if each.type in ("function_definition", *CLASSES)]
    local = any(word in words(text_of(each)) for node in outer for each in aliases(node))
    if local or kind.type != "type_identifier" or word in source.macros:
        return False
    bases = [_ALIAS.fullmatch(text_of(each)) for each in source.types(word)]
    return all(each and is_number(plain.meant(each[1] or each[2])) for each in bases) and bool(
        bases or is_number(plain.meant(word))
    )


@lru_cache(maxsize=512)  # each variable asks for those of its function and of its type
def aliases(node: Node) -> tuple[Node, ...]:
    """Return the definitions of other names for types in a definition."""
    return tuple(find(node, *ALIASES))


def _parameters(template: Node) -> list[str]:
    """Return the names of the parameters of a template; none of any other node."""
    given = template.child_by_field_name("parameters") if template.type == "template_declaration" else None
    return [next(map(text_of, declares(each)), "") for each in listed(given)]


@lru_cache(maxsize=64)  # each variable of the type asks
def _given(word: str, template: Node, source: ParsedFile) -> tuple[Node | None, ...]:
    """Return the types that the uses of a function template give for a parameter, ``None`` for what is not known."""
    name = declared_name(function_declarator(template.named_children[-1]))
    place = _parameters(template).index(word)
    if name is None or any(text_of(name) in words(each.body) for some in source.macros.values() for each in some):
        return (None,)
    nodes = {piece.node for pieces in source.definitions.values() for piece in pieces if piece.node is not None}
    uses = [each.parent for node in nodes for each in names(node) if text_of(each) == text_of(name)]
    return tuple(_argument(each, place) for each in uses if each is not None and each.type != "function_declarator")


def _argument(use: Node, place: int) -> Node | None:
    """Return the type that stands at a place of ``f<int, float>``; ``None`` for a pointer or a parameter."""
    arguments = listed(use.child_by_field_name("arguments") if use.type.startswith("template_") else None)
    given = arguments[place] if place < len(arguments) else None
    kind = child(given, "type")
    if kind is None or text_of(kind) != text_of(given):
        return None
    return None if any(text_of(kind) in _parameters(each) for each in above(kind)) else kind


@lru_cache(maxsize=512)  # each variable asks
def is_inert(kind: Node, source: ParsedFile, *, defaults: bool = True) -> bool:
    """Whether objects of a type have no constructors, operators and default values of the file's.

    Args:
        kind: Of a variable. A type that the file does not define may be any of the file's, as that of a template.
        source: The file.
        defaults: Whether default values count: the host has given them to the objects that a kernel is given.
    """
    named = [each for each in words(text_of(kind)) if each not in ("const", "struct", "typename")]
    open_ones = {"auto", *(name for outer in above(kind) for name in _parameters(outer))}
    seen = all(source.types(each) or known(each) for each in named) and open_ones.isdisjoint(named)
    reached = closure(named if seen else source.definitions, lambda word: _words_of(word, source))
    classes = (node for word in reached for kind in source.types(word) for node in find(kind, *CLASSES))
    return not any(_has_code(node, source, defaults=defaults) for node in classes)


def _words_of(word: str, source: ParsedFile) -> list[str]:
    return [inner for node in source.types(word) for inner in words(text_of(node))]


def _has_code(owner: Node, source: ParsedFile, *, defaults: bool) -> bool:
    name = owner.child_by_field_name("name")
    made = name is not None and words(text_of(name))[0] in source.functions
    fields = find(owner, "field_declaration") if defaults else ()
    return (
        made
        or "operator" in words(text_of(owner))
        or any(each.child_by_field_name("default_value") is not None for each in fields)
    )


@lru_cache(maxsize=16)  # each call asks
def may_catch(source: ParsedFile) -> bool:
    """Whether a class of the file has a constructor that is given a reference, to other than the class itself."""
    nodes = {piece.node for pieces in source.definitions.values() for piece in pieces if piece.node is not None}
    owners = (each.child_by_field_name("name") for node in nodes for each in find(node, *CLASSES))
    return any(
        "&" in text_of(parameter) and name not in words(text_of(parameter))
        for name in {words(text_of(each))[0] for each in owners if each is not None}
        for function in source.functions.get(name, ())
        for parameter in find(function_declarator(function.node) or function.node, "parameter_declaration")
    )
