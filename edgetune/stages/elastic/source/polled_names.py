"""Names of what other threads, or the host, may change while a kernel runs.

volatile int *flag;                        flag: polled
int seen(volatile int *p) { return *p; }   seen: polled, for it reads something that is
__shared__ int hits;                       hits: shared, and what blocks other than its own never write
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgetune.stages.elastic.source.builtins import POLLING, atomic, loads
from edgetune.stages.elastic.source.syntax import Node, around, declared_name, find, has, text_of, walk
from edgetune.stages.elastic.source.translation_unit import Definition, declares, naming

_MOST_ARGUMENTS = 16
"""Of macros."""
_DECLARATIONS = ("declaration", "parameter_declaration", "field_declaration", "type_definition", "alias_declaration")


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
        functions: Names of functions that read memory, and write through no reference.
        filled: Names of functions and the numbers, from 0, of their parameters that are references to variables.
        fences: Names of fences, and of functions and macros with one.
        tellers: Names of functions that touch no memory but that of their references.
    """

    polled: frozenset[str]
    memory: frozenset[str]
    shared: frozenset[str]
    references: frozenset[str]
    aliases: frozenset[str]
    macros: frozenset[str]
    functions: frozenset[str]
    filled: frozenset[tuple[str, int]]
    fences: frozenset[str]
    tellers: frozenset[str]


def polled_names(reach: Sequence[Definition]) -> PolledNames:
    """Return the names of what may change in a kernel.

    Args:
        reach: A kernel's definition and those that it reaches.
    """
    memory: set[str] = set()
    for piece in reach:
        if piece.kind == "variable" and {"__device__", "__managed__", "__shared__"} & set(piece.tokens):
            memory |= piece.declared
    references = {
        text_of(name)
        for piece in reach
        for node in piece.find("reference_declarator", "structured_binding_declarator")
        for name in find(node, "identifier")
    }
    macros = {piece.name for piece in reach if piece.kind == "macro" and piece.tokens}
    shared = _shared_numbers(reach) - references - macros
    found = _of_any_type(reach) if any("volatile" in piece.tokens for piece in reach) else set()
    while True:
        before = len(found)
        for piece in reach:
            found |= _polled_in(piece, found)
        if len(found) == before:
            return PolledNames(
                frozenset(found),
                frozenset(memory),
                shared,
                frozenset(references),
                _aliases(reach),
                frozenset(macros),
                _readers(reach),
                _filled(reach),
                _fences(reach),
                _tellers(reach, memory),
            )


def _aliases(reach: Sequence[Definition]) -> frozenset[str]:
    found = set[str]()
    for node in (node for piece in reach for node in piece.find("init_declarator", "parameter_declaration")):
        made, value, kind = (node.child_by_field_name(each) for each in ("declarator", "value", "type"))
        if made is None or made.type != "reference_declarator":
            continue
        memory = value is not None and has(value, "subscript_expression", "pointer_expression", "field_expression")
        number = kind is not None and kind.type in ("primitive_type", "sized_type_specifier")
        if memory or (number and "const" not in {text_of(each) for each in node.children}):
            found |= {text_of(each) for each in find(made, "identifier")}
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
            names = [declared_name(each) for each in node.children_by_field_name("declarator")]
            names += node.children_by_field_name("name")
            found |= {text_of(each) for each in names if each is not None}
        elif has(node, "placeholder_type_specifier"):
            made = [each for each in node.children_by_field_name("declarator") if each.type == "init_declarator"]
            found |= {name for each in made if (name := _named(each)) and _pointer_of(each, so_far)}
    return found


def _of_any_type(reach: Sequence[Definition]) -> set[str]:
    """Return the names of pointers and references in templates to what a call may make volatile: ``T *p``."""
    found = set[str]()
    for piece in reach:
        outer = None if piece.node is None else around(piece.node, "template_declaration")
        within = [*piece.find("template_declaration"), *([] if outer is None else [outer])]
        given = [each for template in within for each in template.children_by_field_name("parameters")]
        kinds = {text_of(each) for one in given for each in find(one, "type_identifier")}
        for node in piece.find("parameter_declaration", "declaration"):
            kind = node.child_by_field_name("type")
            if kind is not None and (text_of(kind) in kinds or kind.type == "placeholder_type_specifier"):
                made = [declared_name(each) for each in find(node, "pointer_declarator", "reference_declarator")]
                found |= {text_of(each) for each in made if each is not None}
    return found


def _pointer_of(made: Node, polled: Collection[str]) -> bool:
    """Return whether an ``auto`` variable may be a pointer to what is polled: it is made of names, not of a value."""
    value = made.child_by_field_name("value")
    if value is None or not any(text_of(each) in polled for each in find(value, "identifier")):
        return False
    reads = has(value, "subscript_expression", "field_expression", "call_expression", "pointer_expression")
    return text_of(value).startswith("&") or not reads


def _readers(reach: Sequence[Definition]) -> frozenset[str]:
    """Return the names of functions without references that read memory, or call others that do."""
    reads = ("subscript_expression", "pointer_expression", "field_expression")
    functions = [
        piece for piece in reach if piece.kind == "function" and next(piece.find("reference_declarator"), None) is None
    ]
    found = {piece.name for piece in functions if next(piece.find(*reads), None) is not None}
    return frozenset(naming(found, functions))


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
        addresses = (each for each in find(value, "pointer_expression") if text_of(each).startswith("&"))
        for each in (value,) if pointer or refers else addresses:
            name, other = _named(made), _named(each)
            if name is not None and other is not None:
                found.setdefault(name, set()).add(other)
                found.setdefault(other, set()).add(name)
    return found


def _named(node: Node) -> str | None:
    return next((text_of(each) for each in find(node, "identifier")), None)


def _fences(reach: Sequence[Definition]) -> frozenset[str]:
    """Return the names of fences, and of functions and macros with one."""
    fences = ("__threadfence", "__threadfence_system", "__threadfence_block")
    return frozenset(naming(fences, (piece for piece in reach[1:] if piece.kind in ("function", "macro"))))


def _tellers(reach: Sequence[Definition], memory: Collection[str]) -> frozenset[str]:
    """Return the names of functions that touch no memory but that of their references, nor call others that do."""
    memory_ways = ("subscript_expression", "field_expression", "gnu_asm_expression", "pointer_declarator",
                   "lambda_expression", "abstract_pointer_declarator", "qualified_identifier")  # fmt: skip
    others = {piece.name for piece in reach if piece.kind != "function"}
    for piece in reach:
        targets = (text_of(each) for each in piece.find("pointer_expression"))
        words = {*memory, *POLLING, "volatile"} & set(piece.tokens)
        if words or next(piece.find(*memory_ways), None) is not None or not all(each[0] == "&" for each in targets):
            others.add(piece.name)
    pieces = [piece for piece in reach[1:] if piece.kind == "function"]
    return frozenset({piece.name for piece in pieces} - naming(others, pieces))


def _filled(reach: Sequence[Definition]) -> frozenset[tuple[str, int]]:
    """Return functions and the places of their parameters that are references; a macro with one has any place."""
    found = set[tuple[str, int]]()
    aliases = (node for piece in reach for node in piece.find("type_definition", "alias_declaration"))
    refers = [node for node in aliases if has(node, "reference_declarator", "abstract_reference_declarator")]
    kinds = {text_of(each) for node in refers for each in find(node, "type_identifier")}
    for node in (node for piece in reach for node in piece.find("function_declarator")):
        name, given = declared_name(node), node.child_by_field_name("parameters")
        if name is None or given is None:
            continue
        for number, each in enumerate(one for one in given.named_children if one.type != "comment"):
            fixed = any(text_of(part) == "const" for part in each.children)
            named = any(text_of(of) in kinds for of in find(each, "type_identifier"))
            if not fixed and (named or has(each, "reference_declarator")):
                found.add((text_of(name), number))
    functions = {name for name, _ in found}
    macros = [piece.name for piece in reach if piece.kind == "macro" and functions & set(piece.tokens)]
    return frozenset(found | {(name, number) for name in macros for number in range(_MOST_ARGUMENTS)})


def _shared_numbers(reach: Sequence[Definition]) -> frozenset[str]:
    """Return the names that are declared as numbers in shared memory, and nowhere as anything else."""
    found, others = set[str](), set[str]()
    for piece in reach:
        declared = set(piece.declared) if piece.kind != "function" else set[str]()
        for node in piece.find("declaration"):
            words = {text_of(each) for each in node.children}
            kind = node.child_by_field_name("type")
            number = kind is not None and kind.type in ("primitive_type", "sized_type_specifier")
            if "__shared__" in words and number and not has(node, "pointer_declarator", "reference_declarator"):
                names = {
                    text_of(each) for each in map(declared_name, node.children_by_field_name("declarator")) if each
                }
                found |= names
                declared -= names
        others |= declared
        others |= {
            text_of(name)
            for node in piece.find(*_DECLARATIONS, "lambda_capture_initializer", "for_range_loop")
            if "__shared__" not in {text_of(each) for each in node.children}
            for name in declares(node)
        }
    operators = any(next(piece.find("operator_name", "operator_cast"), None) for piece in reach)
    return frozenset() if operators else frozenset(found - others)
