"""A run as one page for a browser: its figures in words and every drawing of it; nothing is loaded from anywhere."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from edgetune.artifacts.run import Run
from edgetune.errors import InputError
from edgetune.interleave.figures.cycle import cycle_figure
from edgetune.interleave.figures.latency import latency_figure
from edgetune.interleave.figures.timeline import timeline_figure
from edgetune.plotting.figure_file import figure_bytes
from edgetune.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

_STYLE = """
body { margin: 1.2rem auto; max-width: 68rem; padding: 0 1rem; background: #ffffff; color: #1a1a1a;
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.25rem; margin: 0 0 .2rem; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; } p { margin: .2rem 0; }
.simulated { display: inline-block; padding: 0 .5rem; border: 2px solid #D55E00; border-radius: 4px; font-weight: 700; }
.wide { overflow-x: auto; margin: .8rem 0; } img { display: block; max-width: 100%; height: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: left; border-bottom: 1px solid #dddddd; white-space: nowrap; }
.number { text-align: right; }
"""


Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Names of columns, those that end in ``>`` aligned to the right, and rows."""


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
    html = ET.Element("html", lang="en")
    head, body = ET.SubElement(html, "head"), ET.SubElement(html, "body")
    ET.SubElement(head, "meta", charset="utf-8")
    ET.SubElement(head, "meta", name="generator", content="edgetune")
    ET.SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    title = ": ".join(filter(None, ("Run", str(run.header.conditions.get("device", "")))))
    _add(head, "title", title)
    _add(head, "style", _STYLE)
    _add(body, "h1", title)
    if run.header.simulated:
        _add(body, "p", "SIMULATED: figures of a model, not of a device").set("class", "simulated")
    for table in tables:
        _write_table(body, table)
    for note in notes:
        _add(body, "p", note)
    for name, svg in figures:
        _add(body, "h2", name)
        if isinstance(svg, str):
            _add(body, "p", f"not drawn: {svg}")
            continue
        source = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
        ET.SubElement(body, "img", src=source, alt=name)
    return f"<!DOCTYPE html>\n{ET.tostring(html, encoding='unicode', method='html')}\n".encode()


def _drawn(figures: Sequence[tuple[str, Callable[[], Figure]]]) -> list[tuple[str, bytes | str]]:
    """Return the figures, each with its name; in place of one with nothing to draw the reason."""
    found: list[tuple[str, bytes | str]] = []
    for name, figure in figures:
        try:
            found.append((name, figure_bytes(figure(), "svg")))
        except InputError as error:
            found.append((name, error.message))
    return found


def _write_table(body: ET.Element, table: Table) -> None:
    wide = ET.SubElement(body, "div", {"class": "wide"})
    grid = ET.SubElement(wide, "table")
    columns, rows = table
    for number, cells in enumerate((columns, *rows)):
        line = ET.SubElement(grid, "tr")
        for column, cell in zip(columns, cells, strict=True):
            words = "-" if cell is None else str(cell).removesuffix(">") if number == 0 else str(cell)
            _add(line, "td" if number else "th", words).set("class", "number" if column.endswith(">") else "text")


def _add(parent: ET.Element, name: str, text: str) -> ET.Element:
    """Add an element with a text, with escapes for what a page cannot hold or show."""
    element = ET.SubElement(parent, name)
    element.text = "\n".join(map(visible, text.split("\n")))
    return element
