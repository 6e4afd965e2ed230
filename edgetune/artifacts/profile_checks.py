"""Whether a profile's figures can be measurements: finite, above zero, in the unit that their column names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import KNOBS, SETTINGS
from edgetune.artifacts.table_checks import first_true
from edgetune.errors import InputError

_ABOVE_ZERO = ("minibatch_s", "power_w", "power_peak_w", *KNOBS)
_NOT_NEGATIVE = (
    "energy_j", "minibatch_p95_s", "minibatch_ci95_low_s", "minibatch_ci95_high_s",
    "minibatches", "warmups", "power_samples", "duration_s", "round", "others_cpu_share",
)  # fmt: skip
_FINITE = ("temp_max_c", "temp_start_c", "power_from_s")


@dataclass(frozen=True, slots=True)
class _Ceiling:
    """A value that no device reaches: above it, the column is in another unit."""

    highest: float
    other_unit: str


_CEILINGS: Mapping[str, _Ceiling] = {
    "cpu_mhz": _Ceiling(10_000, "kHz or Hz"),
    "gpu_mhz": _Ceiling(10_000, "kHz or Hz"),
    "mem_mhz": _Ceiling(50_000, "kHz or Hz"),  # GDDR7 is quoted at 14 GHz and more
    "power_w": _Ceiling(5_000, "mW"),
    "power_peak_w": _Ceiling(5_000, "mW"),
    "power_limit_w": _Ceiling(5_000, "mW"),
}
_LONGEST_MEDIAN_S = 3600.0
"""A median minibatch above one hour is in milliseconds or less."""
_SUSPECT_MEDIAN_S = 10.0
"""A median minibatch above this is more often milliseconds than not: said, not refused."""
_LOWEST_CLOCK_MHZ = 10.0
"""No clock of a running device is below this: such a column is in GHz."""


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


def check_units(table: Any, *, name: str) -> tuple[DataWarning, ...]:
    """Return what looks odd about the units of a table that edgetune did not write; arguments as above.

    Raises:
        InputError: a column is plainly in another unit than its name says.
    """
    for column in table.column_names:
        _check_unit(table, column, name=name)
    return _time_warning(table)


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


def _check_unit(table: Any, column: str, *, name: str) -> None:
    import pyarrow.compute as pc

    if column == "minibatch_s":
        median = _median(table)
        if median > _LONGEST_MEDIAN_S:
            message = f"{name}: minibatch_s has a median of {median:g}, which looks like milliseconds or less"
            raise InputError(message, "minibatch_s is in seconds: divide milliseconds by 1000")
        return
    if column not in _CEILINGS:
        return
    ceiling, highest = _CEILINGS[column], pc.max(table.column(column)).as_py()
    if highest is None:
        return
    unit = "W" if column.endswith("_w") else "MHz"
    if highest > ceiling.highest:
        message = f"{name}: {column} reaches {highest:.12g}, which looks like {ceiling.other_unit}, not {unit}"
        raise InputError(message, f"{column} is in {unit}: convert the column")
    if unit == "MHz" and highest < _LOWEST_CLOCK_MHZ:
        message = f"{name}: {column} reaches only {highest:.12g}, which looks like GHz, not MHz"
        raise InputError(message, f"{column} is in MHz: multiply by 1000")


def _median(table: Any) -> float:
    import pyarrow.compute as pc

    times = pc.drop_null(table.column("minibatch_s").combine_chunks())
    return float(pc.quantile(times, 0.5)[0].as_py()) if len(times) else 0.0


def _time_warning(table: Any) -> tuple[DataWarning, ...]:
    median = _median(table)
    if median <= _SUSPECT_MEDIAN_S:
        return ()
    advice = "minibatch_s is in seconds: if these are milliseconds, divide by 1000"
    return (DataWarning("unit-suspect", advice, {"minibatch_median_s": median}),)
