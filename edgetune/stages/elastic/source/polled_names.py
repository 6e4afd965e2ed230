"""Names of what other threads, or the host, may change while a kernel runs.

volatile int *flag;                        flag: polled
int seen(volatile int *p) { return *p; }   seen: polled, for it reads something that is
__shared__ int hits;                       hits: shared, and what blocks other than its own never write
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgetune.stages.elastic.source.builtins import POLLING, atomic, loads
from edgetune.stages.elastic.source.operand_types import class_of
from edgetune.stages.elastic.source.syntax import (
    ALIASES,
    NUMBERS,
    REFERENCES,
    Node,
    around,
    callee,
    child,
    declared_name,
    find,
    first_name,
    has,
    listed,
    names,
    squeezed,
    takes_address,
    text_of,
    texts,
    walk,
)
from edgetune.stages.elastic.source.translation_unit import Definition, declares, naming

_MOST_ARGUMENTS = 16
"""Of macros."""
_DECLARATIONS = ("declaration", "parameter_declaration", "field_declaration", *ALIASES)
_PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
_READS = ("subscript_expression", "pointer_expression", "field_expression")
_LISTS = ("argument_list", "initializer_list", "parameter_list", "parameter_declaration")
_SAME = ("parenthesized_expression", "conditional_expression", "comma_expression", "field_expression")
"""Expressions that may be a variable itself, or a part of one."""


@dataclass(frozen=True, slots=True)
class PolledNames:
    """Variables and functions that other threads may change.

    Args:
        polled: Names of volatile variables and types, and of functions and macros that poll.
        memory: Names of variables that all threads share.
        shared: Names of numbers, and of arrays of them, in shared memory; each means nothing else anywhere. Empty where
            operators of classes might read other memory without a name.
        references: Names of references, which may stand for memory.
        aliases: Those that stand for what was an element or the target of a pointer, or for a number of the caller's.
        macros: Names of macros that stand for more than numbers.
        silent: Names of functions that read no memory.
        functions: Names of functions that read memory, and write through no reference.
        filled: Names of functions and the numbers, from 0, of their parameters that are references to variables.
        caught: Names of variables that code may write through references which calls do not show.
        fences: Names of fences, and of functions and macros with one.
    """

    polled: frozenset[str]
    memory: frozenset[str]
    shared: frozenset[str]
    references: frozenset[str]
    aliases: frozenset[str]
    macros: frozenset[str]
    silent: frozenset[str]
    functions: frozenset[str]
    filled: frozenset[tuple[str, int]]
    caught: frozenset[str]
    fences: frozenset[str]


def polled_names(reach: Sequence[Definition]) -> PolledNames:
    """Return the names of what may change in a kernel.

    Args:
        reach: A kernel's definition and those that it reaches.
    """
    memory: set[str] = set()
    for piece in reach:
        if piece.kind == "variable" and {"__device__", "__managed__", "__shared__"} & set(piece.tokens):
            memory |= piece.declared
    made = (node for piece in reach for node in piece.find("reference_declarator", "structured_binding_declarator"))
    references = {name for node in made for name in texts(find(node, "identifier"))}
    macros = {piece.name for piece in reach if piece.kind == "macro" and piece.tokens}
    shared = _shared_numbers(reach) - references - macros
    found = _of_any_type(reach) if any("volatile" in piece.tokens for piece in reach) else set()
    while more := {name for piece in reach for name in _polled_in(piece, found)} - found:
        found |= more
    functions = (each.name for each in reach if each.kind == "function" and not has(each.node, "reference_declarator"))
    return PolledNames(
        polled=frozenset(found),
        memory=frozenset(memory),
        shared=shared,
        references=frozenset(references),
        aliases=_aliases(reach),
        macros=frozenset(macros),
        silent=_silent(reach, memory | macros),
        functions=_readers(reach).intersection(functions),
        filled=_filled(reach),
        caught=_caught(reach, macros),
        fences=_fences(reach),
    )


def _aliases(reach: Sequence[Definition]) -> frozenset[str]:
    found = set[str]()
    for node in (node for piece in reach for node in piece.find("init_declarator", "parameter_declaration")):
        made, value, kind = (node.child_by_field_name(each) for each in ("declarator", "value", "type"))
        if made is None or made.type != "reference_declarator":
            continue
        memory = has(value, *_READS)
        number = kind is not None and kind.type in NUMBERS
        if memory or (number and "const" not in texts(node.children)):
            found |= texts(find(made, "identifier"))
    return frozenset(found)


def _polled_in(piece: Definition, so_far: Collection[str]) -> set[str]:
    marks = {"volatile", *so_far}
    polls = any(atomic(each) or each in POLLING for each in piece.tokens)
    if not marks & set(piece.tokens) and not polls and not any(map(loads, piece.find("gnu_asm_expression"))):
        return set()
    found = {piece.name} if piece.kind != "variable" and piece.name else set()
    for node in piece.find(*_DECLARATIONS):
        of_type = [each for each in node.children if each.type != "init_declarator"]
        if marks & {text_of(each) for one in of_type for each in walk(one) if not each.children}:
            made = node.children_by_field_name("declarator")
            found |= texts([*map(declared_name, made), *node.children_by_field_name("name")])
        elif has(node, "placeholder_type_specifier"):
            made = [each for each in node.children_by_field_name("declarator") if each.type == "init_declarator"]
            found |= {first_name(each) for each in made if _pointer_of(each, so_far)}
    return found


def _of_any_type(reach: Sequence[Definition]) -> set[str]:
    """Return the names of pointers and references in templates to what a call may make volatile: ``T *p``."""
    found = set[str]()
    for piece in reach:
        outer = None if piece.node is None else around(piece.node, "template_declaration")
        templates = [*piece.find("template_declaration"), *([] if outer is None else [outer])]
        kinds = {word for each in templates for word in texts(find(child(each, "parameters"), "type_identifier"))}
        for node in piece.find("parameter_declaration", "declaration"):
            kind = node.child_by_field_name("type")
            if kind is not None and (text_of(kind) in kinds or kind.type == "placeholder_type_specifier"):
                found |= texts(map(declared_name, find(node, "pointer_declarator", "reference_declarator")))
    return found


def _pointer_of(made: Node, polled: Collection[str]) -> bool:
    """Return whether an ``auto`` variable may be a pointer to what is polled: it is made of names, not of a value."""
    value = made.child_by_field_name("value")
    if texts(find(value, "identifier")).isdisjoint(polled):
        return False
    return text_of(value).startswith("&") or not has(value, "call_expression", *_READS)


def _readers(reach: Sequence[Definition], unsure: Collection[str] = ()) -> frozenset[str]:
    """Return the names of functions and classes that read memory, or mention others that do, or what is not sure."""
    code = [piece for piece in reach if piece.kind in ("function", "type")]
    found = {piece.name for piece in code if has(piece.node, *_READS)}
    return frozenset(found | naming({*found, *unsure}, code))


def _silent(reach: Sequence[Definition], unsure: Collection[str]) -> frozenset[str]:
    """Return the names of functions that read no memory, nor call what they are given."""
    functions = [piece for piece in reach if piece.kind == "function"]
    asking = {
        piece.name
        for piece in functions
        if has(piece.node, "gnu_asm_expression") or piece.declared & {*map(callee, piece.find("call_expression"))}
    }
    return frozenset({each.name for each in functions} - asking - _readers(reach, {*asking, *unsure}))


def other_names(piece: Definition) -> dict[str, set[str]]:
    """Return the other names of variables: ``int &r = i;``, ``int *p = &i;``, ``int *p = a;``, ``[&r = i]``."""
    found: dict[str, set[str]] = {}
    for node in piece.find("init_declarator", "assignment_expression", "lambda_capture_initializer"):
        fields = ("declarator", "value") if node.type == "init_declarator" else ("left", "right")
        made, value = (node.child_by_field_name(each) for each in fields)
        if made is None or value is None:
            continue
        pointer = made.type == "pointer_declarator" and value.type == "identifier"
        refers = made.type == "reference_declarator" or text_of(node).startswith("&")
        addresses = filter(takes_address, find(value, "pointer_expression"))
        for each in (value,) if pointer or refers else addresses:
            name, other = first_name(made), first_name(each)
            if name and other:
                found.setdefault(name, set()).add(other)
                found.setdefault(other, set()).add(name)
    return found


def _fences(reach: Sequence[Definition]) -> frozenset[str]:
    """Return the names of fences, and of functions and macros with one."""
    fences = {"__threadfence", "__threadfence_system", "__threadfence_block"}
    return frozenset(fences | naming(fences, (piece for piece in reach[1:] if piece.kind in ("function", "macro"))))


def _filled(reach: Sequence[Definition]) -> frozenset[tuple[str, int]]:
    """Return functions and the places of their parameters that are references; a macro with one has any place."""
    found = set[tuple[str, int]]()
    aliases = (node for piece in reach for node in piece.find(*ALIASES) if has(node, *REFERENCES))
    kinds = {name for node in aliases for name in texts(find(node, "type_identifier"))}
    for node in (node for piece in reach for node in piece.find("function_declarator")):
        name = text_of(declared_name(node))
        for number, each in enumerate(listed(node.child_by_field_name("parameters"))):
            named = any(text_of(of) in kinds for of in find(each, "type_identifier"))
            if name and not _fixed(each) and (named or has(each, "reference_declarator")):
                found.add((name, number))
    functions = {name for name, _ in found}
    macros = [piece.name for piece in reach if piece.kind == "macro" and functions & set(piece.tokens)]
    return frozenset(found | {(name, number) for name in macros for number in range(_MOST_ARGUMENTS)})


def _caught(reach: Sequence[Definition], macros: Collection[str]) -> frozenset[str]:
    """Return the names that code may write later on: an object keeps their address, or a reference to them.

    Where a call does not show which of its arguments are references, all names that stand as they are in a list count,
    and where values are given: a class keeps or is called with a reference, or a template is given one.
    """
    lists = [each for piece in reach for each in piece.find(*_LISTS)]
    objects = [each for each in lists if each.parent is not None and each.parent.type != "call_expression"]
    kept = frozenset(first_name(value) for each in objects for value in listed(each) if takes_address(value))
    if not any(_catches(piece, macros) for piece in reach):
        return kept
    for node in (node for piece in reach for node in piece.find("init_declarator", "assignment_expression")):
        lists += [*node.children_by_field_name("value"), *node.children_by_field_name("right")]
    found = (name for each in lists for name in walk(each, lambda here: here.type in (*_LISTS, *_SAME)))
    return kept | texts(
        name
        for name in found
        if name.type == "type_identifier"  # S s(i); parses as a function that takes a type i
        or (name.type == "identifier" and name.parent is not None and name.parent.type != "parameter_declaration")
    )


def _catches(piece: Definition, macros: Collection[str]) -> bool:
    """Return whether a definition has a reference in a field, an object that is called, an alias, or ``f<int &>``."""
    for given in piece.find("template_argument_list"):
        if has(given, "abstract_reference_declarator", "decltype") or not texts(names(given)).isdisjoint(macros):
            return True
    if any(has(each, *REFERENCES) for each in piece.find(*ALIASES)):
        return True
    catching = [node for node in piece.find("field_declaration") if not has(node, "function_declarator")]
    for node in piece.find("lambda_declarator", "function_declarator"):
        name = "" if node.type == "lambda_declarator" else squeezed(node).split("(")[0]
        if name in ("", "operator", class_of(node)):
            catching += find(node, *_PARAMETERS)
    return any(has(each, *REFERENCES) and not _fixed(each) for each in catching)


def _fixed(declaration: Node) -> bool:
    """Return whether nothing can be written through a reference."""
    return "const" in texts(declaration.children) and not has(declaration, "pointer_declarator")


def _shared_numbers(reach: Sequence[Definition]) -> frozenset[str]:
    """Return the names that are declared as numbers in shared memory, and nowhere as anything else."""
    found, others = set[str](), set[str]()
    for piece in reach:
        declared = set(piece.declared) if piece.kind != "function" else set[str]()
        for node in piece.find("declaration"):
            kind = node.child_by_field_name("type")
            number = kind is not None and kind.type in NUMBERS
            shared = "__shared__" in texts(node.children)
            if shared and number and not has(node, "pointer_declarator", "reference_declarator"):
                made = texts(map(declared_name, node.children_by_field_name("declarator")))
                found |= made
                declared -= made
        others |= declared
        for node in piece.find(*_DECLARATIONS, "lambda_capture_initializer", "for_range_loop"):
            if "__shared__" not in texts(node.children):
                others |= texts(declares(node))
    operators = any(has(piece.node, "operator_name", "operator_cast") for piece in reach)
    return frozenset() if operators else frozenset(found - others)
