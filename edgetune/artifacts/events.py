"""Tables of events, with checks for events before the start of the run and for ends before starts."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any, ClassVar

from edgetune.artifacts.artifact import Table
from edgetune.errors import InputError

_IN_ORDER = ("arrived_s", "started_s", "finished_s")
"""Columns of which none is later than the next ones."""
_ROUNDING_S = 1e-6
"""Times are whole nanoseconds divided by 1e9; what differs by less than this is the same."""


Needed = Mapping[str, tuple[str, ...]]
"""Columns that rows of an event have, by event, unless they failed or were abandoned."""


class Events(Table):
    """A table of events: rows with ``event``, ``finished_s`` and optional other times, ``status`` and ``met``."""

    __slots__ = ()

    NEEDED: ClassVar[Needed]

    @classmethod
    def check_rows(cls, rows: tuple[Any, ...], *, name: str) -> tuple[Any, ...]:
        """Check that the events are possible, and return them.

        Raises:
            InputError: a value is impossible or missing; the row is named.
        """
        for number, row in enumerate(rows, start=1):
            if wrong := _wrong(row, cls.NEEDED.get(row.event, ())):
                raise InputError(f"{name}, row {number}: {wrong[0]}", wrong[1])
        return rows


def _wrong(row: Any, needed: tuple[str, ...]) -> tuple[str, str] | None:
    """Return what is wrong with a row, and a hint; a request marked ``met`` that is late would be miscounted."""
    times = [(column, time_s) for column in _IN_ORDER if (time_s := getattr(row, column, None)) is not None]
    for (first, first_s), (second, second_s) in combinations(times, 2):
        if first_s - second_s > _ROUNDING_S:
            return (
                f"{second} is {second_s:g}, before {first}, {first_s:g}",
                "are both seconds since the same run began?",
            )
    missing = [column for column in needed if getattr(row, column) is None]
    if missing and getattr(row, "status", "ok") == "ok":
        hint = f"give it one, or a status other than ok; {missing[0]} is missing only where it failed"
        return f"a row of event {row.event} has no {missing[0]}", hint
    deadline_s = getattr(row, "deadline_s", None)
    if deadline_s is not None and getattr(row, "met", False) and row.finished_s - deadline_s > _ROUNDING_S:
        late = f"met is true, but it finished {row.finished_s - deadline_s:g} s after deadline_s"
        return late, "met is whether a request was answered by its deadline"
    return None
