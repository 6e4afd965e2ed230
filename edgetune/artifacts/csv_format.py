"""Reads CSV of any program with a header line as a ``pyarrow.Table`` of texts, and writes tables as CSV.

Numbers may have a decimal comma and thousands separators, as spreadsheets write them:

    1234.5      1,234.5      1234,5      1.234,5        1,234 alone may be either, and is refused
"""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgetune import limits
from edgetune.artifacts.table_checks import trimmed
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError

BOM = "\ufeff"
_DELIMITERS = ",;\t"
_EXCEL_FIRST_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
"""Excel writes and reads a first line that names the delimiter."""


def csv_table(text: str, *, name: str) -> Any:
    """Return every column as texts, with empty cells null; the caller converts the types.

    The delimiter is that of a first line ``sep=;``, else the one of comma, semicolon and tab that gives the header the
    most fields. Rows without any text and empty nameless columns, as spreadsheets add them, are left out.

    Raises:
        InputError: a row has more or fewer fields than the header, a quote is not closed, there are no rows, or more
            columns than the limit allows.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names, delimiter, body = split_header(text.lstrip(BOM))
    limits.check("table_columns", len(names), name)
    if not body.strip():
        raise InputError(f"{name} has a header but no rows", "give it at least one row of measurements")
    data = body.encode()
    whole = min(max(len(data), 1), 2**31 - 1)  # a row of raw times may exceed a usual block
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(data),
            read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=whole),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values='"' in body),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )
    except (pa.ArrowException, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        hint = f"each row needs the {len(names)} fields of the header, separated by {delimiter!r}"
        raise InputError(f"{name} is not a regular CSV table: {reason}", hint) from error
    arrays = [trimmed(table.column(place).combine_chunks()) for place in range(len(names))]
    return _without_blanks(pa.Table.from_arrays(arrays, names))


def split_header(text: str) -> tuple[list[str], str, str]:
    """Return the fields of the header line, the delimiter, and the text of the rows."""
    first, _, rest = text.partition("\n")
    stated = _EXCEL_FIRST_LINE.fullmatch(first)
    if stated is not None:
        first, _, rest = rest.partition("\n")
        return _fields(first.rstrip("\r"), stated[1]), stated[1], rest
    header = first.rstrip("\r")
    delimiter = max(_DELIMITERS, key=lambda mark: len(_fields(header, mark)))
    return _fields(header, delimiter), delimiter, rest


def _fields(header: str, delimiter: str) -> list[str]:
    """Return the names in a header line; if its quotes are broken, split it at the delimiters."""
    try:
        fields = next(csv.reader([header], delimiter=delimiter, skipinitialspace=True), [""])
    except csv.Error:
        fields = header.split(delimiter)
    return [field.strip().strip('"').strip() for field in fields]


def _without_blanks(table: Any) -> Any:
    """Return the table without empty rows and without empty nameless columns."""
    import pyarrow.compute as pc

    places = [
        place
        for place, column in enumerate(table.columns)
        if table.column_names[place] or column.null_count < table.num_rows
    ]
    table, filled = table.select(places), None
    for column in table.columns:
        filled = pc.is_valid(column) if filled is None else pc.or_(filled, pc.is_valid(column))
    return table if filled is None else table.filter(filled)


def csv_bytes(table: Any) -> bytes:
    """Return a ``pyarrow.Table`` as CSV: a header line, nulls as empty cells, lists as JSON text in their cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(zip(*(map(_cell, column.to_pylist()) for column in table.columns), strict=True))
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value) if isinstance(value, bool) else plain(value)


_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+|[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?:\.\d{3})+)(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?"
)
_GROUPED = {mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:\{mark}\d{{3}})+") for mark in ",."}


def plain_numbers(table: Any, *, name: str) -> Any:
    """Return a table of texts with its numbers in the form ``1234.5``.

    The decimal mark is decided for the whole table, from its unambiguous cells. A column is numeric if all its cells
    are numbers.

    Raises:
        InputError: cells have a decimal comma and others a decimal point, or every comma is ambiguous.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [column for column, kind in zip(table.column_names, table.schema.types, strict=True) if kind == pa.string()]
    if not any(pc.any(pc.match_substring(table.column(column), ",")).as_py() for column in texts):
        return table
    for column, numbers in plain_cells({of: table.column(of).to_pylist() for of in texts}, name=name).items():
        table = table.set_column(table.column_names.index(column), column, pa.array(numbers, pa.string()))
    return table


def plain_cells(columns: Mapping[str, Sequence[str | None]], *, name: str) -> dict[str, list[str | None]]:
    """Return the numeric ones of a table's columns, their numbers in the form ``1234.5``; see ``plain_numbers``."""
    cells = {column: [cell for cell in found if cell is not None] for column, found in columns.items()}
    numbers = {column: found for column, found in cells.items() if found and all(map(is_number, found))}
    mark = _decimal_mark(numbers, name=name)
    thousands = "." if mark == "," else ","
    return {column: [_plain(cell, mark, thousands) for cell in columns[column]] for column in numbers}


def is_number(cell: str) -> bool:
    """Return whether a cell is a number with any decimal mark."""
    return _NUMBER.fullmatch(cell) is not None


def _plain(cell: str | None, mark: str, thousands: str) -> str | None:
    if cell is None:
        return None
    whole, _, rest = cell.partition(mark)
    if _GROUPED[thousands].fullmatch(whole):
        whole = whole.replace(thousands, "")
    return f"{whole}.{rest}" if rest else whole


def _decimal_mark(numbers: dict[str, list[str]], *, name: str) -> str:
    """Return the decimal mark of a table; the point if no cell has a comma."""
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
    """Return the decimal mark of a cell; ``None`` if it has no mark or is ambiguous."""
    last = max(",.", key=cell.rfind)
    other = "," if last == "." else "."
    if last not in cell:
        return None
    if other in cell:
        return last  # 1.234,5: the last of two different marks is the decimal one
    if cell.count(last) > 1:
        return other  # 1.234.567: a decimal mark stands once
    return None if _GROUPED[last].fullmatch(cell) else last
