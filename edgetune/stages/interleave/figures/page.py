"""A run as one page for a browser: tables of its figures and every drawing of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from edgetune.artifacts.run import Run
from edgetune.errors import InputError
from edgetune.plotting.page import Page, Table
from edgetune.plotting.style import Figure
from edgetune.plotting.turns import names_of
from edgetune.stages.interleave.figures.cycle import cycle_figure
from edgetune.stages.interleave.figures.latency import latency_figure
from edgetune.stages.interleave.figures.timeline import timeline_figure


def run_page(run: Run, tables: Sequence[Table] = (), notes: Sequence[str] = ()) -> bytes:
    """Return an HTML file of a run: tables, notes, and of every engine its timeline and some cycles.

    Raises:
        InputError: there is nothing to draw.
        DeviceError: matplotlib is missing.
    """
    drawings = [("Latency by engine", partial(latency_figure, run))]
    for engine in names_of(run.rows, "engine"):
        drawings.append((f"{engine} over time", partial(timeline_figure, run, engine=engine)))
        drawings.append((f"{engine}, some cycles", partial(cycle_figure, run, engine=engine)))
    figures = {name: _drawn(draw) for name, draw in drawings}
    if all(isinstance(drawn, str) for drawn in figures.values()):
        raise InputError("the run has nothing to draw", "see its rows with edgetune show")
    device = run.header.conditions.get("device", "")
    page = Page(f"Run: {device}" if device else "Run", simulated=run.header.simulated)
    for table in tables:
        page.table(table)
    for note in notes:
        page.note(note)
    for name, drawn in figures.items():
        page.heading(name)
        if isinstance(drawn, str):
            page.note(f"not drawn: {drawn}")
        else:
            page.figure(drawn, name)
    return page.data()


def _drawn(draw: Callable[[], Figure]) -> Figure | str:
    """Return the figure; in place of an empty one, the reason."""
    try:
        return draw()
    except InputError as error:
        return error.message
