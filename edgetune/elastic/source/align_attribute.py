"""``__align__(16)``, which the parser does not know, as ``alignas``, which it does, and back again.

__align__(16)  ->  alignas  (16)      as many bytes, so that positions stay what they are

Both mean the same to compilers of CUDA; text that is generated from the parsed source gets the original word back.
"""

from __future__ import annotations

import re

_ALIGN = re.compile(rb"\b__align__(?=\s*\()")
_ALIGNAS = b"alignas  "
_ALIGNAS_PATTERN = re.compile(r"\balignas {2}(?=\s*\()")


def for_parser(source: bytes) -> bytes:
    """Return source as the parser understands it, byte by byte as long."""
    return _ALIGN.sub(_ALIGNAS, source)


def for_compiler(text: str) -> str:
    """Return text that was taken from parsed source as it was written."""
    return _ALIGNAS_PATTERN.sub("__align__", text)
