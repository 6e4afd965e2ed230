"""A page for a browser: tables, notes and figures in one HTML file that loads nothing.

Figures are those of ``--plot FIGURE.svg``. Their elements are part of the page, so that their colours follow its light
or dark style. An element with an identifier and a description is a point: it shows the description under the pointer or
the keyboard focus.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree as ET

from edgetune.plotting.figure_file import figure_bytes, visible_lines
from edgetune.plotting.style import COLOURS, Figure
from edgetune.visible import visible

Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Names of columns, and rows. A column whose name ends in ``>`` is aligned to the right."""

_SERIES_COLOURS = {colour.lower(): f"var(--c{number})" for number, colour in enumerate(COLOURS)}


class Page:
    """A page, written from the top to the bottom."""

    def __init__(self, title: str, *, head: str = "", simulated: bool = False) -> None:
        """Begin a page with its title; ``head`` replaces it in the title bar of the browser."""
        self._html = ET.Element("html", lang="en")
        top, self._body = _add(self._html, "head"), _add(self._html, "body")
        _add(top, "meta", charset="utf-8")
        _add(top, "meta", name="generator", content="edgetune")
        _add(top, "meta", name="viewport", content="width=device-width, initial-scale=1")
        _add(top, "title", head or title)
        ET.SubElement(top, "style").text = _file("page.css")
        _add(self._body, "h1", title)
        if simulated:
            _add(self._body, "p", "SIMULATED: figures of a model, not of a device", class_="simulated")

    def heading(self, text: str) -> None:
        """Begin a section."""
        _add(self._body, "h2", text)

    def note(self, text: str, *, dim: bool = False) -> None:
        """Write a paragraph."""
        _add(self._body, "p", text, **({"class_": "dim"} if dim else {}))

    def table(self, table: Table, *, summary: str = "", note: str = "") -> None:
        """Write a table, with a note above it; a table with a summary is folded below the summary."""
        body = _add(self._body, "details") if summary else self._body
        if summary:
            _add(body, "summary", summary)
        if note:
            _add(body, "p", note)
        grid = _add(_add(body, "div", class_="wide"), "table")
        columns, rows = table
        head, lines = _add(_add(grid, "thead"), "tr"), _add(grid, "tbody")
        classes = [{"class_": "number"} if column.endswith(">") else {} for column in columns]
        for column, style in zip(columns, classes, strict=True):
            _add(head, "th", column.removesuffix(">"), scope="col", **style)
        for row in rows:
            line = _add(lines, "tr")
            for cell, style in zip(row, classes, strict=True):
                _add(line, "td", "-" if cell is None else str(cell), **style)

    def figure(
        self, figure: Figure, name: str, words: Mapping[str, str] | None = None, reached: Collection[str] = ()
    ) -> None:
        """Embed a figure.

        Args:
            figure: The figure; identifiers of its points are ``PANEL.POINT``.
            name: Its name for screen readers.
            words: Descriptions of the points, by identifier or by its part after the dot.
            reached: Identifiers of the points that take the keyboard focus.
        """
        svg = ET.fromstring(figure_bytes(figure, "svg", text_as_text=True))
        for parent in list(svg.iter()):
            for child in [child for child in parent if child.tag.rpartition("}")[2] in ("metadata", "style")]:
                parent.remove(child)
        for each in svg.iter():
            each.tag = each.tag.rpartition("}")[2]
            for key in [key for key in each.attrib if "}" in key]:
                each.set(key.rpartition("}")[2], each.attrib.pop(key))
            if "style" in each.attrib:
                each.set("style", re.sub(r"#[0-9a-f]{6}", lambda found: _css_colour(found[0]), each.attrib["style"]))
            if each.tag == "g":
                _describe(each, words or {}, reached)
        for size in ("width", "height"):
            svg.attrib.pop(size)
        svg.attrib.update({"role": "group", "aria-label": visible(name)})
        _add(self._body, "div", class_="wide").append(svg)

    def data(self) -> bytes:
        """End the page and return its file."""
        _add(self._body, "div", id="tip", role="status")
        ET.SubElement(self._body, "script").text = _file("page.js")
        return f"<!DOCTYPE html>\n{ET.tostring(self._html, encoding='unicode', method='html')}\n".encode()


def _describe(group: ET.Element, words: Mapping[str, str], reached: Collection[str]) -> None:
    """Make a group of marks a point if it has a description; remove the identifier of any other group."""
    name = group.attrib.pop("id", "")
    spot = name.rpartition(".")[2]
    text = words.get(name, words.get(spot))
    if text is None:
        return
    group.attrib.update({"class": "point", "role": "img", "data-spot": spot})
    if name in reached:
        group.set("tabindex", "0")
    title = ET.Element("title")
    title.text = visible_lines(text)
    group.insert(0, title)


def _css_colour(colour: str) -> str:
    """Return the style sheet's expression of a colour: greys are mixtures of the colours of ink and paper."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    if red == green == blue:
        return f"color-mix(in srgb, var(--ink) {100 * (1 - red / 255):.0f}%, var(--paper))"
    return _SERIES_COLOURS.get(colour, colour)


def _add(parent: ET.Element, tag: str, text: str = "", /, **attributes: str) -> ET.Element:
    """Add an element; invisible characters of its text are escaped. ``class_`` stands for ``class``."""
    written = {key.rstrip("_"): visible_lines(value) for key, value in attributes.items()}
    element = ET.SubElement(parent, tag, written)
    element.text = visible_lines(text) or None
    return element


def _file(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def is_page(target: str | Path) -> bool:
    """Return whether a file name is that of a page for a browser, which rooflines and runs have."""
    return Path(target).suffix.lower() in (".html", ".htm")
