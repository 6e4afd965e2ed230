"""Names and messages as an attacker would choose them, and what of them may reach a terminal."""

import os
import unicodedata

SEQUENCES = {
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[2J\x1b[1;31m",
    "c1": "\x9b2J\x90\x9d",
    "overwrite": "\r\x08\x08\x0b\x0c",
    "delete": "\x7f",
    "line": "\n>forged",
    "bidi": "\u202egnp.\u2066\u200f",
    "invisible": "\u200b\u2060\ufeff\u3164\ufe0f",
    "separators": "\u2028\u2029\x85",
    "tags": "\U000e0041\U000e007f",
    "marks": "e" + "\u0301" * 40,
    "bytes": "\udcff\udc9b",
    "markup": "[/b]$\\frac$[red]",
}
UNICODE = "x" + "".join(text for name, text in SEQUENCES.items() if name != "bytes") + "x"
"""All of them that a file in UTF-8 can hold."""

EVERYTHING = os.fsdecode((UNICODE + SEQUENCES["bytes"]).encode("utf-8", "surrogateescape"))
"""All of them, as an argument of a command."""

FILE_NAME = EVERYTHING.replace("/", "")


def assert_harmless(text: str) -> None:
    """Check that nothing of a hostile name arrived as it was; ``text`` is what a pipe received."""
    raw = {letter for letter in text if letter != "\n" and not letter.isprintable()}
    assert not raw, sorted(map(hex, map(ord, raw)))
    assert "\ufffd" not in text, "bytes that are not UTF-8"
    assert not {"\u3164", "\ufe0f"} & set(text)
    assert not [line for line in text.splitlines() if line.startswith(">forged")]
    assert longest_run_of_marks(text) <= 8


def longest_run_of_marks(text: str) -> int:
    longest = run = 0
    for letter in text:
        run = run + 1 if unicodedata.combining(letter) else 0
        longest = max(longest, run)
    return longest
