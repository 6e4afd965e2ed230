"""Where an artifact goes: a named file, or standard output when that is a pipe; never a terminal, never nowhere."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.artifacts.io import Artifact


@dataclass(frozen=True, slots=True)
class Target:
    """Where an artifact will go; ``path`` is ``None`` for standard output."""

    path: Path | None

    def check(self) -> None:
        """Make sure that a file can be made there, before long work is begun for it.

        Raises:
            InputError: it cannot; nothing has been touched.
        """
        if self.path is None:
            return
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
        """Write the artifact's bytes."""
        from edgetune.artifacts import io

        if self.path is not None:
            io.write(artifact, self.path)
            return
        sys.stdout.buffer.write(io.to_bytes(artifact))
        sys.stdout.buffer.flush()


def choose_target(output: str | None, default_name: str) -> Target:
    """Return the target of ``-o output``.

    Without ``-o`` a pipe or a file on standard output takes the bytes, while for a terminal, which cannot show them,
    a file with a default name is made: a measurement is never lost.
    """
    if output == "-" or (output is None and not sys.stdout.isatty()):
        if sys.stdout.isatty():
            raise InputError("standard output is a terminal, which cannot show Parquet", "name a file with -o")
        return Target(None)
    if output is not None and not output.strip():
        raise InputError("-o names no file", "e.g. -o profile.parquet")
    return Target(Path(output or default_name))
