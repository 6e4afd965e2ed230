"""A source file as it was parsed: its definitions by name, its kernels, and what each of them reaches by names.

    FILE.cu, its headers --> functions, macros, types, variables by name      (headers of CUDA, C and C++ are not read)
    kernel --names--> function --names--> macro --names--> struct ...         the reach of a kernel: all of them

Types are not resolved: a name reaches every definition of that name. The reach is therefore more than what is used and
never less, as long as every name is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgetune.stages.elastic.kernel import CudaKernel, Refusal
from edgetune.stages.elastic.source.builtins import KEYWORDS
from edgetune.stages.elastic.source.diagnostics import Line, refusal
from edgetune.stages.elastic.source.macros import Expanded, Macro
from edgetune.stages.elastic.source.syntax import (
    CLASSES,
    CONTAINERS,
    NAME,
    STRINGS,
    Node,
    Tree,
    child,
    declared_name,
    find,
    free_words,
    line_of,
    mentioning,
    node_types,
    text_of,
    texts,
    walk,
    words,
)

Kind = Literal["function", "macro", "type", "variable"]

ITEMS = (*CLASSES, *node_types("""
    function_definition declaration type_definition alias_declaration namespace_alias_definition template_declaration
    enum_specifier concept_definition
"""))  # fmt: skip
"""Definitions at the level of files and namespaces."""
_SKIPPED = (*STRINGS, *node_types("""
    preproc_def preproc_function_def preproc_call preproc_include comment gnu_asm_qualifier
"""))  # fmt: skip
_CHECKED = node_types("identifier type_identifier namespace_identifier")
CALLED_BY = {"for_range_loop": ("begin", "end"), "structured_binding_declarator": ("get",)}
"""Functions that code calls without their names."""
_NAMED = (*CLASSES, *node_types("enum_specifier enumerator alias_declaration namespace_alias_definition"))


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition.

    Args:
        name: Its name; ``operator`` of every operator.
        kind: What it defines.
        tokens: Every word in it, keywords included, fields of structs left out.
        names: The words whose meaning must be known.
        declared: The names that it declares itself: parameters, variables, fields.
        line: Where it begins, from 1.
        file: The file that holds it.
        device: Whether it is code for the GPU.
        node: Its syntax; ``None`` of a macro.
        fields: The fields of structs that it names: macros may have such names.
    """

    name: str
    kind: Kind
    tokens: tuple[str, ...]
    names: frozenset[str]
    declared: frozenset[str]
    line: int
    file: str
    device: bool = True
    node: Node | None = None
    fields: frozenset[str] = frozenset()

    def find(self, *types: str) -> Iterator[Node]:
        """Yield the nodes of these types in it; none of a macro."""
        return iter(()) if self.node is None else find(self.node, *types)


@dataclass(frozen=True, slots=True)
class ParsedFunction:
    """A function with a body.

    Args:
        name: Without the scope it is in.
        node: Its ``function_definition``.
        body: Its ``compound_statement``.
        outer: The ``template_declaration`` around it, else ``node``.
        words: The words before its name: ``__device__``, ``static``, ``inline``, ``void``.
        member: Whether it belongs to a class, or its name has a scope.
        file: The file that holds it.
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


@dataclass(frozen=True, slots=True, eq=False)
class ParsedFile:
    """A source file.

    Args:
        text: All of it.
        expanded: The same with some macros written out; positions of nodes count its bytes.
        name: For messages.
        tree: Its syntax.
        functions: By name, overloads together; those of headers included.
        macros: By name, every definition of each; those of headers included.
        definitions: Everything that has a name, by it.
        missing: Headers that were not found and are not CUDA's or C's, with the lines that include them.
        changes: The bytes at which the file itself defines or undefines each macro.
        asked: Names that the file tests with ``#ifdef``: options of the compiler's command line.
        notes: What looks like a kernel and could not be read.
        kernels: In the order of the file; ``parse`` adds them, as each refers to its file.
    """

    text: bytes
    expanded: Expanded
    name: str
    tree: Tree
    functions: Mapping[str, tuple[ParsedFunction, ...]]
    macros: Mapping[str, tuple[Macro, ...]]
    definitions: Mapping[str, tuple[Definition, ...]]
    missing: Mapping[str, Line]
    changes: Mapping[str, tuple[int, ...]]
    asked: frozenset[str]
    notes: tuple[Refusal, ...]
    kernels: list[ParsedKernel] = field(default_factory=list, repr=False)

    def types(self, name: str) -> list[Node]:
        """Return the types that a name means."""
        pieces = self.definitions.get(name, ())
        return [each.node for each in pieces if each.kind == "type" and each.node is not None]


@dataclass(frozen=True, slots=True, eq=False)
class ParsedKernel:
    """A ``__global__`` function that is defined in the file itself.

    Args:
        kernel: Its facts.
        function: Its definition.
        reach: Its own definition first, then every definition that it reaches by names.
        source: Its file.
    """

    kernel: CudaKernel
    function: ParsedFunction
    reach: tuple[Definition, ...]
    source: ParsedFile

    @property
    def name(self) -> str:
        """Its name."""
        return self.kernel.name

    @property
    def node(self) -> Node:
        """Its ``function_definition``."""
        return self.function.node

    @property
    def body(self) -> Node:
        """Its ``compound_statement``."""
        return self.function.body

    @property
    def shared(self) -> bool:
        """Whether it uses shared memory."""
        return self.kernel.static_shared or self.kernel.dynamic_shared

    def refusal(self, code: str, line: Line | None = None, **found: str) -> Refusal:
        """Return a refusal of this kernel; its own line where none is given."""
        return refusal(code, self.kernel.line if line is None else line, self.name, **found)

    def line(self, node: Node, piece: Definition) -> Line:
        """Return the line of a node in a definition."""
        return line_of(node) if piece.file == self.function.file else (piece.file, line_of(node))


def leading_words(function: Node) -> frozenset[str]:
    """Return the words before the name of a function: ``static``, ``__device__``, ``void``."""
    found = list[str]()
    for each in function.children:
        if each.type.endswith("declarator") or each.type == "compound_statement":
            break
        found += words(text_of(each))
    return frozenset(found)


def device_words(macros: Mapping[str, tuple[Macro, ...]]) -> frozenset[str]:
    """Return the words that put a function on the GPU: CUDA's own, and the macros that contain one."""
    found = {"__device__", "__global__", "constexpr"}
    for _ in range(3):  # macros of macros of macros
        found |= {name for name, each in macros.items() if any(found & set(words(one.body)) for one in each)}
    return frozenset(found)


def definitions(
    roots: Iterable[tuple[Node, str]], macros: Mapping[str, tuple[Macro, ...]]
) -> dict[str, tuple[Definition, ...]]:
    """Return every definition of files by name; operators, which are used without being named, by ``operator``.

    Args:
        roots: The trees of the file and of its headers, each with the file's name.
        macros: Those of all of them.
    """
    found: dict[str, list[Definition]] = {}
    on_device = device_words(macros)
    for root, file in roots:
        for item in _items(root):
            for name, piece in _pieces(item, file, on_device):
                found.setdefault(name, []).append(piece)
        for space in find(root, "namespace_definition"):
            for name in (each for part in space.children_by_field_name("name") for each in words(text_of(part))):
                piece = Definition(name, "type", (), frozenset(), frozenset(), line_of(space), file)
                found.setdefault(name, []).append(piece)
    for name, each in macros.items():
        found.setdefault(name, []).extend(_macro_piece(macro) for macro in each)
    return {name: tuple(pieces) for name, pieces in found.items()}


def _items(root: Node) -> Iterator[Node]:
    """Yield the definitions at the level of files and namespaces."""
    containers = (*CONTAINERS, "ERROR")
    return (each for each in walk(root, lambda here: here.type in containers) if each.type in ITEMS)


def _pieces(item: Node, file: str, on_device: frozenset[str]) -> Iterator[tuple[str, Definition]]:
    inner = item
    while inner.type == "template_declaration" and inner.named_children:
        inner = inner.named_children[-1]
    function = inner.type == "function_definition"
    device = not function or bool(leading_words(inner) & on_device)
    kind: Kind = "function" if function else "variable" if inner.type == "declaration" else "type"
    named = _function_names(inner) if function else _item_names(inner)
    piece = piece_of(item, next(iter(named), ""), kind, file, device=device, on_device=on_device)
    for name in named:
        yield name, piece


def piece_of(
    node: Node, name: str, kind: Kind, file: str, *, device: bool = True, on_device: frozenset[str] = frozenset()
) -> Definition:
    """Return a definition; that of a class leaves out the bodies of methods that are for the host alone."""
    tokens, checked, declared, fields = list[str](), set[str](), set[str](), set[str]()
    stack = [node]
    while stack:
        here = stack.pop()
        if here.type in _SKIPPED:
            continue
        declared |= texts(declares(here))
        if not here.children:
            word = text_of(here)
            if here.type == "field_identifier":
                fields.add(word)
            elif NAME.fullmatch(word):
                tokens.append(word)
                if here.type in _CHECKED:
                    checked.add(word)
            continue
        children = list(here.children)
        if here.type.startswith("preproc_"):
            skipped = {each.id for part in ("condition", "name") for each in here.children_by_field_name(part)}
            children = [each for each in children if each.id not in skipped]
        elif kind == "type" and here.type == "function_definition" and not leading_words(here) & on_device:
            continue
        stack.extend(reversed(children))
    sets = frozenset(checked), frozenset(declared)
    return Definition(name, kind, tuple(tokens), *sets, line_of(node), file, device, node, frozenset(fields))


def declares(node: Node) -> Iterator[Node]:
    """Yield the names that a node itself declares."""
    for each in node.children_by_field_name("declarator"):
        name = declared_name(each)
        if name is not None:
            yield name
        if each.type == "structured_binding_declarator":
            yield from each.named_children
    if node.type in _NAMED:
        yield from node.children_by_field_name("name")
    elif "type_parameter_declaration" in node.type:
        yield from (each for each in node.named_children if each.type == "type_identifier")
    elif node.type == "structured_binding_declarator":
        yield from node.named_children
    elif node.type == "lambda_capture_initializer" and node.named_children:
        yield node.named_children[0]


def _macro_piece(macro: Macro) -> Definition:
    unknown = frozenset(free_words(macro.body)) - KEYWORDS - set(macro.parameters or ()) - {"__VA_ARGS__"}
    return Definition(macro.name, "macro", tuple(words(macro.body)), unknown, frozenset(), macro.line, macro.file)


def naming(wanted: Collection[str], pieces: Iterable[Definition]) -> set[str]:
    """Return the names of the definitions that mention one of some names, or another such definition."""
    return mentioning(wanted, [(each.name, set(each.tokens)) for each in pieces])


def function_declarator(function: Node) -> Node | None:
    """Return the part of a function's definition that has its name and parameters."""
    here = function.child_by_field_name("declarator")
    while here is not None and here.type != "function_declarator":
        inner = here.child_by_field_name("declarator")
        if inner is None:
            inner = next((each for each in here.named_children if each.type.endswith("declarator")), None)
        here = inner
    return here


def name_parts(function: Node) -> list[str]:
    """Return the name of a function with the scopes before it: ``["A", "f"]`` of ``A::f`` and ``A<T>::f``.

    ``__device__ A::operator T()`` is parsed as a function ``T`` of the type ``A::operator``.
    """
    declarator, kind = function_declarator(function), function.child_by_field_name("type")
    name = child(declarator, "declarator")
    if kind is not None and kind.type == "qualified_identifier" and text_of(kind).endswith("operator"):
        name = kind
    parts = list[str]()
    while name is not None and name.type == "qualified_identifier":
        scope, name = name.child_by_field_name("scope"), name.child_by_field_name("name")
        parts += NAME.findall(text_of(scope).split("<")[0])
    return parts if name is None else [*parts, *NAME.findall(text_of(name).split("<")[0])]


def _function_names(function: Node) -> list[str]:
    declarator = function_declarator(function)
    if declarator is None or "operator" in text_of(declarator).split("(")[0]:
        return ["operator"]
    return list(dict.fromkeys(name_parts(function)))


def _item_names(item: Node) -> list[str]:
    found = list(declares(item))
    if item.type == "concept_definition":
        found += item.children_by_field_name("name")
    stack = [each for each in item.named_children if each.type in (*CLASSES, "enum_specifier", "enumerator_list")]
    for each in [*stack, *([item] if item.type == "enum_specifier" else [])]:
        found += declares(each)
        body = each.child_by_field_name("body")
        if each.type == "enum_specifier" and body is not None:
            found += [name for one in body.named_children for name in declares(one)]
    return list(dict.fromkeys(NAME.findall(" ".join(map(text_of, found)))))


def reach(start: Definition, known_pieces: Mapping[str, tuple[Definition, ...]]) -> list[Definition]:
    """Return a definition and everything that it reaches by names, each once.

    A function of the host counts only where the name is no variable of ``start`` and no function of the GPU has it;
    overloaded operators always count.
    """
    found, seen, queue = [start], {id(start)}, ["operator", *_reached(start, known_pieces)]
    asked: set[str] = set()
    while queue:
        name = queue.pop()
        if name in asked:
            continue
        asked.add(name)
        pieces = known_pieces.get(name, ())
        on_device = [each for each in pieces if each.device]
        if not on_device and name in start.declared | {"operator"}:
            continue
        for piece in on_device or pieces:
            if id(piece) not in seen and piece.node != start.node:
                seen.add(id(piece))
                found.append(piece)
                queue += _reached(piece, known_pieces)
    return found


def _reached(piece: Definition, known_pieces: Mapping[str, tuple[Definition, ...]]) -> list[str]:
    """Return the names in a definition that may mean others: its words, fields that are macros, and calls unseen."""
    fields = [name for name in piece.fields if any(each.kind == "macro" for each in known_pieces.get(name, ()))]
    unseen = [name for kind, called in CALLED_BY.items() if next(piece.find(kind), None) for name in called]
    return [*piece.tokens, *fields, *unseen]
