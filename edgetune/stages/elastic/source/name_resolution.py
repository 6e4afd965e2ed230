"""Resolves names to the variables of a kernel.

    int x = n;                 x: a local, n: a parameter
    { float x = 0; y(x); }     another x, known between these braces
    TOTAL += 1;                with #define TOTAL x: the first x again, hidden in a macro

Macros are not expanded: a name in the body of a macro means what it would mean where the macro is used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from edgetune.stages.elastic.source.macros import Macro
from edgetune.stages.elastic.source.syntax import (
    DECLARATIONS,
    NUMBERS,
    Node,
    closure,
    declared_name,
    find,
    has,
    text_of,
    walk,
    words,
)

_SCOPES = frozenset(
    ("compound_statement", "for_statement", "for_range_loop", "if_statement", "while_statement", "switch_statement")
) | {"lambda_expression", "catch_clause", "do_statement"}
_NAMES = ("identifier", "type_identifier")
"""``(n) * x`` parses as a cast to a type n: a name of a known variable means that variable."""


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable of a kernel, distinct from every other one of its name.

    Args:
        name: Its name.
        kind: Parameter, local, or shared memory.
        declaration: The statement or parameter that declares it.
        declarator: Its part of the declaration, without the initialiser.
        value: Its initialiser; ``None`` where it has none.
        scope: The node in which it is known.
    """

    name: str
    kind: Literal["parameter", "local", "shared"]
    declaration: Node
    declarator: Node
    value: Node | None
    scope: Node

    @property
    def dimensions(self) -> int:
        """Dimensions of the array that it is; 0 where it is none, as a pointer to an array."""
        name, found = declared_name(self.declarator), 0
        around = None if name is None or name == self.declarator else name.parent
        while around is not None and around.type == "array_declarator":
            found += 1
            around = None if around == self.declarator else around.parent
        return found

    @property
    def of_number(self) -> bool:
        """Whether keywords name the type of its declaration: ``float``, also of ``float *p``."""
        kind = self.declaration.child_by_field_name("type")
        return kind is not None and kind.type in NUMBERS

    def has(self, *types: str) -> bool:
        """Whether its declarator holds a node of one of these types, e.g. ``reference_declarator``."""
        return has(self.declarator, *types)


@dataclass(frozen=True, slots=True)
class VariableUse:
    """A place where a variable is named outside its declaration.

    Args:
        variable: The variable.
        node: The name, or the name of the macro that hides it.
        hidden: Whether a macro hides it.
    """

    variable: Variable
    node: Node
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class NameTable:
    """All names of a kernel.

    Args:
        variables: In the order of their declarations, parameters first.
        uses: In the order of the source.
        free: Names that mean none of its variables.
    """

    variables: tuple[Variable, ...]
    uses: tuple[VariableUse, ...]
    free: tuple[Node, ...]

    def used_in(self, node: Node) -> list[Variable]:
        """Return the variables that ``node`` names, each once, in order."""
        first = bisect_left(self.uses, node.start_byte, key=_start)
        last = bisect_left(self.uses, node.end_byte, key=_start)
        return list(dict.fromkeys(use.variable for use in self.uses[first:last]))


def resolve(function: Node, body: Node, macros: Mapping[str, Sequence[Macro]]) -> NameTable:
    """Return the meaning of the names of a kernel.

    Args:
        function: Its definition.
        body: Its body.
        macros: Of the file, by name.
    """
    reader = _Reader(macros, [({}, body)])
    parameters = next(find(function.child_by_field_name("declarator") or function, "parameter_list"))
    for parameter in parameters.named_children:
        reader.read(parameter)
    for child in body.children:
        reader.read(child)
    return NameTable(tuple(reader.variables), tuple(sorted(reader.uses, key=_start)), tuple(reader.free))


def _start(use: VariableUse) -> int:
    return int(use.node.start_byte)


def hidden_words(name: str, macros: Mapping[str, Sequence[Macro]]) -> set[str]:
    """Return the names in the body of a macro and of the macros in it, without its parameters."""

    def inside(here: str) -> set[str]:
        return {
            word for each in macros.get(here, ()) for word in words(each.body) if word not in (each.parameters or ())
        }

    return closure(inside(name), inside)


@dataclass(slots=True)
class _Reader:
    """Walks through a kernel with the names that are known at each place."""

    macros: Mapping[str, Sequence[Macro]]
    known: list[tuple[dict[str, Variable], Node]]
    variables: list[Variable] = field(default_factory=list)
    uses: list[VariableUse] = field(default_factory=list)
    free: list[Node] = field(default_factory=list)

    def read(self, node: Node) -> None:
        """Read a node and all below it."""
        if node.type in _SCOPES:
            self.known.append(({}, node))
            self._for_range(node) if node.type == "for_range_loop" else self._all(node.children)
            self.known.pop()
        elif node.type in DECLARATIONS:
            self._declare(node)
        elif node.type in _NAMES:
            self._use(node)
        else:
            self._all(node.children)

    def _all(self, nodes: Iterable[Node]) -> None:
        for each in nodes:
            self.read(each)

    def _for_range(self, loop: Node) -> None:
        """Read ``for (int v : values)``, where ``v`` is unknown in ``values``."""
        body = loop.child_by_field_name("body")
        declarator = loop.child_by_field_name("declarator")
        self._all(each for each in loop.children if each not in (body, declarator))
        if declarator is not None:
            self._add(loop, declarator, None, "local")
        if body is not None:
            self.read(body)

    def _declare(self, declaration: Node) -> None:
        shared = any(text_of(each) == "__shared__" for each in declaration.children)
        parameter = declaration.type != "declaration" and len(self.known) == 1
        kind: Literal["parameter", "local", "shared"] = "parameter" if parameter else "shared" if shared else "local"
        for place, child in enumerate(declaration.children):
            if declaration.field_name_for_child(place) != "declarator":
                self.read(child)
            elif child.type == "init_declarator":
                inner, value = child.child_by_field_name("declarator"), child.child_by_field_name("value")
                self._add(declaration, inner or child, value, kind)
                if value is not None:
                    self.read(value)
            else:
                self._add(declaration, child, None, kind)

    def _add(
        self, declaration: Node, declarator: Node, value: Node | None, kind: Literal["parameter", "local", "shared"]
    ) -> None:
        """Register the names of a declarator, and read the rest of it: sizes of arrays."""
        bindings = list(find(declarator, "structured_binding_declarator"))
        name = declared_name(declarator)
        declared = list(find(bindings[0], "identifier")) if bindings else [] if name is None else [name]
        for node in walk(declarator):
            if node.type in _NAMES and node not in declared:
                self._use(node)
        table, scope = self.known[-1]
        for each in declared:
            variable = Variable(text_of(each), kind, declaration, declarator, value, scope)
            table[variable.name] = variable
            self.variables.append(variable)

    def _use(self, node: Node) -> None:
        name = text_of(node)
        variable = self._find(name)
        if variable is not None:
            self.uses.append(VariableUse(variable, node))
        else:
            self.free.append(node)
        if name in self.macros:
            hidden = (self._find(word) for word in sorted(hidden_words(name, self.macros)))
            self.uses.extend(VariableUse(each, node, hidden=True) for each in hidden if each is not None)

    def _find(self, name: str) -> Variable | None:
        return next((table[name] for table, _ in reversed(self.known) if name in table), None)
