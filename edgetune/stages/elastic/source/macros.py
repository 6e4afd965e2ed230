"""Macros of CUDA C, and the text for the parser: macros written out, unreadable invocations and attributes blanked.

    #define EACH(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
    EACH(at, count) y[at] = x[at];       is read as       for (int at = blockIdx.x * ...; at < (count); ...) y[at] = ...

    #define SCALE(T) void scale_##T(T *x) { ... }
    SCALE(float)                         is read as       (as many blanks), so that the next kernel is seen

    __align__(16)                        is read as       alignas  (16)

A macro is written out only if any preprocessor would do the same whatever else is defined: it is defined once, under no
condition, never undefined, before its use, and its body has no ``#``, no string, not itself and no unpaired brace.
Other macros stay, and the kernel is refused later where they hide something. Files are written from the original
source, and the lines of the read text are its lines.

Source of the rules: the C++ standard, [cpp.replace].
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from edgetune.stages.elastic.source.builtins import BARRIERS, HEADERS, INDICES
from edgetune.stages.elastic.source.syntax import closure


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


_SKIPPED_TOKENS = re.compile(
    rb"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\r?\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_OPENS = re.compile(rb"\b(?:namespace(?:\s+[\w:]+)?|extern\s+\"C(?:\+\+)?\")\s*\{")
_STRINGS_OF_LINKAGE = re.compile(rb'extern\s+"C(?:\+\+)?"')


def without_invocations(source: bytes, macros: Collection[str]) -> bytes:
    """Return source with invocations of macros at file level blanked out; the same source where there are none.

    Only invocations outside all braces but those of namespaces are blanked. Positions stay as they are.

    Args:
        source: Of a file.
        macros: The names of macros with arguments.
    """
    bare = _SKIPPED_TOKENS.sub(lambda found: re.sub(rb"[^\n]", b" ", found[0]), source)
    if not macros or bare.count(b"{") != bare.count(b"}"):
        return source
    out = bytearray(source)
    for start, end in _file_level_invocations(source, bare, macros):
        out[start:end] = re.sub(rb"[^\r\n]", b" ", out[start:end])
    return bytes(out)


def _file_level_invocations(source: bytes, bare: bytes, macros: Collection[str]) -> Iterator[tuple[int, int]]:
    names = b"|".join(re.escape(each.encode()) for each in macros)
    invocation = re.compile(rb"(?:^|(?<=[;}\n]))[ \t]*(?:" + names + rb")\s*\(")
    for found in invocation.finditer(bare):
        if _level(source, bare, found.start()) != 0:
            continue
        end = _parenthesis_end(bare, found.end())
        if end is None:
            continue
        rest = re.compile(rb"[ \t]*;?").match(bare, end)
        yield found.start(), end if rest is None else rest.end()


def _level(source: bytes, bare: bytes, at: int) -> int:
    """Return how many braces are open, those of namespaces and linkage not counted."""
    heads = {found.end() - 1 for found in _OPENS.finditer(_with_linkage(source, bare[:at]))}
    open_braces: list[bool] = []
    for found in re.finditer(rb"[{}]", bare[:at]):
        if found[0] == b"{":
            open_braces.append(found.start() in heads)
        elif open_braces:
            open_braces.pop()
    return sum(not each for each in open_braces)


def _with_linkage(source: bytes, bare: bytes) -> bytes:
    """Return bare source with ``extern "C"`` in it, whose quotes were taken for a string."""
    out = bytearray(bare)
    for found in _STRINGS_OF_LINKAGE.finditer(source[: len(bare)]):
        out[found.start() : found.end()] = found[0]
    return bytes(out)


def _parenthesis_end(bare: bytes, at: int) -> int | None:
    """Return where the parenthesis that was opened before ``at`` ends; ``None`` where there are statements in it."""
    depth = 1
    for found in re.finditer(rb"[(){};]", bare[at:]):
        if found[0] in b"{};":
            return None
        depth += 1 if found[0] == b"(" else -1
        if not depth:
            return at + found.end()
    return None


_ROUNDS = 4
"""Depth of macros in macros that are written out."""
_LONGEST = 4_000_000
"""Bytes of a source with macros written out: a few lines of macros that use each other may make a very long text."""
_HIDDEN = INDICES | BARRIERS | {"for", "return", "break", "continue"}
_COMMENTS = r"//(?:\\\r?\n|[^\n])*|/\*.*?\*/"
_STRINGS = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
_SKIPPED = re.compile(
    rf"{_COMMENTS}|(?:\b(?:u8|[uUL]))?(?:{_STRINGS})"
    rf"|(?P<directive>^[ \t]*#(?:\\\r?\n|{_COMMENTS}|{_STRINGS}|[^\n])*)".encode(),
    re.DOTALL | re.MULTILINE,
)
_UNCLEAR = re.compile(
    rb"R\"|\b\d[\w.]*'[0-9A-Fa-f]|%:|\?\?[=/]|(?:push|pop)_macro|[*/]\\\r?\n[*/]|\\[ \t\f\v]+\r?$", re.MULTILINE
)
"""Text behind which comments and strings cannot be told apart: raw strings, separators in numbers, comments that begin
or end on two lines, spaces behind a line continuation; also other spellings of directives, and pushed macros."""
_ODD = re.compile(rb"[#$\x80-\xff]|\\(?!\r?\n)")
"""Characters outside comments, strings and directives that make a source unclear: directives behind comments, and
letters that names do not have here."""
_DIRECTIVE = re.compile(rb"[ \t]*#[ \t]*(?P<word>\w*)[ \t]*(?P<rest>.*)", re.DOTALL)
_DEFINE = re.compile(rb"(?P<name>\w+)(?:\((?P<parameters>[^()]*)\))?(?P<body>.*)", re.DOTALL)
_TOKEN = re.compile(rb"\.?\d(?:[eEpP][+-]|[\w.])*|[A-Za-z_]\w*")
_OPENED = re.compile(rb"\s*\(")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_OPAQUE = re.compile(rb"[#\"'@\\$\x80-\xff]|\bnamespace\b")
"""Text in the body of a macro that is never written out. A namespace is one, as forms would stand behind it."""
_PAIRS = ((b"(", b")"), (b"[", b"]"), (b"{", b"}"))
_COMMENT = re.compile(rf"{_COMMENTS}|(?P<string>{_STRINGS})".encode(), re.DOTALL)


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


def expanded(source: bytes, headers: Sequence[bytes] = ()) -> Expanded:
    """Return a source with the macros written out that hide loops, indices, barriers or exits.

    Args:
        source: Of a file.
        headers: The headers that it includes, and theirs.
    """
    done = Expanded(source)
    for _ in range(_ROUNDS):
        edits = []
        longer = 0
        for edit in _invocations(done.text, headers):
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
    return {each.decode() for each in _WORD.findall(bare_code(text))}


def _invocations(source: bytes, headers: Sequence[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the uses of macros in order: start, end and replacement.

    The arguments of a macro that stays are written out only where it makes no string of them and no comma is in doubt.
    """
    if any(_UNCLEAR.search(text) or _ODD.search(bare_code(text)) for text in (source, *headers)):
        return
    macros, reach = _macros(source, headers)
    if not macros:
        return
    bare = bare_code(source)
    done = handed = behind = 0
    for found in re.finditer(rb"\b(?:" + b"|".join(reach) + rb")\b", bare):
        if found.start() < done:
            continue
        macro, reached = macros.get(found[0]), reach[found[0]]
        opened = _OPENED.match(bare, found.end())
        closed = found.end() if opened is None else _closed(bare, opened.end())
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


def bare_code(text: bytes) -> bytes:
    """Return a source with spaces for its comments, strings and directives."""
    return _SKIPPED.sub(lambda found: re.sub(rb"[^\n]", b" ", found[0]), text)


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
        end = _closed(bare, opened.end())
        arguments = _arguments(bare[opened.end() : end - 1])
        plain = bare[start:end] == source[start:end] and b"\\" not in source[start:end]
        if not plain or len(arguments) != len(macro.parameters) or _odd(arguments, found[0], reach):
            return None
        given = dict(zip(macro.parameters, arguments, strict=True))
    body = _TOKEN.sub(lambda token: given.get(token[0], token[0]), macro.body)
    return start, end, b" " + body + b" " + b"\n" * source.count(b"\n", start, end)


def _macros(source: bytes, headers: Sequence[bytes]) -> tuple[dict[bytes, _Macro], dict[bytes, set[bytes]]]:
    """Return the macros to write out, and for every macro the words, commas and # of its body and of macros in it."""
    often: dict[bytes, int] = {}
    found: dict[bytes, _Macro] = {}
    tokens: dict[bytes, set[bytes]] = {}
    included = max((end for word, _, end, _ in _directives(source) if word == b"include"), default=0)
    maybe = any(map(_includes_perhaps, (source, *headers)))
    for text in (source, *headers):
        for word, rest, end, asked in _directives(text):
            conditional = asked or (maybe and text is not source)
            defined = _DEFINE.match(rest)
            if word not in (b"define", b"undef") or defined is None:
                continue
            name, given = defined["name"], defined["parameters"]
            whole = all(defined["body"].count(left) == defined["body"].count(right) for left, right in _PAIRS)
            usable = word == b"define" and not conditional and whole and not _OPAQUE.search(defined["body"])
            body = defined["body"].strip()
            often[name] = often.get(name, 0) + (1 if usable else 2)
            tokens.setdefault(name, set()).update(_WORD.findall(body), [sign for sign in (b",", b"#") if sign in body])
            parameters = None if given is None else tuple(each.strip() for each in given.split(b",") if each.strip())
            if all(map(_WORD.fullmatch, parameters or ())):
                found[name] = _Macro(parameters, body, end if text is source else included)
    hidden = {each.encode() for each in _HIDDEN}
    nothing = set[bytes]()
    reach = {name: closure(tokens[name], lambda word: tokens.get(word, nothing)) for name in tokens}
    usable_names = (name for name in found if often[name] == 1 and name not in reach[name] and reach[name] & hidden)
    return {name: found[name] for name in usable_names}, reach


def _includes_perhaps(text: bytes) -> bool:
    """Return whether a header that may have been read is included under a condition: one not of CUDA, C or C++."""
    wanted = (rest for word, rest, _, conditional in _directives(text) if word == b"include" and conditional)
    return not all(HEADERS.fullmatch(each.decode("utf-8", "replace").strip('<>" \t')) for each in wanted)


def _directives(text: bytes) -> Iterator[tuple[bytes, bytes, int, bool]]:
    """Yield directives: word, the rest on one line, its end, and whether it stands under a condition."""
    raw = [found for found in _SKIPPED.finditer(text) if found["directive"] is not None]
    spliced = (re.sub(rb"\\\r?\n", b"", found[0]) for found in raw)
    parts = [_DIRECTIVE.match(_COMMENT.sub(lambda found: found["string"] or b" ", text)) for text in spliced]
    words = [(each["word"], each["rest"].strip()) for each in parts if each is not None]
    depth = -1 if _guarded(words) else 0
    for (word, rest), found in zip(words, raw, strict=True):
        depth += word in (b"if", b"ifdef", b"ifndef")
        depth -= word == b"endif"
        yield word, rest, found.end(), depth > 0


def _guarded(words: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return whether a header has a guard: ``#ifndef X``, ``#define X``, ..., ``#endif``."""
    first = [each for each in words if each != (b"pragma", b"once")]
    if len(first) < 3 or first[0][0] != b"ifndef" or first[1] != (b"define", first[0][1]) or first[-1][0] != b"endif":
        return False
    depth = 0
    for place, (word, _) in enumerate(first):
        depth += word in (b"if", b"ifdef", b"ifndef")
        depth -= word == b"endif"
        if depth == 1 and word in (b"else", b"elif", b"elifdef", b"elifndef"):
            return False
        if not depth:
            return place == len(first) - 1
    return False


def _closed(bare: bytes, at: int) -> int:
    """Return the end of the parenthesis that was opened before ``at``; the end of the source where it is not closed."""
    depth = 1
    for found in re.compile(rb"[()]").finditer(bare, at):
        depth += 1 if found[0] == b"(" else -1
        if not depth:
            return found.end()
    return len(bare)


def _arguments(text: bytes) -> list[bytes]:
    """Return the arguments between commas outside of parentheses, with spaces around; none of ``()``."""
    parts, depth = [b""], 0
    for byte in text:
        depth += (byte == ord("(")) - (byte == ord(")"))
        if byte == ord(",") and not depth:
            parts.append(b"")
        else:
            parts[-1] += bytes((byte,))
    plain = [b" " + re.sub(rb"\s+", b" ", part).strip() + b" " for part in parts]
    return [] if not text.strip() else plain


def _odd(arguments: Sequence[bytes], name: bytes, reach: Mapping[bytes, set[bytes]]) -> bool:
    """Return whether the moment of expansion matters for an argument.

    It does where an argument names the macro itself or a macro with a comma, or where the macro makes a name or string
    of an argument that names a macro.
    """
    words = {word for each in arguments for word in _WORD.findall(each)}
    made = b"#" in reach[name] and not words.isdisjoint(reach)
    return made or name in words or any(b"," in reach.get(word, ()) for word in words)


_ALIGN = re.compile(rb"\b__align__(?=\s*\()")
_ALIGNAS = b"alignas  "
_ALIGNAS_PATTERN = re.compile(r"\balignas {2}(?=\s*\()")


def for_parser(source: bytes) -> bytes:
    """Return source as the parser understands it, of the same length."""
    return _ALIGN.sub(_ALIGNAS, source)


def for_compiler(text: str) -> str:
    """Return text that was taken from parsed source with its original words."""
    return _ALIGNAS_PATTERN.sub("__align__", text)
