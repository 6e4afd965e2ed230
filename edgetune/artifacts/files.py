"""Reads a file or standard input whole, and writes a file atomically."""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Iterator
from pathlib import Path

from edgetune.artifacts import output_file
from edgetune.artifacts.file_names import as_found
from edgetune.artifacts.output_file import OutputFile
from edgetune.choices import closest
from edgetune.errors import FILE_HINTS, EdgetuneError, InputError
from edgetune.limits import read_file, read_whole

STDIN = "-"
STDIN_NAME = "standard input"

IN_MEMORY = "edgetune-in-memory-"
"""Begins the name of the folder in which the Python interface hands artifacts in memory to a workflow."""


def name_of(source: str | Path) -> str:
    """Return the name of ``source`` for messages and provenance; a file made for one call is ``<name>``."""
    if Path(source).parent.name.startswith(IN_MEMORY):
        return f"<{Path(source).stem}>"
    return STDIN_NAME if source == STDIN else str(source)


def read_source(source: str | Path) -> bytes:
    """Return the bytes of a file, or of standard input for ``-``; a file of that name is ``./-``, or a ``Path``.

    Raises:
        InputError: the file is missing, a folder, unreadable, a pipe without a writer or longer than the limit
            allows, or standard input is a terminal.
    """
    if source == STDIN:
        return _read_standard_input()
    path = Path(as_found(source)) if isinstance(source, str) else source
    try:
        return read_file(path, name=str(source))
    except FileNotFoundError:
        raise InputError(f"{source} does not exist", _neighbour_hint(path)) from None
    except IsADirectoryError:
        raise InputError(f"{source} is a folder, not a file", "name a file in it") from None
    except PermissionError:
        raise InputError(f"{source} cannot be read: permission denied", f"see `ls -l {source}`") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        raise InputError(f"{str(source)!r} cannot be read: {_reason(error)}", "check the path and the disk") from None


def _read_standard_input() -> bytes:
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("standard input is closed", "pipe a file into it, or name one in place of -")
    if sys.stdin.isatty():
        raise InputError("standard input is a terminal", "pipe a file into it, or name one in place of -")
    return read_whole(sys.stdin.buffer, name=STDIN_NAME)


def _neighbour_hint(path: Path) -> str:
    try:
        near = closest(path.name, (entry.name for entry in path.parent.iterdir()))
    except OSError:
        return f"there is no folder {path.parent} either; check the path"
    return f"did you mean {path.parent / near}?" if near else "check the path"


def write_atomically(data: bytes, target: Path | str) -> Path:
    """Write ``data`` to ``target`` atomically: at any moment there is either the old file or the whole new one.

    A device or a pipe (``/dev/null``, ``>(command)``) is written directly.

    Returns:
        The path of the file: ``target``, unless another program has written that since ``output_file.note`` was called.

    Raises:
        InputError: the folder is missing or read-only, the disk is full, ...; the message says which file exists now.
    """
    with writing(target) as output:
        output.write(data)
    return output.path


@contextlib.contextmanager
def writing(target: Path | str, hint: str | None = None) -> Iterator[OutputFile]:
    """Yield an output to write to, and turn failures into an error that says which file exists now.

    Args:
        target: See ``write_atomically``.
        hint: The remedy for a failure if the file is not named with ``-o``.

    Raises:
        InputError: see ``write_atomically``.
    """
    output = None
    try:
        output = output_file.find(target)
        yield output
    except (BrokenPipeError, EdgetuneError):
        raise
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a NUL character in the name
        raise _unwritten(target, output, error, hint) from error


def _unwritten(target: Path | str, output: OutputFile | None, error: Exception, hint: str | None) -> InputError:
    if output is not None and output.published:
        message = f"{output.path} is written, but the disk does not confirm it: {_reason(error)}"
        return InputError(message, "check the disk, and write it again to be safe")
    state = "" if output is None or output.special or not output.exists else "; the file that was there is unchanged"
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.ENOENT:
        hint = hint or "the folder does not exist: make it first, or choose another with -o"
    hint = hint or FILE_HINTS.get(code or 0, "choose another file with -o")
    return InputError(f"{target} cannot be written: {_reason(error)}{state}", hint)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
