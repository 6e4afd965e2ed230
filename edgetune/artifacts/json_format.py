"""JSON files: a table as an object with the fields of its header first and its rows last, or a document.

All numbers are finite, and the depth of nesting is limited.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from edgetune import limits
from edgetune.artifacts.plain import plain
from edgetune.artifacts.rows_file import completed
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
