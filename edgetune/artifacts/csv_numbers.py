"""Numbers as spreadsheets write them: a decimal comma, and marks between thousands.

1234.5      1,234.5      1234,5      1.234,5        1,234 alone may be either, and is refused
"""

from __future__ import annotations

import re
from typing import Any

from edgetune.errors import InputError

_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+|[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?:\.\d{3})+)(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?"
)
_GROUPED = {mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:\{mark}\d{{3}})+") for mark in ",."}


def plain_numbers(table: Any, *, name: str) -> Any:
    """Return a table of texts with the numbers in it as computers write them: ``1234.5``.

    Which mark is the decimal one is decided for the whole table, from the cells that leave no choice. A column counts
    as numbers when all its cells do.

    Raises:
        InputError: some cells have a decimal comma and others a decimal point, or every comma could be either.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [column for column, kind in zip(table.column_names, table.schema.types, strict=True) if kind == pa.string()]
    if not any(pc.any(pc.match_substring(table.column(column), ",")).as_py() for column in texts):
        return table
    cells = {column: [cell for cell in table.column(column).to_pylist() if cell is not None] for column in texts}
    numbers = {column: found for column, found in cells.items() if found and all(map(_NUMBER.fullmatch, found))}
    mark = _decimal_mark(numbers, name=name)
    thousands = "." if mark == "," else ","
    for column in numbers:
        plain = [_plain(cell, mark, thousands) for cell in table.column(column).to_pylist()]
        table = table.set_column(table.column_names.index(column), column, pa.array(plain, pa.string()))
    return table


def _plain(cell: str | None, mark: str, thousands: str) -> str | None:
    if cell is None:
        return None
    whole, _, rest = cell.partition(mark)
    if _GROUPED[thousands].fullmatch(whole):
        whole = whole.replace(thousands, "")
    return f"{whole}.{rest}" if rest else whole


def _decimal_mark(numbers: dict[str, list[str]], *, name: str) -> str:
    """Return the decimal mark of a table; the point where nothing has a comma."""
    sure: dict[str, tuple[str, str]] = {}
    doubtful: tuple[str, str] | None = None
    for column, cells in numbers.items():
        for cell in cells:
            mark = _mark_of(cell)
            if mark is not None:
                sure.setdefault(mark, (column, cell))
            elif "," in cell:
                doubtful = doubtful or (column, cell)
    if len(sure) > 1:
        (comma, with_comma), (point, with_point) = sure[","], sure["."]
        message = f"{name} has decimal commas ({comma} is {with_comma}) and decimal points ({point} is {with_point})"
        raise InputError(message, "write all numbers with a decimal point")
    if not sure and doubtful is not None:
        column, cell = doubtful
        message = f"{name}: {column} is {cell}: the comma may be a decimal one or one between thousands"
        raise InputError(message, f"write {cell.replace(',', '.')} or {cell.replace(',', '')}")
    return next(iter(sure), ".")


def _mark_of(cell: str) -> str | None:
    """Return the decimal mark of a cell; ``None`` where it has no mark, or could have either."""
    last = max(",.", key=cell.rfind)
    other = "," if last == "." else "."
    if last not in cell:
        return None
    if other in cell:
        return last  # 1.234,5: the last of two different marks is the decimal one
    if cell.count(last) > 1:
        return other  # 1.234.567: a decimal mark stands once
    return None if _GROUPED[last].fullmatch(cell) else last
