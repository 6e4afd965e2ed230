"""Rows of a long run, kept while it goes on: what a full disk at its end, or a kill, would cost otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgetune.errors import EdgetuneError, InputError

if TYPE_CHECKING:
    from edgetune.artifacts.io import Artifact
    from edgetune.artifacts.rows_file import RowsFile
    from edgetune.cli.output import Target
    from edgetune.cli.screen import Screen


def keep_rows(target: Target, unfinished: Callable[[], Artifact], row_type: type, screen: Screen) -> RowsFile | None:
    """Begin a file of rows beside the target; ``None`` where that is standard output, a device or a pipe.

    Args:
        target: Where the run goes in the end.
        unfinished: Returns the run as it is before it has any row.
        row_type: The dataclass of its rows.
        screen: Told of rows that a killed run has left there.
    """
    from edgetune.artifacts.rows_file import RowsFile, left_rows

    if target.path is None or (target.path.exists() and not target.path.is_file()):
        return None
    for left in left_rows(target.path):
        screen.say(f"note: a run that was killed left its rows in {left}: edgetune show {left} -o FILE keeps them")
    return RowsFile(target.path, unfinished().header, row_type)


def write_run(target: Target, run: Artifact, rows: RowsFile | None, screen: Screen) -> None:
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
        where = f"{rows.kept} of {len(run.rows)} rows are in {rows.path}"  # type: ignore[union-attr]
        raise InputError(message, f"{where}; make room, then: edgetune show {rows.path} -o {target.file}") from None
    if rows is not None:
        rows.discard()
    target.tell(screen)
