"""Peaks and energy constants against each clock: one panel per knob and quantity, one line per precision and mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.errors import InputError
from edgetune.plotting.captions import folded, lay_out, legend_beside, note_left_out, plain_text, set_title
from edgetune.plotting.style import KNOB_LABELS, Figure, new_figure, series_style
from edgetune.stages.roofline.figures.figure_data import shared_mode
from edgetune.stages.roofline.figures.roofs import LINES
from edgetune.units import format_si

_MOST_LINES = 4
"""Most lines in a panel; of more settings, those spread evenly between the ends are drawn."""
_APART = "modes differ in several knobs"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A row of panels.

    Args:
        name: Field of ``Roof``.
        label: What it is, without its unit.
        unit: Of its axis.
        error: Field of ``Roof`` with half of its confidence interval, if there is one.
        factor: From the base unit to that of the axis; ``None`` writes SI prefixes.
    """

    name: str
    label: str
    unit: str
    error: str | None = None
    factor: float | None = None

    def of(self, roof: Roof) -> float | None:
        """Return the value of a roof in the unit of the axis."""
        value: float | None = getattr(roof, self.name)
        return None if value is None else value * (self.factor or 1.0)

    def error_of(self, roof: Roof) -> float:
        """Return half the confidence interval in the unit of the axis; 0 where it is not known."""
        return (getattr(roof, self.error) or 0.0) * (self.factor or 1.0) if self.error else 0.0


QUANTITIES = (
    Quantity("flops_per_s", "peak", "FLOP/s"),
    Quantity("bytes_per_s", "memory", "B/s"),
    Quantity("static_w", "static power", "W", factor=1.0),
    Quantity("flop_j", "energy per FLOP", "pJ", "flop_j_error", 1e12),
    Quantity("byte_j", "energy per byte", "pJ", "byte_j_error", 1e12),
)


def known_quantities(roofs: Sequence[Roof]) -> list[Quantity]:
    """Return the quantities that are known of any roof: without energy, only the peaks."""
    return [each for each in QUANTITIES if any(each.of(roof) is not None for roof in roofs)]


@dataclass(frozen=True, slots=True)
class ClockLine:
    """Roofs in one panel.

    Args:
        name: Its precision and settings where they differ from those of other lines; may be empty.
        precision: Of all its roofs.
        roofs: By ascending value of the knob, which all of them have.
        joined: Whether only the knob differs between them, so that a line from one to the next means something.
    """

    name: str
    precision: str
    roofs: tuple[Roof, ...]
    joined: bool


_Key = tuple[str, Mode]
"""The key of a line: a precision, and the settings of all other knobs."""


def varied_knobs(roofs: Sequence[Roof]) -> list[str]:
    """Return the knobs that differ between modes."""
    return [knob for knob in KNOBS if len({getattr(roof.mode, knob) for roof in roofs} - {None}) > 1]


def clock_lines(roofs: Sequence[Roof], knob: str) -> list[ClockLine]:
    """Return the lines against one knob, one for each precision and setting of the others.

    Where modes differ in several knobs at once, as the named ones of a board do, there is no line but points.
    """
    known = [roof for roof in roofs if getattr(roof.mode, knob) is not None]
    ordered = sorted(known, key=lambda roof: float(getattr(roof.mode, knob)))
    lines: dict[_Key, list[Roof]] = {}
    for roof in ordered:
        lines.setdefault((roof.precision, replace(roof.mode, **{knob: None})), []).append(roof)
    precisions = list(dict.fromkeys(roof.precision for roof in roofs))
    if not any(len(line) > 1 for line in lines.values()):
        return [_points(ordered, precision, several=len(precisions) > 1) for precision in precisions]
    drawn = _chosen(lines, precisions)
    names = _names(drawn)
    return [ClockLine(name, key[0], tuple(lines[key]), joined=True) for key, name in zip(drawn, names, strict=True)]


def _points(roofs: Sequence[Roof], precision: str, *, several: bool) -> ClockLine:
    of_one = tuple(roof for roof in roofs if roof.precision == precision)
    return ClockLine(f"{precision}, {_APART}" if several else _APART, precision, of_one, joined=False)


def _chosen(lines: Mapping[_Key, Sequence[Roof]], precisions: Sequence[str]) -> list[_Key]:
    """Return the lines to draw: of each precision, the lines with several points; if they are many, a few of them."""
    chosen: list[_Key] = []
    for precision in precisions:
        of_one = [key for key in lines if key[0] == precision and len(lines[key]) > 1]
        of_one.sort(key=lambda key: tuple(getattr(key[1], knob) or 0.0 for knob in KNOBS))
        chosen += _spread(of_one, max(2, _MOST_LINES // len(precisions)))
    return chosen


def _spread(keys: Sequence[_Key], most: int) -> list[_Key]:
    """Return the lines or, if they are many, ``most`` of them spread evenly from the first to the last."""
    if len(keys) <= most:
        return list(keys)
    last = len(keys) - 1
    return [keys[round(last * step / (most - 1))] for step in range(most)]


def _names(keys: Sequence[_Key]) -> list[str]:
    """Return the name of each line in a legend: its precision and settings, if they differ between lines."""
    varied = [knob for knob in KNOBS if len({getattr(mode, knob) for _, mode in keys}) > 1]
    several = len({precision for precision, _ in keys}) > 1
    names = []
    for precision, mode in keys:
        differing = Mode.of({knob: value for knob, value in mode.knobs().items() if knob in varied})
        settings = [str(differing)] if differing.knobs() else []
        names.append(", ".join([precision, *settings] if several else settings))
    return names


_HEADROOM = 1.1
_PANEL_IN = (3.1, 1.75)


def roofline_clock_figure(roofline: Roofline) -> Figure:
    """Return the peaks and constants of a device against its clocks; errors as ``clock_figure``."""
    return clock_figure(roofline.roofs, device=roofline.device, simulated=roofline.header.simulated)


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
    knobs = varied_knobs(shown)
    if not knobs:
        raise InputError(
            f"there are {len(shown)} roofs, at one setting of every clock",
            "measure peaks in several modes, or draw the roofs themselves",
        )
    precisions = tuple(dict.fromkeys(roof.precision for roof in shown))
    quantities, styles = known_quantities(shown), _Styles(precisions)
    size = (2.2 + _PANEL_IN[0] * len(knobs), 0.9 + _PANEL_IN[1] * len(quantities))
    with new_figure(size) as figure:
        panels = figure.subplots(len(quantities), len(knobs), sharex="col", sharey="row", squeeze=False)
        for column, knob in enumerate(knobs):
            for line in clock_lines(shown, knob):
                for axes, quantity in zip(panels[:, column], quantities, strict=True):
                    _draw_line(axes, line, knob, quantity, style=styles.of(line), roofs=shown)
            panels[-1, column].set_xlabel(KNOB_LABELS[knob])
        for row, quantity in enumerate(quantities):
            _finish_row(panels[row], quantity)
        figure.align_ylabels()
        _note(panels[-1, -1], shown, quantities)
        legend_beside(figure, panels.flatten())
        mode = shared_mode(shown)
        head = f"SIMULATED: {device}" if simulated else device
        also = [str(mode)] if mode.knobs() else []
        set_title(panels[0, 0], plain_text(head), plain_text(", ".join([*precisions, *also])))
        note_left_out(figure, [note for knob in knobs if (note := _not_drawn(shown, knob))])
        lay_out(figure)
    return figure


def _not_drawn(roofs: Sequence[Roof], knob: str) -> str | None:
    """Return a note on the number of roofs that are on no line of a knob; ``None`` if all are."""
    drawn = {roof for line in clock_lines(roofs, knob) for roof in line.roofs}
    left = len(roofs) - len(drawn)
    return (
        f"against {KNOB_LABELS[knob]} {left} of {len(roofs)} roofs are not drawn: other knobs differ" if left else None
    )


class _Styles:
    """Colours, markers and dashes of lines: one style for each name, in all columns."""

    def __init__(self, precisions: Sequence[str]) -> None:
        self._precisions = precisions
        self._numbers: dict[str, int] = {}

    def of(self, line: ClockLine) -> dict[str, Any]:
        number = self._numbers.setdefault(line.name, len(self._numbers))
        dashes = LINES[self._precisions.index(line.precision) % len(LINES)] if line.joined else "none"
        return {**series_style(number), "linestyle": dashes, "label": folded(line.name)}


def point_name(roofs: Sequence[Roof], roof: Roof, knob: str, quantity: Quantity) -> str:
    """Return the identifier of a roof's point in the panel of a quantity and a knob."""
    return f"{quantity.name}-{knob}.k{roofs.index(roof)}"


def _draw_line(
    axes: Any, line: ClockLine, knob: str, quantity: Quantity, *, style: dict[str, Any], roofs: Sequence[Roof]
) -> None:
    points = [(getattr(roof.mode, knob), up, roof) for roof in line.roofs if (up := quantity.of(roof)) is not None]
    if not points:
        return
    across = [at for at, _, _ in points]
    dashes = style["linestyle"]
    axes.plot(across, [up for _, up, _ in points], color=style["color"], linestyle=dashes, linewidth=1.0, zorder=2)
    if style["label"]:
        axes.plot([], [], linewidth=1.0, **style)
    for at, up, roof in points:
        drawn = axes.errorbar(
            at, up, yerr=quantity.error_of(roof) or None, color=style["color"], marker=style["marker"], markersize=4.6,
            capsize=2.0, elinewidth=0.9, markerfacecolor=style["color"] if roof.measured else "white",
            markeredgewidth=0.9, zorder=3,
        )  # fmt: skip
        drawn.lines[0].set_gid(point_name(roofs, roof, knob, quantity))


def _finish_row(panels: Any, quantity: Quantity) -> None:
    from matplotlib.ticker import FuncFormatter

    panels[0].set_ylabel(f"{quantity.label}\n({quantity.unit})")
    panels[0].set_ylim(0.0, _HEADROOM * max(axes.dataLim.y1 for axes in panels))
    if quantity.factor is None:
        panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_si(value, "").strip()))


def _note(axes: Any, roofs: Sequence[Roof], quantities: Sequence[Quantity]) -> None:
    """Explain hollow points, error bars and missing energy in the legend."""
    notes = [] if all(roof.measured for roof in roofs) else ["filled: measured\nhollow: inferred"]
    if any(each.error_of(roof) for each in quantities for roof in roofs):
        notes.append("bars: 95 % confidence")
    if len(quantities) == len(QUANTITIES) - 3:
        notes.append("no energy:\npower was not measured")
    for note in notes:
        axes.plot([], [], linestyle="none", label=note)
