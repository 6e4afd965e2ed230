"""Compiled kernels kept in files, as compiling takes seconds: found again by all that the machine code depends on.

    sha256(source, options, NVRTC, edgetune) --> FOLDER/8f3a....compiled
                                                 sha256 of the rest | length of the log | log | machine code

A source that includes headers of its own is not kept: what is in them may change, and its text does not tell. A file
that is damaged, or is something else, counts as missing and is written anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from edgetune.artifacts.files import write_atomically
from edgetune.elastic.headers import STAND_INS
from edgetune.errors import InputError
from edgetune.version import __version__

MOST_FILES = 200
"""Kept in a folder: networks of the benchmark have 0.5 to 1 MB each. Those that were not used for longest go first."""

_SUFFIX = ".compiled"
_NAME = re.compile(rf"[0-9a-f]{{64}}{re.escape(_SUFFIX)}")
_DIGEST_BYTES, _LENGTH_BYTES = 32, 8
_STAND_IN = re.compile(rf"^[ \t]*#[ \t]*include[ \t]*[<\"](?:{'|'.join(map(re.escape, STAND_INS))})[>\"]", re.MULTILINE)
"""The only headers with known contents: NVRTC looks among those that it is given before it looks into folders (NVIDIA,
"NVRTC", supported compile options, ``--include-path``)."""
_FROM_ELSEWHERE = re.compile(
    r"(?:#|%:|\?\?=)(?:\s|/\*.*?\*/)*(?:include|import|embed)|__has_(?:include|embed)", re.DOTALL
)


def file_of(folder: Path, source: str, name: str, words: Sequence[str], compiler: str) -> Path | None:
    """Return where a compiled source is kept; ``None`` where it cannot be, as its text is not all of it.

    Args:
        folder: Of such files.
        source: CUDA C.
        name: Of its file, as in the compiler's messages.
        words: Options of the compiler, the architecture among them.
        compiler: Its name and version.
    """
    if _FROM_ELSEWHERE.search(_STAND_IN.sub("", source.replace("\\\n", "").replace("\\\r\n", ""))):
        return None
    depends_on = json.dumps([source, name, list(words), compiler, __version__, dict(STAND_INS)])
    return folder / f"{hashlib.sha256(depends_on.encode()).hexdigest()}{_SUFFIX}"


def read(file: Path) -> tuple[bytes, str] | None:
    """Return machine code and what the compiler said of it; ``None`` where they are not there, or damaged."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    digest, rest = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if hashlib.sha256(rest).digest() != digest or len(rest) < _LENGTH_BYTES:
        return None
    with suppress(OSError):  # so that what is in use is not the oldest
        os.utime(file)
    end = _LENGTH_BYTES + int.from_bytes(rest[:_LENGTH_BYTES], "little")
    return rest[end:], rest[_LENGTH_BYTES:end].decode(errors="replace")


def write(file: Path, image: bytes, log: str) -> None:
    """Keep machine code and what the compiler said of it, where that is possible, and remove what is too much."""
    said = log.encode(errors="replace")
    rest = len(said).to_bytes(_LENGTH_BYTES, "little") + said + image
    with suppress(InputError, OSError):  # a folder that cannot be written is no reason not to compile
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(hashlib.sha256(rest).digest() + rest, file)
        _remove_oldest(file.parent)


def _remove_oldest(folder: Path) -> None:
    ages = {}
    for each in folder.iterdir():
        if _NAME.fullmatch(each.name):
            with suppress(OSError):  # another process removed it
                ages[each] = each.stat().st_mtime_ns
    for each in sorted(ages, key=lambda file: ages[file])[:-MOST_FILES]:
        with suppress(OSError):
            each.unlink()
