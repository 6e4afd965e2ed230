"""What a file holds, told by its content and not by its name: its format, its table, the kind of a document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from edgetune.artifacts.csv_format import csv_table
from edgetune.artifacts.json_format import has_rows, json_table
from edgetune.artifacts.kinds import Document, Format
from edgetune.artifacts.parquet_format import MAGIC, parquet_table
from edgetune.errors import InputError

_KIND_LINE = re.compile(r"""^\s*["']?kind["']?\s*:|\A\s*\{""", re.MULTILINE)
_OTHER_DOCUMENT = re.compile(r"""(?:^|[{,]\s*)["']?kind["']?\s*:\s*["']?(roofline|jobs|kernel_tasks)\b""", re.MULTILINE)


def sniff(data: bytes, *, name: str) -> Format:
    """Return the format of ``data``: of a table Parquet, CSV, or JSON with ``rows``; of a document YAML, JSON included.

    Raises:
        InputError: empty, or neither Parquet nor UTF-8 text.
    """
    if data.startswith(MAGIC):
        return "parquet"
    if not data.strip():
        raise InputError(f"{name} is empty", "was the command that should have written it interrupted?")
    try:
        text = text_of(data)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(f"{name} is neither Parquet, YAML nor CSV", "text files must be UTF-8")
    if has_rows(text):
        return "json"
    return "yaml" if _KIND_LINE.search(text[:65536]) else "csv"


def table_in(data: bytes, form: Format, columns: Sequence[str] = (), *, name: str) -> tuple[Any, dict[str, Any] | None]:
    """Return the ``pyarrow.Table`` in ``data``, and its head where edgetune wrote it.

    Args:
        data: The file.
        form: What ``sniff`` found, and not YAML.
        columns: That a table has of which no row tells them.
        name: The file, for messages.

    Raises:
        InputError: damaged, or not regular.
    """
    if form == "csv":
        return csv_table(text_of(data), name=name), None
    return json_table(text_of(data), columns, name=name) if form == "json" else parquet_table(data, name=name)


def document_kind(data: bytes) -> Document:
    """Return what a YAML document is, without parsing it: a plan unless it says otherwise."""
    found = _OTHER_DOCUMENT.search(text_of(data))
    return "plan" if found is None else cast("Document", found[1])


def text_of(data: bytes) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark."""
    return data.decode("utf-8-sig")
