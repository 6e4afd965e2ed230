"""Damage to bytes and to text, whatever they mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from fuzzing.values import HOSTILE, NUMBER_TEXTS

MOST_BYTES = 1_000_000
"""An input is smaller: what a file of this size may cost is what edgetune promises."""

_NUMBER = re.compile(rb"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_][\w:.-]*")


def damaged_bytes(rng: Random, data: bytes) -> bytes:
    """Return ``data`` after one to three operations on its bytes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_BYTES)(rng, data)[:MOST_BYTES]
    return data


def damaged_text(rng: Random, data: bytes) -> bytes:
    """Return ``data``, which is text, after one to three operations on its numbers, words, lines and encoding."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = rng.choice(_TEXT)(rng, data)[:MOST_BYTES]
    return data


def _span(rng: Random, data: bytes, most: int = 64) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.randint(1, most))


def _flip(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _replaced(rng: Random, data: bytes) -> bytes:
    start, end = _span(rng, data, 8)
    return data[:start] + rng.randbytes(end - start) + data[end:]


def _truncated(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _beheaded(rng: Random, data: bytes) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def _cut(rng: Random, data: bytes) -> bytes:
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def _doubled(rng: Random, data: bytes) -> bytes:
    start, end = _span(rng, data, 400)
    return data[:end] + data[start:end] * rng.choice((1, 1, 3, 200)) + data[end:]


def _moved(rng: Random, data: bytes) -> bytes:
    start, end = _span(rng, data)
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[start:end] + data[at:]


def _zeroed(rng: Random, data: bytes) -> bytes:
    start, end = _span(rng, data, 512)
    return data[:start] + bytes(end - start) + data[end:]


def _emptied(rng: Random, data: bytes) -> bytes:
    return rng.choice((b"", b"\n", b"\0", b" \n\t\n", b"\xff\xfe", b"\xef\xbb\xbf", b"PAR1", b"PAR1PAR1", b"{}", b"[]"))


def _number(rng: Random, data: bytes) -> bytes:
    return _at_match(rng, data, _NUMBER, rng.choice(NUMBER_TEXTS).encode())


def _word(rng: Random, data: bytes) -> bytes:
    return _at_match(rng, data, _WORD, rng.choice(HOSTILE).encode())


def _other_word(rng: Random, data: bytes) -> bytes:
    words = _WORD.findall(data[:20_000]) or [b"x"]
    return _at_match(rng, data, _WORD, rng.choice(words))


def _at_match(rng: Random, data: bytes, pattern: re.Pattern[bytes], new: bytes) -> bytes:
    found = list(pattern.finditer(data[:100_000]))
    if not found:
        return data + new
    match = rng.choice(found)
    return data[: match.start()] + new + data[match.end() :]


def _line_lost(rng: Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if lines:
        del lines[rng.randrange(len(lines))]
    return b"".join(lines)


def _line_doubled(rng: Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b"\n"]
    at = rng.randrange(len(lines))
    lines[at:at] = [lines[at]] * rng.choice((1, 1, 2, 500))
    return b"".join(lines)


def _lines_swapped(rng: Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b"\n"]
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def _encoded(rng: Random, data: bytes) -> bytes:
    text = data.decode("utf-8", errors="replace")
    encoding = rng.choice(("utf-16", "utf-16-le", "utf-8-sig", "latin-1", "utf-32", "cp037"))
    return text.encode(encoding, errors="replace")


def _line_ends(rng: Random, data: bytes) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\x85", b"\x0b", b"\xe2\x80\xa8")))


def _inserted(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    new = rng.choice(
        (b"\0", b"\t", b"\x1b[31m", b"\xff", b"\xe2\x80\xae", b"\n", b"'", b'"', b"{", b"[", b":", b",", b"#")
    )
    return data[:at] + new * rng.choice((1, 1, 1, 50, 3000)) + data[at:]


_BYTES: tuple[Callable[[Random, bytes], bytes], ...] = (
    _flip, _flip, _replaced, _truncated, _beheaded, _cut, _doubled, _moved, _zeroed, _emptied,
)  # fmt: skip
_TEXT = (
    _number, _number, _number, _word, _word, _other_word, _line_lost, _line_doubled, _lines_swapped, _encoded,
    _line_ends, _inserted, _cut, _truncated,
)  # fmt: skip
