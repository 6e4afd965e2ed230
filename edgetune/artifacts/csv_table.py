"""CSV with a header line, as any program writes it, to a ``pyarrow.Table`` of texts; and a table to CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from edgetune.artifacts.plain import plain
from edgetune.artifacts.table_checks import trimmed
from edgetune.errors import InputError

BOM = "\ufeff"


def csv_table(text: str, *, name: str) -> Any:
    """Return every column as texts, empty cells null; the types are decided by who asks for the columns.

    Commas separate the fields, or semicolons or tabs where the header has no comma.

    Raises:
        InputError: a row has more or fewer fields than the header, a quote never ends, or there are no rows.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = text.lstrip(BOM).split("\n", 1)[0].rstrip("\r")
    delimiter = next((mark for mark in ",;\t" if mark in header), ",")
    names = [field.strip().strip('"').strip() for field in header.split(delimiter)]
    body = text.lstrip(BOM).partition("\n")[2]
    if not body.strip():
        raise InputError(f"{name} has a header but no rows", "give it at least one row of measurements")
    data = body.encode()
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(data),
            read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=_block_bytes(data)),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values='"' in body),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )
    except (pa.ArrowException, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        hint = f"each row needs the {len(names)} fields of the header, separated by {delimiter!r}"
        raise InputError(f"{name} is not a regular CSV table: {reason}", hint) from error
    return pa.Table.from_arrays([trimmed(table.column(place).combine_chunks()) for place in range(len(names))], names)


def _block_bytes(data: bytes) -> int:
    """Return how many bytes are parsed at a time: all, because a row of raw times may be longer than a usual block."""
    return min(max(len(data), 1), 2**31 - 1)


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
