"""Columns of a table artifact, derived from its row dataclass: name, storage, unit.

The dataclass is the one place where a column is declared. A unit is the suffix of the name (``minibatch_s`` is in
seconds) and is repeated in the metadata of the Parquet field for readers that know nothing of this convention.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from edgetune.artifacts.profile import PowerSample

Storage = Literal["text", "integer", "number", "flag", "numbers", "integers", "texts", "samples"]

_STORAGE: dict[Any, Storage] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "flag",
    tuple[float, ...]: "numbers",
    tuple[int, ...]: "integers",
    tuple[str, ...]: "texts",
    tuple[PowerSample, ...]: "samples",
}

_UNIT_OF_SUFFIX: tuple[tuple[str, str], ...] = (
    ("_per_s", "1/s"),
    ("_s", "s"),
    ("_w", "W"),
    ("_j", "J"),
    ("_mhz", "MHz"),
    ("_bytes", "byte"),
    ("_c", "degC"),
)
_UNIT_OF_NAME: dict[str, str] = {
    "macs": "MAC",
    "flops": "FLOP",
    "flops_other": "FLOP",
    "bytes": "byte",
    "bytes_read": "byte",
    "bytes_written": "byte",
    "batch_size": "sample",
    "samples": "sample",
    "epochs": "epoch",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Args:
        name: Its name, the unit as suffix.
        storage: What one cell holds: a text, integer, number or flag, or a list of numbers, integers, texts or samples.
        nullable: Whether a cell may be empty.
        default: What a row has when the column is absent; ``dataclasses.MISSING`` for a required column.
        choices: The texts permitted, when only some are.
        unit: Its unit, or ``None`` where it has none.
    """

    name: str
    storage: Storage
    nullable: bool
    default: Any
    choices: tuple[str, ...]
    unit: str | None

    @property
    def required(self) -> bool:
        """Whether a table without this column cannot be read."""
        return self.default is dataclasses.MISSING


def unit_of(name: str) -> str | None:
    """Return the unit that a column's name declares, e.g. ``MHz`` for ``gpu_mhz``; ``None`` where there is none."""
    if name in _UNIT_OF_NAME:
        return _UNIT_OF_NAME[name]
    return next((unit for suffix, unit in _UNIT_OF_SUFFIX if name.endswith(suffix)), None)


@cache
def columns_of(row_type: type) -> tuple[Column, ...]:
    """Return the columns of a table whose rows are ``row_type``, in the order of its fields.

    Raises:
        TypeError: a field has a type that no column can store.
    """
    hints = typing.get_type_hints(row_type)
    return tuple(_column(field, hints[field.name]) for field in dataclasses.fields(row_type))


def _column(field: dataclasses.Field[Any], hint: Any) -> Column:
    nullable, choices = False, ()
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        nullable = True
        (hint,) = (kind for kind in typing.get_args(hint) if kind is not type(None))
    if typing.get_origin(hint) is Literal:
        hint, choices = str, typing.get_args(hint)
    if hint not in _STORAGE:
        raise TypeError(f"no column can store {field.name}: {hint}")
    return Column(field.name, _STORAGE[hint], nullable, field.default, choices, unit_of(field.name))


def arrow_schema(columns: tuple[Column, ...]) -> Any:
    """Return the ``pyarrow.Schema`` of these columns, each unit in its field's metadata under ``unit``."""
    import pyarrow as pa

    return pa.schema(
        pa.field(column.name, arrow_type(column.storage), nullable=True, metadata=_metadata(column.unit))
        for column in columns
    )


def arrow_type(storage: Storage) -> Any:
    """Return the ``pyarrow.DataType`` of one cell."""
    import pyarrow as pa

    number = pa.float64()
    sample = pa.struct(pa.field(f.name, number, metadata=_metadata(unit_of(f.name))) for f in _SAMPLE_FIELDS)
    return {
        "text": pa.string(),
        "integer": pa.int64(),
        "number": number,
        "flag": pa.bool_(),
        "numbers": pa.list_(number),
        "integers": pa.list_(pa.int64()),
        "texts": pa.list_(pa.string()),
        "samples": pa.list_(sample),
    }[storage]


_SAMPLE_FIELDS = dataclasses.fields(PowerSample)


def _metadata(unit: str | None) -> dict[str, str] | None:
    return None if unit is None else {"unit": unit}
