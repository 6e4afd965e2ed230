"""The output of an artifact: a named file, else standard output if that is a pipe, else a file with a default name.

Keeps the rows of a long run in a file while it goes on, against a full disk at its end and against a kill.
"""

import contextlib
import os
import shlex
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Generic, TypeVar, cast

from edgetune.artifacts import io, output_file
from edgetune.artifacts.artifact import Artifact
from edgetune.artifacts.kinds import ENDINGS, check_ending, recognise, refuse_other
from edgetune.artifacts.output_file import OutputFile
from edgetune.artifacts.rows_file import RowsFile, left_rows
from edgetune.artifacts.run import Run
from edgetune.artifacts.timeline import Timeline
from edgetune.errors import EdgetuneError, InputError, blaming
from edgetune.processes.streams import write_bytes
from edgetune.workflows.reporting import Reporter, Stdout

FORCE = "--force"
Made = TypeVar("Made", bound=Artifact)


@dataclass(frozen=True, slots=True)
class Target:
    """The output of an artifact.

    Args:
        path: The file; ``None`` for standard output.
        discards: Whether nothing is written, as when a Python program takes the returned artifact.
    """

    path: Path | None
    discards: bool = False

    @property
    def file(self) -> str | None:
        """The name of the file finally written; ``None`` for standard output."""
        return None if self.path is None else str(output_file.written_path(self.path))

    @property
    def regular(self) -> Path | None:
        """The path of a regular file, or of none yet; ``None`` for standard output, a device or a pipe."""
        return self.path if self.path is None or not self.path.exists() or self.path.is_file() else None

    def earlier(self, read: Callable[[str], Made], what: str) -> Made | None:
        """Return the table that the file already has; ``None`` without one, or if ``--force`` replaces the file.

        Args:
            read: Reads a table of the wanted kind.
            what: The kind, for messages.

        Raises:
            InputError: the file holds something else, or is one of edgetune that cannot be read.
        """
        if self.regular is None or not self.regular.is_file():
            return None
        try:
            return read(str(self.regular))
        except InputError as error:
            if _force:
                return None
            if recognise(OutputFile(self.regular)).ours:
                message = f"{self.path} is a file of edgetune, and cannot be continued: {error.message}"
                raise InputError(message, f"name another file with -o; to read this one: {error.hint}") from None
            hint = f"name another file with -o, or {FORCE} to replace it"
            raise InputError(f"{self.path} exists and is not a {what}", hint) from None

    def check(self, kind: str | None = None, option: str = "-o", *, overwrites: bool = False) -> None:
        """Note the state of the file before long work begins and before any code of a model runs.

        Args:
            kind: Of the file, one of ``edgetune.artifacts.kinds.ENDINGS``, which the ending of its name must match;
                else ``figure`` or ``checkpoint``. ``None`` if the content of the file is checked elsewhere.
            option: The option that names the file, for messages.
            overwrites: Whether to replace a file of another kind as well, as with ``--force``.

        Raises:
            InputError: no file can be made there, its ending is of another format, or it would replace a file that is
                not of this kind or not of edgetune; no file has been changed.
        """
        if self.path is None:
            return
        overwrites = overwrites or _force
        try:
            output = output_file.note(self.path, replaces=overwrites)
            output.try_folder()
            if kind is not None and not overwrites:
                with blaming(option):
                    refuse_other(output, kind, remedy=FORCE)
        except IsADirectoryError:
            raise InputError(f"cannot write {self.path}: it is a folder", "name a file in it") from None
        except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
            reason = getattr(error, "strerror", None) or str(error)
            missing = isinstance(error, FileNotFoundError) and not os.path.lexists(self.path.parent)
            make = f"make its folder first: mkdir -p {shlex.quote(str(self.path.parent))}"
            hint = make if missing else "choose another file"
            raise InputError(f"cannot write {self.path}: {reason}", hint) from None
        if kind is not None and kind in ENDINGS:
            check_ending(self.path, kind, option)

    def write(self, artifact: Artifact) -> None:
        """Write the artifact; a file has the format of its ending."""
        from edgetune.artifacts import io

        if self.path is not None:
            io.write(artifact, self.path)
            return
        if not self.discards:
            write_bytes(artifact.to_bytes())

    def report(self, reporter: Reporter) -> None:
        """Report that the file is written; do nothing for standard output."""
        if self.path is not None:
            reporter.info(wrote(self.path))


_force = False
"""Whether the command was given ``--force``."""


def begin_outputs(on_moved: Callable[[Path, Path], None] | None = None, *, force: bool = False) -> None:
    """Forget the outputs of an earlier command in this process.

    Args:
        on_moved: Called with the name asked for and the name taken, when another program wrote the output meanwhile.
        force: The new command replaces any file.
    """
    global _force  # noqa: PLW0603 -- one command runs at a time
    _force = force
    output_file.forget_noted()
    if on_moved is not None:
        output_file.on_moved = on_moved


def forced() -> bool:
    """Return whether the command was given ``--force``."""
    return _force


def wrote(path: str | Path) -> str:
    """Return the sentence that the output requested at ``path`` is written, with what CSV omits."""
    path = output_file.written_path(Path(path))
    lacks = ": its rows; .json and .parquet keep the conditions too" if path.suffix.lower() == ".csv" else ""
    return f"wrote {path}{lacks}"


def choose_target(
    output: str | None, default_name: str, *, stdout: Stdout, last: bool = False, resumes: bool = False
) -> Target:
    """Return where ``-o output`` puts an artifact; ``Target.check`` says whether it can be written there.

    Without ``-o``, a pipe on standard output receives the bytes. If standard output is anything else, e.g. a terminal
    or a log, or if this is the last command of a chain, whose summary goes there, the bytes go to a file with a default
    name.

    Args:
        output: As written after ``-o``; ``None`` where there is none.
        default_name: Name of the file without ``-o``; a number is added if a file of that name exists.
        stdout: The use of standard output, as the reporter has it.
        last: Whether no command reads the artifact from a pipe.
        resumes: Whether to continue an existing file of the default name.

    Raises:
        InputError: standard output cannot carry the artifact, or no file is named.
    """
    if output == "-":
        if stdout in ("answer", "none"):
            raise InputError("standard output cannot carry both the answer and the file", "name a file with -o")
        if stdout == "terminal":
            raise InputError("standard output is a terminal, which cannot show Parquet", "name a file with -o")
        return Target(None)
    if output is None and stdout == "none":
        return Target(None, discards=True)
    if output is None and stdout == "pipe" and not last:
        return Target(None)
    if output is not None and not output.strip():
        raise InputError("-o names no file", f"e.g. -o {default_name}")
    default = Path(default_name)
    return Target(Path(output) if output is not None else default if resumes else unused(default))


def unused(path: Path) -> Path:
    """Return the path if it is free, else with the first free number from 2, so that no measurement is overwritten."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(each for each in numbered if not each.exists()) if path.exists() else path


def check_outputs(
    outputs: Mapping[str, str | None], inputs: Sequence[str | None], kinds: Mapping[str, str | None]
) -> None:
    """Check that outputs are writable, distinct, no inputs, of the right format, and replace only files of their kind.

    Args:
        outputs: The file by option; ``None`` and ``-`` are no files.
        inputs: The files that are read.
        kinds: The kind of file that an option writes, see ``Target.check``; any other option writes a figure.

    Raises:
        InputError: one of these conditions is violated; no file has been changed.
    """
    named = [name for name in inputs if name is not None and name != "-" and "\0" not in name]  # reading refuses that
    read = {Path(name).resolve() for name in named}
    seen: dict[Path, str] = {}
    for option, name in outputs.items():
        if name is None or name == "-":
            continue
        path = Path(name).resolve()
        if path in read:
            raise InputError(f"{option}: {name} is an input of this command, and would be lost", "name another file")
        if path in seen:
            raise InputError(f"{seen[path]} and {option} both name {name}", "name two files")
        seen[path] = option
        Target(Path(name)).check(kinds.get(option, "figure"), option)


Made_co = TypeVar("Made_co", bound=Artifact, covariant=True)


@dataclass(frozen=True, slots=True)
class FinishedRun(Generic[Made_co]):
    """A written run and how it ended.

    Args:
        artifact: Its rows and header.
        target: The output it was written to.
        lost: Tenants or policies that ended early.
        stopped_by: Number of the signal that ended the run early.
        failure: The error that ended the run or prevented a file; raised after the figures are shown.
    """

    artifact: Made_co
    target: Target
    lost: Collection[str] = ()
    stopped_by: int | None = None
    failure: BaseException | None = None

    def checked(self) -> Made_co:
        """Return the artifact.

        Raises:
            BaseException: the failure, if there is one.
        """
        if self.failure is not None:
            raise self.failure
        return self.artifact


def keep_rows(
    target: Target, unfinished: Callable[[], Artifact], row_type: type, reporter: Reporter
) -> RowsFile | None:
    """Begin a file of rows beside the target; return ``None`` if that is standard output, a device or a pipe.

    Args:
        target: The final output of the run.
        unfinished: Returns the run without rows.
        row_type: The dataclass of its rows.
        reporter: Receives a note on rows that a killed run left there.

    Raises:
        InputError: the file cannot be written, e.g. on a full disk.
    """
    if target.regular is None:
        return None
    for left in left_rows(target.regular):
        reporter.info(f"note: a run that was killed left its rows in {left}: edgetune show {left} -o FILE keeps them")
    try:
        return RowsFile(target.regular, unfinished().header, row_type)
    except OSError as error:
        message = f"rows cannot be kept beside {target.path}: {error.strerror or error}"
        raise InputError(message, "make room, or name a file in another folder with -o") from None


def write_run(target: Target, run: Artifact, rows: RowsFile | None, reporter: Reporter) -> None:
    """Write a run, report its file, and remove the file of its rows.

    Raises:
        InputError: the run cannot be written; the hint names the file of the rows.
    """
    try:
        target.write(run)
    except (EdgetuneError, OSError) as error:
        if rows is None or isinstance(error, BrokenPipeError):
            raise
        rows.finish()
        message = getattr(error, "message", None) or f"{target.file} cannot be written: {error}"
        raise InputError(message, _where(target, run, rows)) from None
    if rows is not None:
        rows.discard()
    target.report(reporter)


def _where(target: Target, run: Artifact, rows: RowsFile) -> str:
    """Return the place of the rows of a run that could not be written, and the command that makes its file of them.

    If the disk was full before all rows were kept, write the run to the temporary folder.
    """
    count = len(cast(Run | Timeline, run).rows)
    if rows.kept < count and target.path is not None:
        with contextlib.suppress(EdgetuneError, OSError):
            path = io.write(run, unused(Path(tempfile.gettempdir()) / target.path.name))
            rows.discard()
            return f"it is in {path} instead: make room, then copy it"
    made = f"edgetune show {rows.path} -o {target.file}"
    return f"{rows.kept} of {count} rows are in {rows.path}; make room, then: {made}"
