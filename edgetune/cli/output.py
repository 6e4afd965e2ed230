"""Where an artifact goes: a named file, or standard output when that is a pipe; never a terminal, never nowhere."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.artifacts.formats import check_ending
from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.artifacts.io import Artifact
    from edgetune.cli.screen import Screen


@dataclass(frozen=True, slots=True)
class Target:
    """Where an artifact will go; ``path`` is ``None`` for standard output."""

    path: Path | None

    @property
    def file(self) -> str | None:
        """The name of the file; ``None`` for standard output."""
        return None if self.path is None else str(self.path)

    def check(self, kind: str | None = None, option: str = "-o") -> None:
        """Make sure that a file can be made there, before long work is begun for it.

        Args:
            kind: Of the file, one of ``edgetune.artifacts.formats.ENDINGS``, with which the ending of its name has to
                agree; ``None`` where any ending will do, or was checked.
            option: That names the file, for messages.

        Raises:
            InputError: none can be made, or its ending is of another format; nothing has been touched.
        """
        if self.path is None:
            return
        if kind is not None:
            check_ending(self.path, kind, option)
        try:
            if self.path.is_dir():
                raise InputError(f"cannot write {self.path}: it is a folder", "name a file in it")
            if self.path.exists() and not self.path.is_file():
                return
            with tempfile.NamedTemporaryFile(dir=self.path.parent, prefix=".edgetune-"):
                pass
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror}", "choose another file") from None

    def write(self, artifact: Artifact) -> None:
        """Write the artifact: to a file in the format that its ending says."""
        from edgetune.artifacts import io

        if self.path is not None:
            io.write(artifact, self.path)
            return
        sys.stdout.buffer.write(io.to_bytes(artifact))
        sys.stdout.buffer.flush()

    def tell(self, screen: Screen) -> None:
        """Say that the file is written; of standard output there is nothing to say."""
        if self.path is not None:
            screen.say(wrote(self.path))


def wrote(path: str | Path) -> str:
    """Return the sentence that a file is written, and what CSV leaves out."""
    lacks = ": its rows; .json and .parquet keep the conditions too" if Path(path).suffix.lower() == ".csv" else ""
    return f"wrote {path}{lacks}"


def choose_target(
    output: str | None, default_name: str, *, last: bool = False, resumes: bool = False, json: bool = False
) -> Target:
    """Return where ``-o output`` puts an artifact; ``Target.check`` says whether it can be written there.

    Without ``-o`` a pipe or a file on standard output takes the bytes, unless this is the last command of a chain: its
    summary goes there, and the bytes to a file with a default name. A terminal cannot show them either.

    Args:
        output: As written after ``-o``; ``None`` where there is none.
        default_name: Of the file where none is named; with a number where a file of that name exists.
        last: Whether no command reads the artifact from a pipe.
        resumes: Whether an existing file of the default name is gone on with.
        json: Whether standard output is to carry an answer in JSON.

    Raises:
        InputError: standard output cannot carry it, or no file is named.
    """
    if output == "-":
        if json:
            raise InputError("standard output cannot carry both the answer and the file", "name a file with -o")
        if sys.stdout.isatty():
            raise InputError("standard output is a terminal, which cannot show Parquet", "name a file with -o")
        return Target(None)
    if output is None and not (last or json or sys.stdout.isatty()):
        return Target(None)
    if output is not None and not output.strip():
        raise InputError("-o names no file", f"e.g. -o {default_name}")
    default = Path(default_name)
    return Target(Path(output) if output is not None else default if resumes else unused(default))


def unused(path: Path) -> Path:
    """Return the path, or with the first number from 2 that no file has: nothing that was measured is overwritten."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(each for each in numbered if not each.exists()) if path.exists() else path
