"""Rows to the columns of a ``pyarrow.Table`` and back."""

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from edgetune.artifacts.columns import Column, arrow_schema, arrow_type, columns_of
from edgetune.artifacts.files import storable


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
