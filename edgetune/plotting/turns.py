"""Selects the rows of one turn of a run for a figure, and notes which rows the figure leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from edgetune.choices import nearest
from edgetune.errors import InputError
from edgetune.units import format_si


class TurnRow(Protocol):
    """A row of a run or of a timeline; it also names the engine or the policy that ran."""

    @property
    def turn(self) -> int:
        """Turns of its engine or policy before this one."""

    @property
    def finished_s(self) -> float:
        """End of the event, s."""

    @property
    def arrived_s(self) -> float | None:
        """Arrival of the request, s."""


Row = TypeVar("Row", bound=TurnRow)


def names_of(rows: Sequence[Any], field: str) -> list[str]:
    """Return the distinct values of a field, in the order of the rows."""
    return list(dict.fromkeys(getattr(row, field) for row in rows))


def first_turn(rows: Sequence[Row], field: str, asked: str | None, *, of: str) -> list[Row]:
    """Return the rows of the first turn of an engine or a policy.

    Args:
        rows: Of all turns.
        field: ``engine`` or ``policy``.
        asked: Its name; ``None`` takes that of the first row.
        of: The artifact of the rows, ``run`` or ``timeline``, for messages.

    Raises:
        InputError: There are no rows, or none of the name asked for; the hint names the nearest.
    """
    names = names_of(rows, field)
    if not names:
        raise InputError(f"the {of} has no rows to draw", "it may have been stopped before its first event")
    if asked is not None and asked not in names:
        hint = nearest(asked, names, listed=f"it has {', '.join(names)}")
        raise InputError(f"the {of} has no {field} {asked!r}", hint)
    chosen = [row for row in rows if getattr(row, field) == (asked or names[0])]
    first = min(row.turn for row in chosen)
    return [row for row in chosen if row.turn == first]


def turn_notes(rows: Sequence[Row], drawn: Sequence[Row], field: str, remedy: str) -> list[str]:
    """Return the notes of the engines or policies and the turns that a figure of one turn leaves out.

    Args:
        rows: Of all turns.
        drawn: The rows of the turn.
        field: ``engine`` or ``policy``.
        remedy: How to draw another one, e.g. ``--view gantt:POLICY draws one``.
    """
    chosen = getattr(drawn[0], field)
    others = [name for name in names_of(rows, field) if name != chosen]
    notes = [f"{field} {chosen} is drawn; not drawn: {', '.join(others)} ({remedy})"] if others else []
    turns = len({row.turn for row in rows if getattr(row, field) == chosen})
    return [*notes, f"the first of {turns} turns is drawn"] if turns > 1 else notes


def longest_note(requests: Sequence[TurnRow], whose: str) -> list[str]:
    """Return the note of the longest request, for a figure that shows a part of the time.

    Args:
        requests: All requests of the turn that arrived.
        whose: The field that names the tenant, job or task.
    """
    if not requests:
        return []
    longest = max(requests, key=lambda row: row.finished_s - (row.arrived_s or 0.0))
    from_s, to_s, name = longest.arrived_s or 0.0, longest.finished_s, getattr(longest, whose)
    took, began, ended = (format_si(time_s, "s") for time_s in (to_s - from_s, from_s, to_s))
    if to_s - from_s < 0.05 * to_s:  # three digits would not tell them apart
        began, ended = (f"{time_s:.6g} s" for time_s in (from_s, to_s))
    return [f"the longest request{f' of {name}' if name else ''} took {took}, from {began} to {ended}"]
