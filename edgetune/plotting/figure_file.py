"""A figure as the bytes of an SVG, PNG or PDF file, within limits of time and memory.

The SVG of a figure as a part of a page: its colours follow the page's style, and its marks have keys.

rows.name_rows       ->  <g id="rows.3">  <use .../> <use .../>       one for each row, in order
                         becomes          <use class="point" data-key="s1.17" .../>
time_zoom.zoom_time  ->  <g class="time" data-left= data-right= data-from= data-to=>  its marks in a clipped group
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from edgetune import limits
from edgetune.errors import InputError
from edgetune.plotting.gantt import rows_of, zooms
from edgetune.plotting.style import COLOURS, Figure, styled
from edgetune.visible import visible

FORMATS = ("svg", "png", "pdf")
_DPI = 200
_TALLEST = 2000
"""Pixels of a picture that a screen or a page of paper shows at once; a page for a browser scrolls."""
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "edgetune"},
    "pdf": {"CreationDate": None, "Creator": "edgetune"},
    "png": {"Software": "edgetune"},
}
"""Of a figure: no date, so that its bytes repeat; and that it is edgetune's, so that it may be drawn again."""


@contextmanager
def bounded() -> Iterator[None]:
    """Bound the processor time and the memory of a drawing.

    Raises:
        InputError: the drawing exceeds the limits.
    """
    with (
        limits.bounded_cpu_time("figure_seconds", "the drawing"),
        limits.bounded_memory(limits.limit("figure_bytes")) as in_memory,
    ):
        try:
            yield
        except MemoryError:
            if in_memory:
                raise limits.beyond("figure_bytes", "the drawing") from None
            raise


def format_of(path: str | Path) -> str:
    """Return the format of a figure by its file name.

    Raises:
        InputError: the format cannot be drawn.
    """
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise InputError(f"{path}: a figure is .svg, .png or .pdf", "e.g. figure.svg")
    return suffix


def require_figure(path: str | Path) -> None:
    """Check before long work that its figure can be drawn and has a known format.

    Raises:
        InputError: the format of the file name cannot be drawn.
        DeviceError: matplotlib is missing.
    """
    format_of(path)
    with styled():  # which needs matplotlib
        pass


def figure_bytes(figure: Figure, form: str, *, text_as_text: bool = False) -> bytes:
    """Return the file of a figure, in one of ``FORMATS``; texts of an SVG are outlines unless ``text_as_text``.

    Raises:
        InputError: the figure has more marks than the limit allows, or is too tall for anything but a page.
    """
    tall = round(figure.get_figheight() * _DPI)
    if tall > _TALLEST and not text_as_text:
        raise InputError(
            f"the figure is {tall} pixels high, more than the {_TALLEST} that can be read at once",
            "draw a page instead, --plot FIGURE.html, or a part: fewer rows, or --view of one policy or time",
        )
    limits.check("figure_items", sum(map(_marks, figure.findobj())), "the figure")
    buffer = io.BytesIO()
    with styled(text_as_text=text_as_text):
        _show_texts(figure)
        figure.savefig(buffer, format=form, dpi=_DPI, metadata=_METADATA[form])
    return buffer.getvalue()


def _show_texts(figure: Figure) -> None:
    """Make every text of a figure visible; texts of ticks are made as it is drawn, by their formatters."""
    from matplotlib.text import Text
    from matplotlib.ticker import FuncFormatter

    for text in figure.findobj(Text):
        text.set_text(visible_lines(text.get_text()))
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        formatter = axis.get_major_formatter()
        if isinstance(formatter, FuncFormatter):  # what matplotlib makes of labels, too
            formatter.func = _visibly(formatter.func)


def visible_lines(text: str) -> str:
    """Return a text with escapes for what cannot be shown; its lines stay."""
    return "\n".join(map(visible, text.split("\n")))


def _visibly(label: Callable[..., str]) -> Callable[..., str]:
    return lambda *where: visible_lines(label(*where))


def _marks(artist: Any) -> int:
    """Return how many marks and points an artist has of its own."""
    if hasattr(artist, "get_paths"):
        return len(artist.get_paths()) + len(artist.get_offsets())
    return len(artist.get_xdata(orig=True)) if hasattr(artist, "get_xdata") else 1


_SERIES_COLOURS = {colour.lower(): f"var(--c{number})" for number, colour in enumerate(COLOURS)}
_COLOUR = re.compile(r"#[0-9a-f]{6}")
_ROW = re.compile(r"(?:^|\.)point\.(\w+)$")
"""Identifier of the mark of one row."""
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_PLACES = ("x", "y", "d")
"""Attributes with places, in points: a hundredth is invisible."""
_DRAWN = ("use", "path", "image")


def embedded_svg(figure: Figure, name: str, key_prefix: str, id_prefix: str) -> tuple[str, bool]:
    """Return the SVG element of a figure for a page, and whether its time can be zoomed into.

    Args:
        figure: The figure.
        name: Its name for screen readers.
        key_prefix: Goes before each key of a mark.
        id_prefix: Goes before each identifier, so that those of several figures differ.

    Raises:
        InputError: the figure has more marks than the limit allows.
    """
    timed = {f"time{number}": axes for number, axes in enumerate(figure.axes) if zooms(axes)}
    for axes_name, axes in timed.items():
        axes.set_gid(axes_name)
        _name_frame(axes)
    for text in figure.findobj(lambda artist: hasattr(artist, "get_text")):
        text.set_path_effects([])  # which make outlines of letters; the style sheet surrounds texts with paper
    svg = ET.fromstring(figure_bytes(figure, "svg", text_as_text=True))
    _strip_namespaces(svg)
    height_pt = 72 * figure.get_figheight()
    for group in list(svg.iter("g")):
        own = group.attrib.pop("id", "")
        if own in rows_of(figure):
            _link(list(_drawn(group)), rows_of(figure)[own], key_prefix, own)
        elif (row := _ROW.search(own)) is not None:
            group.attrib.update({"class": "point", "data-key": key_prefix + row[1]})
        elif own in timed:
            _make_zoomable(group, timed[own], own, height_pt)
    for each in svg.iter():
        _rewrite(each, id_prefix)
    for size in ("width", "height"):
        svg.attrib.pop(size)
    svg.attrib.update({"role": "group", "aria-label": visible(name)})
    from markupsafe import Markup

    return Markup(ET.tostring(svg, encoding="unicode", method="html")), bool(timed)


_FRAME = ("frame", "matplotlib.axis")
"""Beginnings of the identifiers of what stays where it is when time is zoomed."""


def _name_frame(axes: Any) -> None:
    """Give the parts of axes that are no marks the identifier ``frame``."""
    legend = axes.get_legend()
    titles = (axes.title, axes._left_title, axes._right_title)
    for artist in (axes.patch, *axes.spines.values(), *titles, *(() if legend is None else (legend,))):
        artist.set_gid("frame")


def _strip_namespaces(svg: ET.Element) -> None:
    """Remove namespaces, metadata and style sheets, which a page has no use for."""
    for parent in list(svg.iter()):
        for child in [child for child in parent if child.tag.rpartition("}")[2] in ("metadata", "style")]:
            parent.remove(child)
    for each in svg.iter():
        each.tag = each.tag.rpartition("}")[2]
        for key in [key for key in each.attrib if "}" in key]:
            each.set(key.rpartition("}")[2], each.attrib.pop(key))


def _drawn(group: ET.Element) -> Iterator[ET.Element]:
    """Yield what a group draws, without the shapes that it defines."""
    for child in group:
        if child.tag in _DRAWN:
            yield child
        elif child.tag != "defs":
            yield from _drawn(child)


def _link(drawn: Sequence[ET.Element], rows: Sequence[int | str], key_prefix: str, group: str) -> None:
    """Give marks their keys and descriptions, unless some were not drawn because they lie outside the figure."""
    for place, (mark, row) in enumerate(zip(drawn, rows if len(drawn) == len(rows) else (), strict=False)):
        key = f"{group}.{place}" if isinstance(row, str) else row
        mark.attrib.update({"class": "point", "data-key": f"{key_prefix}{key}"})
        if isinstance(row, str):
            _entitle(mark, row)


def _entitle(mark: ET.Element, text: str) -> None:
    title = ET.Element("title")
    title.text = visible_lines(text)
    mark.insert(0, title)


def _make_zoomable(group: ET.Element, axes: Any, name: str, height_pt: float) -> None:
    """Put the marks of axes into a group of their own, clipped to the axes, and note the place and limits of time."""
    box = axes.get_position()
    width_pt = height_pt * axes.figure.get_figwidth() / axes.figure.get_figheight()
    left, right, top, bottom = box.x0 * width_pt, box.x1 * width_pt, (1 - box.y1) * height_pt, (1 - box.y0) * height_pt
    from_t, to_t = axes.get_xlim()
    places = {"left": left, "right": right, "bottom": bottom, "top": top, "from": from_t, "to": to_t}
    group.attrib.update({"class": "time", **{f"data-{key}": f"{value:.6g}" for key, value in places.items()}})
    clip = ET.Element("clipPath", id=f"{name}-clip")
    ET.SubElement(clip, "rect", x=f"{left:.6g}", y=f"{top:.6g}", width=f"{right - left:.6g}",
                  height=f"{bottom - top:.6g}")  # fmt: skip
    clipped = ET.Element("g", {"clip-path": f"url(#{name}-clip)"})
    data = ET.SubElement(clipped, "g", {"class": "data"})
    children = list(group)
    for child in children:
        own = child.get("id", "")
        if not own.startswith(_FRAME):
            group.remove(child)
            data.append(child)
    ticks = [tick for tick in group.iter("g") if tick.get("id", "").startswith("xtick_")]
    for tick in ticks:
        tick.set("class", "tick")
    group.set("data-labels", str(any(tick.find(".//text") is not None for tick in ticks)).lower())
    for each in data.iter():
        each.attrib.pop("clip-path", None)
    above = 1 + max((at for at, child in enumerate(group) if child.get("id", "").startswith(_FRAME[1])), default=0)
    group.insert(above, clip)  # the grid is part of the axis, and would hide lines at round numbers
    group.insert(above + 1, clipped)


def _rewrite(each: ET.Element, id_prefix: str) -> None:
    """Make colours those of the page, and identifiers and references those of this figure."""
    if "id" in each.attrib:
        each.set("id", id_prefix + each.attrib["id"])
    if each.get("href", "").startswith("#"):
        each.set("href", f"#{id_prefix}{each.attrib['href'][1:]}")
    if "clip-path" in each.attrib:
        each.set("clip-path", each.attrib["clip-path"].replace("(#", f"(#{id_prefix}"))
    for name in _PLACES:
        if name in each.attrib:
            each.set(name, _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", each.attrib[name]))
    if "style" in each.attrib:
        style = _COLOUR.sub(lambda found: _css_colour(found[0]), each.attrib["style"])
        each.set("style", style.replace("url(#", f"url(#{id_prefix}"))


def _css_colour(colour: str) -> str:
    """Return the style sheet's expression of a colour: greys are mixtures of the colours of ink and paper."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    if red == green == blue:
        return f"color-mix(in srgb, var(--ink) {100 * (1 - red / 255):.0f}%, var(--paper))"
    return _SERIES_COLOURS.get(colour, colour)
