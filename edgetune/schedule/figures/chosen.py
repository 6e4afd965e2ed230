"""Which part of a timeline a figure is of, and what its title says."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.plotting.captions import name_in_lines
from edgetune.plotting.style import COLOURS

_NAME_CHARACTERS = 20
_MORE_COLOURS = ("#8C564B", "#4B4B9F", "#7A7A00", "#7F7F7F")
"""Behind those of Okabe and Ito, for scenarios of up to ten networks."""


def colours_of(timeline: Timeline) -> dict[str, str]:
    """Return a colour for each network: the same in all figures of a timeline."""
    names = sorted({row.network for row in timeline.rows if row.network is not None})
    known = (*COLOURS, *_MORE_COLOURS)
    return {name: known[place % len(known)] for place, name in enumerate(names)}


def written(name: str) -> str:
    """Return a name as a figure shows it: in lines of bounded length; ``$`` starts no formula."""
    return name_in_lines(name, _NAME_CHARACTERS)


def jobs_of(rows: Sequence[TimelineRow]) -> list[str]:
    """Return the names of the jobs that requests belong to, in the order of arrival."""
    requests = sorted((row for row in rows if row.event == "request"), key=lambda row: row.arrived_s or 0.0)
    return list(dict.fromkeys(row.job or "" for row in requests))
