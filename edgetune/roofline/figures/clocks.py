"""Peaks and energy constants against each clock: what a clock buys, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.roofline import Roof
from edgetune.drawing import KNOB_LABELS, legend_beside, series_style, set_title, styled
from edgetune.errors import InputError
from edgetune.roofline.figures.curves import shared_mode
from edgetune.roofline.figures.labels import folded, lay_out, plain_text
from edgetune.roofline.figures.roofs import LINES
from edgetune.units import format_si

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LINES = 4
"""More lines than these in a panel hide each other; of more settings those spread evenly between the ends are drawn."""
_HEADROOM = 1.1
_PANEL_IN = (3.1, 1.75)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A row of panels.

    Args:
        name: Field of ``Roof``.
        label: Of its axis.
        error: Field of ``Roof`` with half of its confidence interval, if there is one.
        factor: From the base unit to that of the axis; ``None`` writes SI prefixes.
    """

    name: str
    label: str
    error: str | None = None
    factor: float | None = None


QUANTITIES = (
    Quantity("flops_per_s", "peak\n(FLOP/s)"),
    Quantity("bytes_per_s", "memory\n(B/s)"),
    Quantity("static_w", "static power\n(W)", factor=1.0),
    Quantity("flop_j", "energy per FLOP\n(pJ)", "flop_j_error", 1e12),
    Quantity("byte_j", "energy per byte\n(pJ)", "byte_j_error", 1e12),
)


def clock_figure(roofs: Sequence[Roof], *, device: str = "", simulated: bool = False) -> Figure:
    """Return peaks and energy constants against each knob that differs between modes.

    A column of panels for each such knob, a line for each precision and setting of the others; measured modes are
    filled and have error bars, inferred ones are hollow. Without energy there are peaks only, and the figure says so.

    Args:
        roofs: The device's, of the precisions to draw.
        device: For the title.
        simulated: Whether the roofs come from a model rather than a device.

    Raises:
        InputError: no roof, or all of one mode.
        DeviceError: matplotlib is missing.
    """
    shown = list(dict.fromkeys(roofs))
    knobs = [knob for knob in KNOBS if len({getattr(roof.mode, knob) for roof in shown} - {None}) > 1]
    if not knobs:
        raise InputError(
            f"there are {len(shown)} roofs, at one setting of every clock",
            "measure peaks in several modes, or draw the roofs themselves",
        )
    precisions = tuple(dict.fromkeys(roof.precision for roof in shown))
    quantities = [each for each in QUANTITIES if any(getattr(roof, each.name) is not None for roof in shown)]
    with styled():
        from matplotlib.figure import Figure

        size = (2.2 + _PANEL_IN[0] * len(knobs), 0.9 + _PANEL_IN[1] * len(quantities))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(quantities), len(knobs), sharex="col", sharey="row", squeeze=False)
        lines = 0
        for column, knob in enumerate(knobs):
            lines += _draw_column(panels[:, column], shown, knob, quantities, lines)
        for row, quantity in enumerate(quantities):
            _finish_row(panels[row], quantity)
        figure.align_ylabels()
        _note(panels[-1, -1], shown, quantities)
        legend_beside(figure, panels.flatten())
        mode = shared_mode(shown)
        head = f"SIMULATED: {device}" if simulated else device
        also = [str(mode)] if mode.knobs() else []
        set_title(panels[0, 0], plain_text(head), plain_text(", ".join([*precisions, *also])))
        lay_out(figure)
    return figure


def _draw_column(panels: Any, roofs: Sequence[Roof], knob: str, quantities: Sequence[Quantity], before: int) -> int:
    """Draw all quantities against one knob, a line for each precision and setting of the others; return how many.

    ``before`` lines were drawn in other columns, whose styles are not used again.
    """
    lines: dict[_Line, list[Roof]] = {}
    for roof in roofs:
        lines.setdefault((roof.precision, replace(roof.mode, **{knob: None})), []).append(roof)
    precisions = list(dict.fromkeys(roof.precision for roof in roofs))
    drawn = _chosen(lines, precisions)
    names = _names(drawn)
    for number, line in enumerate(drawn):
        along = sorted(lines[line], key=lambda roof: float(getattr(roof.mode, knob) or 0.0))
        dashes = LINES[precisions.index(line[0]) % len(LINES)]
        style = {**series_style(before + number), "linestyle": dashes, "label": names[number]}
        for axes, quantity in zip(panels, quantities, strict=True):
            _draw_line(axes, along, knob, quantity, style)
    panels[-1].set_xlabel(KNOB_LABELS[knob])
    return len(drawn)


_Line = tuple[str, Mode]
"""What a line is of: a precision, and the settings of all knobs but the one of its column."""


def _chosen(lines: Mapping[_Line, Sequence[Roof]], precisions: Sequence[str]) -> list[_Line]:
    """Return the lines to draw: of each precision those of several points, of many settings a few."""
    chosen: list[_Line] = []
    for precision in precisions:
        of_one = [line for line in lines if line[0] == precision]
        several = sorted((line for line in of_one if len(lines[line]) > 1), key=lambda line: _settings(line[1]))
        chosen += _spread(several or of_one, max(2, _MOST_LINES // len(precisions)))
    return chosen


def _settings(mode: Mode) -> tuple[float, ...]:
    return tuple(getattr(mode, knob) or 0.0 for knob in KNOBS)


def _spread(lines: Sequence[_Line], most: int) -> list[_Line]:
    """Return the lines, of many a few from the first to the last."""
    if len(lines) <= most:
        return list(lines)
    last = len(lines) - 1
    return [lines[round(last * step / (most - 1))] for step in range(most)]


def _names(lines: Sequence[_Line]) -> list[str]:
    """Return what a legend calls each line: its precision and the settings, if they differ from those of others."""
    varied = [knob for knob in KNOBS if len({getattr(mode, knob) for _, mode in lines}) > 1]
    several = len({precision for precision, _ in lines}) > 1
    names = []
    for precision, mode in lines:
        differing = Mode.of({knob: value for knob, value in mode.knobs().items() if knob in varied})
        settings = [str(differing)] if differing.knobs() else []
        names.append(folded(", ".join([precision, *settings] if several else settings)))
    return names


def _draw_line(axes: Any, roofs: Sequence[Roof], knob: str, quantity: Quantity, style: dict[str, Any]) -> None:
    factor = quantity.factor or 1.0
    known = [roof for roof in roofs if None not in (getattr(roof, quantity.name), getattr(roof.mode, knob))]
    if not known:
        return
    across = [getattr(roof.mode, knob) for roof in known]
    up = [factor * getattr(roof, quantity.name) for roof in known]
    axes.plot(across, up, color=style["color"], linestyle=style["linestyle"], linewidth=1.0, zorder=2)
    if style["label"]:
        axes.plot([], [], linewidth=1.0, **style)
    errors = [factor * (getattr(roof, quantity.error) or 0.0) if quantity.error else 0.0 for roof in known]
    for x, y, error, roof in zip(across, up, errors, known, strict=True):
        face = style["color"] if roof.measured else "white"
        axes.errorbar(
            x, y, yerr=error or None, color=style["color"], marker=style["marker"], markersize=4.6, capsize=2.0,
            elinewidth=0.9, markerfacecolor=face, markeredgewidth=0.9, zorder=3,
        )  # fmt: skip


def _finish_row(panels: Any, quantity: Quantity) -> None:
    from matplotlib.ticker import FuncFormatter

    panels[0].set_ylabel(quantity.label)
    panels[0].set_ylim(0.0, _HEADROOM * max(axes.dataLim.y1 for axes in panels))
    if quantity.factor is None:
        panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_si(value, "").strip()))


def _note(axes: Any, roofs: Sequence[Roof], quantities: Sequence[Quantity]) -> None:
    """Say in the legend what is hollow, what the bars are, and why there is no energy."""
    notes = [] if all(roof.measured for roof in roofs) else ["filled: measured\nhollow: inferred"]
    if any(each.error and getattr(roof, each.error) for each in quantities for roof in roofs):
        notes.append("bars: 95 % confidence")
    if len(quantities) == len(QUANTITIES) - 3:
        notes.append("no energy:\npower was not measured")
    for note in notes:
        axes.plot([], [], linestyle="none", label=note)
