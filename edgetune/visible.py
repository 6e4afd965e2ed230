"""Escapes control and invisible characters in text from outside, so that a terminal can show it.

Names of files, columns, networks and devices, and messages of other programs, may hold any character. Control
characters move the cursor, set the title or type answers; bidirectional controls reorder a line; invisible characters
make two names look alike. Each is written as in a string of Python or of bash's ``$'...'``: ``\\x1b``, ``\\u202e``. A
byte of a name that is not UTF-8, a lone surrogate in Python, is written ``\\xff``: ``\\x80`` to ``\\xff`` are always
bytes, and characters from U+0080 on are ``\\u0080`` and up. A backslash stays as it is.
"""

from collections.abc import Callable

LONGEST_LINE = 1000
"""Characters of an error's line that anybody reads."""

_MOST_MARKS = 8
"""Combining marks on one letter that are shown; scripts need 4 or so, and more of them paint over other lines."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BLANK_RANGES = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0x16FE4, 0x16FE4), (0xE0100, 0xE01EF),
)  # fmt: skip
_BLANK = frozenset(chr(code) for first, last in _BLANK_RANGES for code in range(first, last + 1))
"""Characters that Python counts as printable and that show nothing: of Default_Ignorable_Code_Point of the Unicode
Character Database, those outside the categories of control and format characters, and the empty braille cell."""


def visible(text: str) -> str:
    """Return ``text`` with an escape in place of every character that is not shown as itself, line ends included."""
    return _replaced(text, _escape)


def visible_in_json(document: str) -> str:
    """Return a JSON document with such characters, which can only stand in its strings, as ``\\uXXXX``.

    A byte that is not UTF-8, which JSON cannot hold, becomes the text that ``visible`` returns.
    """
    return _by_line(document, _json_escape)


def visible_in_yaml(document: str) -> str:
    """Return a YAML document with such characters, which have to stand between double quotes, as escapes of YAML."""
    return _by_line(document, _yaml_escape)


def is_visible(text: str) -> bool:
    """Return whether every character of ``text`` is shown as itself."""
    return (text.isascii() and text.isprintable()) or visible(text) == text


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """Return ``text`` as one visible line, with white space as single spaces and a long end cut."""
    shown = visible(" ".join(str(text[: 8 * longest]).split()))
    return shown if len(shown) <= longest else f"{shown[:longest]}..."


def cut_in_middle(text: str, longest: int) -> str:
    """Return ``text`` with its middle left out where it is longer; both ends of a name tell it from others."""
    if len(text) <= longest:
        return text
    head = (longest - 3) // 2
    return f"{text[:head]}...{text[len(text) - (longest - 3 - head) :]}"


def _by_line(document: str, escape: Callable[[str], str]) -> str:
    """Return a document with its own line ends and the rest visible; other line ends are letters of its strings."""
    return "\n".join(_replaced(line, escape) for line in document.split("\n"))


def _replaced(text: str, escape: Callable[[str], str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    import unicodedata  # 1 MB, which a name in ASCII does not need

    shown, marks = [], 0
    for letter in text:
        marks = marks + 1 if letter >= "\u0300" and unicodedata.category(letter)[0] == "M" else 0
        seen = letter.isprintable() and letter not in _BLANK and marks <= _MOST_MARKS
        shown.append(letter if seen else escape(letter))
    return "".join(shown)


def _escape(letter: str) -> str:
    code = ord(letter)
    if code < 0x80:
        return _SHORT.get(letter) or f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # how Python writes a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return _yaml_escape(letter)


def _yaml_escape(letter: str) -> str:
    code = ord(letter)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _json_escape(letter: str) -> str:
    code = ord(letter)
    if 0xD800 <= code <= 0xDFFF:
        return f"\\{_escape(letter)}"
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
