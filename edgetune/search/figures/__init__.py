"""Figures of searches: step by step, the front between time and power, and the way through the modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from edgetune.search.figures.front import front_figure
from edgetune.search.figures.steps import trace_figure
from edgetune.search.figures.trajectory import trajectory_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from edgetune.artifacts.plan import Plan
    from edgetune.artifacts.profile import Point, ProfileRow
    from edgetune.artifacts.trace import Trace

__all__ = ["VIEWS", "View", "front_figure", "search_figure", "trace_figure", "trajectory_figure"]

View = Literal["front", "steps", "trajectory"]
VIEWS: tuple[View, ...] = ("front", "steps", "trajectory")


def search_figure(
    trace: Trace,
    view: View,
    *,
    plan: Plan | None = None,
    table_rows: Sequence[ProfileRow] = (),
    offered: Sequence[Point] = (),
) -> Figure:
    """Return one of the figures of a search; each takes of the rest what it has use for.

    Args:
        trace: The search.
        view: ``front`` (time against power), ``steps`` (how good each was) or ``trajectory`` (through the modes).
        plan: Its answer; ``None`` takes the best of the trace, and so does a search without any.
        table_rows: All that could be measured, where a table tells it.
        offered: The points it could choose from, where known.

    Raises:
        InputError: the trace has no steps.
        DeviceError: matplotlib is missing.
    """
    if view == "front":
        return front_figure(trace, plan=plan, table_rows=table_rows)
    if view == "trajectory":
        return trajectory_figure(trace, plan=plan, offered=offered or [row.point for row in table_rows])
    return trace_figure(trace)
