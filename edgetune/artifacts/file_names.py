"""File names that are not UTF-8, which Python represents by lone surrogates and no artifact can store.

They are stored as ``visible`` shows them, ``model-\\xff.onnx``. A file is also found by that text, e.g. copied from a
message.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from edgetune.errors import InputError
from edgetune.visible import visible

_SURROGATE = re.compile("[\ud800-\udfff]")
_BYTE = re.compile(r"\\x([89a-f][0-9a-f])")


def storable(text: str) -> str:
    """Return ``text`` with an escape for each byte that is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda found: visible(found[0]), text)
    return text


def in_home(name: str) -> str:
    """Return a file's name with a leading ``~/``, which no shell has expanded, as the user's home folder."""
    return os.path.expanduser(name) if name.startswith("~/") else name


def as_found(name: str) -> str:
    """Return the name to open a file by that is stored as ``name``.

    This is ``name`` itself if such a file exists, or if no file has the name with its escapes as bytes; ``~/`` is the
    home folder.
    """
    name = in_home(name)
    meant = _BYTE.sub(lambda found: chr(0xDC00 + int(found[1], 16)), name)
    return meant if meant != name and not os.path.lexists(name) and os.path.lexists(meant) else name


def is_utf8(path: Path) -> bool:
    """Return whether the absolute path of a file is UTF-8, which C++ libraries require."""
    whole = str(path.resolve())
    return storable(whole) == whole


def require_utf8(path: Path) -> None:
    """Refuse a path that ONNX Runtime cannot open.

    Raises:
        InputError: the path is not UTF-8.
    """
    if not is_utf8(path):
        raise InputError(
            f"ONNX Runtime opens only files whose whole path is UTF-8, and {path.resolve()} is not",
            "rename the file or folder whose name is not UTF-8",
        )
