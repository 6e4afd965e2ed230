"""Where an artifact goes: a named file, or standard output when that is a pipe; never a terminal, never nowhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.artifacts import opened
from edgetune.artifacts.kinds import ENDINGS, check_ending
from edgetune.artifacts.output_file import OutputFile
from edgetune.artifacts.recognition import recognise
from edgetune.errors import InputError
from edgetune.processes.streams import write_bytes

if TYPE_CHECKING:
    from edgetune.artifacts.artifact import Artifact
    from edgetune.workflows.reporting import Reporter, Stdout


FORCE = "--force"


@dataclass(frozen=True, slots=True)
class Target:
    """Where an artifact will go.

    Args:
        path: The file; ``None`` for standard output.
        discards: Whether nothing is written, as when Python takes what a workflow returns.
    """

    path: Path | None
    discards: bool = False

    @property
    def file(self) -> str | None:
        """The name of the file, as it was written in the end; ``None`` for standard output."""
        return None if self.path is None else str(opened.written_path(self.path))

    def check(self, kind: str | None = None, option: str = "-o", *, overwrites: bool = False) -> None:
        """Open the place of the file, before long work is begun for it and before any code of a model runs.

        Args:
            kind: Of the file, one of ``edgetune.artifacts.kinds.ENDINGS``, with which the ending of its name has to
                agree; else ``figure`` or ``checkpoint``. ``None`` where what the file holds is checked elsewhere.
            option: That names the file, for messages.
            overwrites: Whether a file of another kind may be replaced as well, as with ``--force``.

        Raises:
            InputError: no file can be made there, its ending is of another format, or it would replace a file that is
                not of this kind or not of edgetune; nothing has been touched.
        """
        if self.path is None:
            return
        overwrites = overwrites or _force
        try:
            output = opened.note(self.path, replaces=overwrites)
            output.try_folder()
            if kind is not None and not overwrites:
                _refuse_other(output, kind, option)
        except IsADirectoryError:
            raise InputError(f"cannot write {self.path}: it is a folder", "name a file in it") from None
        except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"cannot write {self.path}: {reason}", "choose another file") from None
        if kind is not None and kind in ENDINGS:
            check_ending(self.path, kind, option)

    def write(self, artifact: Artifact) -> None:
        """Write the artifact: to a file in the format that its ending says."""
        from edgetune.artifacts import io

        if self.path is not None:
            io.write(artifact, self.path)
            return
        if not self.discards:
            write_bytes(io.to_bytes(artifact))

    def report(self, reporter: Reporter) -> None:
        """Say that the file is written; of standard output there is nothing to say."""
        if self.path is not None:
            reporter.info(wrote(self.path))


_force = False
"""Whether the command was given ``--force``."""


def begin_outputs(*, force: bool = False) -> None:
    """Forget the outputs of a command before in this process; with ``force`` this one replaces any file."""
    global _force  # noqa: PLW0603 -- one command runs at a time
    _force = force
    opened.forget_all()


def forced() -> bool:
    """Return whether the command was given ``--force``."""
    return _force


def _refuse_other(output: OutputFile, kind: str, option: str) -> None:
    """Refuse to replace a file of another kind, or one that edgetune did not write; an empty one holds nothing."""
    if output.special or not output.exists or not output.read(0, 1):
        return
    found = recognise(output)
    if found.kind is not None and found.kind != kind:
        message = f"{option}: {output.path} is a file of kind {found.kind}, and would be lost"
    elif not found.ours:
        message = f"{option}: {output.path} was not written by edgetune, and would be lost"
    else:
        return
    raise InputError(message, f"name another file, or replace it with {FORCE}")


def wrote(path: str | Path) -> str:
    """Return the sentence that the output asked for at ``path`` is written, and what CSV leaves out."""
    path = opened.written_path(Path(path))
    lacks = ": its rows; .json and .parquet keep the conditions too" if path.suffix.lower() == ".csv" else ""
    return f"wrote {path}{lacks}"


def choose_target(
    output: str | None, default_name: str, *, last: bool = False, resumes: bool = False, json: bool = False,
    stdout: Stdout | None = None,
) -> Target:  # fmt: skip
    """Return where ``-o output`` puts an artifact; ``Target.check`` says whether it can be written there.

    Without ``-o`` a pipe or a file on standard output takes the bytes, unless this is the last command of a chain: its
    summary goes there, and the bytes to a file with a default name. A terminal cannot show them either.

    Args:
        output: As written after ``-o``; ``None`` where there is none.
        default_name: Of the file where none is named; with a number where a file of that name exists.
        last: Whether no command reads the artifact from a pipe.
        resumes: Whether an existing file of the default name is gone on with.
        json: Whether standard output carries an answer in JSON.
        stdout: What standard output is for; found out where it is not given.

    Raises:
        InputError: standard output cannot carry it, or no file is named.
    """
    stdout = stdout or ("answer" if json else "terminal" if sys.stdout.isatty() else "bytes")
    if output == "-":
        if stdout in ("answer", "none"):
            raise InputError("standard output cannot carry both the answer and the file", "name a file with -o")
        if stdout == "terminal":
            raise InputError("standard output is a terminal, which cannot show Parquet", "name a file with -o")
        return Target(None)
    if output is None and stdout == "none":
        return Target(None, discards=True)
    if output is None and stdout == "bytes" and not last:
        return Target(None)
    if output is not None and not output.strip():
        raise InputError("-o names no file", f"e.g. -o {default_name}")
    default = Path(default_name)
    return Target(Path(output) if output is not None else default if resumes else unused(default))


def unused(path: Path) -> Path:
    """Return the path, or with the first number from 2 that no file has: nothing that was measured is overwritten."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(each for each in numbered if not each.exists()) if path.exists() else path


def check_outputs(
    outputs: Mapping[str, str | None], inputs: Sequence[str | None], kinds: Mapping[str, str | None]
) -> None:
    """Refuse outputs that cannot be written, end in another format, are read too, one file, or hold something else.

    Args:
        outputs: The file that each option names; ``None`` and ``-`` are no files.
        inputs: The files that are read.
        kinds: The kind of file that an option writes, see ``Target.check``; an option that it does not name writes a
            figure.

    Raises:
        InputError: see above; nothing has been touched.
    """
    read = {Path(name).resolve() for name in inputs if name is not None and name != "-"}
    seen: dict[Path, str] = {}
    for option, name in outputs.items():
        if name is None or name == "-":
            continue
        path = Path(name).resolve()
        if path in read:
            raise InputError(f"{option}: {name} is read, and would be lost", "name another file")
        if path in seen:
            raise InputError(f"{seen[path]} and {option} both name {name}", "name two files")
        seen[path] = option
        Target(Path(name)).check(kinds.get(option, "figure"), option)
