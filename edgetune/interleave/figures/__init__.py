"""Figures of runs: latency by engine, everything over time, and a few cycles minibatch by minibatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from edgetune.interleave.figures.cycle import cycle_figure
from edgetune.interleave.figures.latency import latency_figure
from edgetune.interleave.figures.timeline import timeline_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from edgetune.artifacts.run import Run

__all__ = ["VIEWS", "View", "cycle_figure", "latency_figure", "run_figure", "timeline_figure"]

View = Literal["cycle", "latency", "timeline"]
VIEWS: tuple[View, ...] = ("cycle", "latency", "timeline")


def run_figure(run: Run, view: View, *, engine: str | None = None) -> Figure:
    """Return one of the figures of a run.

    Args:
        run: What happened.
        view: ``latency`` (engines side by side), ``timeline`` (one engine over time) or ``cycle`` (a moment of it).
        engine: Which engine the timeline or the cycle is of; ``None`` takes the first in the file.

    Raises:
        InputError: the run has nothing to draw, or not this engine.
        DeviceError: matplotlib is missing.
    """
    if view == "latency":
        return latency_figure(run)
    return (timeline_figure if view == "timeline" else cycle_figure)(run, engine=engine)
