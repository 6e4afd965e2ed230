"""The open outputs of the current command: each is opened before long work and found again for writing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from edgetune.artifacts.output_file import OutputFile

_opened: dict[str, OutputFile] = {}


def _silent(_asked: Path, _written: Path) -> None:
    pass


on_moved: Callable[[Path, Path], None] = _silent
"""Called with the path asked for and the one written, where a result went elsewhere; a command sets it."""


def forget_all() -> None:
    """Close the outputs of an earlier command in this process."""
    while _opened:
        _opened.popitem()[1].close()


def note(path: Path | str, *, replaces: bool = False) -> OutputFile:
    """Open an output and note its current state; ``find`` returns it from now on.

    Raises:
        OSError: see ``OutputFile``.
    """
    output = OutputFile(Path(path), replaces=replaces)
    former = _opened.pop(key := os.path.abspath(path), None)
    if former is not None:
        former.close()
    _opened[key] = output
    return output


def keep(output: OutputFile) -> None:
    """Register an output for ``find``, unless one is noted at its path."""
    _opened.setdefault(os.path.abspath(output.path), output)


def find(path: Path | str) -> OutputFile:
    """Return the noted output at a path, else open it in its current state.

    Raises:
        OSError: see ``OutputFile``.
    """
    found = _opened.get(os.path.abspath(path))
    return OutputFile(Path(path)) if found is None else found


def release(output: OutputFile) -> None:
    """Close an output unless it is registered for ``find``."""
    if output not in _opened.values():
        output.close()


def written_path(path: Path) -> Path:
    """Return the path at which the output requested at ``path`` is, or will be, written."""
    found = _opened.get(os.path.abspath(path))
    return path if found is None else found.path


def tell_moved(output: OutputFile) -> None:
    """Report once that a result was written to another path."""
    if output.moved_from is not None:
        asked, output.moved_from = output.moved_from, None
        on_moved(asked, output.path)
