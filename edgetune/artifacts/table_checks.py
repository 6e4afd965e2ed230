"""Checks that a table has its columns with the right types, units and limits; errors name row and column.

Rows to the columns of a ``pyarrow.Table`` and back.
"""

import itertools
import json
import operator
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from edgetune.artifacts.columns import UNITS, Column, Limit, arrow_schema, arrow_type, columns_of
from edgetune.artifacts.files import storable
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


def typed_table(table: Any, row_type: type, *, name: str, lenient: bool = False) -> Any:
    """Return the columns of ``row_type`` in a ``pyarrow.Table``, each cast to its type; other columns are left out.

    Args:
        table: It, its columns in any castable types.
        row_type: The dataclass of a row.
        name: The table's name in messages.
        lenient: Whether rows whose ``status`` is not ``ok`` may have impossible figures.

    Raises:
        InputError: a required column is missing or duplicate, or a value does not fit its column or its limits.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names, counted = table.column_names, None
    refuse_twice(names, name=name)
    if lenient:
        status = table.column("status").combine_chunks() if "status" in names else pa.repeat(None, table.num_rows)
        counted = pc.fill_null(pc.equal(status.cast(pa.string()), "ok"), True)
    arrays = {}
    for column in columns_of(row_type):
        if column.name in names:
            array = _typed(table.column(column.name).combine_chunks(), column, name=name)
            arrays[column.name] = _bounded(array, column, name=name, counted=counted)
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


def _bounded(array: Any, column: Column, *, name: str, counted: Any) -> Any:
    """Return the cells of a column, its numbers finite and within its limits.

    A NaN in a nullable cell becomes an empty cell. With ``counted``, it does so in other rows only, as an infinity
    does; their nullable cells may have any number. The loss of a diverged training stays unchanged.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.storage in ("numbers", "samples"):
        row = first_true(_lists_not_finite(array, column))
        if row is not None:
            message = f"{name}, row {row + 1}: {column.name} is a list with a number that is not finite"
            raise InputError(message, f"{column.name} must be finite")
    if column.storage not in ("integer", "number") or column.name == "loss":
        return array
    if column.nullable:
        gone = pc.is_nan(array) if counted is None else pc.invert(pc.or_(pc.is_finite(array), counted))
        if pc.any(gone).as_py():
            array = pc.if_else(gone, pa.scalar(None, array.type), array)
    wrong = pc.fill_null(pc.invert(_possible(array, column)), False)
    row = first_true(wrong if counted is None or not column.nullable else pc.and_(wrong, counted))
    if row is None:
        return array
    limit = "finite" if column.limit is None else " and ".join(filter(None, ("finite", column.limit.rule)))
    hint = f"{column.name} must be {limit}, and below {_most(column):g}"
    if column.nullable:
        hint += "; leave it empty where there is none"
        hint += "" if counted is None else ", or mark a row that failed with the status failed"
    raise InputError(f"{name}, row {row + 1}: {column.name} is {array[row].as_py():g}", hint)


def _most(column: Column) -> float:
    return _MOST_S if column.unit == "s" else _MOST


def _possible(array: Any, column: Column) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    def bound(value: float) -> float:  # a whole number beside a fraction would be compared as one, with 53 bits
        return int(value) if pa.types.is_integer(array.type) and float(value).is_integer() else value

    possible, limit = pc.is_finite(array), column.limit or Limit("", lowest=None)
    if column.storage == "number":
        possible = pc.and_(possible, pc.less_equal(pc.abs(array), _most(column)))
    if limit.lowest is not None:
        possible = pc.and_(possible, (pc.greater if limit.above else pc.greater_equal)(array, bound(limit.lowest)))
    return possible if limit.highest is None else pc.and_(possible, pc.less_equal(array, bound(limit.highest)))


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


def table_of(rows: Sequence[Any], row_type: type) -> Any:
    """Return the ``pyarrow.Table`` of ``rows``, with the columns of ``row_type``."""
    import pyarrow as pa

    columns = columns_of(row_type)
    pick = operator.attrgetter(*(column.name for column in columns))
    values = zip(*map(pick, rows), strict=True) if rows else itertools.repeat((), len(columns))
    arrays = [_array(column, cells) for column, cells in zip(columns, values, strict=False)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def rows_of(table: Any, row_type: type) -> tuple[Any, ...]:
    """Return the rows of a ``pyarrow.Table``, its columns typed as in ``row_type``; absent ones take the default."""
    cells: list[Iterable[Any]] = []
    for column in columns_of(row_type):
        if column.name in table.column_names:
            cells.append(_cells(table.column(column.name).combine_chunks(), column))
        else:
            cells.append(itertools.repeat(column.default, table.num_rows))
    return tuple(map(row_type, *cells)) if table.num_rows else ()


def _array(column: Column, cells: Sequence[Any]) -> Any:
    import pyarrow as pa

    kind = arrow_type(column)
    if column.storage == "text":
        cells = [cell if cell is None else storable(cell) for cell in cells]
    if column.storage == "texts":
        cells = [cell if cell is None else [storable(text) for text in cell] for cell in cells]
    if column.storage != "samples":
        return pa.array(cells, type=kind)
    offsets: list[int | None] = []
    samples: list[Any] = []
    for trace in cells:
        offsets.append(None if trace is None else len(samples))  # a null offset makes that list null
        samples.extend(trace or ())
    parts = [pa.array([getattr(s, field.name) for s in samples], field.type) for field in kind.value_type]
    values = pa.StructArray.from_arrays(parts, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array([*offsets, len(samples)], pa.int32()), values, type=kind)


def _cells(array: Any, column: Column) -> Iterable[Any]:
    """Return the cells as Python objects, cheaply: repeated texts are one object, lists are cut from one long list."""
    if array.null_count == len(array):
        return itertools.repeat(
            column.default if column.storage == "text" and not column.nullable else None, len(array)
        )
    if column.storage == "text":
        encoded = array.dictionary_encode()
        words = [*encoded.dictionary.to_pylist(), None]
        return [words[-1 if index is None else index] for index in encoded.indices.to_pylist()]
    if column.storage in ("numbers", "integers", "texts", "samples"):
        return _lists(array, column)
    cells: list[Any] = array.to_pylist()
    return cells


def _lists(array: Any, column: Column) -> list[tuple[Any, ...] | None]:
    starts, values = array.offsets.to_pylist(), array.values
    flat: list[Any]
    if column.sample is not None:
        flat = list(map(column.sample, *(values.field(f.name).to_pylist() for f in values.type)))
    else:
        flat = values.to_pylist()
    present = array.is_valid().to_pylist()
    spans = zip(present, starts[:-1], starts[1:], strict=True)
    return [tuple(flat[start:stop]) if ok else None for ok, start, stop in spans]
