"""Finds the launches of kernels in host code, as far as their sizes are constants of the file.

    #define TILE 32
    dim3 block(TILE, TILE), grid(n / TILE, n / TILE);
    transpose<<<grid, block, TILE * sizeof(float)>>>(out, in);      grid ?,?   block 32,32   shared 128

They are examples of launches to check a kernel with, and decide about nothing else: a variable counts as what it was
declared with last before the launch.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from edgetune.stages.elastic.kernel import HostLaunch
from edgetune.stages.elastic.source.layouts import bytes_of, parameter_layout
from edgetune.stages.elastic.source.macros import Macro
from edgetune.stages.elastic.source.syntax import Node, around, child, declared_name, find, listed, text_of, words
from edgetune.stages.elastic.source.translation_unit import Definition

_LONGEST = 300
_MOST_LEVELS = 8
_LARGEST = 2**40
_SUFFIX = re.compile(r"\b(0[xX][\da-fA-F]+|\d+)[uUlL]+\b")
_CAST = re.compile(r"\(\s*(?:unsigned |signed |long )*(?:int|unsigned|long|size_t|short|char)\s*\)|static_cast<[^<>]*>")
_SIZEOF = re.compile(r"sizeof\s*\(([^()]*)\)")
_AXES = {"x": 0, "y": 1, "z": 2}
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
    ast.Mod: operator.mod, ast.LShift: lambda left, right: left * 2 ** min(max(right, 0), 40),
}  # fmt: skip
Sizes = tuple[int | None, ...]
"""Of a grid or a block along its axes; ``None`` where it is no constant."""


@dataclass(frozen=True, slots=True)
class _Constants:
    """The names that a launch can use.

    Args:
        macros: Those of the file, without arguments.
        declared: The declarations in front of the launch, the nearest first.
        bound: Numbers of template parameters.
        known: The definitions of the file, for ``sizeof``.
    """

    macros: Mapping[str, str]
    declared: Sequence[Node]
    bound: Mapping[str, str]
    known: Mapping[str, tuple[Definition, ...]]

    def launch(self, given: Sequence[Node]) -> HostLaunch | None:
        """Return a launch by what stands between ``<<<`` and ``>>>``; ``None`` where its block is no constant."""
        block = self.sizes(given[1])
        sizes = tuple(each for each in block if each is not None and each > 0)
        shared = self.number(text_of(given[2])) if len(given) > 2 else 0
        return HostLaunch(self.sizes(given[0]), sizes, shared) if len(sizes) == len(block) else None

    def sizes(self, node: Node, levels: int = _MOST_LEVELS) -> Sizes:
        """Return the sizes that ``3``, ``dim3(16, B)`` or the name of a dim3 means."""
        if node.type == "call_expression" and text_of(node).startswith("dim3"):
            return self._listed(node.child_by_field_name("arguments"))
        if node.type == "identifier" and levels and text_of(node) not in self.bound:
            variable = self._variable(text_of(node))
            if variable is not None:
                declaration, declarator = variable
                if "dim3" in words(text_of(declaration))[:3]:
                    return self._constructed(declarator, levels - 1)
        return (self.number(text_of(node)),)

    def _constructed(self, declarator: Node, levels: int) -> Sizes:
        """Return the sizes that a dim3 is declared with; the parser takes ``dim3 a(B, B)`` for a function."""
        given = declarator.child_by_field_name("parameters") or declarator.child_by_field_name("value")
        if given is None:
            return (None,)
        if given.type in ("parameter_list", "argument_list", "initializer_list"):
            return self._listed(given)
        return self.sizes(given, levels)

    def _listed(self, given: Node | None) -> Sizes:
        return tuple(self.number(text_of(each)) for each in listed(given)[:3]) or (None,)

    def _variable(self, name: str) -> tuple[Node, Node] | None:
        """Return the last declaration of a variable before the launch, and the declarator in it."""
        for declaration in self.declared:
            for declarator in declaration.children_by_field_name("declarator"):
                if text_of(declared_name(declarator)) == name:
                    return declaration, declarator
        return None

    def number(self, text: str, levels: int = _MOST_LEVELS) -> int | None:
        """Return the value of an expression; ``None`` where it is no constant."""
        written = _SIZEOF.sub(self._bytes, _CAST.sub(" ", _SUFFIX.sub(r"\1", text)))
        if len(written) > _LONGEST or not levels:
            return None
        try:
            return self._value(ast.parse(" ".join(written.split()), mode="eval").body, levels - 1)
        except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
            return None

    def _bytes(self, found: re.Match[str]) -> str:
        members, pointer = parameter_layout(found[1], self.known)
        return "8" if pointer else str(sum(map(bytes_of, members)) or "unknown.size")

    def _value(self, node: ast.expr, levels: int) -> int | None:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _AXES:
            variable = self._variable(node.value.id)
            sizes = (None,) if variable is None else self._constructed(variable[1], levels)
            return (*sizes, 1, 1)[_AXES[node.attr]]
        if isinstance(node, ast.Name):
            return self._named(node.id, levels)
        return self._computed(node, levels) if isinstance(node, ast.BinOp) else None

    def _computed(self, node: ast.BinOp, levels: int) -> int | None:
        left, right = self._value(node.left, levels), self._value(node.right, levels)
        if left is None or right is None or type(node.op) not in _OPERATORS:
            return None
        made = _OPERATORS[type(node.op)](left, right)
        return made if abs(made) < _LARGEST else None

    def _named(self, name: str, levels: int) -> int | None:
        if name in self.bound:
            return self.number(self.bound[name], levels)
        if (variable := self._variable(name)) is not None:
            value = variable[1].child_by_field_name("value")
            return None if value is None else self.number(text_of(value), levels)
        return self.number(self.macros[name], levels) if name in self.macros else None


def host_launches(
    root: Node,
    kernels: Collection[str],
    macros: Mapping[str, tuple[Macro, ...]],
    known: Mapping[str, tuple[Definition, ...]],
) -> dict[str, tuple[HostLaunch, ...]]:
    """Return the launches of each kernel whose blocks have a constant size, each once, in the order of the file.

    Args:
        root: The tree of the file.
        kernels: Names; that of an instance has the template's arguments behind it: ``scale_float_16``. A launch by a
            variable may be of any kernel that is not launched by name.
        macros: Those of the file and its headers.
        known: The definitions of the file.
    """
    bodies = {name: each[0].body for name, each in macros.items() if each[0].parameters is None}
    found: dict[str, dict[HostLaunch, None]] = {}
    by_variable: dict[HostLaunch, None] = {}
    launches = list(find(root, "kernel_call_syntax"))
    declared = _declarations(root) if launches else {}
    for syntax in launches:
        given = listed(syntax)
        if len(given) < 2:
            continue
        function = around(syntax, "function_definition")
        places = [None] if function is None else [function.id, None]
        before = [each for place in places for each in declared.get(place, ()) if each.start_byte < syntax.start_byte]
        of_kernels = [(kernel, bound) for kernel in kernels if (bound := _bound(syntax.parent, kernel)) is not None]
        for kernel, bound in of_kernels:
            launch = _Constants(bodies, before, bound, known).launch(given)
            if launch is not None:
                found.setdefault(kernel, {})[launch] = None
        if not of_kernels and (launch := _Constants(bodies, before, {}, known).launch(given)) is not None:
            by_variable[launch] = None
    return {kernel: tuple(found.get(kernel, by_variable)) for kernel in kernels}


def _declarations(root: Node) -> dict[int | None, list[Node]]:
    """Return the declarations of each function by its node's number, and of the file by ``None``, the last first."""
    found: dict[int | None, list[Node]] = {}
    for each in find(root, "declaration"):
        function = around(each, "function_definition")
        found.setdefault(None if function is None else function.id, []).insert(0, each)
    return found


def _bound(call: Node | None, kernel: str) -> dict[str, str] | None:
    """Return the template parameters that a launch of a kernel gives on, with their values; ``None`` of others."""
    name, _, given = text_of(child(call, "function")).partition("<")
    name = name.split("::")[-1].strip()
    if name == kernel:
        return {}
    of_instance = kernel.removeprefix(f"{name}_").split("_")
    arguments = [each.strip() for each in given.rstrip("> ").split(",")]
    if not given or not kernel.startswith(f"{name}_"):
        return None
    if [word for each in arguments for word in re.findall(r"\w+", each)] == of_instance:
        return {}
    if len(of_instance) != len(arguments) or not any(each.isidentifier() for each in arguments):
        return None
    pairs = dict(zip(arguments, of_instance, strict=True))
    same = all(each == value for each, value in pairs.items() if each.isdigit())
    return {each: value for each, value in pairs.items() if each.isidentifier() and each != value} if same else None
