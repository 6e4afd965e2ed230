"""The syntax tree of CUDA C: reading it, asking it questions, and rewriting the source at some of its nodes.

    for (int i = 0; i < n; ++i) y[i] = 0;
    for_statement: declaration, binary_expression, update_expression, expression_statement

Nodes are those of tree-sitter with its CUDA grammar. A node knows its own text, so that nodes of a header and of the
file itself are handled alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from edgetune.errors import DeviceError

if TYPE_CHECKING:
    import tree_sitter

    Node: TypeAlias = tree_sitter.Node
    Tree: TypeAlias = tree_sitter.Tree
else:  # tree-sitter is optional
    Node = Tree = Any

Item = TypeVar("Item", bound=Hashable)
NAME = re.compile(r"[A-Za-z_]\w*")
_NO_NAME = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|(?<!\w)\.?\d(?:[eEpP][+-]|\'(?=\w)|[\w.])*', re.DOTALL
)
"""Comments, strings, characters, and numbers (as the C++ standard, [lex.ppnumber], has them)."""
_MEMBER = re.compile(r"(?:(?<!\.)\.|->)\s*[A-Za-z_]\w*")


def node_types(text: str) -> tuple[str, ...]:
    """Return node types, written as words in one string."""
    return tuple(text.split())


NUMBERS = node_types("primitive_type sized_type_specifier")
"""Types that keywords name: ``float``, ``unsigned int``."""
REFERENCES = node_types("reference_declarator abstract_reference_declarator")
ALIASES = node_types("type_definition alias_declaration")
"""Definitions of other names for types."""
DECLARATIONS = node_types("declaration parameter_declaration optional_parameter_declaration")
"""Of variables."""
CLASSES = node_types("class_specifier struct_specifier union_specifier")
DEFAULTS = node_types("optional_parameter_declaration field_declaration")
"""What may have a default value."""
CONDITIONS = node_types("preproc_if preproc_ifdef preproc_else preproc_elif preproc_elifdef")
"""Of the preprocessor."""
LOOPS = node_types("while_statement do_statement for_statement")
STRINGS = node_types("string_literal raw_string_literal char_literal")
CONTAINERS = (*node_types("translation_unit declaration_list linkage_specification namespace_definition"), *CONDITIONS)
"""Nodes between the file and its definitions."""
_NAMES = node_types("identifier type_identifier field_identifier namespace_identifier statement_identifier")
_SCOPES = ("lambda_expression", *CLASSES)


@cache
def _parser() -> Any:
    try:
        import tree_sitter
        import tree_sitter_cuda
    except ImportError:
        message = "reading CUDA C needs tree-sitter-cuda, which is not installed"
        raise DeviceError(message, "pip install 'edgetune[cuda]'") from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def tree_of(text: bytes) -> Tree:
    """Return the syntax tree of a source text, in which nodes of type ``ERROR`` stand for what cannot be parsed.

    Raises:
        DeviceError: tree-sitter is not installed.
    """
    tree: Tree = _parser().parse(text)
    return tree


def text_of(node: Node | None) -> str:
    """Return the source of a node, empty of none; bytes that are no UTF-8 become surrogates."""
    return "" if node is None else bytes(node.text or b"").decode("utf-8", "surrogateescape")


def squeezed(node: Node | None) -> str:
    """Return the source of a node without white space."""
    return "".join(text_of(node).split())


def one_line(node: Node | None) -> str:
    """Return the source of a node with single spaces."""
    return " ".join(text_of(node).split())


def texts(nodes: Iterable[Node | None]) -> set[str]:
    """Return the sources of nodes."""
    return {text_of(each) for each in nodes if each is not None}


def child(node: Node | None, *fields: str) -> Node | None:
    """Return what a field of a node holds, a field of that, and so on; ``None`` where one is missing."""
    here = node
    for name in fields:
        here = None if here is None else here.child_by_field_name(name)
    return here


def listed(node: Node | None) -> list[Node]:
    """Return the nodes that a list or block holds, without comments; none of ``None``."""
    return [] if node is None else [each for each in node.named_children if each.type != "comment"]


def sign_of(operation: Node) -> str:
    """Return the operator of an operation, as it is written; empty where it has none."""
    return text_of(operation.child_by_field_name("operator"))


def takes_address(node: Node) -> bool:
    """Return whether an expression is ``&x``."""
    return bool(node.type == "pointer_expression") and text_of(node).startswith("&")


def goes_through(node: Node) -> bool:
    """Return whether an expression is ``p->x``."""
    return any(each.type == "->" for each in node.children)


def reads_memory(node: Node) -> bool:
    """Return whether an expression is ``a[i]``, ``*p`` or ``p->x``."""
    if node.type == "pointer_expression":
        return not takes_address(node)
    return node.type == "subscript_expression" or (node.type == "field_expression" and goes_through(node))


def line_of(node: Node) -> int:
    """Return the line on which a node begins, from 1."""
    return int(node.start_point[0]) + 1


def walk(node: Node | None, into: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """Yield a node and all below it, in the order of the source; nothing below those that ``into`` refuses."""
    stack = [] if node is None else [node]
    while stack:
        here = stack.pop()
        yield here
        if into is None or into(here):
            stack.extend(reversed(here.children))


def deeper_than(node: Node, levels: int) -> bool:
    """Return whether anything in ``node`` is nested deeper than ``levels``."""
    here, depth = [node], 0
    while here and depth <= levels:
        here, depth = [child for each in here for child in each.children], depth + 1
    return bool(here)


def find(node: Node | None, *types: str) -> Iterator[Node]:
    """Yield the nodes of these types in ``node``, itself included, in the order of the source; none of ``None``."""
    stack = [] if node is None else [node]
    while stack:  # as in ``walk``: most of the time of reading a file goes here
        here = stack.pop()
        if here.type in types:
            yield here
        stack += here.children[::-1]


def has(node: Node | None, *types: str) -> bool:
    """Return whether ``node`` is or holds a node of one of these types."""
    return next(find(node, *types), None) is not None


def names(node: Node | None) -> Iterator[Node]:
    """Yield every node that is a name: of a variable, a type, a field, a namespace or a label."""
    return find(node, *_NAMES)


def value_names(node: Node) -> set[str]:
    """Return the names of the variables and fields in ``node``."""
    return texts(find(node, "identifier", "field_identifier"))


def first_name(node: Node | None) -> str:
    """Return the first name of a variable in ``node``: of ``a[i].x`` the ``a``; empty without one."""
    return next(map(text_of, find(node, "identifier")), "")


def mentions(node: Node | None, wanted: Collection[str]) -> Iterator[Node]:
    """Yield the identifiers in ``node`` with one of these names; fields of structs are left out.

    ``dim3 size(blockDim);`` parses as a function that takes a type blockDim: types count too.
    """
    return (each for each in find(node, "identifier", "type_identifier") if text_of(each) in wanted)


def callee(call: Node) -> str:
    """Return what a call calls, without template arguments: ``f``, ``a::f``, ``s.f``; ``""`` where it has no name."""
    function = call.child_by_field_name("function")
    if function is not None and function.type in ("template_function", "template_method"):
        function = function.child_by_field_name("name")
    return squeezed(function)


def called_name(call: Node) -> Node | None:
    """Return the name in what a call calls: of ``a::f<int>`` and ``s.f`` the ``f``; ``None`` where there is none."""
    here = call.child_by_field_name("function")
    while here is not None and here.type not in _NAMES:
        if here.type == "dependent_name":
            here = next(iter(here.named_children), None)
        elif here.type in ("template_function", "template_method", "template_type", "qualified_identifier"):
            here = here.child_by_field_name("name")
        elif here.type == "field_expression":
            here = here.child_by_field_name("field")
        else:
            return None
    return here


def calls(node: Node | None, *wanted: str) -> Iterator[Node]:
    """Yield the calls in ``node`` of functions with one of these names; all calls without names."""
    return (each for each in find(node, "call_expression") if not wanted or callee(each) in wanted)


def arguments(call: Node) -> list[Node]:
    """Return the arguments of a call."""
    return listed(call.child_by_field_name("arguments"))


def above(node: Node, within: Node | None = None) -> Iterator[Node]:
    """Yield the nodes around ``node``, innermost first, up to but without ``within``."""
    here = node.parent
    while here is not None and here != within:
        yield here
        here = here.parent


def steps(node: Node, within: Node | None = None) -> Iterator[tuple[Node, Node]]:
    """Yield the nodes around ``node``, as ``above`` does, each with the part of it that holds ``node``."""
    part = node
    for outer in above(node, within):
        yield outer, part
        part = outer


def around(node: Node, *types: str, within: Node | None = None) -> Node | None:
    """Return the innermost node of one of these types around ``node`` and inside ``within``, or ``None``."""
    return next((each for each in above(node, within) if each.type in types), None)


def own(node: Node, *types: str) -> Iterator[Node]:
    """Yield nodes as ``find`` does, without those of lambdas and classes inside ``node``."""
    outside = (each for child in node.children for each in walk(child, lambda here: here.type not in _SCOPES))
    return (each for each in outside if each.type in types)


def decider(outer: Node, part: Node) -> Node | None:
    """Return what decides whether an operand is evaluated: of ``a && b`` and ``a ? b : c`` for ``b`` the ``a``."""
    if outer.type == "conditional_expression":
        found = outer.child_by_field_name("condition")
    elif outer.type == "binary_expression" and {"&&", "||", "and", "or"} & {each.type for each in outer.children}:
        found = outer.child_by_field_name("left")
    else:
        return None
    return None if found == part else found


def declared_name(declarator: Node | None) -> Node | None:
    """Return the name that a declarator declares: of ``*(&a)[3] = ...`` the ``a``; ``None`` where there is none."""
    here = declarator
    while here is not None and here.type not in _NAMES:
        inner = here.child_by_field_name("declarator")
        if inner is None:  # parentheses and references have no field for what is in them
            inside = [each for each in here.named_children if "declarator" in each.type or each.type in _NAMES]
            inner = inside[-1] if inside else None
        here = inner
    return here


def between_commas(text: str, opening: str, closing: str) -> list[str]:
    """Return the parts of a text between commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in opening) - (letter in closing)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def free_words(text: str) -> list[str]:
    """Return the names in source text, without those of members: of ``(v).x`` the ``v``."""
    return NAME.findall(_MEMBER.sub(" ", _NO_NAME.sub(" ", text)))


def closure(start: Iterable[Item], step: Callable[[Item], Iterable[Item]]) -> set[Item]:
    """Return what is reached from some items in any number of steps, these included."""
    waiting, found = list(start), set[Item]()
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.add(here)
            waiting.extend(step(here))
    return found


def mentioning(wanted: Collection[str], code: Collection[tuple[str, Collection[str]]]) -> set[str]:
    """Return the names of code that mentions one of some names, or other such code; its words are given by name."""
    found, reached = set[str](), set(wanted)
    while more := {name for name, words in code if name not in found and not reached.isdisjoint(words)}:
        found |= more
        reached |= more
    return found


def words(text: str) -> list[str]:
    """Return the names in source text that has no tree, e.g. the body of a macro; 1e-5f and 16U hold none."""
    return NAME.findall(_NO_NAME.sub(" ", text))


@dataclass(frozen=True, slots=True)
class Edit:
    """A stretch of source and its replacement.

    Args:
        start: First byte, counted in the file as nodes do.
        end: Byte behind the last; ``start`` inserts text.
        text: The new text.
    """

    start: int
    end: int
    text: str


def replaced(node: Node, text: str) -> Edit:
    """Return the edit that puts ``text`` in place of a node."""
    return Edit(node.start_byte, node.end_byte, text)


def edited(node: Node, edits: Iterable[Edit]) -> str:
    """Return the source of ``node`` with edits made; edits do not overlap."""
    return spliced(bytes(node.text or b""), edits, int(node.start_byte))


def spliced(source: bytes, edits: Iterable[Edit], start: int = 0) -> str:
    """Return source with edits made.

    Args:
        source: Bytes of a file.
        edits: They do not overlap.
        start: Position in the file of the first of these bytes.
    """
    at, out = start, []
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        out += [source[at - start : edit.start - start], edit.text.encode("utf-8", "surrogateescape")]
        at = edit.end
    return b"".join([*out, source[at - start :]]).decode("utf-8", "surrogateescape")


def plain(node: Node, without: Iterable[Node] = (), renamed: tuple[Node, str] | None = None) -> str:
    """Return the source of ``node`` on one line: its tokens with spaces between, no comments.

    Args:
        node: What is written out.
        without: Nodes in it that are left out.
        renamed: A node in it and the text that takes its place.
    """
    left_out, out, stack = {each.id for each in without}, list[str](), [node]
    while stack:
        here = stack.pop()
        if here.id in left_out or here.type == "comment":
            continue
        if renamed is not None and here.id == renamed[0].id:
            out.append(renamed[1])
        elif here.type in STRINGS or not here.children:
            out.append(text_of(here))
        else:
            stack.extend(reversed(here.children))
    return " ".join(token for token in out if token)


def line_mark(line: int, name: str) -> str:
    """Return the directive that makes compilers count from ``line`` of ``name``, with its newline."""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'#line {line} "{quoted}"\n'
