"""Inputs that once failed, as small as they still did: a folder each, with its files and its command line."""

from __future__ import annotations

import shlex
from pathlib import Path

from fuzzing.commands import commands
from fuzzing.inputs import Input

FOLDER = Path(__file__).parents[1] / "fuzz_corpus"
COMMAND, STDIN = "command", "stdin"


def cases() -> dict[str, Input]:
    """Return every input of the corpus by the name of its folder."""
    return {folder.name: _read(folder) for folder in sorted(FOLDER.iterdir()) if (folder / COMMAND).is_file()}


def _read(folder: Path) -> Input:
    argv = tuple(shlex.split((folder / COMMAND).read_text()))
    names = {command.name for command in commands()}
    command = max((" ".join(argv[:n]) for n in range(4) if " ".join(argv[:n]) in names), key=len)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    given = {name: data for name, data in files.items() if name not in (COMMAND, STDIN)}
    return Input(command, (), argv, given, files.get(STDIN, b""))
