"""Names and notes that the figures of a run share."""

from collections.abc import Sequence

from edgetune.artifacts.run import Run, RunRow
from edgetune.plotting.gantt import turn_notes
from edgetune.plotting.labels import name_in_lines

_NAME_CHARACTERS = 24


def left_out(run: Run, rows: Sequence[RunRow], view: str) -> list[str]:
    """Return notes of what a figure of one turn leaves out: engines and turns.

    Args:
        run: All that ran.
        rows: Of the turn.
        view: The figure's name, for how to draw another engine.
    """
    return turn_notes(run.rows, rows, "engine", f"--view {view}:ENGINE draws one, --view latency compares all")


def written(tenant: str) -> str:
    """Return a tenant's name as a figure shows it: as it is, in lines of bounded length; ``$`` starts no formula."""
    return name_in_lines(tenant, _NAME_CHARACTERS)


def tenants_of(rows: Sequence[RunRow], event: str) -> list[str]:
    """Return the names of the tenants that have rows of this event, sorted."""
    return sorted({row.tenant or "" for row in rows if row.event == event})
