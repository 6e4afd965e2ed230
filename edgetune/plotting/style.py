"""The style of all figures: legible in print and to the colour-blind, with reproducible bytes.

Colours are those of Okabe and Ito, "Color Universal Design" (2008), without the yellow, which is lost on white paper;
series also differ by marker, so that a figure survives a black-and-white printer. The same artifact drawn twice by the
same matplotlib gives the same bytes: no dates, no random identifiers, no settings of the user's own.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgetune import limits
from edgetune.errors import DeviceError
from edgetune.processes.start import in_root_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414 -- exported
else:
    Figure = Any  # matplotlib is optional, and loaded where something is drawn


BLACK, GREY = "#000000", "#7f7f7f"
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Seven markers and six colours: 42 series before a pair repeats."""
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


def series_style(index: int) -> dict[str, str]:
    """Return colour and marker of the series with that number."""
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


@contextmanager
def styled(*, text_as_text: bool = False) -> Iterator[None]:
    """Draw in edgetune's style instead of the user's settings, which are restored afterwards.

    Args:
        text_as_text: Whether texts of an SVG are texts rather than outlines.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    try:
        with in_root_folder():  # it reads a matplotlibrc of the working folder
            import matplotlib as mpl
    except ImportError:
        raise DeviceError("figures need matplotlib, which is not installed", "pip install 'edgetune[plot]'") from None
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph ", UserWarning)  # of scripts that its font lacks, drawn as boxes
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE | ({"svg.fonttype": "none"} if text_as_text else {}))
        yield


@contextmanager
def new_figure(size_in: tuple[float, float]) -> Iterator[Figure]:
    """Yield an empty figure of this width and height, inches; the block draws in edgetune's style.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    with styled():
        from matplotlib.figure import Figure

        yield Figure(figsize=size_in, layout="constrained")


KNOB_LABELS = {
    "batch_size": "batch size (samples)",
    "cpu_cores": "CPU cores",
    "cpu_mhz": "CPU clock (MHz)",
    "gpu_mhz": "GPU clock (MHz)",
    "mem_mhz": "memory clock (MHz)",
    "power_limit_w": "power limit (W)",
    "power_mode": "power mode",
}
_LOG_ABOVE = 10.0
"""Largest over smallest value of an axis from which it is logarithmic."""
_FEW_TICKS = 3.0
"""Ratio up to which a logarithmic axis has ticks at even distances: it has too few round numbers."""
_PAD = 0.06
"""Share of an axis left free at its ends."""


def panels_of(figure: Figure, lines: int, columns: int, **style: Any) -> Any:
    """Return the panels of a figure as an array of ``lines`` by ``columns``; ``style`` is as in ``Figure.subplots``.

    Raises:
        InputError: there are more panels than the limit allows.
    """
    check_panels(lines * columns)
    return figure.subplots(lines, columns, squeeze=False, **style)


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
    from matplotlib.ticker import FormatStrFormatter, LogLocator, MaxNLocator, NullFormatter

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log", base=base)
    ratio = max(values) / min(values)
    subs = (1.0, 2.0, 5.0) if ratio > _LOG_ABOVE else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    few = ratio <= _FEW_TICKS and base == 10.0
    axis.set_major_locator(MaxNLocator(6) if few else LogLocator(base=base, subs=subs if base == 10.0 else (1.0,)))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())
    return True


def scale_axis(axis: Any, label: str, values: Sequence[float], *, above: float = _LOG_ABOVE) -> None:
    """Name an axis and let it show these values: from zero or, where they span much, logarithmic, as its name says.

    Args:
        axis: The axis.
        label: Its name, with the unit in parentheses.
        values: All that it must show.
        above: Largest over smallest value from which it is logarithmic; 0 makes it so wherever it can be.
    """
    low, high = min(values, default=0.0), max(values, default=0.0)
    if spread_out(axis, values, above=above):
        pad = max(high / low, 1.2) ** _PAD
        limits = low / pad, high * pad
        label = f"{label[:-1]}, log)" if label.endswith(")") else f"{label} (log)"
    else:
        limits = min(0.0, low * (1 + _PAD)), max(0.0, high * (1 + _PAD)) or float(low == 0)
    getattr(axis.axes, f"set_{axis.axis_name}lim")(*limits)
    axis.set_label_text(label)


def pareto_front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the pairs than which no other is smaller in one number and not larger in the other, ascending."""
    front: list[tuple[float, float]] = []
    for first, second in sorted(set(points)):
        if not front or second < front[-1][1]:
            front.append((first, second))
    return front


def check_panels(count: int) -> None:
    """Refuse a figure of more panels than the limit allows."""
    limits.check("figure_panels", count, "the figure")
