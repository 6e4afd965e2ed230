"""Tables of events, with checks for events before the start of the run and for ends before starts."""

from collections.abc import Mapping
from typing import Any, ClassVar

from edgetune.artifacts.artifact import Table
from edgetune.artifacts.table_checks import first_true
from edgetune.errors import InputError

_IN_ORDER = (("arrived_s", "started_s"), ("started_s", "finished_s"), ("arrived_s", "finished_s"))
"""Pairs of columns of which the first cannot be later than the second."""
_ROUNDING_S = 1e-6
"""Times are whole nanoseconds divided by 1e9; what differs by less than this is the same."""


Needed = Mapping[str, tuple[str, ...]]
"""Columns that rows of an event have, by event, unless they failed or were abandoned."""


class Events(Table):
    """A table of events: rows with ``event``, ``finished_s`` and optional other times, ``status`` and ``met``."""

    __slots__ = ()

    NEEDED: ClassVar[Needed]

    @classmethod
    def check(cls, table: Any, *, name: str) -> Any:
        """Check that the events of a typed table are possible, and return the table.

        Raises:
            InputError: a value is impossible or missing; the row is named.
        """
        for first, second in _IN_ORDER:
            if first in table.column_names and second in table.column_names:
                _check_order(table, first, second, name=name)
        for event, columns in cls.NEEDED.items():
            for column in columns:
                _check_present(table, event, column, name=name)
        if {"met", "deadline_s"} <= set(table.column_names):
            _check_met(table, name=name)
        return table


def _check_order(table: Any, first: str, second: str, *, name: str) -> None:
    import pyarrow.compute as pc

    earlier, later = (table.column(column).combine_chunks() for column in (first, second))
    row = first_true(pc.fill_null(pc.greater(pc.subtract(earlier, later), _ROUNDING_S), False))
    if row is not None:
        message = f"{name}, row {row + 1}: {second} is {later[row].as_py():g}, before {first}, {earlier[row].as_py():g}"
        raise InputError(message, "are both seconds since the same run began?")


def _check_present(table: Any, event: str, column: str, *, name: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    names = table.column_names
    rows = pc.equal(table.column("event").combine_chunks(), event)
    if "status" in names:
        rows = pc.and_(rows, pc.equal(table.column("status").combine_chunks(), "ok"))
    missing = pc.is_null(table.column(column).combine_chunks()) if column in names else pa.repeat(True, len(rows))
    row = first_true(pc.and_(rows, missing))
    if row is not None:
        message = f"{name}, row {row + 1}: a row of event {event} has no {column}"
        raise InputError(message, f"give it one, or a status other than ok; {column} is missing only where it failed")


def _check_met(table: Any, *, name: str) -> None:
    """Refuse a request marked ``met`` that finished after its deadline, because violations would be miscounted."""
    import pyarrow.compute as pc

    late = pc.subtract(table.column("finished_s"), table.column("deadline_s")).combine_chunks()
    met = table.column("met").combine_chunks()
    row = first_true(pc.fill_null(pc.and_(met, pc.greater(late, _ROUNDING_S)), False))
    if row is not None:
        message = f"{name}, row {row + 1}: met is true, but it finished {late[row].as_py():g} s after deadline_s"
        raise InputError(message, "met is whether a request was answered by its deadline")
