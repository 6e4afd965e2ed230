"""Rows of a long run, kept while it goes on: what a full disk at its end, or a kill, would cost otherwise."""

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
    """A run that is written, and how it ended.

    Args:
        artifact: Its rows and header.
        target: Where it was written.
        lost: Tenants or policies that ended early.
        stopped_by: Number of the signal that ended the run early.
        failure: The error that ended it, or kept a file from being written; to be raised once the figures are shown.
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
    """Begin a file of rows beside the target; ``None`` where that is standard output, a device or a pipe.

    Args:
        target: Where the run goes in the end.
        unfinished: Returns the run as it is before it has any row.
        row_type: The dataclass of its rows.
        reporter: Told of rows that a killed run has left there.

    Raises:
        InputError: nothing can be kept there: the disk is full, say.
    """
    if target.path is None or (target.path.exists() and not target.path.is_file()):
        return None
    for left in left_rows(target.path):
        reporter.info(f"note: a run that was killed left its rows in {left}: edgetune show {left} -o FILE keeps them")
    try:
        return RowsFile(target.path, unfinished().header, row_type)
    except OSError as error:
        message = f"rows cannot be kept beside {target.path}: {error.strerror or error}"
        raise InputError(message, "make room, or name a file in another folder with -o") from None


def write_run(target: Target, run: Artifact, rows: RowsFile | None, reporter: Reporter) -> None:
    """Write a run and say so; the file of its rows is removed then.

    Raises:
        InputError: it cannot be written; the hint says where the rows are.
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
    """Return where the rows are of a run that could not be written, and what makes its file of them.

    Where the disk was full before all rows came, the run goes to the temporary folder, which may have room.
    """
    count = len(cast(Run | Timeline, run).rows)
    if rows.kept < count and target.path is not None:
        with contextlib.suppress(EdgetuneError, OSError):
            path = io.write(run, unused(Path(tempfile.gettempdir()) / target.path.name))
            rows.discard()
            return f"it is in {path} instead: make room, then copy it"
    made = f"edgetune show {rows.path} -o {target.file}"
    return f"{rows.kept} of {count} rows are in {rows.path}; make room, then: {made}"
