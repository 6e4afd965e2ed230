"""A figure as the bytes of an SVG, PNG or PDF file, within limits of time and memory."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgetune import limits
from edgetune.errors import InputError
from edgetune.plotting.style import Figure, styled
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
