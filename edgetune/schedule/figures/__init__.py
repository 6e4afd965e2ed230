"""Figures of timelines: what ran and what was held, and how long requests took by policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from edgetune.schedule.figures.gantt import gantt_figure
from edgetune.schedule.figures.responses import responses_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from edgetune.artifacts.timeline import Timeline

__all__ = ["VIEWS", "View", "gantt_figure", "responses_figure", "timeline_figure"]

View = Literal["gantt", "responses"]
VIEWS: tuple[View, ...] = ("gantt", "responses")


def timeline_figure(
    timeline: Timeline,
    view: View,
    *,
    policy: str | None = None,
    from_s: float | None = None,
    to_s: float | None = None,
) -> Figure:
    """Return one of the figures of a timeline.

    Args:
        timeline: What happened.
        view: ``gantt`` (one policy over time) or ``responses`` (policies side by side).
        policy: Which policy the Gantt chart is of; ``None`` takes the first in the file.
        from_s, to_s: Which part of the time the Gantt chart shows, s; ``None`` for all.

    Raises:
        InputError: the timeline has nothing to draw, or not this policy.
        DeviceError: matplotlib is missing.
    """
    if view == "responses":
        return responses_figure(timeline)
    return gantt_figure(timeline, policy=policy, from_s=from_s, to_s=to_s)
