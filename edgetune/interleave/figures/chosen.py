"""Which part of a run a figure is of, and what its title says."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.artifacts.run import Run, RunRow
from edgetune.plotting.captions import chosen_of, longest_words, name_in_lines, not_drawn, title_words

_NAME_CHARACTERS = 24


def first_turn(run: Run, engine: str | None) -> list[RunRow]:
    """Return the rows of an engine's first turn; ``None`` is the engine of the first row.

    Raises:
        InputError: there are no rows, or the run did not have this engine.
    """
    engines = list(dict.fromkeys(row.engine for row in run.rows))
    chosen = chosen_of(
        engines, engine, nothing="the run has no rows to draw", lacks="the run had no engine", there="it had"
    )
    rows = [row for row in run.rows if row.engine == chosen]
    first = min(row.turn for row in rows)
    return [row for row in rows if row.turn == first]


def left_out(run: Run, rows: Sequence[RunRow], view: str, *, part: bool = False) -> list[str]:
    """Return what a figure of one engine's turn leaves out: engines, turns, in a part of the time the longest request.

    Args:
        run: All that ran.
        rows: Of the turn.
        view: The figure's name, for how to draw another engine.
        part: Whether it shows a part of the turn.
    """
    engines, chosen = list(dict.fromkeys(row.engine for row in run.rows)), rows[0].engine
    turns = len({row.turn for row in run.rows if row.engine == chosen})
    notes = not_drawn("engine", chosen, engines, turns, f"--view {view}:ENGINE draws one, --view latency compares all")
    requests = [row for row in rows if row.event == "request" and row.arrived_s is not None] if part else []
    if requests:
        longest = max(requests, key=lambda row: row.finished_s - (row.arrived_s or 0.0))
        notes.append(longest_words(longest.tenant or "", longest.arrived_s or 0.0, longest.finished_s))
    return notes


def title_of(run: Run, what: str) -> str:
    """Return a title: whether it is simulated, what is shown, and where it was measured."""
    header = run.header
    return title_words(what, simulated=header.simulated, device=header.conditions.get("device"))


def written(tenant: str) -> str:
    """Return a tenant's name as a figure shows it: as it is, in lines of bounded length; ``$`` starts no formula."""
    return name_in_lines(tenant, _NAME_CHARACTERS)


def tenants_of(rows: list[RunRow], event: str) -> list[str]:
    """Return the names of the tenants that have rows of this event, sorted."""
    return sorted({row.tenant or "" for row in rows if row.event == event})
