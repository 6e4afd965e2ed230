"""Macros of CUDA C, and the text in which some of them are written out.

    #define EACH(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
    EACH(at, count) y[at] = x[at];       is read as       for (int at = blockIdx.x * ...; at < (count); ...) y[at] = ...

    #define FN __host__ __device__
    FN Pair(int x) : a(x) {}             is read as       __host__ __device__ Pair(int x) : a(x) {}

A macro is written out only if any preprocessor would do the same whatever else is defined: it is defined once, under no
condition, never undefined, before its use, and its body has no ``#``, no string, not itself and no unpaired brace.
Other macros stay, and the kernel is refused later where they hide something. Files are written from the original
source, and the lines of the read text are its lines.

Source of the rules: the C++ standard, [cpp.replace].
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from edgetune.stages.elastic.source.builtins import BARRIERS, HEADERS, INDICES
from edgetune.stages.elastic.source.directives import closing_end, code_only, directives, unclear
from edgetune.stages.elastic.source.parser_text import without_invocations
from edgetune.stages.elastic.source.syntax import Tree, between_commas, closure, find, texts, tree_of


@dataclass(frozen=True, slots=True)
class Macro:
    """A ``#define``.

    Args:
        name: Its name.
        line: Its line, from 1.
        parameters: Of a macro with arguments; ``None`` of one without.
        body: The replacement, as written.
        file: The file that defines it.
    """

    name: str
    line: int
    parameters: tuple[str, ...] | None
    body: str
    file: str


def readable_tree(source: bytes) -> Tree:
    """Return the syntax of a file, without invocations of its macros at file level where they break the tree."""
    tree = tree_of(source)
    if not tree.root_node.has_error:
        return tree
    defined = find(tree.root_node, "preproc_function_def")
    called = texts(each.child_by_field_name("name") for each in defined)
    without = without_invocations(source, called)
    return tree if without == source else tree_of(without)


_ROUNDS = 4
"""Depth of macros in macros that are written out."""
_LONGEST = 4_000_000
"""Bytes of a source with macros written out: a few lines of macros that use each other may make a very long text."""
_HIDDEN = INDICES | BARRIERS | {"for", "while", "do", "if", "else", "switch", "return", "break", "continue"}
_SPECIFIERS = frozenset({b"__device__", b"__host__", b"__forceinline__", b"inline", b"__inline__", b"__noinline__"})
_DEFINE = re.compile(rb"(?P<name>\w+)(?:\((?P<parameters>[^()]*)\))?(?P<body>.*)", re.DOTALL)
_TOKEN = re.compile(rb"\.?\d(?:[eEpP][+-]|[\w.])*|[A-Za-z_]\w*")
_OPENED = re.compile(rb"\s*\(")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_OPAQUE = re.compile(rb"[#\"'@\\$\x80-\xff]|\bnamespace\b")
"""Text in the body of a macro that is never written out. A namespace is one, as forms would stand behind it."""
_PAIRS = ((b"(", b")"), (b"[", b"]"), (b"{", b"}"))


@dataclass(frozen=True, slots=True)
class Expanded:
    """A source with macros written out.

    Args:
        text: The source.
        stretches: Of each round, in order: where each macro began and ended, and how long its text became.
        grouped: Whether cooperative groups were written as builtins, too.
        several: Names of functions that are given groups of several kinds.
        unread: By function, the uses of groups that are not known: line and text.
    """

    text: bytes
    stretches: tuple[tuple[tuple[int, int, int], ...], ...] = ()
    grouped: bool = False
    several: frozenset[str] = frozenset()
    unread: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)

    def original(self, at: int) -> int:
        """Return the place in the original source; for a place in a written-out macro, the end of the macro."""
        for stretches in reversed(self.stretches):
            longer = 0
            for start, end, length in stretches:
                if at <= start + longer:
                    break
                if at < start + longer + length:
                    at = end + longer
                    break
                longer += length - (end - start)
            at -= longer
        return at

    def amid(self, at: int) -> bool:
        """Return whether a place is within a written-out macro, with more of it behind."""
        behind = at + len(self.text[at:]) - len(self.text[at:].lstrip())
        places = {self.original(each) for each in (at, behind, behind + 1)}
        return behind < len(self.text) and len(places) == 1


@dataclass(frozen=True, slots=True)
class _Macro:
    parameters: tuple[bytes, ...] | None
    body: bytes
    end: int


def expanded(source: bytes, headers: Sequence[bytes] = (), *, specifiers: bool = False) -> Expanded:
    """Return a source with the macros written out that hide loops, indices, barriers or exits.

    Args:
        source: Of a file.
        headers: The headers that it includes, and theirs.
        specifiers: Whether macros are written out, too, that stand for ``__device__`` and the like.
    """
    done = Expanded(source)
    for _ in range(_ROUNDS):
        edits = []
        longer = 0
        for edit in _invocations(done.text, headers, specifiers):
            edits.append(edit)
            longer += len(edit[2])
            if longer > _LONGEST:
                return Expanded(source)
        if not edits:
            return done
        out, at = [], 0
        for start, end, text in edits:
            out += [done.text[at:start], text]
            at = end
        stretches = tuple((start, end, len(text)) for start, end, text in edits)
        done = Expanded(b"".join([*out, done.text[at:]]), (*done.stretches, stretches))
    return done


def used(text: bytes) -> set[str]:
    """Return the words of a source outside comments, strings and directives."""
    return {each.decode() for each in _WORD.findall(code_only(text))}


def _invocations(source: bytes, headers: Sequence[bytes], specifiers: bool) -> Iterator[tuple[int, int, bytes]]:
    """Yield the uses of macros in order: start, end and replacement.

    The arguments of a macro that stays are written out only where it makes no string of them and no comma is in doubt.
    """
    if any(map(unclear, (source, *headers))):
        return
    macros, reach = _macros(source, headers, specifiers)
    if not macros:
        return
    bare = code_only(source)
    done = handed = behind = 0
    for found in re.finditer(rb"\b(?:" + b"|".join(reach) + rb")\b", bare):
        if found.start() < done:
            continue
        macro, reached = macros.get(found[0]), reach[found[0]]
        opened = _OPENED.match(bare, found.end())
        closed = found.end() if opened is None else closing_end(bare, opened.end())
        out = None
        clear = behind == 0 or bool(bare[behind : found.start()].strip())  # F M is no F(...), whatever M begins with
        behind = found.end()
        if macro is not None and clear and found.start() >= max(macro.end, handed if b"," in reached else 0):
            out = _written_out(found, macro, source, bare, reach)
        if out is not None:
            yield out
            done = out[1]
        if out is None and (macro is not None or b"#" in reached):
            done = closed
        elif closed > done:
            handed = max(handed, closed)


def _written_out(
    found: re.Match[bytes], macro: _Macro, source: bytes, bare: bytes, reach: Mapping[bytes, set[bytes]]
) -> tuple[int, int, bytes] | None:
    """Return the start, end and replacement of a use of a macro; ``None`` where the replacement is not certain."""
    start, end = found.span()
    given: dict[bytes, bytes] = {}
    if macro.parameters is not None:
        opened = _OPENED.match(bare, end)
        if opened is None:
            return None
        end = closing_end(bare, opened.end())
        arguments = _arguments(bare[opened.end() : end - 1])
        plain = bare[start:end] == source[start:end] and b"\\" not in source[start:end]
        if not plain or len(arguments) != len(macro.parameters) or _odd(arguments, found[0], reach):
            return None
        given = dict(zip(macro.parameters, arguments, strict=True))
    body = _TOKEN.sub(lambda token: given.get(token[0], token[0]), macro.body)
    return start, end, b" " + body + b" " + b"\n" * source.count(b"\n", start, end)


def _macros(
    source: bytes, headers: Sequence[bytes], specifiers: bool
) -> tuple[dict[bytes, _Macro], dict[bytes, set[bytes]]]:
    """Return the macros to write out, and for every macro the words, commas and # of its body and of macros in it."""
    often: dict[bytes, int] = {}
    found: dict[bytes, _Macro] = {}
    tokens: dict[bytes, set[bytes]] = {}
    included = max((each.end for each in directives(source) if each.word == b"include"), default=0)
    maybe = any(map(_includes_perhaps, (source, *headers)))
    for text in (source, *headers):
        for each in directives(text):
            conditional = each.conditional or (maybe and text is not source)
            defined = _DEFINE.match(each.rest)
            if each.word not in (b"define", b"undef") or defined is None:
                continue
            name, given = defined["name"], defined["parameters"]
            whole = all(defined["body"].count(left) == defined["body"].count(right) for left, right in _PAIRS)
            usable = each.word == b"define" and not conditional and whole and not _OPAQUE.search(defined["body"])
            body = defined["body"].strip()
            often[name] = often.get(name, 0) + (1 if usable else 2)
            tokens.setdefault(name, set()).update(_WORD.findall(body), [sign for sign in (b",", b"#") if sign in body])
            parameters = None if given is None else tuple(each.strip() for each in given.split(b",") if each.strip())
            if all(map(_WORD.fullmatch, parameters or ())):
                found[name] = _Macro(parameters, body, each.end if text is source else included)
    hidden = {each.encode() for each in _HIDDEN}
    nothing = set[bytes]()
    reach = {name: closure(tokens[name], lambda word: tokens.get(word, nothing)) for name in tokens}
    wanted = {name for name in found if reach[name] & hidden}
    plain = {name: set(macro.body.split()) for name, macro in found.items() if macro.parameters is None and specifiers}
    allowed = set(_SPECIFIERS)
    for _ in range(_ROUNDS):
        allowed |= {name for name, body in plain.items() if body and body <= allowed}
    wanted |= allowed & plain.keys()
    usable_names = (name for name in wanted if often[name] == 1 and name not in reach[name])
    return {name: found[name] for name in usable_names}, reach


def _includes_perhaps(text: bytes) -> bool:
    """Return whether a header that may have been read is included under a condition: one not of CUDA, C or C++."""
    wanted = (each.rest for each in directives(text) if each.word == b"include" and each.conditional)
    return not all(HEADERS.fullmatch(each.decode("utf-8", "replace").strip('<>" \t')) for each in wanted)


def _arguments(text: bytes) -> list[bytes]:
    """Return the arguments between commas outside of parentheses, with spaces around; none of ``()``."""
    parts = between_commas(text.decode("latin-1"), "(", ")") if text.strip() else []
    return [b" " + re.sub(rb"\s+", b" ", part.encode("latin-1")).strip() + b" " for part in parts]


def _odd(arguments: Sequence[bytes], name: bytes, reach: Mapping[bytes, set[bytes]]) -> bool:
    """Return whether the moment of expansion matters for an argument.

    It does where an argument names the macro itself or a macro with a comma, or where the macro makes a name or string
    of an argument that names a macro.
    """
    words = {word for each in arguments for word in _WORD.findall(each)}
    made = b"#" in reach[name] and not words.isdisjoint(reach)
    return made or name in words or any(b"," in reach.get(word, ()) for word in words)
