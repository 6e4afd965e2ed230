"""Values that are the same for all threads of a block, as far as the source shows.

    int tiles = (n + 15) / 16;            uniform: of parameters and constants
    int row = blockIdx.y * 16 + ty;       not: of threadIdx
    for (int t = 0; t < tiles; ++t)       t is uniform, for all threads alike assign it uniform values
        if (ty > 3) k = 1;                k is not: only some threads assign it

A variable counts as uniform until something speaks against it, which may then speak against others, until nothing
changes (the greatest fixed point). What ``__syncthreads_or`` and its like return is uniform. A value read from memory
is never uniform: another thread may have written there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from edgetune.stages.elastic.source.builtins import LINEAR_THREAD, VOTE_BARRIERS, known
from edgetune.stages.elastic.source.name_resolution import NameTable, Variable, hidden_words
from edgetune.stages.elastic.source.syntax import (
    LOOPS,
    NUMBERS,
    Node,
    above,
    around,
    callee,
    child,
    decider,
    declared_name,
    find,
    goes_through,
    has,
    listed,
    node_types,
    own,
    sign_of,
    squeezed,
    steps,
    text_of,
    texts,
    words,
)
from edgetune.stages.elastic.source.translation_unit import Definition, ParsedFile, ParsedKernel
from edgetune.stages.elastic.source.value_types import is_inert, is_number_type
from edgetune.stages.elastic.source.write_analysis import changes, is_array_type

_CONDITIONED = ("if_statement", *LOOPS)
_OPAQUE = ("switch_statement", "for_range_loop", "lambda_expression", "labeled_statement", "try_statement")
_NO_SCALAR = ("reference_declarator", "structured_binding_declarator", "function_declarator")

_LAUNCH_NAMES = ("blockIdx", "blockDim", "gridDim", "warpSize")
_BLOCK_STARTS = ("blockIdx.x*blockDim.x", "blockDim.x*blockIdx.x")
_THREAD_NUMBERS = (
    "threadIdx.x",
    LINEAR_THREAD.replace(" ", ""),
    *(f"{each}+threadIdx.x" for each in _BLOCK_STARTS),
    *(f"threadIdx.x+{each}" for each in _BLOCK_STARTS),
)
_PURE = frozenset({
    "min", "max", "abs", "fabs", "fabsf", "fmin", "fminf", "fmax", "fmaxf", "umin", "umax", "ceil", "ceilf", "floor",
    "floorf", "sqrt", "sqrtf", "log2", "log2f", "exp2f", "__popc", "__clz", "__ffs", "__mul24", "__umul24", "__mulhi",
    "__umulhi", "int", "unsigned", "float", "double", "bool", "static_cast",
})  # fmt: skip
"""Calls whose value depends on their arguments alone."""
_TYPES = frozenset({
    "int", "unsigned", "signed", "long", "short", "char", "float", "double", "bool", "sizeof", "size_t", "x", "y", "z",
})  # fmt: skip
"""Words of arithmetic in macros that name no value (fields of blockDim among them)."""

_LITERALS = node_types("number_literal char_literal true false null nullptr sizeof_expression")
_OPERATIONS = node_types("""
    binary_expression unary_expression update_expression conditional_expression cast_expression
    parenthesized_expression comma_expression condition_clause initializer_list
""")
_EFFECTS = node_types("assignment_expression update_expression call_expression lambda_expression")
_TYPE_NODES = ("type_descriptor", *NUMBERS)
_ARITHMETIC = re.compile(r"[\w\s+\-*/%()<>&|^~!.?:,]*")
_INDIRECT = re.compile(r"->|(?:^|[=(,;:?+\-*/%|^&<>!~])\s*\*")
_NUMBER = re.compile(r"\b\d[\w.]*")
_NON_ZERO = re.compile(r"\(*\s*(?:0[xX]0*[1-9a-fA-F][0-9a-fA-F]*|0*[1-9]\d*)[uUlL]*\s*\)*")
_DIVISORS = re.compile(r"[/%]\s*([\w.]+|\S)")
_SAFE_DIVISOR = re.compile(r"(?:blockDim|gridDim)\.[xyz]|warpSize|sizeof\b.*")
_HEADER_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")


def condition_of(statement: Node) -> Node | None:
    """Return the condition of an ``if`` or a loop, without its parentheses; ``None`` where there is none."""
    condition = statement.child_by_field_name("condition")
    while condition is not None and condition.type in ("parenthesized_expression", "condition_clause"):
        inside = listed(condition)
        if len(inside) != 1 or "declaration" in inside[0].type or inside[0].type == "init_statement":
            return condition
        condition = inside[0]
    return condition


def left_by(leave: Node) -> Node | None:
    """Return the statement that a ``break`` leaves, or the loop that a ``continue`` goes on with."""
    kinds = (*LOOPS, "for_range_loop") + (("switch_statement",) if leave.type == "break_statement" else ())
    return around(leave, *kinds)


def exits(loop: Node) -> list[Node]:
    """Return the ``break`` and ``continue`` statements of a loop itself."""
    return [each for each in own(loop, "break_statement", "continue_statement") if left_by(each) == loop]


@dataclass(frozen=True, slots=True)
class Uniformity:
    """The uniform values of one kernel.

    Args:
        body: Of the kernel.
        names: Of the kernel.
        source: Its file.
        variables: Its uniform variables.
        writes: Of each variable, the whole expressions that change it; ``None`` for a change that cannot be followed.
        named: The variables that a node of the tree names, by its id.
        of_warps: Whether a value need only be the same for all threads of a warp, the logical block being whole warps
            wide.
        constants: Values that a template has as parameters.
        lanes: Of a warp, or of the tiles that a warp is divided into.
        rows: Whether rows of the block are known to be whole warps or tiles, or the block has one row only.
        settled: Nodes that read the same from memory in all threads, by their ids.
    """

    body: Node
    names: NameTable
    source: ParsedFile
    variables: set[Variable]
    writes: Mapping[Variable, Sequence[Node | None]]
    named: Mapping[int, Sequence[Variable]]
    of_warps: bool = False
    constants: frozenset[str] = frozenset()
    lanes: int = 32
    rows: bool = True
    settled: frozenset[int] = frozenset()

    def expression(self, node: Node) -> bool:  # noqa: PLR0911 - a row for each kind of node
        """Whether the value and the effects of an expression are the same for all threads that evaluate it."""
        if self.of_warps and self._of_warp(node):
            return True
        if node.type in _LITERALS:
            return True
        if node.type in ("identifier", "type_identifier"):
            return self._name(node)
        if node.type in _OPERATIONS:
            return self._divides_safely(node) and all(self._part(each) for each in node.named_children)
        if node.type == "assignment_expression":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is None or right is None or left.type != "identifier":
                return False
            return self._name(left) and self.expression(right) and self._divides_safely(node)
        if node.type == "field_expression":
            argument = node.child_by_field_name("argument")
            return not goes_through(node) and argument is not None and self.expression(argument)
        if node.type == "call_expression":
            return self._call(node)
        return False

    def same_for_all(self, node: Node, scope: Node) -> bool:
        """Whether all threads in ``scope`` reach ``node`` equally often, or have returned."""
        for outer, part in steps(node, scope.parent):
            asked = decider(outer, part)
            if outer.type in _OPAQUE or (asked is not None and not self.expression(asked)):
                return False
            once = outer.child_by_field_name("condition" if outer.type == "if_statement" else "initializer")
            if outer.type not in _CONDITIONED or part == once:
                continue
            if outer.type in LOOPS and not all(self.all_leave(each) for each in exits(outer)):
                return False
            condition = condition_of(outer)
            if condition is not None and not self.expression(condition):
                return False
        return True

    def all_leave(self, leave: Node) -> bool:
        """Whether all threads in its loop reach a ``break`` or ``continue``, or none."""
        loop = left_by(leave)
        if loop is None:
            return False
        for outer, part in steps(leave, loop.parent):
            condition = condition_of(outer) if outer.type == "if_statement" else decider(outer, part)
            if outer.type in _OPAQUE or (condition is not None and not self.expression(condition)):
                return False
        return True

    def all_return(self, leave: Node) -> bool:
        """Whether all threads of the block reach a ``return``, or none."""
        if any(outer.type in LOOPS for outer in above(leave, self.body.parent)):
            return False
        return self.same_for_all(leave, self.body)

    def _stays(self, variable: Variable) -> bool:
        """Whether nothing speaks against a variable, given the variables that still count as uniform."""
        if variable.value is not None and not self.expression(variable.value):
            return False
        for root in self.writes[variable]:
            if root is None or not self.expression(root) or not self.same_for_all(root, variable.scope):
                return False
        return True

    def _part(self, node: Node) -> bool:
        """Whether a part of an operation is uniform: a comment is, and a type that has no code or other variable."""
        if node.type in _TYPE_NODES:
            kinds = () if has(node, "abstract_pointer_declarator") else find(node, "type_identifier")
            names = all(self._name(each) for each in find(node, "identifier", "type_identifier"))
            return names and all(_without_code(each, self.source) for each in kinds)
        return node.type == "comment" or self.expression(node)

    def _name(self, node: Node) -> bool:
        meant, name = self.named.get(node.id, ()), text_of(node)
        if any(each not in self.variables and not _place(each) for each in meant) and node.id not in self.settled:
            return False
        if name in self.source.macros:
            return self._macro(name, node, meant, called=False)
        if meant or node.type == "type_identifier" or name in (*_LAUNCH_NAMES, *self.constants) or self._fixed(name):
            return True
        return bool(_HEADER_CONSTANT.fullmatch(name)) and name not in self.source.definitions

    def _call(self, call: Node) -> bool:
        name, given = callee(call), call.child_by_field_name("arguments")
        function = call.child_by_field_name("function")
        hidden = () if function is None else self.named.get(function.id, ())
        if name in VOTE_BARRIERS and given is not None and not has(given, *_EFFECTS):
            return not hidden and name not in self.source.functions and name not in self.source.macros
        if given is None or not all(self._part(each) for each in given.named_children):
            return False
        if name in self.source.macros:
            return all(each in self.variables for each in hidden) and self._macro(name, call, hidden, called=True)
        kinds = all(map(self._part, find(function, "type_descriptor")))
        return name in _PURE and name not in self.source.functions and not hidden and kinds

    def _macro(self, name: str, node: Node, hidden: Sequence[Variable], *, called: bool) -> bool:
        """Whether a macro stands for arithmetic with constants, its arguments, and its variables."""
        macros, plain = self.source.macros, {*(each.name for each in hidden), *_PURE, *_TYPES, *_LAUNCH_NAMES}
        for macro in (macro for here in {name, *hidden_words(name, macros)} for macro in macros.get(here, ())):
            body = _NUMBER.sub(" ", macro.body)
            if (macro.parameters is not None) != called and macro.name == name:
                return False
            if not _ARITHMETIC.fullmatch(body) or "++" in body or "--" in body or _INDIRECT.search(body):
                return False
            if not all(map(self._nonzero, _DIVISORS.findall(macro.body))) and not self._nobody_left(node):
                return False
            others = set(words(body)) - set(macro.parameters or ()) - plain
            if not all(word in macros or self._fixed(word) for word in others):
                return False
        return True

    def _of_warp(self, node: Node) -> bool:
        """Whether a value is that of a row of the block, or the number of a warp."""
        if node.type == "field_expression":
            return self.rows and squeezed(node) in ("threadIdx.y", "threadIdx.z")
        left, right, sign = node.child_by_field_name("left"), node.child_by_field_name("right"), sign_of(node)
        if node.type != "binary_expression" or left is None or right is None:
            return False
        by = {each.body.strip() for each in self.source.macros.get(text_of(right), ())} or {squeezed(right)}
        if sign in ("<", ">="):
            return all(_multiple(each, self.lanes) for each in by) and self._counts_threads(left)
        shifted = sign == ">>" and all(each.isdecimal() and int(each) < 32 for each in by)
        by = {str(1 << int(each)) for each in by} if shifted else by
        return (
            (shifted or sign == "/") and all(_multiple(each, self.lanes) for each in by) and self._counts_threads(left)
        )

    def _counts_threads(self, node: Node) -> bool:
        """Whether a value grows by one from lane to lane, and is a multiple of 32 in the first."""
        if node.type == "parenthesized_expression":
            return self._counts_threads(node.named_children[0])
        if node.type == "identifier":
            meant = self.named.get(node.id, ())
            value = meant[0].value if len(meant) == 1 and not self.writes[meant[0]] else None
            return value is not None and self._counts_threads(value)
        return squeezed(node) in (_THREAD_NUMBERS if self.rows else _THREAD_NUMBERS[1:2])

    def _fixed(self, name: str) -> bool:
        """Whether a name of the file means constants only: of an enumeration, or memory that no code writes."""
        pieces = self.source.definitions.get(name, ())
        return bool(pieces) and all(_constant(each, self.source) for each in pieces)

    def _divides_safely(self, node: Node) -> bool:
        """Whether a division cannot fail for threads that have returned before it and never reach it."""
        if sign_of(node) not in ("/", "%", "/=", "%="):
            return True
        return self._nonzero(text_of(node.child_by_field_name("right"))) or self._nobody_left(node)

    def _nonzero(self, divisor: str) -> bool:
        """Whether the text of a divisor shows that it is not zero."""
        bodies = [each.body for each in self.source.macros.get(divisor, ())] or [divisor]
        numbers = all(_NON_ZERO.fullmatch(each.strip()) for each in bodies)
        return numbers or _SAFE_DIVISOR.fullmatch(divisor) is not None

    def _nobody_left(self, node: Node) -> bool:
        """Whether at ``node`` no thread can have returned while others went on."""
        before = (each for each in own(self.body, "return_statement") if each.start_byte < node.start_byte)
        return all(self.all_return(each) for each in before)


@lru_cache(maxsize=64)  # several rules ask, and each form of a kernel
def uniformity(
    kernel: ParsedKernel,
    function: Node | None = None,
    body: Node | None = None,
    *,
    of_warps: bool = False,
    lanes: int = 32,
    rows: bool = True,
    varying: frozenset[str] = frozenset(),
    settled: frozenset[int] = frozenset(),
) -> Uniformity:
    """Return the uniform values of a kernel, or of a function that it calls.

    Args:
        kernel: The kernel.
        function, body: The function; ``None`` for the kernel itself.
        of_warps: Whether a value need only be the same for all threads of a warp.
        lanes: Of a warp, or of the tiles that a warp is divided into.
        rows: Whether rows of the block are whole warps or tiles, or the block has one row only.
        varying: Names of the function's parameters that may differ between threads.
        settled: Nodes that read the same from memory in all threads, by their ids.
    """
    source, body = kernel.source, body or kernel.body
    names, writes, named = changes(source, function or kernel.node, body)
    variables = {
        each for each in names.variables if each.kind != "shared" and _single(each, source, of_host=function is None)
    }
    variables -= {each for each in variables if each.kind == "parameter" and each.name in varying}
    constants = _template_values(function)
    here = Uniformity(body, names, source, variables, writes, named, of_warps, constants, lanes, rows, settled)
    while out := {each for each in variables if not here._stays(each)}:
        variables -= out
    return here


def _template_values(function: Node | None) -> frozenset[str]:
    """Return the names of a template's parameters that are values: constants of each instance."""
    given = child(function and function.parent, "parameters")
    values = find(given, "parameter_declaration", "optional_parameter_declaration")
    return frozenset(texts(declared_name(each.child_by_field_name("declarator")) for each in values))


def _place(variable: Variable) -> bool:
    """Return whether a variable is an array in shared memory: its name means its address, one for all threads."""
    return variable.kind == "shared" and variable.dimensions > 0


def _multiple(text: str, lanes: int) -> bool:
    """Return whether a number of threads is a multiple of a warp, or of a tile of a warp; it is not 0."""
    number = text.rstrip("uU")
    return text == "warpSize" or (number.isdecimal() and int(number) > 0 and int(number) % lanes == 0)


def _single(variable: Variable, source: ParsedFile, *, of_host: bool) -> bool:
    """Whether one variable can serve all threads: a scalar, or a table of constants; the host gives parameters."""
    local, given = variable.kind == "local", variable.declaration.type
    before = texts(variable.declaration.children)
    wrong = given == "for_range_loop" or (local and given != "declaration") or "extern" in before
    if wrong or variable.has(*_NO_SCALAR):
        return False
    kind = variable.declaration.child_by_field_name("type")
    if local and kind is not None and is_array_type(kind, source):
        return False  # a pointer to it may write it
    if kind is not None and not variable.has("pointer_declarator") and not is_number_type(kind, source):
        foreign = all(known(each) and each not in source.definitions for each in words(text_of(kind)))
        if local and (variable.value is None or not foreign):
            return False  # a constructor may read anything
        if not _without_code(kind, source, defaults=not of_host):
            return False
    fixed = {"const", "constexpr"} & before
    return not variable.dimensions or bool(fixed and not variable.has("pointer_declarator"))


def _without_code(kind: Node, source: ParsedFile, *, defaults: bool = True) -> bool:
    """Whether values of a type are made, copied and read without code of the file, which may read anything."""
    if is_number_type(kind, source):
        return True
    return "operator" not in source.functions and is_inert(kind, source, defaults=defaults)


def _constant(piece: Definition, source: ParsedFile) -> bool:
    """Whether a definition is a constant."""
    if piece.kind == "type":
        return "enum" in piece.tokens and "operator" not in source.functions
    if piece.kind != "variable" or has(piece.node, "pointer_declarator"):
        return False
    kind = child(piece.node, "type")
    fixed = {"const", "constexpr", "__constant__"} & set(piece.tokens)
    return bool(fixed) and kind is not None and _without_code(kind, source, defaults=False)
