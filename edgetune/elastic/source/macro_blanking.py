"""Lines that no parser understands before macros are expanded, and that no kernel needs: blanked out before parsing.

    #define SCALE(T) void scale_##T(T *x) { ... }
    SCALE(float)                  ->              (as many blanks)
    __global__ void k() { ... }                   is seen as a kernel again

Only invocations of macros that the file itself defines are blanked, outside all braces but those of namespaces, where
nothing belongs to a function. Positions stay what they were.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

_SKIPPED_TOKENS = re.compile(
    rb"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\r?\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_OPENS = re.compile(rb"\b(?:namespace(?:\s+[\w:]+)?|extern\s+\"C(?:\+\+)?\")\s*\{")
_STRINGS_OF_LINKAGE = re.compile(rb'extern\s+"C(?:\+\+)?"')


def without_invocations(source: bytes, macros: Collection[str]) -> bytes:
    """Return source with invocations of macros at file level blanked out; the same source where there are none.

    Args:
        source: Of a file.
        macros: The names of macros that are called.
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
