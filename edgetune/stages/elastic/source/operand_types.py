"""The types of expressions, where they are plain; by them, which of several functions of one name a call may mean.

    __device__ float4 fabs(float4 v) { return make_float4(fabs(v.x), ...); }     v.x is a float: fabs(v.x) is CUDA's

A type is written as ``float``, ``float4``, ``Node``, ``Node *``; qualifiers and references are left out. A number whose
exact type was not looked for is ``NUMBER``, a parameter of a template ``PARAMETER``. ``None`` stands for a type that is
not known, which fits everything; a pointer to one is ``? *``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from edgetune.stages.elastic.source.builtins import VECTORS
from edgetune.stages.elastic.source.directives import without_comments
from edgetune.stages.elastic.source.syntax import (
    ALIASES,
    CLASSES,
    DECLARATIONS,
    Node,
    around,
    child,
    declared_name,
    find,
    goes_through,
    has,
    listed,
    sign_of,
    text_of,
    texts,
)
from edgetune.stages.elastic.source.translation_unit import Definition, declares, name_parts

NUMBER = "number"
"""Of an arithmetic type."""
PARAMETER = "typename"
"""A type that is a parameter of a template."""
_SCALARS = {
    "bool": "bool", "char": "char", "short": "short", "int": "int", "long": "long", "float": "float",
    "double": "double", "unsigned": "unsigned int", "uint": "unsigned int", "size_t": NUMBER,
    **{f"{sign}int{bits}_t": NUMBER for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_PROMOTED = ("int", "float", "double")
"""Arithmetic types that keep their type in an operation with themselves."""
_DECLARATOR = re.compile("declarator|identifier")
_COMPARING = frozenset({"<", ">", "<=", ">=", "==", "!=", "&&", "||"})
_CONVERSION = re.compile(r"\boperator\s*[A-Za-z_:]")
_INT = re.compile(r"[1-9]\d{0,8}")


def is_number(kind: str | None) -> bool:
    """Return whether a type is arithmetic."""
    return kind == NUMBER or kind in _SCALARS.values() or (kind is not None and kind.startswith("unsigned "))


def is_plain(kind: str | None) -> bool:
    """Return whether a type is arithmetic, a vector type of CUDA, or a pointer: no class of the file."""
    return is_number(kind) or (kind is not None and (kind.endswith("*") or VECTORS.fullmatch(kind) is not None))


@dataclass(frozen=True, slots=True)
class Types:
    """The types that the definitions which a kernel reaches make.

    Args:
        fields: By the name of a class and of a field; ``None`` where a class has several definitions.
        aliases: Other names of arithmetic types.
        named: All names of types.
        parameters: Names of types that are parameters of templates, and nothing else.
        unconverted: Classes without bases and conversions, which never become numbers, vectors or pointers.
    """

    fields: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()
    unconverted: frozenset[str] = frozenset()

    def declared(self, declaration: Node, declarator: Node | None) -> str | None:
        """Return the type that a declaration gives to one of its declarators."""
        base = declaration.child_by_field_name("type")
        kind, here = (None if base is None else self.named_by(base)) or "?", declarator
        while here is not None and not here.type.endswith("identifier"):
            if "pointer_declarator" in here.type or "array_declarator" in here.type:
                kind += "*"
            elif "reference" not in here.type and here.type not in ("init_declarator", "parenthesized_declarator"):
                return None
            inner = here.child_by_field_name("declarator")
            here = inner or next((each for each in here.named_children if _DECLARATOR.search(each.type)), None)
        return None if kind == "?" else kind

    def named_by(self, node: Node) -> str | None:
        """Return the type that a name means."""
        of_template = node.child_by_field_name("name") if node.type == "template_type" else None
        return self.meant(text_of(of_template or node))

    def meant(self, text: str) -> str | None:
        """Return the type that words mean."""
        words = text.split()
        if len(words) > 1:
            sized = {"unsigned", "signed", "long", "short", "int", "char"}
            return None if not set(words) <= sized else "unsigned int" if words == ["unsigned", "int"] else NUMBER
        word = words[0] if words else ""
        if word in self.aliases:
            return self.aliases[word]
        if word in self.parameters:
            return PARAMETER
        if word in self.named:
            return word if (word, "") in self.fields and not is_plain(word) else None
        return _SCALARS.get(word) or (word if VECTORS.fullmatch(word) else None)

    def fits(self, given: str | None, wanted: str | None) -> bool:
        """Return whether an argument may be given for a parameter: no plain type becomes another one by itself.

        Numbers become each other, pointers become ``void *`` and ``bool``; where a class has a part, anything may,
        unless the class has no conversion to a plain type.
        """
        if given in self.unconverted and is_plain(wanted):
            return False
        if given is None or wanted is None or given == wanted or not is_plain(given) or not is_plain(wanted):
            return True
        if is_number(given) and is_number(wanted):
            return True
        if given.endswith("*") and wanted.endswith("*"):
            bases = {given.rstrip("*"), wanted.rstrip("*")}
            return not all(map(is_plain, bases)) or (NUMBER in bases and all(map(is_number, bases)))
        return given.endswith("*") and wanted == "bool"


def types_of(reach: Sequence[Definition]) -> Types:
    """Return the types in the definitions that a kernel reaches."""
    classes, aliases = dict[str, list[Node]](), dict[str, set[str | None]]()
    named = {piece.name for piece in reach if piece.kind == "macro"}
    parameters = set[str]()
    for piece in reach:
        for node in piece.find(*CLASSES, *ALIASES, "template_parameter_list"):
            if node.type == "template_parameter_list":
                parameters |= texts(name for each in node.named_children for name in declares(each))
                continue
            found = [*node.children_by_field_name("name"), *node.children_by_field_name("declarator")]
            names = [text_of(each) for each in map(declared_name, map(_untemplated, found)) if each is not None]
            named.update(names)
            if node.type in CLASSES and node.child_by_field_name("body") is not None:
                classes.setdefault(names[0] if names else "", []).append(node)
            elif node.type in ALIASES:
                whole = node.type == "type_definition" and found[0].type == "type_identifier" and len(found) == 1
                base = Types().named_by(node.child_by_field_name("type") or node) if whole else None
                aliases.setdefault(names[0] if names else "", set()).add(base)
    known = {name: of for name, each in aliases.items() for of in each if len(each) == 1 and of and is_number(of)}
    known = {name: of for name, of in known.items() if name not in classes and name not in parameters}
    fields: dict[tuple[str, str], str | None] = {(name, ""): None for name in classes if name not in aliases}
    unconverted = {name for name, nodes in classes.items() if len(nodes) == 1 and not _converts(nodes[0])}
    unconverted -= parameters | aliases.keys()
    if any(piece.kind == "macro" and "operator" in piece.tokens for piece in reach):
        unconverted = set()
    types = Types(
        fields, known, frozenset(named | parameters), frozenset(parameters - named), frozenset(unconverted - {""})
    )
    for name, nodes in classes.items():
        if len(nodes) == 1 and (name, "") in fields:
            fields.update({(name, part): kind for part, kind in fields_of(nodes[0], types).items()})
    return types


def _converts(owner: Node) -> bool:
    """Return whether a class has a base, or a conversion to another type."""
    return has(owner, "base_class_clause") or _CONVERSION.search(code_of(owner)) is not None


def class_of(function: Node) -> str:
    """Return the name of the class that a function belongs to; empty without one."""
    own = text_of(child(around(function, *CLASSES), "name")).split("<")[0].strip()
    return own or next(iter(name_parts(function)[-2:-1]), "")


def code_of(node: Node) -> str:
    """Return the source of a node with a space for each comment."""
    return without_comments(node.text or b"").decode("utf-8", "surrogateescape")


def _untemplated(name: Node) -> Node:
    return name.child_by_field_name("name") or name if name.type == "template_type" else name


def fields_of(owner: Node, types: Types) -> dict[str, str | None]:
    """Return the types of the fields that a class itself declares."""
    found = dict[str, str | None]()
    for node in (each for each in listed(owner.child_by_field_name("body")) if each.type == "field_declaration"):
        for declarator in node.children_by_field_name("declarator"):
            found[text_of(declared_name(declarator))] = types.declared(node, declarator)
    return found


@dataclass(slots=True)
class Typing:
    """The types of the expressions in a function.

    Args:
        types: Those of the file.
        variables: The types of its parameters and local variables; ``None`` where a name has several.
        fields: Those of the class that it belongs to.
    """

    types: Types
    variables: Mapping[str, str | None]
    fields: Mapping[str, str | None]

    def of(self, node: Node) -> str | None:
        """Return the type of an expression."""
        how = {
            "parenthesized_expression": lambda: (
                self.of(node.named_children[0]) if node.named_child_count == 1 else None
            ),
            "identifier": lambda: self.variables.get(name := text_of(node), self.fields.get(name)),
            "number_literal": lambda: _of_literal(text_of(node)),
            "field_expression": lambda: self._field(self._part(node, "argument"), node),
            "unary_expression": lambda: _promoted(self._part(node, "argument")),
            "update_expression": lambda: _promoted(self._part(node, "argument")),
            "binary_expression": lambda: self._operation(node),
            "subscript_expression": lambda: _behind(self._part(node, "argument")),
            "pointer_expression": lambda: self._pointer(node),
            "cast_expression": lambda: self._descriptor(node.child_by_field_name("type")),
            "call_expression": lambda: self._call(node.child_by_field_name("function")),
        }.get(node.type)
        return None if how is None else how()

    def _part(self, node: Node, name: str) -> str | None:
        part = node.child_by_field_name(name)
        return None if part is None else self.of(part)

    def _pointer(self, node: Node) -> str | None:
        kind = self._part(node, "argument")
        if not text_of(node).startswith("&"):
            return _behind(kind)
        return f"{kind}*" if is_plain(kind) else None

    def _field(self, owner: str | None, node: Node) -> str | None:
        name, argument = text_of(node.child_by_field_name("field")), node.child_by_field_name("argument")
        if argument is not None and argument.type == "this":
            return self.fields.get(name)
        if goes_through(node):
            owner = _behind(owner)
        if owner is not None and VECTORS.fullmatch(owner) and owner not in self.types.named:
            return _SCALARS.get(owner[:-1], NUMBER) if name in ("x", "y", "z", "w") else None
        return None if owner is None else self.types.fields.get((owner, name))

    def _operation(self, node: Node) -> str | None:
        left, right = self._part(node, "left"), self._part(node, "right")
        if not is_number(left) or not is_number(right):
            return None
        return "bool" if sign_of(node) in _COMPARING else left if left == right and left in _PROMOTED else NUMBER

    def _descriptor(self, node: Node | None) -> str | None:
        return None if node is None else self.types.declared(node, node.child_by_field_name("declarator"))

    def _call(self, function: Node | None) -> str | None:
        """Return the type of ``float(x)`` and ``static_cast<float>(x)``."""
        name = text_of(function)
        if function is None or name in self.variables:
            return None
        if function.type == "template_function" and name.split("<")[0].endswith("_cast"):
            return next((self._descriptor(each) for each in find(function, "type_descriptor")), None)
        kind = self.types.named_by(function)
        return kind if is_number(kind) else None


def _behind(kind: str | None) -> str | None:
    """Return the type that a pointer points to."""
    return kind[:-1] if kind is not None and kind.endswith("*") and kind != "?*" else None


def _promoted(kind: str | None) -> str | None:
    return kind if kind in _PROMOTED else NUMBER if is_number(kind) else None


def _of_literal(text: str) -> str | None:
    if _INT.fullmatch(text):
        return "int"
    if text.strip("0xXuUlL'bB") == "":
        return None  # zero, which is a pointer as well
    if text[:2] in ("0x", "0X") or set(text) - set("0123456789.eE+-fF"):
        return NUMBER
    return "float" if text[-1] in "fF" else "double" if set(text) & set(".eE") else NUMBER


def typing_of(function: Node, types: Types, macros: Collection[str]) -> Typing:
    """Return the types in a function; its parameters included.

    Args:
        function: Its ``function_definition``.
        types: Those of the file.
        macros: The names of macros, which may mean anything.
    """
    found: dict[str, set[str | None]] = {}
    whole = around(function, "function_definition") if function.type == "lambda_expression" else None
    owner = around(function, *CLASSES)
    for node in find(whole or function, *DECLARATIONS, "for_range_loop", "structured_binding_declarator"):
        for declarator in node.children_by_field_name("declarator") if node.type in DECLARATIONS else ():
            found.setdefault(text_of(declared_name(declarator)), set()).add(types.declared(node, declarator))
        if node.type not in DECLARATIONS:
            for each in find(node.child_by_field_name("declarator") or node, "identifier"):
                found.setdefault(text_of(each), set()).add(None)
    for each in find(function, "lambda_capture_initializer"):
        found.setdefault(text_of(each.named_children[0]), set()).add(None)
    one = {name: kinds.copy().pop() if len(kinds) == 1 else None for name, kinds in found.items()}
    scope = name_parts(function)[-2:-1] if owner is None else []
    fields = {part: kind for (name, part), kind in types.fields.items() if [name] == scope}
    fields = fields if owner is None else fields_of(owner, types)
    return Typing(types, *({name: kind for name, kind in each.items() if name not in macros} for each in (one, fields)))
