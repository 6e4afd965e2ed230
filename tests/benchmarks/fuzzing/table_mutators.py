"""Damage to tables: Parquet whose columns have other types and whose header is another's, and CSV text."""

from __future__ import annotations

import csv
import io as streams
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzzing.bytes_mutators import damaged_bytes
from fuzzing.document_mutators import damaged_head
from fuzzing.values import HOSTILE, NUMBER_TEXTS, NUMBERS

_KEY = b"edgetune"


def damaged_parquet(rng: Random, data: bytes) -> bytes:
    """Return a Parquet file with one to three columns, its rows or its header changed; sometimes with bytes changed."""
    if rng.random() < 0.1:
        return damaged_bytes(rng, data)
    table = pq.read_table(pa.BufferReader(data), use_threads=False)
    for _ in range(rng.choice((1, 1, 2, 3))):
        table = rng.choice(_PARQUET)(rng, table)
    sink = streams.BytesIO()
    pq.write_table(table, sink, compression=rng.choice(("snappy", "none", "zstd", "gzip")))
    return sink.getvalue()


def damaged_csv(rng: Random, data: bytes) -> bytes:
    """Return CSV text with cells, columns, rows or its dialect changed."""
    rows = list(csv.reader(data.decode().splitlines())) or [[""]]
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(_CSV)(rng, rows)
    sink = streams.StringIO()
    delimiter, end = rng.choice((",",) * 6 + (";", "\t", "|", " ")), rng.choice(("\n", "\n", "\r\n", "\r"))
    writer = csv.writer(
        sink, delimiter=delimiter, lineterminator=end, quoting=rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    )
    try:
        writer.writerows(rows)
    except csv.Error:
        return "\n".join(",".join(row) for row in rows).encode()
    text = sink.getvalue()
    return (text.replace(".", ",") if rng.random() < 0.08 else text).encode("utf-8", "surrogatepass")


def _column(rng: Random, table: pa.Table) -> int | None:
    return rng.randrange(table.num_columns) if table.num_columns else None


def _other_type(rng: Random, table: pa.Table) -> pa.Table:
    at = _column(rng, table)
    if at is None:
        return table
    values = table.column(at).to_pylist()
    return _set(table, at, rng.choice(_TYPES)(rng, values))


def _set(table: pa.Table, at: int, array: Any) -> pa.Table:
    try:
        return table.set_column(at, table.schema.names[at], array).replace_schema_metadata(table.schema.metadata)
    except (pa.ArrowException, ValueError):
        return table


def _cells(rng: Random, table: pa.Table) -> pa.Table:
    """Change one value of a column and keep the type of the column where that is possible."""
    at = _column(rng, table)
    if at is None or not table.num_rows:
        return table
    column = table.column(at)
    values = column.to_pylist()
    row = rng.randrange(len(values))
    for _ in range(4):
        values[row] = rng.choice(
            (None, rng.choice(NUMBERS), rng.choice(HOSTILE), [], [None], [-1], [0.0, float("nan")])
        )
        try:
            return _set(table, at, pa.array(values, type=column.type))
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            continue
    return table


def _dropped(rng: Random, table: pa.Table) -> pa.Table:
    at = _column(rng, table)
    return table if at is None else table.remove_column(at)


def _renamed(rng: Random, table: pa.Table) -> pa.Table:
    at, names = _column(rng, table), list(table.schema.names)
    if at is not None:
        names[at] = rng.choice((*HOSTILE[:-1], names[at].upper(), names[at] + "_s", *names))
    return table.rename_columns(names)


def _added(rng: Random, table: pa.Table) -> pa.Table:
    name = rng.choice((*table.schema.names, *HOSTILE[:-1], "x"))
    return table.append_column(name, pa.array([rng.choice(NUMBER_TEXTS) for _ in range(table.num_rows)], pa.string()))


def _rows(rng: Random, table: pa.Table) -> pa.Table:
    return rng.choice(
        (table.slice(0, 0), pa.concat_tables([table] * 2), pa.concat_tables([table] * 300), table.slice(1))
    )


def _shuffled(rng: Random, table: pa.Table) -> pa.Table:
    order = list(range(table.num_rows))
    rng.shuffle(order)
    return table.take(pa.array(order, pa.int64()))


def _header(rng: Random, table: pa.Table) -> pa.Table:
    metadata = dict(table.schema.metadata or {})
    text = metadata.get(_KEY, b"{}").decode(errors="replace") or "{}"
    roll = rng.random()
    if roll < 0.7:
        try:
            metadata[_KEY] = damaged_head(rng, text).encode("utf-8", "surrogatepass")
        except ValueError:
            metadata[_KEY] = b"{}"
    elif roll < 0.8:
        metadata.pop(_KEY, None)
    elif roll < 0.9:
        metadata[_KEY] = damaged_bytes(rng, text.encode())
    else:
        from edgetune.artifacts.kinds import KINDS

        metadata[_KEY] = text.replace(f'"kind": "{_kind_in(text)}"', f'"kind": "{rng.choice(list(KINDS))}"').encode()
    return table.replace_schema_metadata(metadata)


def _kind_in(text: str) -> str:
    return text.partition('"kind": "')[2].partition('"')[0]


_TYPES: tuple[Callable[[Random, list[Any]], Any], ...] = (
    lambda rng, values: pa.array([None] * len(values)),
    lambda rng, values: pa.array([str(value) for value in values]),
    lambda rng, values: pa.array([str(value) for value in values], pa.large_string()),
    lambda rng, values: pa.array([str(value).encode() for value in values], pa.binary()),
    lambda rng, values: pa.array([str(value) for value in values]).dictionary_encode(),
    lambda rng, values: pa.array([rng.choice((True, False, None)) for _ in values]),
    lambda rng, values: pa.array([rng.choice((0, 1, -1, 2**62, None)) for _ in values], pa.int64()),
    lambda rng, values: pa.array([rng.choice((0, 1, 255)) for _ in values], pa.uint8()),
    lambda rng, values: pa.array([rng.choice((0, 2**64 - 1)) for _ in values], pa.uint64()),
    lambda rng, values: pa.array([rng.choice((0.0, -2.0, 1e308, float("nan"), float("inf"), None)) for _ in values]),
    lambda rng, values: pa.array([1.5 for _ in values], pa.float32()),
    lambda rng, values: pa.array([0] * len(values), pa.timestamp("ns")),
    lambda rng, values: pa.array([2**62] * len(values), pa.timestamp("s")),
    lambda rng, values: pa.array([0] * len(values), pa.date32()),
    lambda rng, values: pa.array([1] * len(values), pa.duration("us")),
    lambda rng, values: pa.array([[value] for value in map(str, values)]),
    lambda rng, values: pa.array([[[1.0]] for _ in values]),
    lambda rng, values: pa.array([{"a": 1} for _ in values]),
    lambda rng, values: pa.array([[("a", 1)] for _ in values], pa.map_(pa.string(), pa.int64())),
    lambda rng, values: pa.array([1 for _ in values], pa.decimal128(10, 2)),
    lambda rng, values: pa.array([rng.choice(HOSTILE) for _ in values]),
)  # fmt: skip
_PARQUET = (
    _other_type,
    _other_type,
    _cells,
    _cells,
    _cells,
    _dropped,
    _renamed,
    _added,
    _rows,
    _shuffled,
    _header,
    _header,
)


def _cell(rng: Random, rows: list[list[str]]) -> None:
    row = rng.choice(rows)
    if row:
        at = rng.randrange(len(row))
        units = [f"{row[at]} {unit}" for unit in ("ms", "W", "s", "%", "MHz")]
        row[at] = rng.choice((*NUMBER_TEXTS, *HOSTILE, *units, f'"{row[at]}', f"[{row[at]}]", row[at] * 2))


def _lost_cell(rng: Random, rows: list[list[str]]) -> None:
    row = rng.choice(rows)
    if row:
        del row[rng.randrange(len(row))]


def _more_cells(rng: Random, rows: list[list[str]]) -> None:
    row = rng.choice(rows)
    row.extend([rng.choice(NUMBER_TEXTS)] * rng.choice((1, 2, 5000)))


def _lost_column(rng: Random, rows: list[list[str]]) -> None:
    if rows and rows[0]:
        at = rng.randrange(len(rows[0]))
        for row in rows:
            del row[at : at + 1]


def _doubled_column(rng: Random, rows: list[list[str]]) -> None:
    if rows and rows[0]:
        at = rng.randrange(len(rows[0]))
        for row in rows:
            row.extend(row[at : at + 1])


def _repeated(rng: Random, rows: list[list[str]]) -> None:
    rows.extend([list(row) for row in rows[1:]] * rng.choice((1, 2, 100)))


def _headless(rng: Random, rows: list[list[str]]) -> None:
    if len(rows) > 1:
        del rows[0]


def _bare(rng: Random, rows: list[list[str]]) -> None:
    del rows[1:]


_CSV = (_cell, _cell, _cell, _cell, _lost_cell, _more_cells, _lost_column, _doubled_column, _repeated, _headless, _bare)
