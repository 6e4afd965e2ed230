"""Rooflines as one page for a browser: nothing is loaded from anywhere, and whatever is pointed at says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from xml.etree import ElementTree as ET

from edgetune.artifacts.roofline import Roof
from edgetune.drawing import BLACK, MARKERS
from edgetune.roofline.figures.clock_lines import varied_knobs
from edgetune.roofline.figures.clock_panels import clock_panels
from edgetune.roofline.figures.curves import KINDS, brief_names, roof_names
from edgetune.roofline.figures.panels import BALANCE_MARKERS, DASHES, batch_panel, css_colour, roof_panels
from edgetune.roofline.figures.scene import LETTERS, NO_ENERGY, Scene, percent, scene_of
from edgetune.roofline.figures.spots import Network, Spot
from edgetune.roofline.figures.svg import draw_marker, element
from edgetune.roofline.figures.told import told_roof
from edgetune.units import format_si

_HINT = "Point at a marker to read it; or press Tab to reach one, and the arrow keys for the next."


def roofline_page(
    roofs: Sequence[Roof],
    networks: Sequence[Network] = (),
    *,
    layers_of: Network | None = None,
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
    scene = scene_of(roofs, networks, layers_of, device, simulated=simulated)
    precisions = {roof.precision for roof in scene.shown}
    html = ET.Element("html", lang="en")
    head, body = element(html, "head"), element(html, "body")
    element(head, "meta", charset="utf-8")
    element(head, "meta", name="generator", content="edgetune")
    element(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    element(head, "title", " - ".join(filter(None, ("Roofline", *scene.title[:2]))))
    ET.SubElement(head, "style").text = _file("page.css")
    _write_title(body, scene, device, simulated=simulated)
    roof_panels(element(body, "div", class_="wide"), scene)
    _write_legend(body, scene)
    if scene.numbered:
        element(body, "h2", "Intensity against batch size")
        batch_panel(element(body, "div", class_="wide"), scene)
    _write_clocks(body, [roof for roof in (*scene.shown, *scene.faint) if roof.precision in precisions])
    _write_tables(body, scene)
    for note in notes:
        element(body, "p", note)
    element(body, "div", id="tip", role="status")
    ET.SubElement(body, "script").text = _file("page.js")
    return f"<!DOCTYPE html>\n{ET.tostring(html, encoding='unicode', method='html')}\n".encode()


def _file(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _write_title(body: ET.Element, scene: Scene, device: str, *, simulated: bool) -> None:
    element(body, "h1", ": ".join(filter(None, ("Roofline", device))))
    if simulated:
        element(body, "p", "SIMULATED: figures of a model, not of a device", class_="simulated")
    for line in filter(None, scene.title[1:]):
        element(body, "p", line)
    element(body, "p", _HINT, class_="dim")


def _write_legend(body: ET.Element, scene: Scene) -> None:
    items = element(body, "ul", class_="legend")
    names = roof_names(scene.shown)
    for number, (roof, colour) in enumerate(scene.colours.items()):
        _sample(items, told_roof(roof, names[roof]), colour, dashes=DASHES[number % len(DASHES)])
    if scene.faint:
        _sample(items, f"{len(scene.faint)} other roof{'s' * (len(scene.faint) > 1)}", "faint", dashes="none")
    if scene.with_dynamic:
        _sample(items, "without static power", BLACK, dashes="2 3")
    kinds = {point.kind for roof in scene.shown for point in scene.balances(roof)}
    for kind in (kind for kind in KINDS if kind in kinds):
        _sample(items, KINDS[kind].replace("\n", " "), BLACK, marker=BALANCE_MARKERS[kind])
    for number in range(len(scene.series)):
        _sample(items, scene.series_name(number), scene.colour(number), marker=MARKERS[number % len(MARKERS)])
    notes = ["filled: measured; hollow: predicted"] if scene.spots() else []
    notes += ["numbers: batch sizes"] if scene.numbered else []
    notes += ["grey circles: layers, larger and stronger with their share of the time"] if scene.layers else []
    notes += [] if any(roof.flop_j is not None for roof in scene.shown) else [NO_ENERGY]
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


def _write_tables(body: ET.Element, scene: Scene) -> None:
    """List networks, and layers folded away."""
    names = brief_names(scene.shown)
    spots = [spot for each in scene.series for spot in each.spots]
    if spots:
        element(body, "h2", "Networks")
        rows = [[spot.network, str(spot.batch_size), names[spot.roof], *_figures(spot)] for spot in spots]
        _write_table(body, ("network", "batch", "roof", *_COLUMNS), rows)
    if scene.layers is None:
        return
    details = element(body, "details")
    element(details, "summary", f"{len(scene.layers.spots)} layers, the largest share of the time first")
    if scene.layers.without_place:
        time = percent(scene.layers.without_place_share)
        element(details, "p", f"{scene.layers.without_place} more have no FLOP and take {time} of the time.")
    rows = [
        [f"{spot.layer}{f' ({LETTERS[index]})' if index < len(LETTERS) else ''}", spot.op or "",
         percent(spot.share or 0.0), *_figures(spot)]
        for index, spot in enumerate(scene.layers.spots)
    ]  # fmt: skip
    _write_table(details, ("layer", "operators", "share of time", *_COLUMNS), rows)


_COLUMNS = ("FLOP/byte", "time", "rate", "efficiency", "bound in time", "bound in energy")


def _figures(spot: Spot) -> list[str]:
    predicted = "" if spot.measured else " (predicted)"
    efficiency = "" if spot.flops_per_j is None else format_si(spot.flops_per_j, "FLOP/J")
    rate = format_si(spot.flops_per_s, "FLOP/s")
    time = format_si(spot.seconds, "s") + predicted
    return [f"{spot.flop_per_byte:.3g}", time, rate, efficiency, spot.bound, spot.energy_bound or ""]


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
