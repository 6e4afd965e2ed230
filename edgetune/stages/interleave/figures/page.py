"""A run as one page for a browser: tables of its figures and every drawing of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetune.artifacts.run import Run
from edgetune.errors import InputError
from edgetune.plotting.page import Page, Table
from edgetune.plotting.style import Figure
from edgetune.stages.interleave.figures.cycle import cycle_figure
from edgetune.stages.interleave.figures.latency import latency_figure
from edgetune.stages.interleave.figures.timeline import timeline_figure


def run_page(run: Run, tables: Sequence[Table] = (), notes: Sequence[str] = ()) -> bytes:
    """Return an HTML file of a run: tables, notes, and of every engine its timeline and some cycles.

    Raises:
        InputError: there is nothing to draw.
        DeviceError: matplotlib is missing.
    """
    engines = list(dict.fromkeys(row.engine for row in run.rows))
    figures = _drawn([("Latency by engine", lambda: latency_figure(run))])
    for engine in engines:
        figures += _drawn([
            (f"{engine} over time", lambda engine=engine: timeline_figure(run, engine=engine)),  # type: ignore[misc]
            (f"{engine}, some cycles", lambda engine=engine: cycle_figure(run, engine=engine)),  # type: ignore[misc]
        ])  # fmt: skip
    if all(isinstance(drawn, str) for _, drawn in figures):
        raise InputError("the run has nothing to draw", "see its rows with edgetune show")
    page = Page(
        ": ".join(filter(None, ("Run", str(run.header.conditions.get("device", ""))))), simulated=run.header.simulated
    )
    for table in tables:
        page.table(table)
    for note in notes:
        page.note(note)
    for name, drawn in figures:
        page.heading(name)
        if isinstance(drawn, str):
            page.note(f"not drawn: {drawn}")
        else:
            page.figure(drawn, name)
    return page.data()


def _drawn(figures: Sequence[tuple[str, Callable[[], Figure]]]) -> list[tuple[str, Figure | str]]:
    """Return the figures, each with its name; in place of an empty one, the reason."""
    found: list[tuple[str, Figure | str]] = []
    for name, figure in figures:
        try:
            found.append((name, figure()))
        except InputError as error:
            found.append((name, error.message))
    return found
