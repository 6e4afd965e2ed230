"""What all figures share: a style that is legible in print and to the colour-blind, and bytes that repeat.

Colours are those of Okabe and Ito, "Color Universal Design" (2008), without the yellow, which is lost on white paper;
series also differ by marker, so that a figure survives a black-and-white printer. The same artifact drawn twice by the
same matplotlib gives the same bytes: no dates, no random identifiers, no settings of the user's own.
"""

from __future__ import annotations

import difflib
import io
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune import limits
from edgetune.errors import DeviceError, InputError
from edgetune.units import format_si
from edgetune.visible import cut_in_middle, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLACK, GREY = "#000000", "#7f7f7f"
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Seven markers and six colours: 42 series before a pair repeats."""

KNOB_LABELS = {
    "batch_size": "batch size (samples)",
    "cpu_cores": "CPU cores",
    "cpu_mhz": "CPU clock (MHz)",
    "gpu_mhz": "GPU clock (MHz)",
    "mem_mhz": "memory clock (MHz)",
    "power_limit_w": "power limit (W)",
    "power_mode": "power mode",
}

FORMATS = ("svg", "png", "pdf")
_DPI = 200
_TITLE_CHARACTERS = 60
_LONGEST_TITLE = 10 * _TITLE_CHARACTERS
_NAME_LINES = 6
"""Lines that a name takes at most; the middle of a longer one is left out."""
_NOTE_PT = 7.0
_NOTE_CHARACTERS_PER_INCH = 17
_LOG_ABOVE = 10.0
"""Largest over smallest value of an axis from which it is logarithmic."""
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "edgetune"},
    "pdf": {"CreationDate": None, "Creator": "edgetune"},
    "png": {"Software": "edgetune"},
}
"""Of a figure: no date, so that its bytes repeat; and that it is edgetune's, so that it may be drawn again."""
_STYLE: dict[str, Any] = {
    "svg.hashsalt": "edgetune",
    "pdf.fonttype": 42,
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "legend.fontsize": 8.0,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "text.parse_math": False,  # a $ in a name starts no formula
}


def chosen_of(names: Sequence[str], asked: str | None, *, nothing: str, lacks: str, there: str) -> str:
    """Return which of the names to draw: the one asked for, else the first.

    Args:
        names: That there are.
        asked: As somebody wrote it.
        nothing: What is said where there are none, e.g. ``the run has no rows to draw``.
        lacks: What is said, before its name, of one that there is not.
        there: What is said before those that there are.

    Raises:
        InputError: there are none, or not this one; the hint names the nearest.
    """
    if not names:
        raise InputError(nothing, "was it stopped before anything happened?")
    if asked is not None and asked not in names:
        near = difflib.get_close_matches(asked, names, n=1)
        raise InputError(f"{lacks} {asked!r}", f"did you mean {near[0]}?" if near else f"{there} {', '.join(names)}")
    return asked or names[0]


def not_drawn(what: str, chosen: str, names: Sequence[str], turns: int, remedy: str) -> list[str]:
    """Return the notes of a figure that shows one of several, and of that the first turn; see ``note_left_out``.

    Args:
        what: E.g. ``policy``.
        chosen: Which one is drawn.
        names: All that there are.
        turns: How often the chosen one ran.
        remedy: How to draw another, e.g. ``--view gantt:POLICY``.
    """
    others = [name for name in names if name != chosen]
    notes = [f"{what} {chosen} is drawn; not drawn: {', '.join(others)} ({remedy})"] if others else []
    return [*notes, f"the first of {turns} turns is drawn"] if turns > 1 else notes


def longest_words(who: str, from_s: float, to_s: float) -> str:
    """Return the note of which request waited longest, of a figure that shows a part of the time.

    Args:
        who: Whose request, e.g. the name of a job; may be empty.
        from_s: When it arrived, s.
        to_s: When it was answered, or given up, s.
    """
    of = f" of {who}" if who else ""
    took, began, ended = (format_si(time_s, "s") for time_s in (to_s - from_s, from_s, to_s))
    return f"the longest request{of} took {took}, from {began} to {ended}"


def title_words(what: str, *, simulated: bool, device: str | None) -> str:
    """Return the title of a figure: whether it is simulated, what is shown, and where it was measured."""
    where = f"on {device}" if device else ""
    return ", ".join(filter(None, (f"SIMULATED: {what}" if simulated else what, where)))


_LONGEST_NOTE = 600


def name_in_lines(name: str, characters: int) -> str:
    """Return a name as a figure shows it: visible, in lines of bounded length."""
    return textwrap.fill(cut_in_middle(visible(name), _NAME_LINES * characters), characters)


def series_style(index: int) -> dict[str, str]:
    """Return colour and marker of the series with that number."""
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in edgetune's style, whatever the user's own settings are, which come back afterwards.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise DeviceError("figures need matplotlib, which is not installed", "pip install 'edgetune[plot]'") from None
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph ", UserWarning)  # of scripts that its font lacks, drawn as boxes
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


@contextmanager
def bounded() -> Iterator[None]:
    """Bound the processor time and the memory of a drawing.

    Raises:
        InputError: it takes more than the limits allow.
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


def panels_of(figure: Figure, lines: int, columns: int, **style: Any) -> Any:
    """Return the panels of a figure as an array of ``lines`` by ``columns``; ``style`` is as in ``Figure.subplots``.

    Raises:
        InputError: they are more than the limit allows.
    """
    check_panels(lines * columns)
    return figure.subplots(lines, columns, squeeze=False, **style)


def check_panels(count: int) -> None:
    """Refuse a figure of more panels than the limit allows."""
    limits.check("figure_panels", count, "the figure")


def format_of(path: str | Path) -> str:
    """Return the format that a figure's file name asks for.

    Raises:
        InputError: none that can be drawn.
    """
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise InputError(f"{path}: a figure is .svg, .png or .pdf", "e.g. figure.svg")
    return suffix


def require_figure(path: str | Path) -> None:
    """Check that a figure can be drawn and has a known format, before long work is begun of which it will be.

    Raises:
        InputError: the file name asks for no format that can be drawn.
        DeviceError: matplotlib is missing.
    """
    format_of(path)
    with styled():  # which needs matplotlib
        pass


def note_left_out(figure: Figure, notes: Sequence[str]) -> None:
    """Write below a figure what it does not show; see ``left_out_of``.

    Args:
        figure: Its size is final; its layout is constrained.
        notes: A sentence for each thing that is left out; none is no note.
    """
    if not notes:
        return
    characters = int(figure.get_size_inches()[0] * _NOTE_CHARACTERS_PER_INCH)
    shown = (cut_in_middle(visible(note), _LONGEST_NOTE) for note in notes)
    lines = "\n".join(textwrap.fill(note, characters) for note in shown)
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=_NOTE_PT, color=BLACK)
    figure.set_label("\n".join(map(visible, notes)))


def left_out_of(figure: Figure) -> list[str]:
    """Return the sentences below a figure that say what it does not show."""
    return str(figure.get_label()).splitlines()


def figure_bytes(figure: Figure, form: str) -> bytes:
    """Return the file of a figure, in one of ``FORMATS``.

    Raises:
        InputError: it would have more marks than the limit allows.
    """
    limits.check("figure_items", sum(map(_marks, figure.findobj())), "the figure")
    buffer = io.BytesIO()
    with styled():
        _show_texts(figure)
        figure.savefig(buffer, format=form, dpi=_DPI, metadata=_METADATA[form])
    return buffer.getvalue()


def _show_texts(figure: Figure) -> None:
    """Make every text of a figure visible; texts of ticks are made as it is drawn, by their formatters."""
    from matplotlib.text import Text
    from matplotlib.ticker import FuncFormatter

    for text in figure.findobj(Text):
        text.set_text(_visible_lines(text.get_text()))
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        formatter = axis.get_major_formatter()
        if isinstance(formatter, FuncFormatter):  # what matplotlib makes of labels, too
            formatter.func = _visibly(formatter.func)


def _visible_lines(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))


def _visibly(label: Callable[..., str]) -> Callable[..., str]:
    return lambda *where: _visible_lines(label(*where))


def _marks(artist: Any) -> int:
    """Return how many marks and points an artist has of its own."""
    if hasattr(artist, "get_paths"):
        return len(artist.get_paths()) + len(artist.get_offsets())
    return len(artist.get_xdata(orig=True)) if hasattr(artist, "get_xdata") else 1


def time_unit(largest_s: float) -> tuple[float, str]:
    """Return the factor from seconds to the unit that suits times up to ``largest_s``, and the unit."""
    for limit_s, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if largest_s < limit_s:
            return factor, unit
    return 1.0, "s"


def spread_out(
    axis: Any, values: Sequence[float], *, base: float = 10.0, above: float = _LOG_ABOVE,
) -> bool:  # fmt: skip
    """Make an axis logarithmic where its values span much, with numbers written out; return whether it did.

    Where the largest value is many times the smallest, the small ones would else lie on top of each other.
    """
    if not values or min(values) <= 0 or max(values) / min(values) <= above:
        return False
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log", base=base)
    subs = (1.0, 2.0, 5.0) if max(values) / min(values) > _LOG_ABOVE else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(base=base, subs=subs if base == 10.0 else (1.0,)))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())
    return True


def pareto_front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the pairs than which no other is smaller in one number and not larger in the other, ascending."""
    front: list[tuple[float, float]] = []
    for first, second in sorted(set(points)):
        if not front or second < front[-1][1]:
            front.append((first, second))
    return front


def set_title(axes: Any, *lines: str) -> None:
    """Write the title over ``axes``, from its left edge; a long name takes further lines and stays on the paper."""

    axes.set_title(
        "\n".join(
            textwrap.fill(cut_in_middle(visible(line), _LONGEST_TITLE), _TITLE_CHARACTERS) for line in lines if line
        ),
        loc="left",
    )


def legend_beside(figure: Figure, axes: Any, first: Sequence[str] = ()) -> None:
    """Put one legend for all ``axes`` at the right of the figure, where it hides nothing; each label once.

    Labels are in the order drawn, those in ``first`` before. Markers are shown opaque, however faint in the figure.
    """
    entries: dict[str, Any] = {}
    for each in axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    labels = [*(label for label in first if label in entries), *(label for label in entries if label not in first)]
    if not labels:
        return
    legend = figure.legend([entries[label] for label in labels], labels, loc="outside right center")
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)
