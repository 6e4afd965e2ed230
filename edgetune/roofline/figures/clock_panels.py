"""Peaks and energy constants against clocks on a page: a column of panels for each knob, a row for each quantity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from edgetune.artifacts.roofline import Roof
from edgetune.plotting.style import KNOB_LABELS, series_style
from edgetune.roofline.figures.clock_lines import ClockLine, Quantity, clock_lines, known_quantities, varied_knobs
from edgetune.roofline.figures.curves import roof_names
from edgetune.roofline.figures.panels import DASHES, css_colour
from edgetune.roofline.figures.svg import LinearFrame, draw_axes, draw_curve, draw_marker, element
from edgetune.units import format_si

_WIDTH, _HEIGHT = 780.0, 120.0
_LEFT, _TOP, _BELOW, _RIGHT, _BETWEEN = 66.0, 12.0, 42.0, 14.0, 26.0
_MARKER_PX = 5.0
_HEADROOM = 1.12
_BESIDE = 0.06
"""Share of a panel that is left free beside its first and last clock."""
_TICKS = 4
"""Numbers on an axis, about."""


def clock_panels(parent: ET.Element, roofs: Sequence[Roof]) -> list[tuple[str, str, str, str]]:
    """Draw every known quantity against every knob that differs between modes, of which there is at least one.

    Returns:
        Of each line its name, colour, dashes and marker, for a legend.
    """
    return _Sheet(parent, roofs).draw()


class _Sheet:
    """All panels while they are drawn."""

    def __init__(self, parent: ET.Element, roofs: Sequence[Roof]) -> None:
        self._roofs, self._names = roofs, roof_names(roofs)
        self._knobs, self._quantities = varied_knobs(roofs), known_quantities(roofs)
        self._wide = (_WIDTH - _BETWEEN * (len(self._knobs) - 1)) / len(self._knobs)
        self._styles: dict[str, tuple[str, str, str]] = {}
        size = f"0 0 {_LEFT + _WIDTH + _RIGHT} {len(self._quantities) * (_TOP + _HEIGHT) + _BELOW}"
        label = "peaks and energy constants against clocks"
        self._svg = element(parent, "svg", viewBox=size, role="group", aria_label=label)

    def draw(self) -> list[tuple[str, str, str, str]]:
        """Draw them; return what a legend is to say."""
        precisions = [roof.precision for roof in self._roofs]
        for column, knob in enumerate(self._knobs):
            lines = clock_lines(self._roofs, knob)
            for line in lines:
                self._styles.setdefault(line.name, _style(len(self._styles), line, precisions))
            for row, quantity in enumerate(self._quantities):
                panel, frame = self._panel(column, row)
                for line in lines:
                    self._draw_line(panel, frame, line, knob, quantity)
        return [(name, *style) for name, style in self._styles.items()]

    def _panel(self, column: int, row: int) -> tuple[ET.Element, LinearFrame]:
        """Draw the axes of a panel: numbers and names only at the left and at the bottom of all."""
        knob, quantity = self._knobs[column], self._quantities[row]
        place = f"translate({_LEFT + column * (self._wide + _BETWEEN):g} {_TOP + row * (_TOP + _HEIGHT):g})"
        panel = element(self._svg, "g", transform=place)
        frame = _frame(self._roofs, knob, quantity, self._wide)
        below, left = row == len(self._quantities) - 1, column == 0
        names = (KNOB_LABELS[knob] if below else "", f"{quantity.label} ({quantity.unit})" if left else "")
        across = [(value, f"{value:g}" if below else "") for value in round_values(*frame.across)]
        up = [(value, _number(quantity, value) if left else "") for value in round_values(*frame.up)]
        draw_axes(panel, frame, names, across, up)
        return panel, frame

    def _draw_line(self, panel: ET.Element, frame: LinearFrame, line: ClockLine, knob: str, quantity: Quantity) -> None:
        (colour_name, dashes, marker) = self._styles[line.name]
        colour = css_colour(colour_name)
        points = [(getattr(roof.mode, knob), up, roof) for roof in line.roofs if (up := quantity.of(roof)) is not None]
        if line.joined:
            draw_curve(panel, frame, [(at, up) for at, up, _ in points], stroke=colour, stroke_dasharray=dashes)
        for at, up, roof in points:
            if error := quantity.error_of(roof):
                (x, top), (_, bottom) = frame.place((at, up + error)), frame.place((at, max(0.0, up - error)))
                element(panel, "line", x1=x, x2=x, y1=top, y2=bottom, stroke=colour)
            group = element(panel, "g", class_="point", role="img", data_spot=f"k{self._roofs.index(roof)}")
            element(group, "title", f"{self._names[roof]}\n{_describe(quantity, roof, up)}")
            fill = colour if roof.measured else "var(--paper)"
            draw_marker(group, frame.place((at, up)), marker, _MARKER_PX, fill=fill, stroke=colour)


def _style(number: int, line: ClockLine, precisions: Sequence[str]) -> tuple[str, str, str]:
    drawn = series_style(number)
    dashes = DASHES[list(dict.fromkeys(precisions)).index(line.precision) % len(DASHES)]
    return drawn["color"], dashes if line.joined else "", drawn["marker"]


def _frame(roofs: Sequence[Roof], knob: str, quantity: Quantity, wide: float) -> LinearFrame:
    clocks = [value for roof in roofs if (value := getattr(roof.mode, knob)) is not None]
    beside = _BESIDE * (max(clocks) - min(clocks))
    most = max(value + quantity.error_of(roof) for roof in roofs if (value := quantity.of(roof)) is not None)
    return LinearFrame(wide, _HEIGHT, (min(clocks) - beside, max(clocks) + beside), (0.0, _HEADROOM * most or 1.0))


def _number(quantity: Quantity, value: float) -> str:
    return f"{value:g}" if quantity.factor else format_si(value, "").strip()


def round_values(low: float, high: float) -> list[float]:
    """Return a few round values on a linear axis."""
    rough = (high - low) / _TICKS
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(step * decade for step in (1.0, 2.0, 5.0, 10.0) if step * decade >= rough)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _describe(quantity: Quantity, roof: Roof, value: float) -> str:
    """Return what a point says of itself."""
    error = quantity.error_of(roof)
    sure = f" +-{error:.2g}" if error else ""
    number = f"{value:.3g}{sure} {quantity.unit}" if quantity.factor else format_si(value, quantity.unit)
    return f"{quantity.label} {number}, {'measured' if roof.measured else 'inferred'}"
