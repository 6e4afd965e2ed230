"""Rooflines as one page for a browser: nothing is loaded from anywhere, and whatever is pointed at says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from xml.etree import ElementTree as ET

from edgetune.artifacts.roofline import Roof
from edgetune.plotting.style import BLACK, MARKERS
from edgetune.roofline.figures.clock_lines import varied_knobs
from edgetune.roofline.figures.clock_panels import clock_panels
from edgetune.roofline.figures.curves import KINDS, brief_names, roof_names
from edgetune.roofline.figures.figure_data import LETTERS, NO_ENERGY, FigureData, figure_data_of, percent
from edgetune.roofline.figures.panels import BALANCE_MARKERS, DASHES, batch_panel, css_colour, roof_panels
from edgetune.roofline.figures.point_text import describe_roof
from edgetune.roofline.figures.points import PlacedNetwork, RooflinePoint
from edgetune.roofline.figures.svg import draw_marker, element
from edgetune.units import format_si

_HINT = "Point at a marker to read it; or press Tab to reach one, and the arrow keys for the next."


def roofline_page(
    roofs: Sequence[Roof],
    networks: Sequence[PlacedNetwork] = (),
    *,
    layers_of: PlacedNetwork | None = None,
    device: str = "",
    simulated: bool = False,
    notes: Sequence[str] = (),
) -> bytes:
    """Return an HTML file of what ``roof_figure`` draws, of intensity by batch size, of clocks, and tables of points.

    Args:
        roofs, networks, layers_of, device, simulated: As for ``roof_figure``.
        notes: Sentences to print beneath, e.g. of ``roofline.statements``.

    Raises:
        InputError: there is neither a roof nor a network.
    """
    data = figure_data_of(roofs, networks, layers_of, device, simulated=simulated)
    precisions = {roof.precision for roof in data.shown}
    html = ET.Element("html", lang="en")
    head, body = element(html, "head"), element(html, "body")
    element(head, "meta", charset="utf-8")
    element(head, "meta", name="generator", content="edgetune")
    element(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    element(head, "title", " - ".join(filter(None, ("Roofline", *data.title[:2]))))
    ET.SubElement(head, "style").text = _file("page.css")
    _write_title(body, data, device, simulated=simulated)
    roof_panels(element(body, "div", class_="wide"), data)
    _write_legend(body, data)
    if data.numbered:
        element(body, "h2", "Intensity against batch size")
        batch_panel(element(body, "div", class_="wide"), data)
    _write_clocks(body, [roof for roof in (*data.shown, *data.faint) if roof.precision in precisions])
    _write_tables(body, data)
    for note in notes:
        element(body, "p", note)
    element(body, "div", id="tip", role="status")
    ET.SubElement(body, "script").text = _file("page.js")
    return f"<!DOCTYPE html>\n{ET.tostring(html, encoding='unicode', method='html')}\n".encode()


def _file(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _write_title(body: ET.Element, data: FigureData, device: str, *, simulated: bool) -> None:
    element(body, "h1", ": ".join(filter(None, ("Roofline", device))))
    if simulated:
        element(body, "p", "SIMULATED: figures of a model, not of a device", class_="simulated")
    for line in filter(None, data.title[1:]):
        element(body, "p", line)
    element(body, "p", _HINT, class_="dim")


def _write_legend(body: ET.Element, data: FigureData) -> None:
    items = element(body, "ul", class_="legend")
    names = roof_names(data.shown)
    for number, (roof, colour) in enumerate(data.colours.items()):
        _sample(items, describe_roof(roof, names[roof]), colour, dashes=DASHES[number % len(DASHES)])
    if data.faint:
        _sample(items, f"{len(data.faint)} other roof{'s' * (len(data.faint) > 1)}", "faint", dashes="none")
    if data.with_dynamic:
        _sample(items, "without static power", BLACK, dashes="2 3")
    kinds = {point.kind for roof in data.shown for point in data.balances(roof)}
    for kind in (kind for kind in KINDS if kind in kinds):
        _sample(items, KINDS[kind].replace("\n", " "), BLACK, marker=BALANCE_MARKERS[kind])
    for number in range(len(data.series)):
        _sample(items, data.series_name(number), data.colour(number), marker=MARKERS[number % len(MARKERS)])
    notes = ["filled: measured; hollow: predicted"] if data.points() else []
    notes += ["numbers: batch sizes"] if data.numbered else []
    notes += ["grey circles: layers, larger and stronger with their share of the time"] if data.layers else []
    notes += [] if any(roof.flop_j is not None for roof in data.shown) else [NO_ENERGY]
    for note in notes:
        element(items, "li", note, class_="dim")


def _write_clocks(body: ET.Element, roofs: Sequence[Roof]) -> None:
    """Draw peaks and energy constants against clocks, where there are several."""
    if not varied_knobs(roofs):
        return
    element(body, "h2", "Peaks and energy constants against clocks")
    lines = clock_panels(element(body, "div", class_="wide"), roofs)
    items = element(body, "ul", class_="legend")
    for name, colour, dashes, marker in lines:
        if name:
            _sample(items, name, colour, dashes=dashes, marker=marker)
    if not all(roof.measured for roof in roofs):
        element(items, "li", "filled: measured; hollow: inferred", class_="dim")
    if any(roof.flop_j_error or roof.byte_j_error for roof in roofs):
        element(items, "li", "bars: 95 % confidence", class_="dim")


def _sample(items: ET.Element, words: str, colour: str, *, dashes: str = "", marker: str = "") -> None:
    item = element(items, "li")
    svg = element(item, "svg", viewBox="0 0 34 14", aria_hidden="true")
    if dashes:
        style = {"stroke": css_colour(colour), "stroke_width": 2, "stroke_dasharray": dashes}
        element(svg, "line", x1=0, x2=34, y1=7, y2=7, **style)
    if marker:
        draw_marker(svg, (17.0, 7.0), marker, 5.0, fill=css_colour(colour))
    element(item, "span", words)


def _write_tables(body: ET.Element, data: FigureData) -> None:
    """List networks, and layers folded away."""
    names = brief_names(data.shown)
    points = [point for each in data.series for point in each.points]
    if points:
        element(body, "h2", "Networks")
        rows = [[point.network, str(point.batch_size), names[point.roof], *_figures(point)] for point in points]
        _write_table(body, ("network", "batch", "roof", *_COLUMNS), rows)
    if data.layers is None:
        return
    details = element(body, "details")
    element(details, "summary", f"{len(data.layers.points)} layers, the largest share of the time first")
    if data.layers.without_place:
        time = percent(data.layers.without_place_share)
        element(details, "p", f"{data.layers.without_place} more have no FLOP and take {time} of the time.")
    rows = [
        [f"{point.layer}{f' ({LETTERS[index]})' if index < len(LETTERS) else ''}", point.op or "",
         percent(point.share or 0.0), *_figures(point)]
        for index, point in enumerate(data.layers.points)
    ]  # fmt: skip
    _write_table(details, ("layer", "operators", "share of time", *_COLUMNS), rows)


_COLUMNS = ("FLOP/byte", "time", "rate", "efficiency", "bound in time", "bound in energy")


def _figures(point: RooflinePoint) -> list[str]:
    predicted = "" if point.measured else " (predicted)"
    efficiency = "" if point.flops_per_j is None else format_si(point.flops_per_j, "FLOP/J")
    rate = format_si(point.flops_per_s, "FLOP/s")
    time = format_si(point.seconds, "s") + predicted
    return [f"{point.flop_per_byte:.3g}", time, rate, efficiency, point.bound, point.energy_bound or ""]


def _write_table(body: ET.Element, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = element(element(body, "div", class_="wide"), "table")
    head = element(element(table, "thead"), "tr")
    for column in columns:
        element(head, "th", column, scope="col")
    lines = element(table, "tbody")
    for row in rows:
        line = element(lines, "tr")
        for cell in row:
            element(line, "td", cell)
