"""The text for the parser, of the length of the source: what the parser does not understand is blanked or replaced.

#define SCALE(T) void scale_##T(T *x) { ... }
SCALE(float)                         is read as       (as many blanks), so that the next kernel is seen

__align__(16)                        is read as       alignas  (16)

return typename A<T>::B(x);          is read as       return /*tname*/A<T>::B(x);

for (...)                            is read as       for (...)
#pragma unroll 4                                      //ragma unroll 4
    for (...)                                             for (...)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from edgetune.stages.elastic.source.directives import blanks, closing_end, code_only

_OPENS = re.compile(rb"\b(?:namespace(?:\s+[\w:]+)?|extern\s+\"C(?:\+\+)?\")\s*\{")


def without_invocations(source: bytes, macros: Collection[str]) -> bytes:
    """Return source with invocations of macros at file level blanked out; the same source where there are none.

    Only invocations outside all braces but those of namespaces are blanked. Positions stay as they are.

    Args:
        source: Of a file.
        macros: The names of macros with arguments.
    """
    bare = code_only(source)
    if not macros or bare.count(b"{") != bare.count(b"}"):
        return source
    out = bytearray(source)
    for start, end in _file_level_invocations(source, bare, macros):
        out[start:end] = blanks(source[start:end])
    return bytes(out)


def _file_level_invocations(source: bytes, bare: bytes, macros: Collection[str]) -> Iterator[tuple[int, int]]:
    names = b"|".join(re.escape(each.encode()) for each in macros)
    invocation = re.compile(rb"(?:^|(?<=[;}\n]))[ \t]*(?:" + names + rb")\s*\(")
    for found in invocation.finditer(bare):
        end = closing_end(bare, found.end())
        whole = bare[end - 1 : end] == b")" and not re.search(rb"[{};]", bare[found.end() : end])
        if whole and _level(source, bare, found.start()) == 0:
            rest = re.compile(rb"[ \t]*;?").match(bare, end)
            yield found.start(), end if rest is None else rest.end()


def _level(source: bytes, bare: bytes, at: int) -> int:
    """Return how many braces are open, those of namespaces and linkage not counted."""
    heads = {found.end() - 1 for found in _OPENS.finditer(source, 0, at)}
    open_braces: list[bool] = []
    for found in re.finditer(rb"[{}]", bare[:at]):
        if found[0] == b"{":
            open_braces.append(found.start() in heads)
        elif open_braces:
            open_braces.pop()
    return sum(not each for each in open_braces)


_ALIGN = re.compile(rb"\b__align__(?=\s*\()")
_ALIGNAS = b"alignas  "
_ALIGNAS_PATTERN = re.compile(r"\balignas {2}(?=\s*\()")
_TYPE = r"\w+(?:<[^;(){}\n]{0,200}>)?"
_TYPENAME = re.compile(rf"\btypename[ \t](?=[ \t]*(?:::)?{_TYPE}(?:::{_TYPE})*::[ \t]*\w+[ \t]*[({{])".encode())
"""Before a type that is made in an expression: ``typename A<T>::B(x)``."""
_NO_TYPENAME = b"/*tname*/"
_PRAGMA = re.compile(
    rb"^((?:(?!//)[^\n])*(?:\)|\belse)[ \t]*(?://[^\n]*)?\r?\n[ \t]*)#p(?=ragma[ \t]+(?:no)?unroll\b)", re.MULTILINE
)
"""Between the head of a statement and the loop that is its body."""
_NO_PRAGMA = re.compile(r"^([ \t]*)//(?=ragma[ \t]+(?:no)?unroll\b)", re.MULTILINE)


def for_parser(source: bytes) -> bytes:
    """Return source as the parser understands it, of the same length."""
    bare = _PRAGMA.sub(rb"\1//", source)
    return _TYPENAME.sub(_NO_TYPENAME, _ALIGN.sub(_ALIGNAS, bare))


def for_compiler(text: str) -> str:
    """Return text that was taken from parsed source with its original words."""
    with_pragmas = _NO_PRAGMA.sub(r"\1#p", text)
    return _ALIGNAS_PATTERN.sub("__align__", with_pragmas).replace(_NO_TYPENAME.decode(), "typename ")
