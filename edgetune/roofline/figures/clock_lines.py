"""What is drawn against clocks, the same on paper and on a page: quantities of a roof, and lines of modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.roofline import Roof

_MOST_LINES = 4
"""More lines than these in a panel hide each other; of more settings those spread evenly between the ends are drawn."""
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
    """Return what is known of any of the roofs: without energy, peaks alone."""
    return [each for each in QUANTITIES if any(each.of(roof) is not None for roof in roofs)]


@dataclass(frozen=True, slots=True)
class ClockLine:
    """Roofs in one panel.

    Args:
        name: Its precision and settings, in so far as other lines have others; may be empty.
        precision: Of all its roofs.
        roofs: By ascending value of the knob, which all of them have.
        joined: Whether only the knob differs between them, so that a line from one to the next means something.
    """

    name: str
    precision: str
    roofs: tuple[Roof, ...]
    joined: bool


_Key = tuple[str, Mode]
"""What a line is of: a precision, and the settings of all other knobs."""


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
    """Return the lines to draw: of each precision those of several points, of many settings a few."""
    chosen: list[_Key] = []
    for precision in precisions:
        of_one = [key for key in lines if key[0] == precision and len(lines[key]) > 1]
        of_one.sort(key=lambda key: tuple(getattr(key[1], knob) or 0.0 for knob in KNOBS))
        chosen += _spread(of_one, max(2, _MOST_LINES // len(precisions)))
    return chosen


def _spread(keys: Sequence[_Key], most: int) -> list[_Key]:
    """Return the lines, of many a few from the first to the last."""
    if len(keys) <= most:
        return list(keys)
    last = len(keys) - 1
    return [keys[round(last * step / (most - 1))] for step in range(most)]


def _names(keys: Sequence[_Key]) -> list[str]:
    """Return what a legend calls each line: its precision and the settings, if they differ from those of others."""
    varied = [knob for knob in KNOBS if len({getattr(mode, knob) for _, mode in keys}) > 1]
    several = len({precision for precision, _ in keys}) > 1
    names = []
    for precision, mode in keys:
        differing = Mode.of({knob: value for knob, value in mode.knobs().items() if knob in varied})
        settings = [str(differing)] if differing.knobs() else []
        names.append(", ".join([precision, *settings] if several else settings))
    return names
