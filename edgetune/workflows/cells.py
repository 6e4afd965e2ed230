"""Cells of tables: figures in their units, where a missing one stays ``None``, which a table prints as a dash."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from edgetune.artifacts.profile import RAW_COLUMNS, ProfileRow
from edgetune.units import format_si

Of = TypeVar("Of")
_RAW = (*RAW_COLUMNS, "_samples_s")
"""Endings of the columns with raw samples."""


class Cell(str):
    """The text of a figure, with the ``value`` by which a page sorts it."""

    __slots__ = ("value",)

    value: float


def _figure(text: str, value: object) -> str:
    """Return a text with its value, if that is a number."""
    if not isinstance(value, int | float):
        return text
    made = Cell(text)
    made.value = value
    return made


def cell(value: Of | None, form: str | Callable[[Of], str] = "") -> str | None:
    """Return a value in a format specification, or as a function writes it."""
    if value is None:
        return None
    return _figure(format(value, form) if isinstance(form, str) else form(value), value)


def si_cell(value: float | None, unit: str) -> str | None:
    """Return a figure with an SI prefix and as many digits as the others of its column."""
    return None if value is None else _figure(format_si(value, unit, zeros=True), value)


def own_figure(row: ProfileRow) -> str | None:
    """Return a command's own figure and its unit."""
    return None if row.own_value is None else f"{row.own_value:.4g} {row.own_unit or ''}".rstrip()


def rows_of(figures: Mapping[str, Callable[[Of], object]], nouns: Sequence[Of]) -> tuple[list[str], list[list[object]]]:
    """Return the columns and rows of a table: each column's function of each noun, without empty columns."""
    cells = {name: [figure(each) for each in nouns] for name, figure in figures.items()}
    shown = {name: column for name, column in cells.items() if any(found is not None for found in column)}
    return list(shown), [list(row) for row in zip(*shown.values(), strict=True)]


def brief(row: Any) -> dict[str, Any]:
    """Return a row of an artifact for machines, without raw samples and without what is ``None``."""
    from edgetune.artifacts.yaml_document import plain

    return {name: value for name, value in plain(row).items() if value is not None and not name.endswith(_RAW)}
