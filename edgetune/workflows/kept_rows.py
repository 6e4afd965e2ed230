"""Keeps the rows of a long run in a file while it goes on, against a full disk at its end and against a kill."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, cast

from edgetune.artifacts import io
from edgetune.artifacts.artifact import Artifact
from edgetune.artifacts.rows_file import RowsFile, left_rows
from edgetune.artifacts.run import Run
from edgetune.artifacts.timeline import Timeline
from edgetune.errors import EdgetuneError, InputError
from edgetune.workflows.output import Target, unused
from edgetune.workflows.reporting import Reporter

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
