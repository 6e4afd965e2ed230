"""Reads published traces of requests: their arrival times or their rates.

A trace is a CSV file with one relevant column: ``arrival_s``, ``time_s`` or ``timestamp_s`` (seconds since any start),
the same in ``_ms``, ``arrived_s`` as in tables of runs, or ``rate_per_s`` (the rates of consecutive windows). Without a
header line the first column is read as seconds.
"""

import csv
import math
from dataclasses import dataclass
from typing import Literal

from edgetune.artifacts.csv_format import is_number, plain_cells, split_header
from edgetune.artifacts.files import name_of, read_source
from edgetune.errors import InputError

Unit = Literal["s", "ms", "rate"]

COLUMNS: dict[str, Unit] = {
    **dict.fromkeys(("arrival_s", "arrived_s", "time_s", "timestamp_s"), "s"),
    **dict.fromkeys(("arrival_ms", "time_ms", "timestamp_ms"), "ms"),
    "rate_per_s": "rate",
}
_MOST = 1e15
"""Milliseconds since 1970 are below it, and so is every rate."""
_HINT = f"name the column {', '.join(COLUMNS)}; or give seconds, one per line, without a header"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The content of a trace: ``values`` are ascending times since the first request, s, or, with ``rates``, rates."""

    name: str
    values: tuple[float, ...]
    rates: bool


def read_arrivals(source: str) -> Arrivals:
    """Return the requests in a file or, for ``-``, on standard input.

    Raises:
        InputError: the file is unreadable, has no column of arrivals, or a value is not a number, negative, or earlier
            than the one before. The line is named.
    """
    name = name_of(source)
    try:
        text = read_source(source).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name} is not UTF-8 text", _HINT) from None
    header, delimiter, body = split_header(text.lstrip())
    place: int = 0
    unit: Unit = "s"
    columns = len(header)
    if header and is_number(header[0]):
        body, columns = text, 0
    elif text.strip():
        place, unit = _column(header, name)
    first = 1 + len(text.splitlines()) - len(body.splitlines())
    try:
        rows = [row for row in enumerate(csv.reader(body.splitlines(), delimiter=delimiter), first) if any(row[1])]
    except csv.Error as error:
        raise InputError(f"{name} is not a CSV table: {error}", _HINT) from None
    for number, cells in rows:
        if 0 < columns < len(cells) or (not columns and len(cells) > 1 and is_number(delimiter.join(cells))):
            message = f"{name}, line {number}: {delimiter.join(cells)[:40]!r} has more cells than the header"
            raise InputError(message, "write decimal points; or separate cells with semicolons, below a header")
    if not rows:
        raise InputError(f"{name} has no requests", "add a row for each request below the header")
    found = [cells[place].strip() if place < len(cells) else "" for _, cells in rows]
    plain = plain_cells({"": found}, name=name).get("", found)
    values = [_value(cell or "", f"{name}, line {number}") for cell, (number, _) in zip(plain, rows, strict=True)]
    if unit == "rate":
        return Arrivals(name, tuple(values), rates=True)
    for (number, _), before, value in zip(rows[1:], values, values[1:], strict=False):
        if value < before:
            message = f"{name}, line {number}: a request at {value:g} {unit} follows one at {before:g} {unit}"
            raise InputError(message, "put the requests in the order in which they arrived")
    factor = 1e-3 if unit == "ms" else 1.0
    return Arrivals(name, tuple((value - values[0]) * factor for value in values), rates=False)


def _column(header: list[str], name: str) -> tuple[int, Unit]:
    found = [(place, COLUMNS[word]) for place, word in enumerate(header) if word in COLUMNS]
    if not found:
        raise InputError(f"{name} has no column of arrivals; it has {', '.join(header)}", _HINT)
    if len(found) > 1:
        words = " and ".join(header[place] for place, _ in found)
        raise InputError(f"{name} has several columns of arrivals: {words}", "keep one of them")
    return found[0]


def _value(cell: str, where: str) -> float:
    value = float(cell) if is_number(cell) else math.nan
    if not 0 <= value <= _MOST:
        message = f"{where}: {repr(cell) if cell else 'nothing'} is neither a time nor a rate"
        raise InputError(message, "give a number of at least zero")
    return value
