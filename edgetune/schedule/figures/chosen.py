"""Which part of a timeline a figure is of, and what its title says."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.plotting.captions import chosen_of, name_in_lines, title_words
from edgetune.plotting.style import COLOURS

_NAME_CHARACTERS = 20
_MORE_COLOURS = ("#8C564B", "#4B4B9F", "#7A7A00", "#7F7F7F")
"""Behind those of Okabe and Ito, for scenarios of up to ten networks."""


def first_turn(timeline: Timeline, policy: str | None) -> list[TimelineRow]:
    """Return the rows of a policy's first turn; ``None`` is the policy of the first row.

    Raises:
        InputError: there are no rows, or this policy did not run.
    """
    policies = list(dict.fromkeys(row.policy for row in timeline.rows))
    chosen = chosen_of(
        policies, policy, nothing="the timeline has no rows to draw", lacks="the timeline has no policy", there="it has"
    )
    rows = [row for row in timeline.rows if row.policy == chosen]
    first = min(row.turn for row in rows)
    return [row for row in rows if row.turn == first]


def colours_of(timeline: Timeline) -> dict[str, str]:
    """Return a colour for each network: the same in all figures of a timeline."""
    names = sorted({row.network for row in timeline.rows if row.network is not None})
    known = (*COLOURS, *_MORE_COLOURS)
    return {name: known[place % len(known)] for place, name in enumerate(names)}


def title_of(timeline: Timeline, what: str) -> str:
    """Return a title: whether it is simulated, what is shown, and where it was measured."""
    header = timeline.header
    return title_words(what, simulated=header.simulated, device=header.conditions.get("device"))


def written(name: str) -> str:
    """Return a name as a figure shows it: in lines of bounded length; ``$`` starts no formula."""
    return name_in_lines(name, _NAME_CHARACTERS)


def jobs_of(rows: Sequence[TimelineRow]) -> list[str]:
    """Return the names of the jobs that requests belong to, in the order of arrival."""
    requests = sorted((row for row in rows if row.event == "request"), key=lambda row: row.arrived_s or 0.0)
    return list(dict.fromkeys(row.job or "" for row in requests))
