"""Checks that a table has its columns with the right types, units and limits; errors name row and column."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from edgetune.artifacts.columns import UNITS, Column, Limit, arrow_type, columns_of
from edgetune.choices import closest
from edgetune.errors import InputError

_MOST_S, _MOST = 1e10, 1e30
"""The largest number of a column of seconds (since 1970, or of a duration), and of any other: products stay finite."""


def missing_column(wanted: str, names: list[str], *, name: str) -> InputError:
    """Return the error for a missing required column, with the most probable candidate."""
    message, spelled = f"{name} has no column {wanted}", {each.lower(): each for each in names}
    suffix = next((each for each in UNITS if wanted.endswith(each)), None)
    stem = wanted if suffix is None else wanted.removesuffix(suffix)
    for unit, (times, over) in UNITS.get(suffix or "", {}).items():
        if found := spelled.get(f"{stem}_{unit}"):
            remedy = f"divide by {over}" if over > 1 else f"multiply by {times}" if times > 1 else "keep the numbers"
            return InputError(message, f"{found} looks like {wanted} in another unit: {remedy} and rename it")
    if suffix is not None and stem in spelled:
        return InputError(
            message, f"{spelled[stem]} looks like {wanted} in another unit: bring it to {suffix[1:]} and rename it"
        )
    if near := closest(wanted, names, likeness=0.7):
        return InputError(message, f"rename {near}, if that is what it holds")
    return InputError(message, f"found: {', '.join(names[:12]) or 'no columns'}{', ...' if len(names) > 12 else ''}")


def typed_table(table: Any, row_type: type, *, name: str) -> Any:
    """Return the columns of ``row_type`` in a ``pyarrow.Table``, each cast to its type; other columns are left out.

    Raises:
        InputError: a required column is missing or duplicate, or a value does not fit its column.
    """
    import pyarrow as pa

    names = table.column_names
    refuse_twice(names, name=name)
    arrays = {}
    for column in columns_of(row_type):
        if column.name in names:
            arrays[column.name] = _typed(table.column(column.name).combine_chunks(), column, name=name)
        elif column.required:
            raise missing_column(column.name, names, name=name)
    return pa.table(arrays)


def refuse_twice(names: Sequence[str], *, name: str) -> None:
    """Refuse a table with two columns of one name."""
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise InputError(f"{name} has the column {twice[0]} more than once", "keep one of them")


def _typed(array: Any, column: Column, *, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = arrow_type(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type != wanted:
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            array = trimmed(array)
        try:
            array = _cast(array, column, wanted)
        except (pa.ArrowException, ValueError, TypeError, RecursionError):
            raise _uncastable(array, column, name=name) from None
    if column.choices:
        bad = pc.and_(pc.is_valid(array), pc.invert(pc.is_in(array, pa.array(column.choices))))
        _refuse_first(bad, array, column.name, f"one of {', '.join(column.choices)}", name=name)
    if not column.nullable and column.required:
        row = first_true(pc.is_null(array))
        if row is not None:
            raise InputError(f"{name}, row {row + 1}: {column.name} is empty", f"fill {column.name} in every row")
    elif not column.nullable:
        array = _filled(array, column)
    return array


def finite_table(table: Any, row_type: type, *, name: str) -> Any:
    """Return a typed table with every number finite: a NaN in a nullable cell becomes an empty cell.

    The loss of a diverged training stays unchanged.

    Raises:
        InputError: there is another NaN, or an infinity; row and column are named.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for column in columns_of(row_type):
        if column.name not in table.column_names or column.name == "loss":
            continue
        if column.storage not in ("number", "numbers", "samples"):
            continue
        array = table.column(column.name).combine_chunks()
        if column.storage == "number":
            if column.nullable and pc.any(pc.is_nan(array)).as_py():
                array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
                table = table.set_column(table.column_names.index(column.name), column.name, array)
            most = _MOST_S if column.unit == "s" else _MOST
            bad = pc.fill_null(pc.invert(pc.less_equal(pc.abs(array), most)), False)
        else:
            bad = _lists_not_finite(array, column)
        row = first_true(bad)
        if row is not None:
            cell = array[row].as_py()
            found = f"{cell:g}" if column.storage == "number" else "a list with a number that is not finite"
            hint = "leave it empty where there is none" if column.nullable else "write a possible number"
            rule = f"must be finite, and no {'time' if column.unit == 's' else 'quantity'} is that large"
            raise InputError(f"{name}, row {row + 1}: {column.name} is {found}", f"{column.name} {rule}; {hint}")
    return table


def check_limits(table: Any, row_type: type, *, name: str, counted: Any = None) -> Any:
    """Check that every number of a typed table is within the limits of its column, and return the table.

    Args:
        table: The columns of ``row_type``, typed.
        row_type: The dataclass of a row.
        name: The table's name in messages.
        counted: Whether to check the nullable cells of each row; in other rows non-finite numbers become empty cells.
            ``None`` checks every row.

    Raises:
        InputError: a number is beyond the limits; row and column are named.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for column in columns_of(row_type):
        if column.limit is None or column.name not in table.column_names:
            continue
        array = table.column(column.name).combine_chunks()
        finite, rule = pc.is_finite(array), column.limit.rule
        wrong = pc.fill_null(pc.invert(_possible(array, finite, column.limit)), False)
        row = first_true(wrong if counted is None or not column.nullable else pc.and_(wrong, counted))
        if row is not None:
            hint = f"{column.name} must be {' and '.join(filter(None, ('finite', rule)))}"
            if column.nullable:
                hint += "; leave it empty where there is none"
                hint += "" if counted is None else ", or mark a row that failed with the status failed"
            raise InputError(f"{name}, row {row + 1}: {column.name} is {array[row].as_py():g}", hint)
        if counted is not None and not pc.all(pc.fill_null(finite, True)).as_py():
            array = pc.if_else(pc.fill_null(finite, True), array, pa.scalar(None, array.type))
            table = table.set_column(table.column_names.index(column.name), column.name, array)
    return table


def _possible(array: Any, finite: Any, limit: Limit) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    def bound(value: float) -> float:  # a whole number beside a fraction would be compared as one, with 53 bits
        return int(value) if pa.types.is_integer(array.type) and float(value).is_integer() else value

    if limit.lowest is not None:
        finite = pc.and_(finite, (pc.greater if limit.above else pc.greater_equal)(array, bound(limit.lowest)))
    return finite if limit.highest is None else pc.and_(finite, pc.less_equal(array, bound(limit.highest)))


def _lists_not_finite(array: Any, column: Column) -> Any:
    """Return for each list of numbers or samples whether any is not finite."""
    import pyarrow as pa
    import pyarrow.compute as pc

    flat = array.flatten()
    parts = flat.flatten() if column.storage == "samples" else [flat]
    at = pc.list_parent_indices(array)
    bad = [
        pc.drop_null(pc.if_else(pc.fill_null(pc.is_finite(part), False), pa.scalar(None, pa.int64()), at))
        for part in parts
    ]
    rows = {row for each in bad for row in each.to_pylist()}
    return pa.array([row in rows for row in range(len(array))]) if rows else pa.repeat(pa.scalar(False), len(array))


def trimmed(array: Any) -> Any:
    """Return texts without surrounding blanks; an empty one is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = pc.utf8_trim_whitespace(array.cast(pa.string()))
    return pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array)


def _cast(array: Any, column: Column, wanted: Any) -> Any:
    """Cast without loss: 16.0 is an integer, 16.5 is not."""
    import pyarrow as pa

    if column.storage == "integer" and not pa.types.is_integer(array.type):
        array = array.cast(pa.float64())
    if pa.types.is_list(wanted) and pa.types.is_string(array.type):  # CSV: a list is JSON text
        return pa.array([None if cell is None else json.loads(cell) for cell in array.to_pylist()], type=wanted)
    return array.cast(wanted)


def _filled(array: Any, column: Column) -> Any:
    import pyarrow as pa

    if array.null_count == 0:
        return array
    fill = list(column.default) if isinstance(column.default, tuple) else column.default
    return array.fill_null(pa.scalar(fill, array.type))


def _uncastable(array: Any, column: Column, *, name: str) -> InputError:
    """Return the error that names the first cell that does not fit its column."""
    import pyarrow as pa

    words = {"integer": "a whole number", "number": "a number", "flag": "true or false", "text": "a text"}
    word = words.get(column.storage, "a list")
    hint = f"{column.name} must be {word}" + (f" in {column.unit}" if column.unit else "") + ", or empty where unknown"
    wanted = arrow_type(column)

    def castable(rows: int) -> bool:
        try:
            _cast(array.slice(0, rows), column, wanted)
        except (pa.ArrowException, ValueError, TypeError, RecursionError):
            return False
        return True

    row = bisect_left(range(1, len(array) + 1), True, key=lambda rows: not castable(rows))
    if row < len(array):
        return InputError(f"{name}, row {row + 1}: {column.name} is {array[row].as_py()!r}, not {word}", hint)
    return InputError(f"{name}: {column.name} has type {array.type}, not {word}", hint)


def _refuse_first(bad: Any, array: Any, column: str, rule: str, *, name: str) -> None:
    row = first_true(bad)
    if row is not None:
        cell = array[row].as_py()
        raise InputError(f"{name}, row {row + 1}: {column} is {cell!r}", f"{column} must be {rule}")


def first_true(mask: Any) -> int | None:
    """Return the index of the first true value of a boolean array; ``None`` without one."""
    import pyarrow.compute as pc

    index = pc.index(mask, True).as_py()
    return None if index < 0 else int(index)
