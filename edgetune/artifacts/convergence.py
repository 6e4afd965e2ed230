"""The convergence table: how often a network must see its data until it is good enough, by batch size.

    accuracy                              ______ batch 32
      |  target - - - - - - - - - -x- - /- - - - -
      |                        .--'   x ______ batch 256
      |                   .---'  .---'
      |              .---'  .---'
      +--------------------------------------> epochs: how much data has been seen, whatever the device

A larger batch runs faster per sample and sees more samples until it is as good. The first is a profile's business; the
second needs no particular device and is here, one row per training run. Only the ratios between batch sizes matter to
a search, so a small task of the same kind (a proxy) may stand for the real one.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean
from typing import Literal

from edgetune.artifacts.header import Header
from edgetune.errors import InputError

KIND = "convergence"
VERSION = 1

RunStatus = Literal["reached", "missed", "failed"]
"""``missed`` runs were trained to the end without reaching the target; ``failed`` ones ended early."""


@dataclass(frozen=True, slots=True)
class ConvergenceRow:
    """One training run.

    Args:
        workload: The network that was trained, e.g. ``proxy:cnn``.
        batch_size: Samples per minibatch.
        epochs: Passes over the data set until the target accuracy was first seen, fractional; ``None`` if never.
        dataset: What it was trained on, e.g. ``shapes``.
        seed: Of the initial weights and of the order of the samples.
        target_accuracy: Share of held-out samples to be classified correctly, 0 to 1; other tables may have another
            figure of merit here.
        optimizer: E.g. ``adam``.
        learning_rate: At this batch size.
        samples: Training samples seen until the target: ``epochs`` x the samples of the data set.
        accuracy: Best accuracy seen on held-out samples, 0 to 1.
        status: See ``RunStatus``.
        reason: Why it is not ``reached``.
        duration_s: Time the run took, s.
        started: UTC time, ISO 8601.
        device: Where it was trained, e.g. ``cpu``; it tells how long a run took, not how many epochs.
    """

    workload: str
    batch_size: int
    epochs: float | None
    dataset: str | None = None
    seed: int | None = None
    target_accuracy: float | None = None
    optimizer: str | None = None
    learning_rate: float | None = None
    samples: int | None = None
    accuracy: float | None = None
    status: RunStatus = "reached"
    reason: str | None = None
    duration_s: float | None = None
    started: str | None = None
    device: str | None = None

    @property
    def reached(self) -> bool:
        """Whether the target accuracy was reached."""
        return self.status == "reached"


@dataclass(frozen=True, slots=True)
class Convergence:
    """Training runs and their header."""

    header: Header
    rows: tuple[ConvergenceRow, ...]


@dataclass(frozen=True, slots=True)
class Epochs:
    """What a table says of one task.

    Args:
        by_batch: Epochs until the target, by batch size, ascending.
        absent: Why there is no figure, by batch size: it was trained at, and most runs missed the target.
    """

    by_batch: dict[int, float]
    absent: dict[int, str]


def epochs_by_batch(table: Convergence, *, average: Callable[[Sequence[float]], float] = fmean) -> dict[int, float]:
    """Return the epochs until the target by batch size; see ``epochs_of``."""
    return epochs_of(table, average=average).by_batch


def epochs_of(
    table: Convergence, *, name: str = "the table", average: Callable[[Sequence[float]], float] = fmean
) -> Epochs:
    """Return the epochs until the target by batch size, over the runs that reached it.

    The mean is what a training is expected to take; in a table that counts whole epochs a median would jump by as many.
    A batch size at which no more than half of the runs reached the target has no figure: those that did are the lucky
    ones. Runs that failed tell nothing and are left out.

    Args:
        table: Runs of one network on one data set until one target.
        name: What messages call the table.
        average: Of the runs that reached the target.

    Raises:
        InputError: runs of several tasks, or a target that no batch size reaches.
    """
    _refuse_several_tasks(table.rows, name=name)
    by_batch: dict[int, float] = {}
    absent: dict[int, str] = {}
    for size in sorted({row.batch_size for row in table.rows}):
        runs = [row for row in table.rows if row.batch_size == size and row.status != "failed"]
        reached = [row.epochs for row in runs if row.epochs is not None]
        if 2 * len(reached) > len(runs):
            by_batch[size] = average(reached)
        else:
            absent[size] = _why_absent(len(reached), len(runs))
    if not by_batch:
        best = max((row.accuracy for row in table.rows if row.accuracy is not None), default=None)
        seen = "" if best is None else f"; the best accuracy seen is {best:.3g}"
        hint = "train for longer (edgetune profile --convergence --max-epochs 80), or for a lower accuracy"
        raise InputError(f"{name}: at no batch size did most runs reach the target{seen}", hint)
    return Epochs(by_batch, absent)


def _why_absent(reached: int, runs: int) -> str:
    if not runs:
        return "every run failed"
    return f"{reached or 'none'} of {runs} runs reached the target" if runs > 1 else "its run missed the target"


def _refuse_several_tasks(rows: Iterable[ConvergenceRow], *, name: str) -> None:
    rows = list(rows)
    for what in ("workload", "dataset", "target_accuracy", "optimizer"):
        values = sorted({str(getattr(row, what)) for row in rows})
        if len(values) > 1:
            hint = f"give a table with one {what}: epochs of different tasks cannot be averaged"
            raise InputError(f"{name} has runs of several tasks: {what} is {', '.join(values[:6])}", hint)


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
