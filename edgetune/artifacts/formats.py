"""JSON files: a table as an object with the fields of its header first and its rows last, or a document.

All numbers are finite, and the depth of nesting is limited.

Parquet files: the header is one JSON value in the metadata, and expansion is limited.

A file of 2 kB may hold 10^8 equal rows, or one text a million times.
"""

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgetune import limits
from edgetune.artifacts.rows_file import completed
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError


def load_json(text: str | bytes, *, name: str) -> Any:
    """Return the values in a JSON text.

    Raises:
        InputError: the text is not JSON, is nested deeper than the limit, or has a number that is not finite.
    """
    try:
        found = json.loads(text)
    except RecursionError:
        raise limits.beyond("document_depth", f"{name} is nested too deeply: it") from None
    except ValueError as error:  # UnicodeDecodeError and an integer of 5,000 digits included
        raise InputError(f"{name} is not JSON: {error}", "correct it, or write it again") from None
    return checked_values(found, name=name)


def checked_values(document: Any, *, name: str) -> Any:
    """Check that the numbers of a document are finite and its depth is within the limit, and return it.

    Raises:
        InputError: there is a NaN or an infinity, whose key is named, or more levels than the limit allows.
    """
    deepest = limits.limit("document_depth")
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(document, ())]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, float):
            _refuse_unless_finite(value, path, name=name)
        elif not isinstance(value, (Mapping, list, tuple)):
            continue
        elif len(path) >= deepest:
            raise limits.beyond("document_depth", f"{name} is nested too deeply: it")
        else:
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            waiting += [(item, (*path, key)) for key, item in items if isinstance(item, (Mapping, list, tuple, float))]
    return document


def _refuse_unless_finite(value: float, path: Sequence[Any], *, name: str) -> None:
    if not math.isfinite(value):
        message = f"{name}: {'.'.join(map(str, path)) or 'the document'} is {value}"
        raise InputError(message, "it must be a finite number; leave it out where there is none")


def json_bytes(table: Any, head: Mapping[str, Any]) -> bytes:
    """Return a ``pyarrow.Table`` as a JSON object: the fields of ``head``, then ``rows``, one object a line."""
    fields = [f"{json.dumps(key)}: {_text(value)}" for key, value in plain(head).items()]
    rows = ",\n".join(_text(plain(row)) for row in table.to_pylist())
    return ("{\n" + ",\n".join([*fields, f'"rows": [\n{rows}\n]']) + "\n}\n").encode()


def json_document(document: Any) -> bytes:
    """Return a document as JSON."""
    return f"{json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)}\n".encode()


def has_rows(text: str) -> bool:
    """Return whether a text is a JSON object with a list of rows, i.e. a table and not a document."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        found = json.loads(completed(text))
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and isinstance(found.get("rows"), list)


def json_table(text: str, columns: Sequence[str], *, name: str) -> tuple[Any, dict[str, Any] | None]:
    """Return the ``pyarrow.Table`` in a JSON object with ``rows``, and its head: ``None`` if edgetune did not write it.

    Args:
        text: The file, for which ``has_rows`` is true.
        columns: The columns of a table without rows.
        name: The file, for messages.

    Raises:
        InputError: rows are not objects, a column has values of several types, a number of the head is not finite, or
            there are more columns or cells than the limits allow.
    """
    import pyarrow as pa

    head = load_json(completed(text), name=name)
    rows = head.pop("rows")
    if not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{name}: rows is no list of objects", 'e.g. {"rows": [{"batch_size": 1, ...}, ...]}')
    names = list(dict.fromkeys(key for row in rows for key in row)) or list(columns)
    limits.check("table_columns", len(names), name)
    limits.check("table_cells", len(names) * len(rows), name, at_least=len(text))
    arrays = []
    for each in names:
        try:
            arrays.append(pa.array([row.get(each) for row in rows]))
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{name}: {each} has values of several types: {reason}", "give it one type") from None
        except (OverflowError, UnicodeError):  # no table has integers of more than 64 bits, nor half a surrogate pair
            message = f"{name}: {each} has a number too large for a column, or a text that is not Unicode"
            raise InputError(message, "correct it") from None
    return pa.Table.from_arrays(arrays, names), head if "kind" in head else None


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


_BYTES_PER_BYTE = 64
"""How many times its size a file may always have in memory: repeated texts and numbers compress well."""


def expanded_table(data: bytes, *, name: str) -> Any:
    """Return the ``pyarrow.Table`` in a Parquet file.

    The metadata is checked before the data is read. Texts are read as dictionaries, and expanded once their size is
    known. A file with false metadata meets the memory limit.

    Raises:
        InputError: there are more cells, columns or bytes than the limits allow.
        pyarrow.ArrowException, OSError, ValueError: truncated or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    allowed_bytes = max(limits.limit("table_bytes"), _BYTES_PER_BYTE * len(data))
    with _own_pool(), limits.bounded_memory(2 * allowed_bytes) as bounded:
        try:
            metadata = _metadata(data)
            check_metadata(metadata, len(data), name=name)
            texts = [path for path, kind in _leaves(metadata) if kind == "BYTE_ARRAY"]
            # In this thread: pq.read_table scans with threads of its own, and ending the program right after aborts it.
            file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
            table = file.read(use_threads=False)
            size = sum(_expanded_bytes(chunk) for column in table.columns for chunk in column.chunks)
            limits.check("table_bytes", size, name, at_least=allowed_bytes)
            return _without_dictionaries(table)
        except (pa.ArrowMemoryError, MemoryError):
            if bounded:
                raise limits.beyond("table_bytes", name) from None
            raise


def check_metadata(metadata: Any, file_bytes: int, *, name: str) -> None:
    """Refuse a Parquet file whose metadata declares more columns, cells or bytes than the limits allow."""
    limits.check("table_columns", metadata.num_columns, name)
    limits.check("table_cells", _cells(metadata), name, at_least=file_bytes)
    size = sum(chunk.total_uncompressed_size for chunk in _chunks(metadata))
    limits.check("table_bytes", size, name, at_least=_BYTES_PER_BYTE * file_bytes)


def _metadata(data: bytes) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.ParquetFile(pa.BufferReader(data)).metadata


def _cells(metadata: Any) -> int:
    """Return the number of cells in a table; each value of a list counts."""
    values: int = sum(chunk.num_values for chunk in _chunks(metadata))
    return max(int(metadata.num_rows * max(metadata.num_columns, 1)), values)


def _chunks(metadata: Any) -> list[Any]:
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    return [group.column(place) for group in groups for place in range(group.num_columns)]


def _leaves(metadata: Any) -> list[tuple[str, str]]:
    columns = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    return [(column.path, column.physical_type) for column in columns]


@contextlib.contextmanager
def _own_pool() -> Iterator[None]:
    """Make Arrow use the system's allocator, because its own pools reserve a gigabyte in which no limit holds."""
    import pyarrow as pa

    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def _expanded_bytes(array: Any) -> int:
    """Return the size of an array without dictionaries, bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        words = array.dictionary
        if not (pa.types.is_string(words.type) or pa.types.is_binary(words.type)):
            return int(array.nbytes)
        used = pc.take(pc.binary_length(words), array.indices)
        return int(pc.sum(used.cast(pa.int64())).as_py() or 0) + 4 * len(array)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return _expanded_bytes(array.flatten()) + int(array.offsets.nbytes)
    if pa.types.is_struct(array.type):
        return sum(map(_expanded_bytes, array.flatten()))
    return int(array.nbytes)


def _without_dictionaries(table: Any) -> Any:
    import pyarrow as pa

    fields = [field.with_type(_plain_type(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields, metadata=table.schema.metadata))


def _plain_type(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    return kind


MAGIC = b"PAR1"
METADATA_KEY = b"edgetune"


def parquet_bytes(table: Any, head: Mapping[str, Any]) -> bytes:
    """Return a Parquet file of a ``pyarrow.Table``, with ``head`` as JSON under the metadata key ``edgetune``.

    Many equal times of a twin compress to far more cells than ``table_cells`` allows a file of that size. Such a table
    is written plainly: eight bytes for each number, so that ``check_metadata`` accepts it.
    """
    text = json.dumps(plain(head), allow_nan=False, ensure_ascii=False)
    table = table.replace_schema_metadata({METADATA_KEY: text})
    data = _written(table)
    if _cells(_metadata(data)) <= max(limits.LIMITS["table_cells"].default, len(data)):
        return data
    return _written(table, use_dictionary=False, compression="none")


def _written(table: Any, **options: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue())


def parquet_table(data: bytes, *, name: str) -> tuple[Any, dict[str, Any] | None]:
    """Return the ``pyarrow.Table`` in ``data`` and its head, which is ``None`` for a foreign file.

    Raises:
        InputError: the file is damaged, exceeds the limits once expanded, or has a head that is not JSON.
    """
    import pyarrow as pa

    try:
        table = expanded_table(data, name=name)
        table.validate(full=True)
        str(table.column_names)  # damaged names are decoded, and complained about, only when asked for
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = (str(error).splitlines() or ["unknown error"])[0]
        hint = "write or copy it again: was the program that wrote it interrupted?"
        raise InputError(f"{name} is a truncated or damaged Parquet file: {reason}", hint) from error
    metadata = table.schema.metadata or {}
    if METADATA_KEY not in metadata:
        return table, None
    head = load_json(metadata[METADATA_KEY], name=f"the header of {name}")
    if not isinstance(head, dict):
        raise InputError(f"{name} has a damaged header: its metadata is not a JSON object", "write the file again")
    return table, head
