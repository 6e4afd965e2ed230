"""Finds where a variable is changed, and whether its address is taken.

s >>= 1;              changed by an expression that is seen whole
p.x = 1;  f(s);       changed in a way that cannot be followed: in part, or by a function that takes a reference
q = &s;               so is this, and from here on any code may change it
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from edgetune.stages.elastic.source.builtins import known
from edgetune.stages.elastic.source.macros import Macro
from edgetune.stages.elastic.source.name_resolution import NameTable, Variable, VariableUse, hidden_words, resolve
from edgetune.stages.elastic.source.syntax import (
    ALIASES,
    NUMBERS,
    REFERENCES,
    Node,
    above,
    callee,
    child,
    closure,
    find,
    goes_through,
    has,
    listed,
    node_types,
    sign_of,
    squeezed,
    takes_address,
    text_of,
    texts,
    words,
)
from edgetune.stages.elastic.source.translation_unit import ParsedFile, function_declarator
from edgetune.stages.elastic.source.value_types import aliases, is_number_type, may_catch

_STATEMENTS = node_types("""
    compound_statement expression_statement init_declarator declaration return_statement condition_clause else_clause
    case_statement if_statement while_statement do_statement for_statement for_range_loop switch_statement
    labeled_statement lambda_expression
""")
_LVALUES = node_types("""
    parenthesized_expression field_expression subscript_expression conditional_expression comma_expression
""")
_OPERATED = ("binary_expression", "unary_expression", "pointer_expression")
_NAMED = ("identifier", "template_function", *NUMBERS)
_FIXED = re.compile(r"\*\s*const\b|\bconst(?:expr)?\b(?![^;]*\*)|&|\b(?:auto|decltype)\b")
"""In a type: a constant that is no target of a pointer, a reference, or a deduced type."""
_BY_REFERENCE = ("swap", "move", "forward", "get")
"""Of the C++ library; functions of CUDA C take values and pointers."""
_EFFECT = re.compile(r"(?<![=<>!])=(?!=)|<<=|>>=|\+\+|--|(?:^|[=(,;:?+\-*/%|^])\s*&")


def root_of(node: Node) -> Node:
    """Return the outermost expression around ``node`` whose value is not used, one of several between commas."""
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
    return [part for each in listed(expression) for part in parts_of(each)]


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
    use: VariableUse, source: ParsedFile, locals_: Collection[str]
) -> tuple[bool, Node | None]:
    """Return whether a use may change its variable, and the whole expression that does.

    Args:
        use: Of a variable.
        source: The file, for its functions and macros.
        locals_: Names of all variables of the kernel: a call of one of them calls a lambda.

    Returns:
        ``(False, None)`` where it only reads; ``(True, None)`` where the change cannot be followed.
    """
    if use.hidden:
        return not harmless(text_of(use.node), source.macros, source.functions), None
    here, whole = use.node, True
    while (around := here.parent) is not None:
        if around.type == "assignment_expression":
            left = around.child_by_field_name("left")
            return here == left, root_of(around) if here == left and whole else None
        if around.type == "update_expression":
            return True, root_of(around) if whole else None
        if around.type == "argument_list":
            return not _by_value(around.parent, source, locals_), None
        if around.type in _OPERATED and _overloaded(around, use.variable, source):
            return True, None
        if around.type not in _LVALUES:
            return _bound(around, here, source), None
        if around.type in ("field_expression", "subscript_expression"):
            if not _part_of(use, here, around, source):
                return False, None
            whole = False
        here = around
    return False, None


def _part_of(use: VariableUse, here: Node, around: Node, source: ParsedFile) -> bool:
    """Whether ``x.y`` or ``x[i]`` around ``x`` is a part of x itself, and not memory that x points to."""
    if here != around.child_by_field_name("argument"):
        return False
    if goes_through(around):
        return "->" in _operators(source) and not use.variable.has("pointer_declarator")
    if around.type == "field_expression" or use.variable.dimensions > 0:
        return True
    if here == use.node and _holds_elements(use.variable, source):
        return True
    member = here.child_by_field_name("field")
    return member is not None and not _points(text_of(member), source)


def _points(member: str, source: ParsedFile) -> bool:
    """Whether every member of this name that the file has is a pointer."""
    found = [
        each
        for name in source.definitions
        for kind in source.types(name)
        for node in find(kind, "field_declaration")
        for each in node.children_by_field_name("declarator")
        if member in texts(find(each, "field_identifier"))
    ]
    return bool(found) and all(each.type == "pointer_declarator" for each in found)


def _bound(around: Node, here: Node, source: ParsedFile) -> bool:  # noqa: PLR0911 - a row for each kind of node
    """Whether something other than an assignment or a call lets other code change the variable."""
    if around.type == "pointer_expression":
        return takes_address(around)
    if around.type == "init_declarator":
        return has(around.child_by_field_name("declarator"), "reference_declarator") or _refers(
            _type_of(around), source
        )
    if around.type == "initializer_list":
        return _refers(_type_of(around), source)
    if around.type == "cast_expression":
        return _refers(around.child_by_field_name("type"), source)
    if around.type == "for_range_loop":
        return here == around.child_by_field_name("right")
    if around.type == "call_expression":
        return True  # a method of it, or its own operator ()
    if around.type == "lambda_capture_initializer":
        return text_of(around).startswith("&")
    return around.type == "lambda_capture_specifier" or around.type.startswith("gnu_asm")


def _type_of(node: Node) -> Node | None:
    """Return the type that an initialiser is for; ``None`` where the source does not show it."""
    here: Node | None = node
    while here is not None and here.type in ("initializer_list", "initializer_pair", "init_declarator"):
        here = here.parent
    return child(here, "type")


def _refers(kind: Node | None, source: ParsedFile) -> bool:
    """Whether an object of this type may keep or change what it is made from: ``struct R { int &x; };``."""
    if kind is None or "&" in text_of(kind) or "decltype" in words(text_of(kind)):
        return True
    if is_number_type(kind, source):
        return False
    named = words(text_of(kind))
    if may_catch(source) and not all(map(known, named)):
        return True
    return any(_unseen(each, source) or _mentions_reference(each, source) for each in named)


def _unseen(word: str, source: ParsedFile) -> bool:
    """Whether a type is one that the kernel itself defines."""
    return word not in source.definitions and not known(word)


def _mentions_reference(word: str, source: ParsedFile) -> bool:
    """Whether the definition of a type has references in it, or a base class, which may."""
    return any(has(node, "base_class_clause", *REFERENCES) for node in source.types(word))


def _holds_elements(variable: Variable, source: ParsedFile) -> bool:
    """Whether ``x[i]`` is a part of x though its own declaration is no array: by its type, or by an operator."""
    kind = variable.declaration.child_by_field_name("type")
    if kind is None or variable.of_number or variable.has("pointer_declarator"):
        return False
    return is_array_type(kind, source) or any("[]" in each for each in _operators(source))


def is_array_type(kind: Node, source: ParsedFile) -> bool:
    """Whether a type is an array by its name: ``typedef float row[4];``, in the file or in the kernel."""
    wanted = set(words(text_of(kind)))
    # a class that a variable is declared with counts as a variable: struct S { typedef float row[4]; } s;
    nodes = [each.node for word in wanted for each in source.definitions.get(word, ()) if each.node is not None]
    found = [each for node in nodes for each in aliases(node)]
    found += [each for each in aliases(_function_around(kind)) if wanted & set(words(text_of(each)))]
    arrays = (has(each, "array_declarator", "abstract_array_declarator") for each in found)
    return "array" in wanted or any(arrays)


@lru_cache(maxsize=64)
def changes(
    source: ParsedFile, function: Node, body: Node
) -> tuple[NameTable, Mapping[Variable, Sequence[Node | None]], Mapping[int, Sequence[Variable]]]:
    """Return the names of a function, what changes each variable, and the variables of each node by its id."""
    names = resolve(function, body, source.macros)
    local = {each.name for each in names.variables}
    writes: dict[Variable, list[Node | None]] = {each: [] for each in names.variables}
    named: dict[int, list[Variable]] = {}
    for use in names.uses:
        named.setdefault(use.node.id, []).append(use.variable)
        changed, root = written(use, source, local)
        if changed:
            writes[use.variable].append(root)
    caught = set(_caught(body, source))
    for each in writes:
        writes[each] += [None] * (each.name in caught)
    return names, writes, named


def _caught(body: Node, source: ParsedFile) -> Iterator[str]:
    """Yield the names of variables that an object is made from which looks like a function: ``R r(n);``."""
    for node in find(body, "declaration"):
        for each in node.children_by_field_name("declarator"):
            if each.type == "function_declarator" and _refers(node.child_by_field_name("type"), source):
                yield from texts(find(each, "type_identifier", "identifier"))


def is_fixed_type(text: str, within: Node, source: ParsedFile) -> bool:
    """Whether the name of a type hides that a value is given once: ``const``, a reference, or ``auto``.

    Args:
        text: The type, without its own specifiers.
        within: A node of the function that it stands in.
        source: The file.
    """
    local = aliases(_function_around(within))

    def meant(word: str) -> list[str]:
        nodes = source.types(word)
        found = [each for node in nodes for each in aliases(node)]
        found += [each for each in local if word in words(text_of(each))]
        members = [text_of(each) for node in nodes for each in find(node, "field_declaration")]
        fields = [each for each in members if "(" not in each and not each.startswith("static")]
        return [*(macro.body for macro in source.macros.get(word, ())), *map(text_of, found), *fields]

    reached = closure(words(text), lambda word: (inner for each in meant(word) for inner in words(each)))
    return bool(re.search(r"<.*\bconst\b", text)) or any(
        _FIXED.search(each) for word in reached for each in meant(word)
    )


def _function_around(node: Node) -> Node:
    return next((each for each in (node, *above(node)) if each.type == "function_definition"), [node, *above(node)][-1])


def _operators(source: ParsedFile) -> dict[str, bool]:
    """Return the operators of the file that may change their operands, and whether these may be plain numbers."""
    found: dict[str, bool] = {}
    for function in source.functions.get("operator", ()):
        declarator = function_declarator(function.node)
        given = child(declarator, "parameters")
        if declarator is None or given is None:
            continue
        symbol = squeezed(declarator).partition("operator")[2]
        symbol = "()" if symbol.startswith("()") else symbol.split("(")[0]
        handed = any(
            "&" in text_of(each) and not re.search(r"\bconst\b", text_of(each)) for each in given.named_children
        )
        handed = handed or _catches(given, source)
        own = function.member and not any(each.type == "type_qualifier" for each in declarator.children)
        if handed or own:
            found[symbol] = found.get(symbol, False) or handed
    return found


def _overloaded(operation: Node, variable: Variable, source: ParsedFile) -> bool:
    """Whether an operation may be one of the file's own, and change a variable: ``generator >> n``."""
    changing, sign = _operators(source), sign_of(operation)
    return sign in changing and (changing[sign] or not variable.of_number)


def _by_value(call: Node | None, source: ParsedFile, locals_: Collection[str]) -> bool:  # noqa: PLR0911 - as above
    """Whether a call cannot change a variable that is one of its arguments."""
    if call is None or call.type != "call_expression":
        return call is not None and call.type == "init_declarator" and not _refers(_type_of(call), source)
    name, function = callee(call), call.child_by_field_name("function")
    if name in source.macros:
        return harmless(name, source.macros, source.functions)
    if function is None or function.type not in _NAMED or "&" in text_of(function):
        return False
    if name.endswith("_cast"):
        return not any(_refers(each, source) for each in find(function, "type_descriptor"))
    if name in source.functions:
        declarators = (each.node.child_by_field_name("declarator") for each in source.functions[name])
        return not any(_takes_reference(each, source) for each in declarators if each is not None)
    if any(each.kind == "type" for each in source.definitions.get(name, ())):
        return not _mentions_reference(name, source)
    return name not in locals_ and "::" not in name and name not in _BY_REFERENCE


def _takes_reference(declarator: Node, source: ParsedFile) -> bool:
    """Whether a function has a parameter that is a reference, by its declaration or by the name of its type."""
    if has(declarator, "reference_declarator"):
        return True
    named = texts(find(declarator, "type_identifier"))
    aliased = {name for name in named if any(each.type in ALIASES for each in source.types(name))}
    return _catches(declarator, source) or any(_mentions_reference(each, source) for each in aliased)


def _catches(declarator: Node, source: ParsedFile) -> bool:
    """Whether an object that a constructor makes of a reference may be given to a function."""
    kinds = find(declarator, "type_identifier", "placeholder_type_specifier")
    return may_catch(source) and not all(is_number_type(each, source) or known(text_of(each)) for each in kinds)
