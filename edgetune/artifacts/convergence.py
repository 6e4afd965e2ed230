"""The convergence table: the epochs that a network needs to reach a target accuracy, by batch size.

    accuracy                              ______ batch 32
      |  target - - - - - - - - - -x- - /- - - - -
      |                        .--'   x ______ batch 256
      |                   .---'  .---'
      |              .---'  .---'
      +--------------------------------------> epochs: how much data has been seen, whatever the device

A larger batch runs faster per sample, but needs more samples to reach the same accuracy. A profile has the former; this
table has the latter, which does not depend on the device, one row per training run. A search uses only the ratios
between batch sizes, so a small task of the same kind (a proxy) may replace the real one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from edgetune.artifacts.artifact import Table
from edgetune.artifacts.columns import FiniteFloat, PositiveFloat, PositiveInt, columns_of
from edgetune.artifacts.header import Header
from edgetune.artifacts.table_checks import typed_table
from edgetune.choices import closest
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
        dataset: The training data set, e.g. ``shapes``.
        seed: Of the initial weights and of the order of the samples.
        target_accuracy: Target share of held-out samples classified correctly, 0 to 1; foreign tables may have
            another figure of merit here.
        optimizer: E.g. ``adam``.
        learning_rate: At this batch size.
        samples: Training samples seen until the target: ``epochs`` x the samples of the data set.
        accuracy: Best accuracy seen on held-out samples, 0 to 1.
        status: See ``RunStatus``.
        reason: Why the status is not ``reached``.
        duration_s: Duration of the run, s.
        started: UTC time, ISO 8601.
        device: The training device, e.g. ``cpu``; it affects the duration of a run, not its epochs.
    """

    workload: str
    batch_size: PositiveInt
    epochs: PositiveFloat | None
    dataset: str | None = None
    seed: int | None = None
    target_accuracy: FiniteFloat | None = None
    optimizer: str | None = None
    learning_rate: PositiveFloat | None = None
    samples: PositiveInt | None = None
    accuracy: FiniteFloat | None = None
    status: RunStatus = "reached"
    reason: str | None = None
    duration_s: FiniteFloat | None = None
    started: str | None = None
    device: str | None = None

    @property
    def reached(self) -> bool:
        """Whether the target accuracy was reached."""
        return self.status == "reached"

    @property
    def failed(self) -> bool:
        """Whether the run ended early."""
        return self.status == "failed"


@dataclass(frozen=True, slots=True)
class Convergence(Table):
    """Training runs and their header."""

    header: Header
    rows: tuple[ConvergenceRow, ...]

    ROW = ConvergenceRow

    @classmethod
    def from_foreign(cls, table: Any, *, name: str) -> Any:
        """Return a foreign table, with the status derived from the epochs if it has none.

        Raises:
            InputError: a column is unknown, or a value is impossible. An unknown column is an error because it might
                distinguish rows, e.g. by their targets, whose mean would have no meaning.
        """
        import pyarrow.compute as pc

        typed = typed_table(table, ConvergenceRow, name=name)
        _refuse_unknown_columns(table.column_names, name=name)
        if "status" not in typed.column_names:
            reached = pc.is_valid(typed.column("epochs"))
            typed = typed.append_column("status", pc.if_else(reached, "reached", "missed"))
        return typed

    @classmethod
    def check_rows(cls, rows: tuple[ConvergenceRow, ...], *, name: str) -> tuple[ConvergenceRow, ...]:
        """Check that exactly the rows that reached the target have epochs, and return the rows."""
        if not rows:
            raise InputError(f"{name} has no rows", "give it at least one training run")
        for number, row in enumerate(rows, start=1):
            if row.reached != (row.epochs is not None):
                said = "is empty" if row.epochs is None else f"is {row.epochs:g}"
                hint = "give epochs exactly where the target was reached; the status of other runs is missed or failed"
                raise InputError(f"{name}, row {number}: epochs {said} though the status is {row.status}", hint)
        return rows


def _refuse_unknown_columns(found: Sequence[str], *, name: str) -> None:
    columns = [column.name for column in columns_of(ConvergenceRow)]
    unknown = [column for column in found if column not in columns]
    if unknown:
        left = [column for column in columns if column not in found]
        near = closest(unknown[0], left, likeness=0.5)
        hint = f"rename it to {near}, or drop it" if near else f"drop it; known: {', '.join(columns)}"
        raise InputError(f"{name} has a column that no convergence table has: {unknown[0]!r}", hint)


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epochs of one task.

    Args:
        by_batch: Epochs until the target, by batch size, ascending.
        absent: Why a batch size has no figure although it was trained: at least half of the runs missed the target.
        samples: Training samples of the data set, which are one epoch; ``None`` if the table does not say.
    """

    by_batch: dict[int, float]
    absent: dict[int, str]
    samples: int | None = None


def epochs_of(
    table: Convergence, *, name: str = "the table", average: Callable[[Sequence[float]], float] = fmean
) -> Epochs:
    """Return the epochs until the target by batch size, over the runs that reached it.

    The mean is the expected duration of a training; a median would jump by whole epochs in a table that counts those.
    A batch size at which no more than half of the runs reached the target has no figure, because the successful runs
    are a biased sample. Failed runs are left out.

    Args:
        table: Runs of one network on one data set to one target.
        name: What messages call the table.
        average: Averages the runs that reached the target.

    Raises:
        InputError: the runs are of several tasks, or no batch size reaches the target.
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
    sizes = [row.samples / row.epochs for row in table.rows if row.samples is not None and row.epochs is not None]
    return Epochs(by_batch, absent, round(fmean(sizes)) if sizes else None)


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
