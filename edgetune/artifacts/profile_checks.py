"""Whether a profile's figures can be measurements: finite, above zero, in the unit that their column names."""

from __future__ import annotations

from typing import Any

from edgetune.artifacts.mode import KNOBS, SETTINGS
from edgetune.artifacts.table_checks import first_true
from edgetune.errors import InputError

_ABOVE_ZERO = ("minibatch_s", "power_w", "power_peak_w", *KNOBS)
_NOT_NEGATIVE = (
    "energy_j", "minibatch_p95_s", "minibatch_ci95_low_s", "minibatch_ci95_high_s",
    "minibatches", "warmups", "power_samples", "duration_s", "round", "others_cpu_share",
)  # fmt: skip
_FINITE = ("temp_max_c", "temp_start_c", "power_from_s")


def checked_profile(table: Any, found: list[str], *, name: str) -> Any:
    """Return the table with figures of failed rows made null where they are not finite.

    Args:
        table: The columns of ``ProfileRow``, typed.
        found: Every column name of the file.
        name: The file, for messages.

    Raises:
        InputError: no knob, or a value that cannot be a measurement; the row is named.
    """
    if not any(knob in found for knob in SETTINGS):
        message = f"{name} has no knob column: one of {', '.join(SETTINGS)} is needed"
        raise InputError(message, "add the knob that was varied")
    measured = _measured(table)
    for column in (*_ABOVE_ZERO, *_NOT_NEGATIVE, *_FINITE):
        if column in table.column_names:
            table = _checked(table, column, measured, name=name)
    _check_batch_size(table, name=name)
    _check_times_present(table, measured, found, name=name)
    return table


def _measured(table: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if "status" not in table.column_names:
        return pa.repeat(pa.scalar(True), table.num_rows)
    return pc.equal(table.column("status").combine_chunks(), "ok")


def _checked(table: Any, column: str, measured: Any, *, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    array = table.column(column).combine_chunks()
    finite = pc.is_finite(array)
    allowed = pc.and_(finite, _in_range(array, column))
    row = first_true(pc.fill_null(pc.and_(measured, pc.invert(allowed)), False))
    if row is not None:
        raise _impossible(column, array[row].as_py(), row, name=name)
    if pc.all(pc.fill_null(finite, True)).as_py():
        return table
    array = pc.if_else(pc.fill_null(finite, True), array, pa.scalar(None, array.type))
    return table.set_column(table.column_names.index(column), column, array)


def _in_range(array: Any, column: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if column in _ABOVE_ZERO:
        return pc.greater(array, 0)
    if column in _NOT_NEGATIVE:
        return pc.greater_equal(array, 0)
    return pa.repeat(pa.scalar(True), len(array))


def _impossible(column: str, value: float, row: int, *, name: str) -> InputError:
    rule = "above zero" if column in _ABOVE_ZERO else "zero or more" if column in _NOT_NEGATIVE else "finite"
    hint = f"{column} must be finite and {rule}; leave it empty where not measured, or give a failed row another status"
    if column == "minibatch_s":
        hint = "minibatch_s must be finite and above zero; mark a row that failed with the status failed"
    return InputError(f"{name}, row {row + 1}: {column} is {value:g}", hint)


def _check_batch_size(table: Any, *, name: str) -> None:
    import pyarrow.compute as pc

    array = table.column("batch_size").combine_chunks()
    row = first_true(pc.less(array, 1))
    if row is not None:
        message = f"{name}, row {row + 1}: batch_size is {array[row].as_py()}"
        raise InputError(message, "batch_size counts the samples of a minibatch: 1 or more")


def _check_times_present(table: Any, measured: Any, found: list[str], *, name: str) -> None:
    import pyarrow.compute as pc

    row = first_true(pc.and_(measured, pc.is_null(table.column("minibatch_s").combine_chunks())))
    if row is None:
        return
    hint = "give the seconds of one minibatch in every row, or mark a row that failed with the status failed"
    if "epoch_s" in found:
        hint = "epoch_s is the time of an epoch: divide it by the minibatches of an epoch and fill minibatch_s"
    raise InputError(f"{name}, row {row + 1}: minibatch_s is empty though the row is not marked as failed", hint)
