"""Whether the rows of a convergence table can be training runs; those of a foreign table may leave their status out."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

from edgetune.artifacts.convergence import ConvergenceRow
from edgetune.errors import InputError

_COLUMNS = tuple(field.name for field in fields(ConvergenceRow))
_ABOVE_ZERO = ("batch_size", "epochs", "samples", "learning_rate")
_FINITE = ("target_accuracy", "accuracy", "duration_s")


def refuse_unknown_columns(found: Sequence[str], *, name: str) -> None:
    """Refuse a foreign table with a column that a convergence table does not have.

    One that is ignored may be what tells its rows apart (another target, another rate), and their mean would be of
    different things.

    Raises:
        InputError: it has one; the hint names the column that was probably meant.
    """
    unknown = [column for column in found if column not in _COLUMNS]
    if unknown:
        left = [column for column in _COLUMNS if column not in found]
        near = difflib.get_close_matches(unknown[0].lower(), left, n=1, cutoff=0.5)
        hint = f"rename it to {near[0]}, or drop it" if near else f"drop it; known: {', '.join(_COLUMNS)}"
        raise InputError(f"{name} has a column that no convergence table has: {unknown[0]!r}", hint)


def checked_runs(rows: Sequence[ConvergenceRow], found: Sequence[str], *, name: str) -> tuple[ConvergenceRow, ...]:
    """Return the rows, each with the status that its epochs imply where the table has none.

    Args:
        rows: As read.
        found: Every column name of the file.
        name: The file, for messages.

    Raises:
        InputError: no rows, or a value that no training run can have; the row is named.
    """
    if not rows:
        raise InputError(f"{name} has no rows", "give it at least one training run")
    return tuple(_checked(rows, "status" in found, name))


def _checked(rows: Sequence[ConvergenceRow], has_status: bool, name: str) -> Iterator[ConvergenceRow]:
    for number, row in enumerate(rows, start=1):
        at = f"{name}, row {number}"
        run = row
        if run.epochs is not None and math.isnan(run.epochs):
            run = replace(run, epochs=None)
        if not has_status and run.epochs is None:
            run = replace(run, status="missed")
        for column in _ABOVE_ZERO:
            value = getattr(run, column)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"{at}: {column} is {value:g}", f"{column} must be finite and above zero")
        for column in _FINITE:
            value = getattr(run, column)
            if value is not None and not math.isfinite(value):
                raise InputError(
                    f"{at}: {column} is {value:g}", "it must be finite; leave it empty where there is none"
                )
        if run.reached != (run.epochs is not None):
            said = "is empty" if run.epochs is None else f"is {run.epochs:g}"
            hint = "give epochs exactly where the target was reached; the status of other runs is missed or failed"
            raise InputError(f"{at}: epochs {said} though the status is {run.status}", hint)
        yield run
