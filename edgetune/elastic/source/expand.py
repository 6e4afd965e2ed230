"""Macros that hide what has to be seen, written out before a source is read.

    #define EACH(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
    EACH(at, count) y[at] = x[at];       is read as       for (int at = blockIdx.x * ...; at < (count); ...) y[at] = ...

Only what any preprocessor makes of it, whatever else is defined: a macro is written out where it is defined once, under
no condition, never undefined, before it is used, and with neither ``#`` nor strings nor itself nor half a pair of
braces in it. All others are left, and refused later where they hide something. What is written to files is the source
as it was, and the lines of what is read are its lines.

Source of the rules: the C++ standard, [cpp.replace].
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgetune.elastic.source.known import BARRIERS, INDICES

_ROUNDS = 4
"""Macros in macros in macros that are written out."""
_HIDDEN = INDICES | BARRIERS | {"for", "return", "break", "continue"}
_SKIPPED = re.compile(
    rb"//(?:\\\r?\n|[^\n])*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    rb"|(?P<directive>^[ \t]*#(?:\\\r?\n|//(?:\\\r?\n|[^\n])*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|[^\n])*)",
    re.DOTALL | re.MULTILINE,
)
_UNCLEAR = re.compile(rb"R\"|\b\d[\w.]*'[0-9A-Fa-f]|%:|\?\?[=/]|(?:push|pop)_macro")
"""Raw strings and separators in numbers, behind which it is not told what is a comment or a string; other spellings of
directives, and macros that are put aside."""
_DIRECTIVE = re.compile(rb"[ \t]*#[ \t]*(?P<word>\w*)[ \t]*(?P<rest>.*)", re.DOTALL)
_DEFINE = re.compile(rb"(?P<name>\w+)(?:\((?P<parameters>[^()]*)\))?(?P<body>.*)", re.DOTALL)
_TOKEN = re.compile(rb"\.?\d(?:[eEpP][+-]|[\w.])*|[A-Za-z_]\w*")
_OPENED = re.compile(rb"\s*\(")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_OPAQUE = re.compile(rb"[#\"'@\\]")
_PAIRS = ((b"(", b")"), (b"[", b"]"), (b"{", b"}"))
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Expanded:
    """A source with macros written out.

    Args:
        text: It.
        stretches: Of each round, in order, what was written out: where it began and ended, and how long it became.
    """

    text: bytes
    stretches: tuple[tuple[tuple[int, int, int], ...], ...] = ()

    def original(self, at: int) -> int:
        """Return the place in the source as it was; of a place in what was written out, the end of its macro."""
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


@dataclass(frozen=True, slots=True)
class _Macro:
    parameters: tuple[bytes, ...] | None
    body: bytes
    end: int


def expanded(source: bytes, headers: Sequence[bytes] = ()) -> Expanded:
    """Return a source with the macros written out that hide loops, indices, barriers or ways out.

    Args:
        source: Of a file.
        headers: Those that it includes, theirs too.
    """
    done = Expanded(source)
    for _ in range(_ROUNDS):
        edits = list(_invocations(done.text, headers))
        if not edits:
            return done
        out, at = [], 0
        for start, end, text in edits:
            out += [done.text[at:start], text]
            at = end
        stretches = tuple((start, end, len(text)) for start, end, text in edits)
        done = Expanded(b"".join([*out, done.text[at:]]), (*done.stretches, stretches))
    return done


def _invocations(source: bytes, headers: Sequence[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield where macros are used, in order, and what stands there instead.

    What is handed to a macro that is left is written out only where that macro makes no string of it and the comma that
    ends it is not in doubt.
    """
    if _UNCLEAR.search(source) or any(map(_UNCLEAR.search, headers)):
        return
    macros, reach = _macros(source, headers)
    if not macros:
        return
    bare = _SKIPPED.sub(lambda found: re.sub(rb"[^\n]", b" ", found[0]), source)
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


def _written_out(
    found: re.Match[bytes], macro: _Macro, source: bytes, bare: bytes, reach: Mapping[bytes, set[bytes]]
) -> tuple[int, int, bytes] | None:
    """Return where a use of a macro begins and ends, and what it stands for; ``None`` where that is not certain."""
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
    """Return the macros that are written out, and of all macros the words, commas and # that they stand for."""
    often: dict[bytes, int] = {}
    found: dict[bytes, _Macro] = {}
    tokens: dict[bytes, set[bytes]] = {}
    included = max((end for word, _, end, _ in _directives(source) if word == b"include"), default=0)
    for text in (source, *headers):
        for word, rest, end, conditional in _directives(text):
            defined = _DEFINE.match(rest)
            if word not in (b"define", b"undef") or defined is None:
                continue
            name, given = defined["name"], defined["parameters"]
            whole = all(defined["body"].count(left) == defined["body"].count(right) for left, right in _PAIRS)
            usable = word == b"define" and not conditional and whole and not _OPAQUE.search(defined["body"])
            body = _COMMENT.sub(b" ", defined["body"]).strip()
            often[name] = often.get(name, 0) + (1 if usable else 2)
            tokens.setdefault(name, set()).update(_WORD.findall(body), [sign for sign in (b",", b"#") if sign in body])
            parameters = None if given is None else tuple(each.strip() for each in given.split(b",") if each.strip())
            if all(map(_WORD.fullmatch, parameters or ())):
                found[name] = _Macro(parameters, body, end if text is source else included)
    hidden = {each.encode() for each in _HIDDEN}
    reach = {name: _reached(name, tokens) for name in tokens}
    usable_names = (name for name in found if often[name] == 1 and name not in reach[name] and reach[name] & hidden)
    return {name: found[name] for name in usable_names}, reach


def _reached(name: bytes, tokens: Mapping[bytes, set[bytes]]) -> set[bytes]:
    """Return the words, commas and # that a macro stands for, through others too."""
    found: set[bytes] = set()
    waiting = [name]
    while waiting:
        new = tokens.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def _directives(text: bytes) -> Iterator[tuple[bytes, bytes, int, bool]]:
    """Yield directives: word, the rest on one line, where it ends, and whether it stands under a condition."""
    raw = [found for found in _SKIPPED.finditer(text) if found["directive"] is not None]
    parts = [_DIRECTIVE.match(re.sub(rb"\\\r?\n", b" ", found[0])) for found in raw]
    words = [(each["word"], each["rest"].strip()) for each in parts if each is not None]
    depth = -1 if _guarded(words) else 0
    for (word, rest), found in zip(words, raw, strict=True):
        depth += word in (b"if", b"ifdef", b"ifndef")
        depth -= word == b"endif"
        yield word, rest, found.end(), depth > 0


def _guarded(words: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return whether a header keeps itself from being read twice: ``#ifndef X``, ``#define X``, ..., ``#endif``."""
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
    """Return where the parenthesis that was opened before ``at`` ends; the end of the source where it does not."""
    depth = 1
    for found in re.compile(rb"[()]").finditer(bare, at):
        depth += 1 if found[0] == b"(" else -1
        if not depth:
            return found.end()
    return len(bare)


def _arguments(text: bytes) -> list[bytes]:
    """Return what stands between commas outside of parentheses, with spaces around; nothing of ``()``."""
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
    """Return whether an argument names the macro itself, or one that holds a comma: when they are written out matters
    then."""
    words = {word for each in arguments for word in _WORD.findall(each)}
    return name in words or any(b"," in reach.get(word, ()) for word in words)
