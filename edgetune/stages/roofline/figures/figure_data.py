"""What a roofline figure shows: roofs and their names, curves, balance points, networks, layers and axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.roofline import Roof
from edgetune.errors import InputError
from edgetune.plotting.style import BLACK, COLOURS
from edgetune.stages.roofline.balance import balance, efficiency
from edgetune.stages.roofline.figures.points import (
    LayerPoints,
    PlacedNetwork,
    PointSeries,
    RooflinePoint,
    layer_points,
    series_of,
    span,
)

_STEPS = 96
"""Points of a drawn hyperbola; at six decades across they are closer than a line is thick."""
_FEW = 4
"""Roofs that can be distinguished at a glance, e.g. two precisions in two modes."""

Curve = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class BalancePoint:
    """A balance point on a curve.

    Args:
        kind: ``time`` or ``energy``.
        flop_per_byte: Where.
        height: Of the curve there: FLOP/s of ``time``, else FLOP/J.
    """

    kind: str
    flop_per_byte: float
    height: float


KINDS = {"time": "balance in time", "energy": "balance in energy"}
"""The name of each kind of balance point in a legend."""
_MOST_TOLD = ("gpu_mhz", "mem_mhz", "power_limit_w", "cpu_mhz", "cpu_cores")
"""Knobs of a mode, the best known first."""


def key_roofs(roofs: Sequence[Roof], used: Sequence[Roof]) -> list[Roof]:
    """Return the roofs to draw in full; the others are drawn faintly.

    All roofs of the drawn precisions, if they are few. Otherwise the roofs of the networks; without networks, the
    highest roof of each precision and, of a single precision, also the most efficient roof and the lowest one.
    """
    precisions = {roof.precision for roof in used or roofs}
    alike = list(dict.fromkeys([*used, *(roof for roof in roofs if roof.precision in precisions)]))
    if len(alike) <= _FEW:
        return alike
    if used:
        return list(dict.fromkeys(used))
    highest: dict[str, Roof] = {}
    for roof in sorted(roofs, key=_height, reverse=True):
        highest.setdefault(roof.precision, roof)
    found = list(highest.values())
    if len(found) == 1:
        efficient = max(roofs, key=peak_efficiency)
        found += [efficient] if peak_efficiency(efficient) else []
        found.append(min(roofs, key=_height))
    return list(dict.fromkeys(found))


def peak_efficiency(roof: Roof) -> float:
    """Return the efficiency at high intensity, FLOP/J; 0 where it is not known."""
    found = balance(roof).energy
    return 0.0 if found is None or found.peak_flops_per_j is None else found.peak_flops_per_j


def _height(roof: Roof) -> tuple[float, float]:
    return roof.flops_per_s, roof.bytes_per_s


def has_energy(roofs: Sequence[Roof]) -> bool:
    """Return whether any roof has a curve in energy."""
    return any(peak_efficiency(roof) > 0 for roof in roofs)


def shared_mode(roofs: Sequence[Roof]) -> Mode:
    """Return the knobs that all roofs have in common."""
    first = roofs[0].mode.knobs()
    return Mode.of({knob: value for knob, value in first.items() if all(_knob(r, knob) == value for r in roofs)})


def roof_names(roofs: Sequence[Roof]) -> dict[Roof, str]:
    """Return the name of each roof in a legend: precision, the knobs that differ between roofs, and ``inferred``."""
    varied = [knob for knob in KNOBS if len({_knob(roof, knob) for roof in roofs}) > 1]
    return {roof: _name(roof, varied) for roof in roofs}


def brief_names(roofs: Sequence[Roof]) -> dict[Roof, str]:
    """Return the shortest distinct names of roofs: the precision if it differs, and one knob if one is enough."""
    modes, precisions = {roof.mode for roof in roofs}, {roof.precision for roof in roofs}
    telling = [knob for knob in _MOST_TOLD if len({getattr(mode, knob) for mode in modes} - {None}) == len(modes)]
    if len(modes) == 1 or not telling:
        return roof_names(roofs)
    return {roof: _name(roof, telling[:1], precision=len(precisions) > 1) for roof in roofs}


def _name(roof: Roof, knobs: Sequence[str], *, precision: bool = True) -> str:
    """Return the name of a roof: its precision, some of its knobs, and whether it is inferred."""
    named = Mode.of({knob: value for knob, value in roof.mode.knobs().items() if knob in knobs})
    parts = [roof.precision if precision else "", str(named) if knobs else "", "" if roof.measured else "inferred"]
    return ", ".join(filter(None, parts))


def _knob(roof: Roof, knob: str) -> float | None:
    value: float | None = getattr(roof.mode, knob)
    return value


def time_curve(roof: Roof, low: float, high: float) -> Curve:
    """Return the roof in time between two intensities: the slope of memory, then the flat top of arithmetic."""
    corner = roof.flops_per_s / roof.bytes_per_s
    across = [low, corner, high] if low < corner < high else [low, high]
    return [(x, min(roof.flops_per_s, x * roof.bytes_per_s)) for x in across]


def energy_curve(roof: Roof, low: float, high: float) -> Curve:
    """Return the arch in energy between two intensities; empty without energy constants."""
    across = (low * (high / low) ** (step / _STEPS) for step in range(_STEPS + 1))
    return [(x, height) for x in across if (height := efficiency(roof, x)) is not None]


def balance_points(roof: Roof) -> list[BalancePoint]:
    """Return the balance points of a roof that lie on a curve: one in time, and one in energy if that is known."""
    found = balance(roof)
    points = [BalancePoint("time", found.time, roof.flops_per_s)]
    at = None if found.energy is None else found.energy.flop_per_byte
    height = efficiency(roof, at) if at else None
    return [*points, BalancePoint("energy", at, height)] if at and height is not None else points


NO_ENERGY = "no roofline of energy: power was not measured"
LETTERS = "abcdefgh"
"""Names of the layers with the largest shares; more letters would hide the points."""
_COUNTED_SHARE = 0.99
"""The axes include the largest layers up to this share of the time of all layers; others may lie outside."""
_PAD = 2.2
"""Factor of room at either end of the axis of intensity."""
_SLOPE, _TOP = 60.0, 8.0
"""Factors by which a roof is shown at least to the left and to the right of its balance point in time."""
_SAME_PLACE = 1.07
"""Factor between two points below which one hides the batch size of the other."""


@dataclass(frozen=True, slots=True)
class FigureData:
    """The contents of a figure of rooflines.

    Args:
        shown: The roofs drawn in full.
        faint: The others.
        series: Networks.
        layers: The layers drawn, if any.
        across: Both ends of the axis of intensity, FLOP per byte.
        title: Lines over the figure: where and whether simulated; what; the knobs that all roofs in full share.
        all_roofs: In the order of the artifact, those of the networks that it lacks last.
    """

    shown: tuple[Roof, ...]
    faint: tuple[Roof, ...]
    series: tuple[PointSeries, ...]
    layers: LayerPoints | None
    across: tuple[float, float]
    title: tuple[str, str, str]
    all_roofs: tuple[Roof, ...] = ()

    @property
    def numbered(self) -> bool:
        """Whether there are several batch sizes, so that points are labelled with them."""
        return len({point.placement.batch_size for each in self.series for point in each.points}) > 1

    @property
    def worded(self) -> bool:
        """Whether points have labels: batch sizes, or the passes of a language model."""
        return self.numbered or any(point.point is not None for each in self.series for point in each.points)

    @property
    def colours(self) -> Mapping[Roof, str]:
        """Colours of the roofs drawn in full; a single one is black."""
        if len(self.shown) == 1:
            return {self.shown[0]: BLACK}
        return {roof: COLOURS[index % len(COLOURS)] for index, roof in enumerate(self.shown)}

    def colour(self, number: int) -> str:
        """Return the colour of a series: that of its roof; beneath a single roof, each series has its own."""
        if len(self.shown) == 1:
            return COLOURS[number % len(COLOURS)]
        return self.colours[self.series[number].roof]

    def series_name(self, number: int) -> str:
        """Return the name of a series in a legend: the network and, if there are several roofs, its roof."""
        each = self.series[number]
        return each.workload + (f", {brief_names(self.shown)[each.roof]}" if len(self.shown) > 1 else "")

    def points(self) -> list[RooflinePoint]:
        """Return the points that the axes must include."""
        found = [point for each in self.series for point in each.points]
        layers = () if self.layers is None else self.layers.points
        missing = _COUNTED_SHARE * sum(point.share or 0.0 for point in layers)
        for point in layers:
            if missing <= 0:
                break
            found.append(point)
            missing -= point.share or 0.0
        return found


def figure_data_of(
    roofs: Sequence[Roof], networks: Sequence[PlacedNetwork], layers_of: PlacedNetwork | None, device: str, *,
    simulated: bool,
) -> FigureData:  # fmt: skip
    """Return the contents of a figure of roofs and networks; the arguments are those of ``roof_figure``.

    Raises:
        InputError: there is neither a roof nor a network.
    """
    placed = [network.placement for network in (*networks, *([] if layers_of is None else [layers_of]))]
    shown = key_roofs(roofs, [each.roof for each in placed])
    if not shown:
        raise InputError("there is no roof to draw", "measure peaks first: edgetune roofline MODEL --device NAME")
    series = tuple(series_of(networks))
    what = ", ".join(dict.fromkeys(each.workload for each in placed))
    mode = shared_mode(shown)
    title = (f"SIMULATED: {device}" if simulated else device, what, str(mode) if mode.knobs() else "")
    layers = None if layers_of is None else layer_points(layers_of)
    faint = tuple(roof for roof in dict.fromkeys(roofs) if roof not in shown)
    known = tuple(dict.fromkeys([*roofs, *shown]))
    data = FigureData(tuple(shown), faint, series, layers, (1.0, 1.0), title, all_roofs=known)
    return replace(data, across=_across(data))


def _across(data: FigureData) -> tuple[float, float]:
    """Return the ends of the axis of intensity: all balance points, networks, and layers that take time."""
    found = [point.flop_per_byte for roof in data.shown for point in balance_points(roof)]
    low, high = span([*found, *(point.flop_per_byte for point in data.points())], _PAD)
    corners = [roof.flops_per_s / roof.bytes_per_s for roof in data.shown]
    return min(low, min(corners) / _SLOPE), max(high, max(corners) * _TOP)


def point_words(points: Sequence[RooflinePoint], places: Sequence[tuple[float, float]]) -> list[str]:
    """Return the labels of the points of a series: batch sizes or, at a single batch size, passes of a language model.

    Of points that hide each other, the last has the labels of all.
    """
    several = len({point.placement.batch_size for point in points}) > 1
    words = [str(p.placement.batch_size if several or p.point is None else p.point) for p in points]
    for index, (here, after) in enumerate(pairwise(places)):
        if _hides(here, after):
            words[index], words[index + 1] = "", f"{words[index]}, {words[index + 1].rpartition(' ')[2]}"
    return words


def letter_words(places: Sequence[tuple[float, float]]) -> list[str]:
    """Return the letters of layers, the largest first; of layers at one place, the largest has the letters of all.

    A network often has many equal layers, and eight letters around one point would be unreadable.
    """
    words = [""] * len(places)
    together: dict[int, list[int]] = {}
    for index, here in enumerate(places[: len(LETTERS)]):
        first = next((other for other in together if _hides(here, places[other])), index)
        together.setdefault(first, []).append(index)
    for first, indices in together.items():
        words[first] = ", ".join(LETTERS[index] for index in indices)
    return words


def _hides(here: tuple[float, float], there: tuple[float, float]) -> bool:
    return all(max(a / b, b / a) < _SAME_PLACE for a, b in zip(here, there, strict=True))


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
