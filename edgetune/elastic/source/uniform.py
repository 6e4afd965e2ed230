"""Which values are the same for all threads of a block, as far as the source shows.

    int tiles = (n + 15) / 16;            uniform: of parameters and constants
    int row = blockIdx.y * 16 + ty;       not: of threadIdx
    for (int t = 0; t < tiles; ++t)       t is uniform, for it is assigned uniform values by all threads alike
        if (ty > 3) k = 1;                k is not: only some threads assign it

A variable is taken to be uniform until something speaks against it, and what speaks against one may then speak against
others, until nothing changes (the greatest fixed point). What is read from memory is never uniform: another thread may
have written there in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgetune.elastic.source.names import Names, Use, Variable
from edgetune.elastic.source.nodes import callee, find, own, text_of, words
from edgetune.elastic.source.unit import ParsedFile

if TYPE_CHECKING:
    from tree_sitter import Node

LAUNCH_NAMES = ("blockIdx", "blockDim", "gridDim", "warpSize")
"""Names of CUDA that are the same for all threads of a block."""

_PURE = frozenset(
    "min max abs fabsf fabs fminf fmaxf umin umax ceil ceilf floor floorf sqrtf sqrt powf log2f log2 exp2f "
    "__popc __clz __ffs __mul24 __umul24 __mulhi __umulhi int unsigned float double bool".split()
)
"""Calls whose value depends on their arguments alone."""
_LITERALS = ("number_literal", "char_literal", "true", "false", "null", "nullptr", "sizeof_expression")
_THROUGH = ("parenthesized_expression", "conditional_expression", "cast_expression", "comma_expression")
_OPERATIONS = (*_THROUGH, "binary_expression", "unary_expression", "condition_clause", "update_expression")
_ROOTS = ("compound_statement", "expression_statement", "init_declarator", "declaration", "return_statement")
_CONDITIONED = ("if_statement", "while_statement", "do_statement", "for_statement")
_OPAQUE = ("switch_statement", "for_range_loop", "lambda_expression", "labeled_statement", "try_statement")
_LOOPS = ("while_statement", "do_statement", "for_statement")
_ARITHMETIC = re.compile(r"[\w\s+\-*/%()<>=&|^~!.?:]*")
_HEADER_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")
_NON_ZERO = re.compile(r"\(*\s*(?:0[xX](?=[0-9a-fA-F]*[1-9a-fA-F])[0-9a-fA-F]+|(?=\d*[1-9])\d+)[uUlL]*\s*\)*")


def condition_of(statement: Node) -> Node | None:
    """Return the condition of an ``if`` or a loop, without its parentheses; ``None`` where there is none."""
    condition = statement.child_by_field_name("condition")
    while condition is not None and condition.type in ("parenthesized_expression", "condition_clause"):
        inside = [each for each in condition.named_children if each.type != "comment"]
        if len(inside) != 1 or "declaration" in inside[0].type or inside[0].type == "init_statement":
            return condition
        condition = inside[0]
    return condition


def root_of(node: Node) -> Node:
    """Return the whole expression around ``node`` whose value is not used any further."""
    here = node
    while here.parent is not None:
        above = here.parent
        if above.type in _ROOTS or above.type in ("condition_clause", "else_clause", *_CONDITIONED, *_OPAQUE):
            return here
        here = above
    return here


def above(node: Node, scope: Node) -> Iterator[tuple[Node, Node]]:
    """Yield what is around ``node``, each with the part of it that ``node`` is in, up to and with ``scope``."""
    here = node
    while here != scope and here.parent is not None:
        yield here.parent, here
        here = here.parent


@dataclass(slots=True)
class Uniformity:
    """What is uniform in one kernel.

    Args:
        body: Of the kernel.
        names: Of the kernel.
        unit: Its file.
        variables: Those that are uniform.
        writes: Of each variable, the whole expressions that change it; ``None`` for a way that cannot be followed.
        constants: Names of the file that mean constants.
    """

    body: Node
    names: Names
    unit: ParsedFile
    variables: set[Variable] = field(default_factory=set)
    writes: Mapping[Variable, Sequence[Node | None]] = field(default_factory=dict)
    constants: frozenset[str] = frozenset()
    _by_node: dict[int, list[Variable]] = field(default_factory=dict)

    @classmethod
    def of(cls, body: Node, names: Names, unit: ParsedFile) -> Uniformity:
        """Find out about a kernel."""
        writes: dict[Variable, list[Node | None]] = {each: [] for each in names.variables}
        by_node: dict[int, list[Variable]] = {}
        for use in names.uses:
            by_node.setdefault(use.node.id, []).append(use.variable)
            changed, root = _write(use, unit)
            if changed:
                writes[use.variable].append(root)
        plain = {each for each in names.variables if each.kind != "shared" and not each.has(*_NO_SCALAR)}
        here = cls(body, names, unit, plain, writes, _constants(unit), by_node)
        while (out := {each for each in here.variables if not here._stays(each)}) and here.variables:
            here.variables -= out
        return here

    def _stays(self, variable: Variable) -> bool:
        """Whether nothing speaks against a variable, given what is still taken to be uniform."""
        if variable.value is not None and not self.expression(variable.value):
            return False
        for root in self.writes[variable]:
            if root is None or not self.expression(root) or not self.same_for_all(root, variable.scope):
                return False
        return True

    def same_for_all(self, node: Node, scope: Node) -> bool:
        """Whether all threads that are in ``scope`` come to ``node`` equally often, or have returned."""
        for around, part in above(node, scope):
            if around.type in _OPAQUE:
                return False
            if around.type not in _CONDITIONED or part == around.child_by_field_name("initializer"):
                continue
            condition = condition_of(around)
            if around.type in _LOOPS and any(own(around, "break_statement", "continue_statement")):
                return False
            governed = around.type != "if_statement" or part.type != "condition_clause"
            if governed and condition is not None and not self.expression(condition):
                return False
        return True

    def all_return(self, leave: Node) -> bool:
        """Whether a ``return`` is one that all threads of the block come to together, or none."""
        loops = (*_LOOPS, *_OPAQUE)
        if any(around.type in loops for around, _ in above(leave, self.body)):
            return False
        return self.same_for_all(leave, self.body)

    def expression(self, node: Node) -> bool:
        """Whether the value and the effects of an expression are the same for all threads that evaluate it."""
        if node.type in _LITERALS:
            return all(self._name(each) for each in find(node, "identifier", "type_identifier"))
        if node.type in ("identifier", "type_identifier"):
            return self._name(node)
        if node.type in _OPERATIONS:
            if node.type == "binary_expression" and not self._divides_safely(node, "right"):
                return False
            return all(self._part(each) for each in node.named_children)
        if node.type == "assignment_expression":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is None or right is None or left.type != "identifier":
                return False
            return self._name(left) and self.expression(right) and self._divides_safely(node, "right")
        if node.type == "field_expression":
            argument = node.child_by_field_name("argument")
            dot = any(each.type == "." for each in node.children)
            return dot and argument is not None and self.expression(argument)
        if node.type == "call_expression":
            given = node.child_by_field_name("arguments")
            pure = callee(node) in _PURE and callee(node) not in self.unit.functions
            return pure and given is not None and all(self._part(each) for each in given.named_children)
        return False

    def _part(self, node: Node) -> bool:
        """Whether a part of an operation is uniform; comments and types that name no variable are."""
        if node.type == "comment":
            return True
        if node.type in ("type_descriptor", "primitive_type", "sized_type_specifier"):
            return not any(self._by_node.get(each.id) for each in find(node, "identifier", "type_identifier")) or all(
                self._name(each) for each in find(node, "identifier", "type_identifier")
            )
        return self.expression(node)

    def _name(self, node: Node) -> bool:
        meant, name = self._by_node.get(node.id, []), text_of(node)
        if any(each not in self.variables for each in meant):
            return False
        if name in self.unit.macros:
            return self._macro(name, set())
        known = name in LAUNCH_NAMES or name in self.constants
        return bool(meant) or known or bool(_HEADER_CONSTANT.fullmatch(name)) or node.type == "type_identifier"

    def _macro(self, name: str, seen: set[str]) -> bool:
        """Whether a macro stands for arithmetic with constants and with what its user can see."""
        for macro in self.unit.macros[name]:
            if macro.parameters is not None or not _ARITHMETIC.fullmatch(macro.body) or name in seen:
                return False
            for word in words(macro.body):
                if word in self.unit.macros:
                    if not self._macro(word, seen | {name}):
                        return False
                elif not (word in self.constants or word in _PURE or word in LAUNCH_NAMES or _is_type_or_local(self, word)):
                    return False
            if re.search(r"=(?!=)|\+\+|--", macro.body) and not re.search(r"[<>!]=", macro.body):
                return False
        return True

    def _divides_safely(self, node: Node, side: str) -> bool:
        """Whether a division cannot fail for threads that have returned before it, which do not come to it."""
        operator = node.child_by_field_name("operator")
        divisor = node.child_by_field_name(side)
        if divisor is None or operator is None or text_of(operator) not in ("/", "%", "/=", "%="):
            return True
        text = text_of(divisor)
        bodies = [each.body for each in self.unit.macros.get(text, ())] or [text]
        dimension = re.fullmatch(r"(?:blockDim|gridDim)\.[xyz]|warpSize|sizeof.*", text)
        if dimension or all(_NON_ZERO.fullmatch(each.strip()) for each in bodies):
            return True
        before = (each for each in own(self.body, "return_statement") if each.start_byte < node.start_byte)
        return all(self.all_return(each) for each in before)


_NO_SCALAR = ("array_declarator", "reference_declarator", "structured_binding_declarator", "function_declarator")


def _is_type_or_local(here: Uniformity, word: str) -> bool:
    """Whether a word in a macro is a type, part of a number, or a variable (which is looked at by itself)."""
    variable = any(each.name == word for each in here.names.variables)
    return variable or word in ("int", "unsigned", "long", "short", "char", "sizeof", "x", "y", "z")


def _constants(unit: ParsedFile) -> frozenset[str]:
    """Return the names of constants that the file and its headers define outside of functions."""
    found = set[str]()
    for tree in (unit.tree, *unit.headers.values()):
        for each in own(tree.root_node, "enumerator", "declaration"):
            if each.type == "enumerator":
                name = each.child_by_field_name("name")
                found |= set() if name is None else {text_of(name)}
            elif {"const", "constexpr", "__constant__"} & {text_of(child) for child in each.children}:
                pointed = any(find(each, "pointer_declarator"))
                declared = (child.child_by_field_name("declarator") for child in find(each, "init_declarator"))
                found |= set() if pointed else {text_of(name) for name in declared if name and name.type == "identifier"}
    return frozenset(found)


def _write(use: Use, unit: ParsedFile) -> tuple[bool, Node | None]:
    """Return whether a use may change its variable, and the whole expression that does; ``None``: not to be followed."""
    if use.hidden:
        return any(re.search(r"=|\+\+|--|&|\(", each.body) for each in unit.macros.get(text_of(use.node), ())), None
    here, direct = use.node, True
    while (around := here.parent) is not None:
        if around.type in ("assignment_expression", "update_expression"):
            changed = here == (around.child_by_field_name("left") or around.child_by_field_name("argument"))
            return changed, root_of(around) if changed and direct else None
        if around.type == "pointer_expression":
            return text_of(around).startswith("&"), None
        if around.type == "lambda_capture_specifier" or around.type.startswith("gnu_asm"):
            return True, None
        if around.type == "argument_list" and direct:
            return not _by_value(around.parent, unit), None
        if around.type == "init_declarator":
            declarator = around.child_by_field_name("declarator")
            return declarator is not None and "reference" in declarator.type, None
        if around.type == "for_range_loop":
            return here == around.child_by_field_name("right"), None
        if around.type == "call_expression" and here.type == "field_expression":
            return True, None  # a method of it
        if around.type not in _LVALUES:
            return False, None
        if around.type in ("field_expression", "subscript_expression"):
            if here != around.child_by_field_name("argument") or any(each.type == "->" for each in around.children):
                return False, None
            if around.type == "subscript_expression" and not use.variable.has("array_declarator"):
                return False, None
            direct = False
        here = around
    return False, None


_LVALUES = ("parenthesized_expression", "field_expression", "subscript_expression", "conditional_expression") + (
    "comma_expression",
)


def _by_value(call: Node | None, unit: ParsedFile) -> bool:
    """Whether a call cannot change a variable that it is given by name."""
    if call is None or call.type != "call_expression":
        return call is not None and call.type == "init_declarator"
    name = callee(call)
    if name in unit.macros:
        return False
    if name in unit.functions:
        declarators = (each.node.child_by_field_name("declarator") for each in unit.functions[name])
        return not any(True for each in declarators if each is not None for _ in find(each, "reference_declarator"))
    return name in _PURE or name.startswith("__") or name.endswith("f") or name.startswith(("atomic", "make_"))
