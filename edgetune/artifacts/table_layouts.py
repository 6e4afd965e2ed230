"""Tables in other layouts, brought to one row per measured point.

    wide    model, mode, latency_ms_b1, latency_ms_b4        one column per batch size
    long    model, mode, batch, metric, value                one row per figure

The columns keep the names that their authors gave them; what these mean is for ``column_meanings``.
"""

from __future__ import annotations

import re
from typing import Any

from edgetune.artifacts.column_meanings import meaning_of, normal
from edgetune.errors import InputError

_BATCH = re.compile(r"(?:(?P<before>.+?)_)?(?:b|bs|batch|batch_size|batchsize)_?(?P<size>\d+)(?:_(?P<after>.+))?")
_METRIC = ("metric", "variable", "measure", "measurement", "quantity", "metric_name")
_VALUE = ("value", "val", "reading", "result")
_UNIT = ("unit", "units")


def one_row_per_point(table: Any, *, name: str) -> Any:
    """Return the table with a row per point, whichever of the layouts it has.

    Raises:
        InputError: a layout that leaves open what its figures are.
    """
    return _from_wide(_from_long(table, name=name), name=name)


def _from_long(table: Any, *, name: str) -> Any:
    """Return a table of one row per figure with a column per metric; any other table as it is."""
    import pyarrow as pa

    metric, value, unit = (_column(table, names) for names in (_METRIC, _VALUE, _UNIT))
    if metric is None or value is None:
        return table
    keys = [column for column in table.column_names if column not in (metric, value, unit)]
    points: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row, record in enumerate(table.to_pylist(), 1):
        figures = points.setdefault(tuple(record[key] for key in keys), {})
        what = _quantity(record[metric], None if unit is None else record[unit])
        if what in figures:
            message = f"{name}, row {row}: {what} is there twice for the same {', '.join(keys)}"
            raise InputError(message, "add the column that tells the rows apart, or a column run for repeats")
        figures[what] = record[value]
    metrics = dict.fromkeys(what for figures in points.values() for what in figures)
    settings = {key: [point[place] for point in points] for place, key in enumerate(keys)}
    found = {what: [figures.get(what) for figures in points.values()] for what in metrics}
    return pa.table({**settings, **found})


def _quantity(metric: Any, unit: Any) -> str:
    """Return the name of a metric, its unit at the end."""
    text = str(metric)
    return text if unit is None or meaning_of(text) is not None else f"{text}_{unit}"


def _from_wide(table: Any, *, name: str) -> Any:
    """Return a table of one column per batch size with a row per batch size; any other table as it is.

    Raises:
        InputError: the columns do not say of which quantity they are.
    """
    import pyarrow as pa

    names = table.column_names
    if any(_means(column, "batch_size") for column in names):
        return table
    sizes: dict[int, dict[str, str]] = {}
    unclear = [column for column in names if column.strip().isdecimal()]
    for column in names:
        match = _BATCH.fullmatch(normal(column))
        if match is None:
            continue
        quantity = "_".join(filter(None, (match["before"], match["after"])))
        if meaning_of(quantity) is None:
            unclear.append(column)
        else:
            sizes.setdefault(int(match["size"]), {})[quantity] = column
    if unclear and not sizes and any(meaning_of(column) for column in names):
        listed = ", ".join(unclear[:4])
        message = f"{name} seems to have a column per batch size ({listed}), but not of which quantity in which unit"
        raise InputError(message, "rename them, e.g. latency_ms_b1 and power_w_b1, or write a row per batch size")
    if not sizes:
        return table
    taken = {column for quantities in sizes.values() for column in quantities.values()}
    base = table.select([column for column in names if column not in taken])
    parts = []
    for size, quantities in sorted(sizes.items()):
        part = base.append_column("batch_size", pa.repeat(pa.scalar(size), table.num_rows))
        for quantity, column in quantities.items():
            part = part.append_column(quantity, table.column(column))
        parts.append(part.filter(_any_valid([table.column(column) for column in quantities.values()])))
    return pa.concat_tables(parts, promote_options="default")


def _any_valid(columns: list[Any]) -> Any:
    import functools

    import pyarrow.compute as pc

    return functools.reduce(pc.or_, map(pc.is_valid, columns))


def _column(table: Any, names: tuple[str, ...]) -> str | None:
    return next((column for column in table.column_names if normal(column) in names), None)


def _means(column: str, ours: str) -> bool:
    meaning = meaning_of(column)
    return meaning is not None and meaning.column == ours
