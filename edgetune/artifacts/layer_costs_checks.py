"""Whether layer costs can be those of networks: layers in order, none reading what comes later, nothing negative."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from edgetune.artifacts.layer_costs import LayerCostRow
from edgetune.errors import InputError
from edgetune.units import MOST_S

_NOT_NEGATIVE = (
    "weight_bytes", "output_bytes", "load_s", "execute_s", "scratch_bytes", "input_bytes", "peak_bytes", "cold_load_s",
    "resident_bytes", "sessions_bytes", "first_execute_s", "cold_execute_s", "unload_s",
)  # fmt: skip


def checked_costs(rows: Sequence[LayerCostRow], *, name: str) -> tuple[LayerCostRow, ...]:
    """Return the rows with ``index`` and ``after`` filled in, each network's in the order of its layers.

    Args:
        rows: As read, their types right.
        name: The file, for messages.

    Raises:
        InputError: no rows, or what no network can cost; the row is named.
    """
    if not rows:
        raise InputError(f"{name} has no rows", "give it a row per layer")
    return tuple(_checked(rows, name=name))


def _checked(rows: Sequence[LayerCostRow], *, name: str) -> Iterator[LayerCostRow]:
    seen: dict[str, dict[str, None]] = {}
    for number, row in enumerate(rows, start=1):
        where, of = f"{name}, row {number}", row.network if row.form == "layers" else f"{row.network} {row.form}"
        before = seen.setdefault(of, {})
        _check_figures(row, where)
        if row.form != "layers" and before:
            raise InputError(f"{where}: there is a row for {row.network} as a whole already", "a form has one row")
        if row.layer in before:
            raise InputError(f"{where}: network {row.network} has a layer {row.layer!r} already", "names are unique")
        index = len(before)
        if row.index is not None and row.index != index:
            raise InputError(
                f"{where}: index of {row.network}/{row.layer} is {row.index}, and {index} layers come before it",
                "sort the rows of a network by index, from 0, none left out",
            )
        before[row.layer] = None
        after = ((index - 1,) if index else ()) if row.after is None else row.after
        if list(after) != sorted(set(after)) or any(not 0 <= each < index for each in after):
            raise InputError(
                f"{where}: {row.network}/{row.layer} is after {list(after)}",
                f"name layers before it by index, ascending, e.g. {index - 1}" if index else "the first reads no other",
            )
        yield replace(row, index=index, after=tuple(after))


def _check_figures(row: LayerCostRow, where: str) -> None:
    for column in _NOT_NEGATIVE:
        value = getattr(row, column)
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise InputError(f"{where}: {column} is {value:g}", f"{column} must be finite and zero or more")
        if value is not None and column.endswith("_s") and value > MOST_S:
            raise InputError(f"{where}: {column} is {value:g}", f"{column} is in seconds: no layer takes three years")
    if row.status == "ok":
        for column in ("load_s", "execute_s"):
            if getattr(row, column) is None:
                raise InputError(f"{where}: {column} is empty", "only a layer of status failed lacks times")


def with_lists(table: Any, *, name: str) -> Any:
    """Return a ``pyarrow.Table`` whose column ``after``, where it is text such as ``0 2`` or ``[0,2]``, is of lists.

    Raises:
        InputError: a cell holds something else; the row is named.
    """
    import pyarrow as pa

    if "after" not in table.column_names:
        return table
    column = table.column("after").combine_chunks()
    if pa.types.is_list(column.type):
        return table
    cells = [_words(str(cell)) if cell else None for cell in column.to_pylist()]
    for number, cell in enumerate(cells, start=1):
        if cell is not None and not all(word.isdecimal() for word in cell):
            message = f"{name}, row {number}: after is {' '.join(cell)!r}"
            raise InputError(message, "name layers by index, blanks between them, e.g. 0 2; leave it empty for a chain")
    lists = pa.array([None if cell is None else [int(word) for word in cell] for cell in cells], pa.list_(pa.int64()))
    return table.set_column(table.column_names.index("after"), "after", lists)


def _words(cell: str) -> list[str]:
    """Return the numbers in ``0 2`` or ``[0,2]``; there are none in ``[]``, which waits for no other layer."""
    in_brackets = cell[1:-1].replace(",", " ") if cell.startswith("[") and cell.endswith("]") else cell
    return in_brackets.split()
