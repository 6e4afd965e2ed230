"""Reads cooperative groups of a block or of parts of a warp as the builtins that they stand for.

    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    sum += warp.shfl_down(sum, 16);                       sum += __shfl_down_sync(0xffffffffu, sum, 16);
    if (warp.thread_rank() == 0) part[...] = sum;         if ((... % 32) == 0) part[...] = sum;
    block.sync();                                         __syncthreads();
    total(part, block);                                   total(part, block);        block stays, for the function

A parameter is what all calls give it: ``cg::thread_group`` and types of templates too. A function whose calls give it
groups of several kinds is read as one that may wait for each of them, and is never copied.

A function is read so if its groups are used in these ways only. Otherwise it stays, and its kernels are refused: where
it has groups of the grid or a cluster, tiles of several warps, or groups of the active threads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgetune.stages.elastic.source.builtins import GROUP_PREFIX
from edgetune.stages.elastic.source.directives import code_only
from edgetune.stages.elastic.source.group_words import (
    BLOCK,
    GRID,
    LIBRARY,
    OPERATORS,
    PARTITION,
    SIZES,
    THIS_BLOCK,
    THIS_GRID,
    TYPES,
    Kind,
    builtin,
    constants,
    renames,
    with_library_words,
    words_of_macros,
)
from edgetune.stages.elastic.source.kernel_scan import parameter_nodes
from edgetune.stages.elastic.source.macros import Expanded
from edgetune.stages.elastic.source.parser_text import for_parser
from edgetune.stages.elastic.source.syntax import (
    Edit,
    Node,
    above,
    arguments,
    callee,
    declared_name,
    find,
    line_of,
    one_line,
    replaced,
    spliced,
    squeezed,
    text_of,
    texts,
    tree_of,
    words,
)
from edgetune.stages.elastic.source.translation_unit import function_declarator, name_parts

_NAMING = ("namespace_alias_definition", "using_declaration")
_PLAIN = ("identifier", "reference_declarator")
_FUNCTIONS = {"sync": (1,), "reduce": (3,), "memcpy_async": (4, 5), "wait": (1,)}
"""Of the library, which take a group: numbers of arguments."""
_WHOLE = {THIS_BLOCK: BLOCK, THIS_GRID: GRID}
_ANY = "any"
"""The type of a parameter whose type is a template's."""
_Kinds = frozenset[Kind]


@dataclass(slots=True, eq=False)
class _Function:
    """A function and what is known of its groups.

    Args:
        node: Its definition.
        body: Its statements.
        file: Number of the file that holds it.
        name: Without scopes.
        parameters: The name and type of each; an empty type where it is no group.
        given: What calls give each parameter.
        groups: The kinds of each group, by name.
        kept: The names of groups that are handed to functions.
        edits: The replacements in it.
        unread: Uses that are not known: line and text.
        calls: Functions that it hands groups to.
    """

    node: Node
    body: Node
    file: int
    name: str
    parameters: Sequence[tuple[str, str]]
    given: list[_Kinds]
    groups: dict[str, _Kinds] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    edits: list[Edit] = field(default_factory=list)
    unread: list[tuple[int, str]] = field(default_factory=list)
    calls: list[_Function] = field(default_factory=list)


def without_groups(out: Expanded, headers: Sequence[bytes]) -> tuple[Expanded, Sequence[bytes]]:
    """Return a source and its headers with builtins in place of groups; the same where there are none.

    Args:
        out: The source with macros written out.
        headers: The texts of the headers that it includes.
    """
    texts = [out.text, *headers]
    if not any(LIBRARY.encode() in text for text in texts):
        return out, headers
    spaces = {space for text in texts for space in _spaces(tree_of(for_parser(text)).root_node)}
    named = [renames(code_only(text), spaces, constants(texts)) for text in texts]
    in_macros = {word for text in texts for word in words_of_macros(text)}
    unread: dict[str, list[tuple[int, str]]] = {}
    while True:
        read = [spliced(*each).encode("utf-8", "surrogateescape") for each in zip(texts, named, strict=True)]
        roots = [tree_of(for_parser(text)).root_node for text in read]
        functions = [each for number, root in enumerate(roots) for each in _functions(root, number)]
        _read(functions, spaces, in_macros)
        for each in functions:
            unread.setdefault(each.name, []).extend(each.unread)
        kept = [_in_clear(named[number], root, number, functions) for number, root in enumerate(roots)]
        if kept == named:
            break
        named = kept
    edits = [_edits(functions, number, text) for number, text in enumerate(read)]
    several = frozenset(each.name for each in functions if any(len(kinds) > 1 for kinds in each.given))
    if not any((*named, *edits)):
        return replace(out, unread=unread), headers
    rounds = tuple(
        tuple((each.start, each.end, len(each.text.encode())) for each in some) for some in (named[0], edits[0])
    )
    done = [spliced(*each).encode("utf-8", "surrogateescape") for each in zip(read, edits, strict=True)]
    stretches = (*out.stretches, *rounds)
    return Expanded(done[0], stretches, grouped=True, several=several, unread=unread), done[1:]


def _spaces(root: Node) -> set[str]:
    """Return the scopes before the names of the library: its own, aliases, and none after ``using namespace``."""
    found = {f"{LIBRARY}::"}
    for node in find(root, *_NAMING):
        names = [text_of(each) for each in node.named_children]
        if node.type == "namespace_alias_definition" and names[1:] == [LIBRARY]:
            found.add(f"{names[0]}::")
        if squeezed(node) == f"usingnamespace{LIBRARY};":
            found.add("")
    return found


def _functions(root: Node, file: int) -> Iterator[_Function]:
    for node in find(root, "function_definition"):
        body, parts = node.child_by_field_name("body"), name_parts(node)
        if body is not None and body.type == "compound_statement" and parts and function_declarator(node) is not None:
            parameters = [_parameter(each, node) for each in parameter_nodes(node)]
            yield _Function(node, body, file, parts[-1], parameters, [frozenset()] * len(parameters))


def _parameter(node: Node, function: Node) -> tuple[str, str]:
    """Return the name of a parameter, and its type where that may be a group's: by value or by reference."""
    declarator, kind = node.child_by_field_name("declarator"), node.child_by_field_name("type")
    name = declared_name(declarator)
    if declarator is None or declarator.type not in _PLAIN:
        return text_of(name), ""
    outer = function.parent if function.parent is not None and function.parent.type == "template_declaration" else None
    if text_of(kind) in texts(
        name for each in find(outer, "type_parameter_declaration") for name in each.named_children
    ):
        return text_of(name), _ANY
    return text_of(name), text_of(kind) if text_of(kind).startswith(GROUP_PREFIX) else ""


def _takes(declared: str, kinds: _Kinds) -> bool:
    """Return whether a variable of this type may be a group of these kinds."""
    if declared == TYPES["grid"] or GRID in kinds:
        return declared == TYPES["grid"] and kinds == {GRID}
    if declared == TYPES["block"]:
        return kinds == {BLOCK}
    if declared.startswith(TYPES["tile"]):
        return all(declared == f"{TYPES['tile']}{each.threads}" for each in kinds)
    return declared in (_ANY, TYPES["any"])


def _of_type(declared: str) -> _Kinds:
    """Return what a parameter of a function is that nobody calls."""
    if declared == TYPES["block"]:
        return frozenset({BLOCK})
    threads = declared.removeprefix(TYPES["tile"])
    return frozenset({Kind(int(threads))}) if threads.isdecimal() else frozenset()


def _read(functions: Sequence[_Function], spaces: Collection[str], in_macros: Collection[str]) -> None:
    """Find the groups of functions, and what becomes of them: first what calls give, until nothing is added."""
    by_name: dict[str, list[_Function]] = {}
    for each in functions:
        by_name.setdefault(each.name, []).append(each)
    before = None
    while before != (before := [tuple(each.given) for each in functions]):
        for each in functions:
            _Reader(each, by_name, spaces).read()
    for each in functions:
        each.unread += [(line_of(each.node), f"{name} in a macro") for name in sorted({*each.groups} & {*in_macros})]
    while cut := [each for each in functions if not each.unread and any(other.unread for other in each.calls)]:
        for each in cut:
            other = next(other for other in each.calls if other.unread)
            each.unread.append((line_of(each.node), f"{other.name}(...)"))


class _Reader:
    """Reads one function, given what calls were seen to give its parameters."""

    def __init__(self, of: _Function, by_name: Mapping[str, Sequence[_Function]], spaces: Collection[str]) -> None:
        self._of, self._by_name, self._spaces = of, by_name, spaces
        self._taken: set[int] = set()
        """Identifiers that declare a group or its type."""

    def read(self) -> None:
        """Find the groups and their uses anew."""
        of = self._of
        of.groups, of.kept, of.edits, of.unread, of.calls = {}, set(), [], [], []
        for (name, declared), given in zip(of.parameters, of.given, strict=True):
            if given or _of_type(declared):
                of.groups[name] = given or _of_type(declared)
        for each in parameter_nodes(of.node):  # a grid is handed to no function, for it might wait there
            if TYPES["grid"] in words(text_of(each)):
                self._unknown(each)
        declarations = list(self._declarations())
        for node in find(of.body, "identifier", "type_identifier", "call_expression"):
            if self._kinds(node):
                self._use(node)
            elif node.type != "call_expression" and text_of(node).startswith(GROUP_PREFIX):
                outer = node.parent
                made = outer is not None and outer.type == "call_expression" and self._kinds(outer)
                if node.id not in self._taken and not made:
                    self._unknown(node)
        self._leave_out(declarations)
        of.edits += [replaced(each, ";") for each in find(of.body, *_NAMING) if LIBRARY in words(text_of(each))]

    def _declarations(self) -> Iterator[tuple[Node, str, Node]]:
        """Yield the statements that make a group: statement, name and value."""
        for statement in find(self._of.body, "declaration"):
            made, kind = statement.child_by_field_name("declarator"), statement.child_by_field_name("type")
            if made is None or kind is None or made.type != "init_declarator":
                continue
            name, value = declared_name(made.child_by_field_name("declarator")), made.child_by_field_name("value")
            kinds = frozenset[Kind]() if value is None else self._kinds(value)
            typed = kind.type == "placeholder_type_specifier" or _takes(text_of(kind), kinds)
            one = len(statement.children_by_field_name("declarator")) == 1
            if name is None or value is None or not kinds or not typed or not one:
                continue
            if self._of.groups.setdefault(text_of(name), kinds) != kinds:
                self._unknown(name)
            self._taken |= {name.id, kind.id}
            yield statement, text_of(name), value

    def _kinds(self, node: Node) -> _Kinds:
        """Return what group an expression is; nothing where it is none that is known."""
        if node.type == "identifier" and node.id not in self._taken:
            return self._of.groups.get(text_of(node), frozenset())
        if node.type != "call_expression":
            return frozenset()
        name, given = callee(node), arguments(node)
        if name in _WHOLE and not given:
            return frozenset({_WHOLE[name]})
        threads = name.removeprefix(f"{PARTITION}_")
        if name == PARTITION and len(given) == 2:
            threads = text_of(given[1]).rstrip("uU")
        elif len(given) != 1:
            return frozenset()
        if not name.startswith(PARTITION) or not threads.isdecimal() or int(threads) not in SIZES:
            return frozenset()
        parents = self._kinds(given[0])
        fits = all(each == BLOCK or each.threads >= int(threads) for each in parents)
        return frozenset(Kind(int(threads), each.threads) for each in parents) if fits else frozenset()

    def _use(self, node: Node) -> None:
        """Add what takes the place of the expression around a group, or note that it is unknown."""
        outer = node.parent
        call = None if outer is None else outer.parent
        if outer is None or call is None:
            return
        if outer.type == "init_declarator" and call.type == "declaration":
            name = declared_name(outer.child_by_field_name("declarator"))
            if name is not None and name.id in self._taken:
                return
        if call.type == "call_expression" and outer.type == "field_expression" and self._method(node, outer, call):
            return
        handed = call.type == "call_expression" and outer.type == "argument_list"
        if not handed or not (self._kinds(call) or self._argument(node, call)):
            self._unknown(node)

    def _method(self, node: Node, member: Node, call: Node) -> bool:
        """Read a call of a method; its arguments stay, for they may hold others."""
        named, given = member.child_by_field_name("field"), arguments(call)
        text = None if named is None else builtin(self._kinds(node), text_of(named))
        if text is None or member.child_by_field_name("argument") != node or bool(given) != bool(text[1]):
            return False
        before, behind = text
        if not given:
            self._of.edits.append(replaced(call, before))
            return True
        self._of.edits.append(Edit(call.start_byte, given[0].start_byte, before))
        self._of.edits.append(Edit(given[-1].end_byte, call.end_byte, behind))
        return True

    def _argument(self, node: Node, call: Node) -> bool:
        """Read a call that a group is handed to."""
        name, given, kinds = callee(call), arguments(call), self._kinds(node)
        if GRID in kinds:
            return False
        own = name in self._by_name  # a function of the file's
        word = next((word for space in self._spaces for word in _FUNCTIONS if name == f"{space}{word}" and not own), "")
        function = call.child_by_field_name("function")
        if function is not None and len(given) in _FUNCTIONS.get(word, ()) and node == given[0]:
            reduces = word == "reduce"
            return self._reduced(node, function, given[2]) if reduces else self._met(node, call, function, word)
        place = given.index(node)
        found = [
            each
            for each in self._by_name.get(name.split("::")[-1], ())
            if len(each.parameters) >= len(given) and _takes(each.parameters[place][1], kinds)
        ]
        for each in found:
            each.given[place] |= kinds
        self._of.calls += found
        self._keep(node)
        return bool(found)

    def _reduced(self, node: Node, function: Node, operator: Node) -> bool:
        """Read a call of ``cg::reduce`` with one of the library's operators, which the tile's lanes run together."""
        made = operator.child_by_field_name("function")
        named = None if made is None else re.fullmatch(r"([\w:]*?)(\w+)<[\w ]+>", text_of(made))
        if named is None or named[1] not in self._spaces or named[2] not in OPERATORS or made is None:
            return False
        if BLOCK in self._kinds(node) or operator.type != "call_expression" or arguments(operator):
            return False
        end = made.start_byte + len(named[1] + named[2])
        operation = Edit(made.start_byte, end, GROUP_PREFIX + named[2])
        self._of.edits += [replaced(function, f"{GROUP_PREFIX}reduce"), operation]
        self._keep(node)
        return True

    def _met(self, node: Node, call: Node, function: Node, word: str) -> bool:
        """Read a copy by a group, its wait for all of them, at which its threads meet as well, or a plain meeting."""
        sync, new = builtin(self._kinds(node), "sync"), f"{GROUP_PREFIX}{word}"
        if sync is None:
            return False
        if word == "memcpy_async":
            self._of.edits.append(replaced(function, new))
        else:
            wait = f"({new}({text_of(node)}), {sync[0]})"
            self._of.edits.append(replaced(call, sync[0] if word == "sync" else wait))
        if word != "sync":
            self._keep(node)
        return True

    def _keep(self, node: Node) -> None:
        self._of.kept |= texts(find(node, "identifier"))

    def _leave_out(self, declarations: Sequence[tuple[Node, str, Node]]) -> None:
        """Leave out the groups that are handed to no function, nor to one that is."""
        for _, name, value in reversed(declarations):
            if name in self._of.kept:
                self._keep(value)
        self._of.edits += [replaced(each, ";") for each, name, _ in declarations if name not in self._of.kept]

    def _unknown(self, node: Node) -> None:
        shown = next((each for each in above(node) if each.type.endswith(("statement", "declaration"))), node)
        self._of.unread.append((line_of(node), with_library_words(one_line(shown))[:60]))


def _in_clear(named: Sequence[Edit], root: Node, file: int, functions: Sequence[_Function]) -> list[Edit]:
    """Return the renamed words that stand in functions whose groups are all known, and in declarations of these."""
    unknown = {each.name for each in functions if each.unread}
    clear = [each.node for each in functions if each.file == file and not each.unread]
    clear += [
        node
        for node in find(root, "declaration")
        if (declarator := function_declarator(node)) is not None and not unknown & {*words(text_of(declarator))}
    ]
    spans = [(int(each.start_byte), int(each.end_byte)) for each in clear]
    found, longer = [], 0
    for each in named:
        start = each.start + longer
        if any(first <= start < end for first, end in spans):
            found.append(each)
        longer += len(each.text.encode()) - (each.end - each.start)
    return found


def _edits(functions: Sequence[_Function], file: int, text: bytes) -> list[Edit]:
    """Return the replacements in a file, which keep its lines."""
    edits = (edit for each in functions if each.file == file and not each.unread for edit in each.edits)
    kept = (Edit(each.start, each.end, each.text + "\n" * text.count(b"\n", each.start, each.end)) for each in edits)
    return sorted(kept, key=lambda each: (each.start, each.end))
