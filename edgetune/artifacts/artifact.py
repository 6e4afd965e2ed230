"""The base classes of artifacts: reading, writing, conversion to Arrow and pandas, and display in a notebook.

Each kind of artifact is one file of this package, named as the kind, and one row of ``kinds.KINDS``:

    Table      a header and rows       Parquet, CSV, JSON      a dataclass of one row declares the columns
    Document   a header and keys       YAML, JSON              the dataclass itself declares the keys

The file declares ``KIND``, ``VERSION``, the dataclasses, and conditions between values (``check``). To change a layout,
raise ``VERSION``, append the step from the old version to ``UPGRADES``, and add a golden file with
``tests/golden/add.py``. All files of earlier versions stay readable.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from edgetune.artifacts.csv_format import csv_bytes
from edgetune.artifacts.files import writing
from edgetune.artifacts.formats import json_bytes, parquet_bytes
from edgetune.artifacts.header import Header
from edgetune.artifacts.kinds import Format, format_of, refuse_other
from edgetune.artifacts.table_checks import rows_of, table_of, typed_table
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import DeviceError

AnyTable = TypeVar("AnyTable", bound="Table")
_SHOWN_ROWS = 20


@dataclass(frozen=True, slots=True)
class Raw:
    """The stored content of an artifact, before validation.

    Args:
        head: The header and, for a table, the fields of the whole table.
        body: A ``pyarrow.Table``, or the rest of a YAML document as a mapping.
    """

    head: Mapping[str, Any]
    body: Any


class Artifact:
    """Base class of every kind."""

    __slots__ = ()

    header: Header
    UPGRADES: ClassVar[tuple[Callable[[Raw], Raw], ...]] = ()
    """Step from version 1 to 2, from 2 to 3, ..."""

    @classmethod
    def read(cls, raw: Raw, *, name: str) -> Artifact:
        """Return the validated artifact; ``name`` is what messages call it.

        Raises:
            InputError: a value is impossible or missing.
        """
        raise NotImplementedError

    def to_bytes(self, form: Format | None = None) -> bytes:
        """Return the file's bytes in a format, by default the usual one of its kind."""
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``: the rows of a table, the keys and values of a document."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return ``to_arrow`` as a ``pandas.DataFrame``.

        Raises:
            DeviceError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: F401
        except ImportError:
            message = "to_pandas needs pandas, which is not installed"
            raise DeviceError(message, "pip install pandas, or use to_arrow()") from None
        return self.to_arrow().to_pandas()

    def save(self, path: Path | str, *, force: bool = False) -> Path:
        """Write the artifact to a file in the format of its ending, and return its path.

        Args:
            path: A new file, or one of this kind that edgetune wrote.
            force: Whether to replace any other file, too.

        Raises:
            InputError: artifacts of this kind have no such ending, another file would be lost, or the file cannot be
                written (missing or read-only folder, full disk, ...); an old file then stays unchanged.
        """
        kind = self.header.kind
        form = format_of(path, kind)
        with writing(path) as output:
            if not force:
                refuse_other(output, kind, remedy="force=True")
            output.write(self.to_bytes(form))
        return output.path

    def _repr_html_(self) -> str:
        """Return the display in a notebook: the kind, creation time, inputs and first rows."""
        table, head = self.to_arrow(), self.header
        device = head.conditions.get("device", "unknown device")
        facts = [f"{head.kind} of {device}", f"created {head.created}", f"{table.num_rows} rows"]
        facts += ["SIMULATED: a model made these figures, no device"] if head.simulated else []
        facts += [data_warning.advice for data_warning in head.warnings]
        names = [name for name in table.column_names if table.column(name).null_count < table.num_rows]
        cells = [[row[name] for name in names] for row in table.slice(0, _SHOWN_ROWS).to_pylist()]
        lines = ["".join(f"<td>{html.escape(_shown(cell))}</td>" for cell in row) for row in cells]
        titles = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(f"<tr>{line}</tr>" for line in (titles, *lines))
        return f"<p>{html.escape('; '.join(facts))}</p><table>{body}</table>"


class Table(Artifact):
    """An artifact with rows."""

    __slots__ = ()

    rows: tuple[Any, ...]
    ROW: ClassVar[type]
    """The dataclass of a row."""
    LENIENT: ClassVar[bool] = False
    """See ``typed_table``."""
    HEAD: ClassVar[tuple[str, ...]] = ()
    """Fields of the table as a whole, which files keep beside the header."""

    def __init_subclass__(cls) -> None:
        """Keep a table short when it is printed: a dataclass would print every row."""
        cls.__repr__ = Table.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        simulated = ", SIMULATED" if self.header.simulated else ""
        device = self.header.conditions.get("device", "unknown device")
        return f"<{self.header.kind} of {device}: {self.to_arrow().num_rows} rows{simulated}>"

    @classmethod
    def read(cls: type[AnyTable], raw: Raw, *, name: str) -> AnyTable:
        """See ``Artifact.read``."""
        return cls.from_table(Header.of(raw.head, name=name), raw.body, name=name)

    @classmethod
    def from_table(cls: type[AnyTable], header: Header, table: Any, *, name: str) -> AnyTable:
        """Return the artifact of a ``pyarrow.Table`` with its columns in any castable types.

        Raises:
            InputError: a missing column, or a value that its column cannot hold.
        """
        typed = cls.check(typed_table(table, cls.ROW, name=name, lenient=cls.LENIENT), name=name)
        make: Any = cls
        made: AnyTable = make(header, cls.check_rows(rows_of(typed, cls.ROW), name=name))
        return made

    @classmethod
    def from_foreign(cls, table: Any, *, name: str) -> Any:  # noqa: ARG003
        """Convert a foreign table to the columns of this kind; return ``None`` for kinds that accept none.

        Raises:
            InputError: a column or a value does not fit this kind.
        """
        return None

    @classmethod
    def check(cls, table: Any, *, name: str) -> Any:  # noqa: ARG003
        """Check conditions between the columns of a typed table, and return the table.

        Raises:
            InputError: a value is impossible; the row is named.
        """
        return table

    @classmethod
    def check_rows(cls, rows: tuple[Any, ...], *, name: str) -> tuple[Any, ...]:  # noqa: ARG003
        """Check conditions between rows, and return the rows with missing cells filled in from others.

        Raises:
            InputError: rows contradict each other; the row is named.
        """
        return rows

    def to_arrow(self) -> Any:
        """Return the rows as a ``pyarrow.Table``; each field's metadata has its unit."""
        return table_of(self.rows, self.ROW)

    def to_bytes(self, form: Format | None = None) -> bytes:
        """Return the file's bytes, by default Parquet; CSV has the rows only, with lists as JSON text."""
        if form == "csv":
            return csv_bytes(self.to_arrow())
        head = plain(self.header) | {field: getattr(self, field) for field in self.HEAD}
        return (json_bytes if form == "json" else parquet_bytes)(self.to_arrow(), head)


def _shown(cell: Any) -> str:
    """Return a short text of a cell; a list as its length."""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return f"{len(cell)} values" if isinstance(cell, list) and len(cell) > 4 else "" if cell is None else str(cell)
