"""Which functions call which: calls are resolved by the number of arguments, and by their types where these are plain.

    __device__ float4 make_float4(float s) { return make_float4(s, s, s, s); }      calls CUDA's, not itself
    __device__ int wait(int *m) { return *m ? 1 : (wait)(m); }                      names itself: may call itself

The graph has every call that there may be. A name that is not called plainly may be called all the same. Overloaded
operators, and objects that are called, have doubtful edges where the type of an operand is not known. So have functions
that are called without a name, such as constructors and conversions, from wherever objects of classes are used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from edgetune.stages.elastic.source.builtins import known
from edgetune.stages.elastic.source.kernel_scan import parameter_nodes
from edgetune.stages.elastic.source.macros import Macro
from edgetune.stages.elastic.source.name_resolution import hidden_words
from edgetune.stages.elastic.source.operand_types import (
    PARAMETER,
    Types,
    Typing,
    class_of,
    code_of,
    is_plain,
    types_of,
    typing_of,
)
from edgetune.stages.elastic.source.operator_signs import OPERATIONS, REWRITTEN, signs
from edgetune.stages.elastic.source.syntax import (
    ALIASES,
    CLASSES,
    DEFAULTS,
    Node,
    above,
    arguments,
    around,
    called_name,
    child,
    declared_name,
    find,
    has,
    squeezed,
    text_of,
    texts,
    walk,
)
from edgetune.stages.elastic.source.translation_unit import CALLED_BY, Definition, function_declarator, name_parts

_IMPLIED = {
    "for_range_loop": (*CALLED_BY["for_range_loop"], "operator*", "operator++", "operator!="),
    "structured_binding_declarator": CALLED_BY["structured_binding_declarator"],
    "new_expression": ("operatornew", "operatornew[]"),
    "delete_expression": ("operatordelete", "operatordelete[]"),
}
"""Functions that statements and expressions call."""
_NAMES = ("identifier", "type_identifier", "namespace_identifier")
_CONVERSION = re.compile(r"[^{}]*?\boperator(?:\s+(?!new\b|delete\b)|\s*(?=::))(?P<type>[A-Za-z_:][^({]*?)\s*\(")
CALLED = "operator()"
"""Name of lambdas, and of functions for which an object is called."""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function with a body, a method, or a lambda.

    Args:
        name: Without scopes; ``operator+`` of an operator.
        node: Its ``function_definition`` or ``lambda_expression``.
        piece: The definition that holds it.
        kinds: The types of its parameters, without those of ``...``.
        least: Arguments that must be given.
        most: Arguments that may be given; ``None`` where there is no limit.
        typing: The types of its variables.
        member: Whether it belongs to a class.
    """

    name: str
    node: Node
    piece: Definition
    kinds: tuple[str | None, ...]
    least: int
    most: int | None
    typing: Typing
    member: bool

    def takes(self, given: Sequence[str | None] | None) -> bool:
        """Return whether arguments of these types may be given to it; ``None`` stands for any arguments."""
        if given is None:
            return True
        enough = self.least <= len(given) and (self.most is None or len(given) <= self.most)
        return enough and all(map(self.typing.types.fits, given, self.kinds))


@dataclass(frozen=True, slots=True)
class Call:
    """A call that there may be.

    Args:
        node: The call, or the name of the function.
        caller: The function that holds it.
        called: A function that it may call.
        doubtful: Whether only a type that is not known makes it a call of this function.
    """

    node: Node
    caller: Function
    called: Function
    doubtful: bool = False


@dataclass(slots=True)
class _Names:
    """What names of functions mean.

    Args:
        functions: By name.
        macros: By name.
        open_ended: Functions that a declaration of their own gives defaults.
        objects: Names that classes, and variables of the file, declare: they may be called.
        references: Fields that are references.
        given: Templates that a class or another name for a type gives a class: ``struct Q : A<Q>``.
    """

    functions: dict[str, list[Function]]
    macros: Mapping[str, Sequence[Macro]]
    open_ended: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    references: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)


def call_graph(reach: Sequence[Definition], macros: Mapping[str, Sequence[Macro]]) -> list[Call]:
    """Return the calls between the functions that a kernel reaches, itself included, in the order of ``reach``.

    Args:
        reach: A kernel's definition and those that it reaches.
        macros: Of the file, by name.
    """
    types, names = types_of(reach), _Names({}, macros)
    for piece in reach:
        names.objects |= piece.declared if piece.kind in ("type", "variable") else set()
        for node in piece.find("function_definition", "lambda_expression", *DEFAULTS):
            if node.type not in DEFAULTS or node.child_by_field_name("default_value") is not None:
                function = _function(node, piece, typing_of(node, types, macros))
                names.functions.setdefault(function.name, []).append(function)
        for node in piece.find("function_declarator"):
            if has(node, "optional_parameter_declaration"):
                names.open_ended.add(text_of(declared_name(node)))
        for node in piece.find("field_declaration"):
            for each in node.children_by_field_name("declarator"):
                names.references |= (
                    texts(find(each, "field_identifier")) if has(each, "reference_declarator") else set()
                )
        for node in piece.find(*CLASSES, *ALIASES):
            names.given |= set(_given_classes(node, types))
    functions = [each for some in names.functions.values() for each in some]
    unnamed = [each for each in functions if _unnamed(each)]
    return [call for each in functions for call in (*_calls(each, names), *_of_objects(each, unnamed, names))]


def _given_classes(node: Node, types: Types) -> Iterator[str]:
    """Yield the templates in a type that are given a class, which may hold or extend what the template makes of it."""
    for template in find(node, "template_type"):
        kinds = [
            types.declared(each, each.child_by_field_name("declarator")) for each in find(template, "type_descriptor")
        ]
        if any(kind != PARAMETER and not is_plain(kind) for kind in kinds):
            yield text_of(template.child_by_field_name("name") or template)


def _function(node: Node, piece: Definition, typing: Typing) -> Function:
    if node.type == "lambda_expression":
        return Function(CALLED, node, piece, (), 0, None, typing, member=False)
    if node.type in DEFAULTS:
        return Function("a default value", node, piece, (), 0, None, typing, member=True)
    declarator, conversion = function_declarator(node), _CONVERSION.match(code_of(node))
    text = squeezed(declarator).split("(")[0].split("::")[-1]
    if conversion:
        name = " ".join(["operator", *conversion["type"].split()])
    elif text.startswith("operator"):
        name = CALLED if text == "operator" else text
    else:
        name = next(reversed(name_parts(node)), "")
    parameters = parameter_nodes(node)
    pack = any(each.type == "..." or "variadic" in each.type for each in parameters)
    plain = [each for each in parameters if each.type != "..."]
    kinds = tuple(None if "variadic" in each.type else
                  typing.types.declared(each, each.child_by_field_name("declarator")) for each in plain)  # fmt: skip
    least = sum(each.type == "parameter_declaration" for each in plain)
    member = len(name_parts(node)) > 1 or around(node, *CLASSES) is not None
    return Function(name, node, piece, kinds, least, None if pack else len(plain), typing, member)


def _calls(function: Function, names: _Names) -> Iterator[Call]:
    """Yield the calls in a function; those in a lambda are also calls of the function around it."""
    for part in _code(function):
        for node in walk(part):
            if node.type == "call_expression":
                yield from _of_call(node, function, names)
            elif node.type in OPERATIONS:
                yield from _of_operation(node, function, names)
            elif node.type in _IMPLIED:
                called = (each for name in _IMPLIED[node.type] for each in names.functions.get(name, ()))
                yield from (Call(node, function, each, doubtful=True) for each in called)
            elif node.type in ("operator_name", "user_defined_literal"):
                yield from (Call(node, function, each) for each in _spelled_out(node, names))
            elif node.type in _NAMES or (node.type == "field_identifier" and _delegates(node)):
                yield from _of_name(node, function, names)


def _spelled_out(node: Node, names: _Names) -> list[Function]:
    """Return the operators that a name means, and those that make a literal."""
    if node.type == "operator_name":
        return names.functions.get(squeezed(node), [])
    return [each for name in names.functions if name.startswith('operator""') for each in names.functions[name]]


def _code(function: Function) -> list[Node]:
    """Return the body of a function, and the list in front of it that initialises fields."""
    field = "default_value" if function.node.type in DEFAULTS else "body"
    initialisers = [each for each in function.node.children if each.type == "field_initializer_list"]
    return [*initialisers, function.node.child_by_field_name(field) or function.node]


def _unnamed(function: Function) -> bool:
    """Return whether a function is called without a name: a conversion, constructor or destructor, or a default."""
    named = function.name.startswith("operator ") or function.name == class_of(function.node)
    return named or function.node.type in DEFAULTS


def _of_objects(caller: Function, unnamed: Sequence[Function], names: _Names) -> Iterator[Call]:
    """Yield calls of functions without a name: any of them, where a value may be an object of a class."""
    kinds = {kind for kind in _kinds(caller, names) if not is_plain(kind)}
    own = class_of(caller.node) if _never_of_own_class(caller, kinds, names) else ""
    for each in unnamed if kinds else ():
        if not own or class_of(each.node) != own:
            yield Call(caller.node, caller, each, doubtful=True)


def _never_of_own_class(member: Function, kinds: Collection[str | None], names: _Names) -> bool:
    """Return whether no value in a member of a class template is of that class, given the types of its objects.

    A type that is a parameter of the class has fewer parameters than the class: it is not the class itself, and neither
    extends nor holds it unless some class is given to it. The member has no parameters of a template of its own.
    """
    templates = [each.type for each in islice(above(member.node), 2)].count("template_declaration")
    if around(member.node, *CLASSES) is None:  # template <class T> void A<T>::f() { ... }
        whole = templates == 1 and f"{class_of(member.node)}<" in squeezed(member.node).split("(")[0]
    else:
        whole = templates == 0
    return whole and kinds == {PARAMETER} and class_of(member.node) not in names.given


def _kinds(function: Function, names: _Names) -> Iterator[str | None]:
    """Yield the types of the values that a function uses, gives to others and returns."""
    yield from _result(function)
    for part in _code(function):
        for node in walk(part):
            if node.parent is None or node.parent.type == "field_expression":
                continue  # of a.x the type of x alone counts
            if node.parent.type == "call_expression" and node == node.parent.child_by_field_name("function"):
                yield from _kinds_of_call(node.parent, names)
            else:
                yield from _kinds_at(node, node.parent, function.typing)


def _kinds_of_call(call: Node, names: _Names) -> list[str | None]:
    """Return the types that the functions which a call names take and return; of those of CUDA all are plain."""
    word = text_of(called_name(call))
    if word in names.functions:
        return [kind for each in names.functions[word] for kind in (*each.kinds, *_result(each))]
    plain = known(word) or call.children[0].type == "primitive_type"
    return [] if plain else [None]


def _kinds_at(node: Node, outer: Node, typing: Typing) -> Iterator[str | None]:
    """Yield the type of the value or of the type that a node stands for; nothing where it stands for none."""
    match node.type:
        case "this" | "lambda_expression" | "delete_expression":
            yield None
        case "declaration" if has(node, "array_declarator"):
            yield typing.types.declared(node, None)
        case "type_descriptor":
            yield typing.types.declared(node, node.child_by_field_name("declarator"))
        case "type_identifier" if outer.type not in ("declaration", "type_descriptor"):
            yield typing.types.named_by(node)
        case "field_identifier":
            yield typing.fields.get(text_of(node))
        case "identifier" | "field_expression" | "subscript_expression" | "pointer_expression":
            yield from () if known(text_of(node)) else (typing.of(node),)


def _result(function: Function) -> list[str | None]:
    """Return the type that a function returns, if it returns anything."""
    types, kind = function.typing.types, function.node.child_by_field_name("type")
    if function.name.startswith("operator "):
        target = function.name.removeprefix("operator ").replace("const ", "").rstrip("& ")
        return ["?*" if target.endswith("*") else types.meant(target)]
    declarator = child(function.node, "declarator")
    if kind is None or text_of(kind) == "void" or declarator is None:
        return []
    pointer = any("pointer" in each.type for each in (declarator, *declarator.named_children))
    return ["?*" if pointer else types.declared(function.node, None)]


def _delegates(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "field_initializer"


def _given(call: Node, caller: Function, names: _Names) -> list[str | None] | None:
    """Return the types of a call's arguments; ``None`` where their number is not certain."""
    given = arguments(call)
    words = {word for each in given for word in texts(find(each, "identifier"))} & names.macros.keys()
    hidden = words.union(*(hidden_words(word, names.macros) for word in words))
    commas = any("," in macro.body for word in hidden for macro in names.macros.get(word, ()))
    return None if commas or has(call, "parameter_pack_expansion") else [caller.typing.of(each) for each in given]


def _of_call(call: Node, caller: Function, names: _Names) -> Iterator[Call]:
    name = called_name(call)
    text = text_of(name)
    if text not in names.functions:
        plain = name is not None and name.type == "identifier" and text not in caller.piece.declared | names.objects
        own = text not in names.references and squeezed(call).startswith((f"{text}(", f"this->{text}("))
        part = caller.typing.fields.get(text) if own else None
        for each in [] if plain or text in names.macros else names.functions.get(CALLED, []):
            if each != caller or text in caller.typing.variables or part is None or is_plain(part):
                yield Call(call, caller, each, doubtful=True)  # a part of an object is of another type than the object
        return
    given = None if text in names.macros else _given(call, caller, names)
    for each in names.functions[text]:
        if each.takes(given) or (given is not None and text in names.open_ended and len(given) < len(each.kinds)):
            yield Call(call, caller, each)


def _of_name(name: Node, caller: Function, names: _Names) -> Iterator[Call]:
    """Yield calls of a function whose name stands somewhere else than in front of arguments, or in a macro."""
    word = text_of(name)
    if word in names.macros:
        for hidden in sorted(hidden_words(word, names.macros) & names.functions.keys()):
            yield from (Call(name, caller, each) for each in names.functions[hidden])
    own = word in caller.typing.variables or word in caller.typing.fields
    if word not in names.functions or (name.type == "identifier" and own):
        return
    call = around(name, "call_expression")
    if call is not None and called_name(call) == name:
        return
    if name.type == "type_identifier" and not _made(name):
        return
    yield from (Call(name, caller, each) for each in names.functions[word])


def _made(name: Node) -> bool:
    """Return whether an object of a class is made where its name stands: not where a pointer to it is declared."""
    declaration = name.parent
    if declaration is None or declaration.type not in ("declaration", "compound_literal_expression", "new_expression"):
        return False
    declarators = declaration.children_by_field_name("declarator")
    return not declarators or not all(has(each, "pointer_declarator", "reference_declarator") for each in declarators)


def _of_operation(node: Node, caller: Function, names: _Names) -> Iterator[Call]:
    """Yield the overloaded operators that an operation may be."""
    parts = [node.child_by_field_name(each) for each in ("left", "argument", "right")]
    operands = [each for each in parts if each is not None]
    functions = [each for sign in signs(node) for each in names.functions.get(f"operator{sign}", [])]
    if not functions:
        return
    kinds = [caller.typing.of(each) for each in operands]
    if all(kind is not None and is_plain(kind) and (kind.endswith("*") or not _vector(kind)) for kind in kinds):
        return
    any_order = not REWRITTEN.keys().isdisjoint(signs(node))
    for each in functions:
        if not _operates(each, kinds) and not (any_order and _operates(each, kinds[::-1])):
            continue
        types = {*each.kinds, class_of(each.node)}
        if each == caller and PARAMETER in kinds and {None, PARAMETER, *names.given}.isdisjoint(types):
            continue  # a type that is a parameter of a class has fewer parameters than the class: it is another one
        yield Call(node, caller, each, doubtful=not {None, PARAMETER}.isdisjoint(kinds))


def _operates(operator: Function, kinds: Sequence[str | None]) -> bool:
    """Return whether an operator may be given operands of these types."""
    fits = operator.typing.types.fits
    if operator.member:
        return (kinds[0] is None or not is_plain(kinds[0])) and all(map(fits, kinds[1:], operator.kinds))
    return all(map(fits, kinds, operator.kinds))


def _vector(kind: str) -> bool:
    return kind[-1:] in "1234"
