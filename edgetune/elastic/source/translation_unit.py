"""A source file as it was read: its kernels, functions and macros.

FILE.cu ---+--> functions by name (kernels among them), macros by name, kernels in order
FILE.h  ---+    (headers beside the file are read too; those of CUDA, C and C++ need not be)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgetune.elastic.kernel import CudaKernel, Refusal
from edgetune.elastic.source.definitions import Definition
from edgetune.elastic.source.macro_expansion import Expanded
from edgetune.elastic.source.macros import Macro

if TYPE_CHECKING:
    from tree_sitter import Node, Tree


@dataclass(frozen=True, slots=True)
class ParsedFunction:
    """A function with a body.

    Args:
        name: Without the scope it is in.
        node: Its ``function_definition``.
        body: Its ``compound_statement``.
        outer: The ``template_declaration`` around it, else ``node``.
        words: What stands before its name: ``__device__``, ``static``, ``inline``, ``void``.
        member: Whether it belongs to a class, or is named with a scope.
        file: Where it was defined; functions of headers are here too.
    """

    name: str
    node: Node
    body: Node
    outer: Node
    words: frozenset[str]
    member: bool
    file: str

    @property
    def template(self) -> bool:
        """Whether it has template parameters, or is a specialisation."""
        return bool(self.outer.type == "template_declaration")


@dataclass(frozen=True, slots=True)
class ParsedKernel:
    """A ``__global__`` function that is defined in the file itself.

    Args:
        kernel: What is known of it.
        node: Its ``function_definition``.
        body: Its ``compound_statement``.
        function: The same as a function.
        reach: Its own text first, and behind it every definition that it can reach by names.
    """

    kernel: CudaKernel
    node: Node
    body: Node
    function: ParsedFunction
    reach: tuple[Definition, ...]


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A source file.

    Args:
        text: All of it.
        expanded: The same with some macros written out; positions of nodes count its bytes.
        name: For messages.
        tree: Its syntax.
        kernels: In the order of the file.
        functions: By name, overloads together; also those of headers that were found.
        macros: By name, every definition of each; also those of headers that were found.
        definitions: Everything that has a name, by it.
        missing: Headers that were not found and are not CUDA's or C's, with the lines they are included on.
        changes: Where, in bytes, the file itself defines or undefines each macro.
        asked: Names of which the file itself asks whether they are defined: options of the command line.
        notes: What in the file is like a kernel and could not be read.
    """

    text: bytes
    expanded: Expanded
    name: str
    tree: Tree
    kernels: tuple[ParsedKernel, ...]
    functions: Mapping[str, tuple[ParsedFunction, ...]]
    macros: Mapping[str, tuple[Macro, ...]]
    definitions: Mapping[str, tuple[Definition, ...]] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    notes: tuple[Refusal, ...] = ()
