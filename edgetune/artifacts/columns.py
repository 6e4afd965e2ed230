"""Types of the fields of artifacts: limited numbers, quantities with a unit, and the columns of a table.

A column is one line of the row's dataclass, and is declared nowhere else:

    power_w: PositiveFloat | None = None

The suffix of the name is the unit (W). The type declares the content of a cell, the limits of numbers and whether the
cell may be empty. The default is the value for files without the column. ``Args`` of the docstring describes it. The
metadata of the Parquet field repeats the unit for other readers. Documents have the same types, and quantities as
people write them (``deadline: 80ms``); pydantic validates and writes them.
"""

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from edgetune.errors import InputError
from edgetune.units import exact_bytes, exact_time, parse_bytes, parse_time_s


@dataclass(frozen=True, slots=True)
class Limit:
    """The range of permitted finite numbers.

    Args:
        rule: In words, e.g. ``above zero``; empty for any finite number.
        lowest, highest: Bounds of the range; ``None`` for no bound.
        above: Whether the range excludes ``lowest``.
    """

    rule: str
    lowest: float | None = 0.0
    highest: float | None = None
    above: bool = False

    def allows(self, number: float) -> bool:
        """Return whether a finite number is permitted."""
        high_enough = self.lowest is None or (number > self.lowest if self.above else number >= self.lowest)
        return high_enough and (self.highest is None or number <= self.highest)

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Have pydantic check numbers of a field."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def _checked(self, number: float) -> float:
        if not self.allows(number):
            raise ValueError(f"a finite number {self.rule}")
        return number


@dataclass(frozen=True, slots=True)
class Quantity:
    """How a document writes a number: with its unit.

    Args:
        read: Returns the number of a text in base units; see ``parse_time_s``.
        write: Returns the text that ``read`` takes.
        bare: Whether a number without a unit, zero or more, is in base units.
    """

    read: Callable[..., float]
    write: Callable[[Any], Any]
    bare: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Have pydantic read and write texts."""
        from pydantic_core import core_schema

        writer = core_schema.plain_serializer_function_ser_schema(self.write)
        return core_schema.no_info_plain_validator_function(self._parsed, serialization=writer)

    def _parsed(self, said: Any) -> float:
        from pydantic_core import PydanticCustomError

        if self.bare and isinstance(said, (int, float)) and not isinstance(said, bool) and said >= 0:
            return said
        try:
            if not isinstance(said, str):
                raise InputError(f"is {said!r}", "write a quantity with its unit, e.g. 80ms")
            return self.read(said, what="")
        except InputError as error:
            why = {"message": error.message.strip(), "hint": error.hint}
            raise PydanticCustomError("quantity", "{message}", why) from None


_ZERO = re.compile(r"\s*0+(?:\.0*)?\s*(?:s|ms|us|µs|ns|min|m|h)\s*")


def _instant_s(text: str, *, what: str) -> float:
    return 0.0 if _ZERO.fullmatch(text) else parse_time_s(text, what=what)


def _short(number: float) -> float:
    return int(number) if float(number).is_integer() else number


Seconds = Annotated[float, Quantity(parse_time_s, exact_time)]
Instant = Annotated[float, Quantity(_instant_s, exact_time)]
"""Seconds since the begin of a run, which may be zero."""
Bytes = Annotated[int, Quantity(parse_bytes, exact_bytes)]
BytesOrNumber = Annotated[float, Quantity(parse_bytes, _short, bare=True)]

PositiveFloat = Annotated[float, Limit("above zero", above=True)]
PositiveInt = Annotated[int, Limit("above zero", above=True)]
NonNegativeFloat = Annotated[float, Limit("zero or more")]
NonNegativeInt = Annotated[int, Limit("zero or more")]
Share = Annotated[float, Limit("between 0 and 1", highest=1.0)]
FiniteFloat = Annotated[float, Limit("", lowest=None)]

Storage = Literal["text", "integer", "number", "flag", "numbers", "integers", "texts", "samples"]

_STORAGE: dict[Any, Storage] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "flag",
    tuple[float, ...]: "numbers",
    tuple[int, ...]: "integers",
    tuple[str, ...]: "texts",
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

_SECONDS = {"s": (1, 1), "ms": (1, 1000), "us": (1, 10**6), "ns": (1, 10**9), "min": (60, 1)}
_SECONDS |= {"sec": (1, 1), "secs": (1, 1), "seconds": (1, 1), "msec": (1, 1000), "usec": (1, 10**6)}
_WATTS = {"w": (1, 1), "mw": (1, 1000), "kw": (1000, 1), "watt": (1, 1), "watts": (1, 1)}
_JOULES = {"j": (1, 1), "mj": (1, 1000), "kj": (1000, 1), "joule": (1, 1), "joules": (1, 1), "wh": (3600, 1)}
_MEGAHERTZ = {"mhz": (1, 1), "khz": (1, 1000), "hz": (1, 10**6), "ghz": (1000, 1)}
UNITS: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "_s": _SECONDS, "_w": _WATTS, "_j": _JOULES, "_mhz": _MEGAHERTZ,
}  # fmt: skip
"""By the suffix of a column, the units in which other programs write it: the factor and the divisor to its own."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Args:
        name: Its name, the unit as suffix.
        storage: Type of a cell: a text, integer, number or flag, or a list of numbers, integers, texts or samples.
        nullable: Whether a cell may be empty.
        default: The value if the column is absent; ``dataclasses.MISSING`` for a required column.
        choices: The permitted texts; empty for any.
        unit: Its unit; ``None`` without one.
        limit: The permitted numbers; ``None`` for any.
        sample: The dataclass of one sample, whose fields are numbers.
    """

    name: str
    storage: Storage
    nullable: bool
    default: Any
    choices: tuple[str, ...]
    unit: str | None
    limit: Limit | None = None
    sample: type | None = None

    @property
    def required(self) -> bool:
        """Whether a table must have this column."""
        return self.default is dataclasses.MISSING


def unit_of(name: str) -> str | None:
    """Return the unit that a column's name declares, e.g. ``MHz`` for ``gpu_mhz``; ``None`` without one."""
    if name in _UNIT_OF_NAME:
        return _UNIT_OF_NAME[name]
    return next((unit for suffix, unit in _UNIT_OF_SUFFIX if name.endswith(suffix)), None)


@cache
def columns_of(row_type: type) -> tuple[Column, ...]:
    """Return the columns of a table whose rows are ``row_type``, in the order of its fields.

    Raises:
        TypeError: no column can store the type of a field.
    """
    hints = typing.get_type_hints(row_type, include_extras=True)
    return tuple(_column(field, hints[field.name]) for field in dataclasses.fields(row_type))


def _column(field: dataclasses.Field[Any], hint: Any) -> Column:
    nullable, choices, limit = False, (), None
    sample: Any = None
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        nullable = True
        (hint,) = (kind for kind in typing.get_args(hint) if kind is not type(None))
    if typing.get_origin(hint) is Annotated:
        hint, limit = typing.get_args(hint)
    if typing.get_origin(hint) is Literal:
        hint, choices = str, typing.get_args(hint)
    if typing.get_origin(hint) is tuple and dataclasses.is_dataclass(item := typing.get_args(hint)[0]):
        sample = item
    elif hint not in _STORAGE:
        raise TypeError(f"no column can store {field.name}: {hint}")
    storage = "samples" if sample else _STORAGE[hint]
    return Column(field.name, storage, nullable, field.default, choices, unit_of(field.name), limit, sample)


def arrow_schema(columns: tuple[Column, ...]) -> Any:
    """Return the ``pyarrow.Schema`` of these columns, each unit in its field's metadata under ``unit``."""
    import pyarrow as pa

    return pa.schema(_arrow_field(column.name, arrow_type(column)) for column in columns)


def arrow_type(column: Column) -> Any:
    """Return the ``pyarrow.DataType`` of one cell."""
    import pyarrow as pa

    if column.sample is not None:
        fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(column.sample)
        return pa.list_(pa.struct(_arrow_field(field.name, pa.float64()) for field in fields))
    return {
        "text": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "flag": pa.bool_(),
        "numbers": pa.list_(pa.float64()),
        "integers": pa.list_(pa.int64()),
        "texts": pa.list_(pa.string()),
    }[column.storage]


def _arrow_field(name: str, kind: Any) -> Any:
    import pyarrow as pa

    unit = unit_of(name)
    return pa.field(name, kind, nullable=True, metadata=None if unit is None else {"unit": unit})
