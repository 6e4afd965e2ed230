"""Directives of the preprocessor in CUDA C: the guards of headers, and conditions that the file itself decides.

#define WIDE                                              #define WIDE
__global__ void k(float *x                                __global__ void k(float *x
#ifdef WIDE                          is read as
    , int n                                                   , int n
#endif
) { ... }                                                 ) { ... }
"""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

_COMMENTS = r"//(?:\\\r?\n|[^\n])*|/\*.*?\*/"
_STRINGS = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
_SKIPPED = re.compile(
    rf"{_COMMENTS}|(?:\b(?:u8|[uUL]))?(?:{_STRINGS})"
    rf"|(?P<directive>^[ \t]*#(?:\\\r?\n|{_COMMENTS}|{_STRINGS}|[^\n])*)".encode(),
    re.DOTALL | re.MULTILINE,
)
_DIRECTIVE = re.compile(rb"[ \t]*#[ \t]*(?P<word>\w*)[ \t]*(?P<rest>.*)", re.DOTALL)
_COMMENT = re.compile(rf"{_COMMENTS}|(?P<string>{_STRINGS})".encode(), re.DOTALL)
_UNCLEAR = re.compile(
    rb"R\"|\b\d[\w.]*'[0-9A-Fa-f]|%:|\?\?[=/]|(?:push|pop)_macro|[*/]\\\r?\n[*/]|\\[ \t\f\v]+\r?$", re.MULTILINE
)
"""Text behind which comments and strings cannot be told apart: raw strings, separators in numbers, comments that begin
or end on two lines, spaces behind a line continuation; also other spellings of directives, and pushed macros."""
_ODD = re.compile(rb"[#$\x80-\xff]|\\(?!\r?\n)")
"""Characters outside comments, strings and directives that make a source unclear: directives behind comments, and
letters that names do not have here."""
_OPENING = (b"if", b"ifdef", b"ifndef")
_OTHERWISE = (b"else", b"elif", b"elifdef", b"elifndef")
_NUMBER = re.compile(rb"(?:0[xX][0-9a-fA-F]+|[1-9]\d*|0)[uUlL]*")
_DEFINED = re.compile(rb"(?P<no>!\s*)?defined\s*(?:\(\s*(?P<in>\w+)\s*\)|(?P<bare>\w+))")
_COMPARED = re.compile(rb"(?P<left>\w+)\s*(?P<sign>[=!<>]=|[<>])\s*(?P<right>\w+)")
_SIGNS = {
    b"==": operator.eq, b"!=": operator.ne, b"<": operator.lt, b">": operator.gt, b"<=": operator.le, b">=": operator.ge
}  # fmt: skip

_ALWAYS = (b"__CUDACC__", b"__cplusplus")
"""Macros that every compiler of CUDA C defines, and the CPU shim too; their values are not known."""


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive.

    Args:
        word: What it does, e.g. ``define``.
        rest: What is behind the word, on one line and without comments.
        start: Its first byte.
        end: The byte behind its last.
        conditional: Whether it stands under a condition other than the guard of the header.
    """

    word: bytes
    rest: bytes
    start: int
    end: int
    conditional: bool


def without_comments(text: bytes) -> bytes:
    """Return code with a space for each comment."""
    return _COMMENT.sub(lambda found: found["string"] or b" ", text)


def unclear(text: bytes) -> bool:
    """Return whether it is not certain which text of a source is a directive, a comment or a string."""
    return _UNCLEAR.search(text) is not None or _ODD.search(code_only(text)) is not None


def code_only(text: bytes) -> bytes:
    """Return a source with spaces for its comments, strings and directives."""
    return _SKIPPED.sub(lambda found: blanks(found[0]), text)


def blanks(text: bytes) -> bytes:
    """Return spaces in place of text, on as many lines."""
    return re.sub(rb"[^\r\n]", b" ", text)


def closing_end(bare: bytes, at: int) -> int:
    """Return the end of the parenthesis that was opened before ``at``; the end of the source where it is not closed."""
    depth = 1
    for found in re.compile(rb"[()]").finditer(bare, at):
        depth += 1 if found[0] == b"(" else -1
        if not depth:
            return found.end()
    return len(bare)


def directives(text: bytes) -> list[Directive]:
    """Return the directives of a source in order."""
    raw = [found for found in _SKIPPED.finditer(text) if found["directive"] is not None]
    spliced = (re.sub(rb"\\\r?\n", b"", found[0]) for found in raw)
    parts = [_DIRECTIVE.match(without_comments(text)) for text in spliced]
    words = [(each["word"], each["rest"].strip()) for each in parts if each is not None]
    depth = -1 if _guarded(words) else 0
    out = []
    for (word, rest), found in zip(words, raw, strict=True):
        depth += word in _OPENING
        depth -= word == b"endif"
        out.append(Directive(word, rest, found.start(), found.end(), depth > 0))
    return out


def _guarded(words: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return whether a header has a guard: ``#ifndef X``, ``#define X``, ..., ``#endif``."""
    first = [each for each in words if each != (b"pragma", b"once")]
    if len(first) < 3 or first[0][0] != b"ifndef" or first[1] != (b"define", first[0][1]) or first[-1][0] != b"endif":
        return False
    depth = 0
    for place, (word, _) in enumerate(first):
        depth += word in _OPENING
        depth -= word == b"endif"
        if depth == 1 and word in _OTHERWISE:
            return False
        if not depth:
            return place == len(first) - 1
    return False


def without_guard(text: bytes) -> tuple[bytes, bytes | None] | None:
    """Return a header without its guard, which stays defined, and its name; ``None`` if it may be read more than once.

    The name is ``None`` of a header with ``#pragma once`` alone. Positions stay as they are.
    """
    if unclear(text):
        return None
    found = directives(text)
    pragmas = [each for each in found if (each.word, each.rest) == (b"pragma", b"once") and not each.conditional]
    rest = [each for each in found if (each.word, each.rest) != (b"pragma", b"once")]
    guard = None
    if _guarded([(each.word, each.rest) for each in rest]):
        code = code_only(text)
        if not (code[: rest[0].start] + code[rest[-1].end :]).strip():
            guard = rest[0].rest
            pragmas += [rest[0], rest[-1]]
    if not pragmas:
        return None
    out = bytearray(text)
    for each in pragmas:
        out[each.start : each.end] = blanks(text[each.start : each.end])
    return bytes(out), guard


def without_decided(text: bytes, headers: Sequence[bytes] = (), missing: Collection[str] = ()) -> bytes:
    """Return a source without the conditions that its macros and the compiler decide, and what they leave out.

    A parser cannot read ``#if`` within a list of parameters, and elsewhere sees both branches. Positions stay as they
    are.

    Args:
        text: Of a file.
        headers: The headers that it includes: macros that they define or undefine decide nothing.
        missing: The headers that were not found: behind them no macro of before is certain.
    """
    if any(map(unclear, (text, *headers))):
        return text
    found = directives(text)
    out = bytearray(text)
    unsure = {_named(each) for header in headers for each in directives(header)}
    unsure |= {_named(each) for each in found if each.conditional}
    always: dict[bytes, bytes | None] = {name: b"" for name in _ALWAYS if name not in unsure}
    known = dict(always)
    for place, first in enumerate(found):
        name = _named(first)
        if name and name not in unsure:
            known[name] = first.rest[len(name) :].strip() if first.word == b"define" else None
        elif first.word == b"include" and first.rest.decode("utf-8", "replace").strip('<>" \t') in missing:
            known = dict(always)
        if first.word not in _OPENING:
            continue
        parts, holds = _parts(found, place), _holds(first, known)
        if holds is None or not 2 <= len(parts) <= 3 or (len(parts) == 3 and parts[1].word != b"else"):
            continue
        for each in parts:
            out[each.start : each.end] = blanks(text[each.start : each.end])
        dead = (parts[-2].end, parts[-1].start) if holds else (parts[0].end, parts[1].start)
        if not holds or len(parts) == 3:
            out[slice(*dead)] = blanks(text[slice(*dead)])
    return bytes(out)


def _parts(found: Sequence[Directive], place: int) -> list[Directive]:
    """Return the directives of one condition: ``#if``, ``#elif`` and ``#else`` if there are any, and ``#endif``."""
    parts, depth = [found[place]], 1
    for each in found[place + 1 :]:
        depth += each.word in _OPENING
        depth -= each.word == b"endif"
        if not depth:
            return [*parts, each]
        if depth == 1 and each.word in _OTHERWISE:
            parts.append(each)
    return []


def _named(each: Directive) -> bytes:
    """Return the macro that a directive defines or undefines; empty where it does neither."""
    name = re.match(rb"\w+", each.rest) if each.word in (b"define", b"undef") else None
    return b"" if name is None else name[0]


def _holds(condition: Directive, known: Mapping[bytes, bytes | None]) -> bool | None:
    """Return whether the condition of a directive holds; ``None`` if macros of the file do not decide it."""

    def number(word: bytes) -> int | None:
        digits = known.get(word) or word
        return int(digits.rstrip(b"uUlL"), 0) if _NUMBER.fullmatch(digits) else None

    rest = condition.rest
    if condition.word in (b"ifdef", b"ifndef"):
        return None if rest not in known else (known[rest] is not None) == (condition.word == b"ifdef")
    if defined := _DEFINED.fullmatch(rest):
        name = defined["in"] or defined["bare"]
        return None if name not in known else (known[name] is not None) == (defined["no"] is None)
    if compared := _COMPARED.fullmatch(rest):
        left, right = number(compared["left"]), number(compared["right"])
        return None if left is None or right is None else bool(_SIGNS[compared["sign"]](left, right))
    value = number(rest.removeprefix(b"!").strip())
    return None if value is None else (value == 0) == rest.startswith(b"!")
