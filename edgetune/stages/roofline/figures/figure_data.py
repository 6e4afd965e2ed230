"""What a roofline figure shows: roofs and their names, curves, balance points, networks, layers and axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.roofline import Roof
from edgetune.errors import InputError
from edgetune.plotting.style import BLACK, COLOURS
from edgetune.stages.roofline.balance import balance, costs_of, efficiency
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
        kind: ``time``, ``energy`` (static power included) or ``dynamic`` (without).
        flop_per_byte: Where.
        height: Of the curve there: FLOP/s of ``time``, else FLOP/J.
    """

    kind: str
    flop_per_byte: float
    height: float


KINDS = {"time": "balance in time", "energy": "balance in energy", "dynamic": "balance in energy\nwithout static power"}
"""What each kind of balance point is called."""
_MOST_TOLD = ("gpu_mhz", "mem_mhz", "power_limit_w", "cpu_mhz", "cpu_cores")
"""Knobs of a mode, the one that people know it by first."""


def key_roofs(roofs: Sequence[Roof], used: Sequence[Roof]) -> list[Roof]:
    """Return the roofs to draw in full; the others are only hinted at.

    All of the precisions drawn, where they are few. Else those of the networks; without any the highest roof of each
    precision, and of a single precision also that of the highest peak efficiency and the lowest one.
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
    """Return whether any roof has an energy side to draw."""
    return any(peak_efficiency(roof) > 0 for roof in roofs)


def shared_mode(roofs: Sequence[Roof]) -> Mode:
    """Return the knobs that all roofs have in common."""
    first = roofs[0].mode.knobs()
    return Mode.of({knob: value for knob, value in first.items() if all(_knob(r, knob) == value for r in roofs)})


def roof_names(roofs: Sequence[Roof]) -> dict[Roof, str]:
    """Return how a legend calls each roof: precision, the knobs in which they differ, whether it is inferred."""
    varied = [knob for knob in KNOBS if len({_knob(roof, knob) for roof in roofs}) > 1]
    names = {}
    for roof in roofs:
        differs = Mode.of({knob: value for knob, value in roof.mode.knobs().items() if knob in varied})
        mode = str(differs) if varied else ""
        names[roof] = ", ".join(filter(None, [roof.precision, mode, "" if roof.measured else "inferred"]))
    return names


def brief_names(roofs: Sequence[Roof]) -> dict[Roof, str]:
    """Return the shortest distinct names of roofs: the precision where it differs, and one knob where one suffices."""
    modes, precisions = {roof.mode for roof in roofs}, {roof.precision for roof in roofs}
    telling = [knob for knob in _MOST_TOLD if len({getattr(mode, knob) for mode in modes} - {None}) == len(modes)]
    if len(modes) == 1 or not telling:
        return roof_names(roofs)
    names = {}
    for roof in roofs:
        knob = Mode.of({knob: value for knob, value in roof.mode.knobs().items() if knob == telling[0]})
        parts = [roof.precision if len(precisions) > 1 else "", str(knob), "" if roof.measured else "inferred"]
        names[roof] = ", ".join(filter(None, parts))
    return names


def _knob(roof: Roof, knob: str) -> float | None:
    value: float | None = getattr(roof.mode, knob)
    return value


def time_curve(roof: Roof, low: float, high: float) -> Curve:
    """Return the roof in time between two intensities: the slope of memory, then the flat top of arithmetic."""
    corner = roof.flops_per_s / roof.bytes_per_s
    across = [low, corner, high] if low < corner < high else [low, high]
    return [(x, min(roof.flops_per_s, x * roof.bytes_per_s)) for x in across]


def energy_curve(roof: Roof, low: float, high: float, *, static: bool = True) -> Curve:
    """Return the arch in energy between two intensities; empty without energy constants."""
    across = (low * (high / low) ** (step / _STEPS) for step in range(_STEPS + 1))
    return [(x, height) for x in across if (height := efficiency(roof, x, static=static)) is not None]


def balance_points(roof: Roof) -> list[BalancePoint]:
    """Return the balance points of a roof that lie on a curve: one in time, and up to two in energy."""
    found = balance(roof)
    points = [BalancePoint("time", found.time, roof.flops_per_s)]
    for kind, energy in (("energy", found.energy), ("dynamic", found.dynamic)):
        at = None if energy is None else energy.flop_per_byte
        height = efficiency(roof, at, static=kind == "energy") if at else None
        if at and height is not None:
            points.append(BalancePoint(kind, at, height))
    return points


def static_matters(roof: Roof) -> bool:
    """Return whether the roof without static power is another curve than with it."""
    costs = costs_of(roof)
    return costs is not None and costs.static_w > 0


NO_ENERGY = "no roofline of energy: power was not measured"
LETTERS = "abcdefgh"
"""Names of the layers of the largest shares; more of them hide what they name."""
_COUNTED_SHARE = 0.99
"""Of the time of all layers with a place: the axes show the largest that make it up. Others may lie outside."""
_PAD = 2.2
"""Factor of room at either end of the axis of intensity."""
_SLOPE, _TOP = 60.0, 8.0
"""Factors by which a roof is shown at least to the left and to the right of its balance point in time."""
_MOST_DYNAMIC = 2
"""With more roofs, those without static power would hide the others."""
_SAME_PLACE = 1.07
"""Factor between two points less than which one hides the other's batch size."""


@dataclass(frozen=True, slots=True)
class FigureData:
    """What a figure shows.

    Args:
        shown: The roofs drawn in full.
        faint: The others.
        series: Networks.
        layers: The layers drawn, if any.
        across: Both ends of the axis of intensity, FLOP per byte.
        title: Lines over the figure: where and whether simulated; what; the knobs that all roofs in full share.
    """

    shown: tuple[Roof, ...]
    faint: tuple[Roof, ...]
    series: tuple[PointSeries, ...]
    layers: LayerPoints | None
    across: tuple[float, float]
    title: tuple[str, str, str]

    @property
    def starts(self) -> list[int]:
        """How many points the series before each one have: points of networks are numbered through."""
        return [0, *accumulate(len(each.points) for each in self.series)][: len(self.series)]

    @property
    def with_dynamic(self) -> bool:
        """Whether roofs without static power are drawn too."""
        return len(self.shown) <= _MOST_DYNAMIC and any(map(static_matters, self.shown))

    @property
    def numbered(self) -> bool:
        """Whether points carry their batch size, for there are several."""
        return len({point.batch_size for each in self.series for point in each.points}) > 1

    @property
    def worded(self) -> bool:
        """Whether points carry words: batch sizes, or the passes of a language model."""
        return self.numbered or any(point.point is not None for each in self.series for point in each.points)

    @property
    def colours(self) -> Mapping[Roof, str]:
        """Colours of the roofs drawn in full; a single one is black."""
        if len(self.shown) == 1:
            return {self.shown[0]: BLACK}
        return {roof: COLOURS[index % len(COLOURS)] for index, roof in enumerate(self.shown)}

    def colour(self, number: int) -> str:
        """Return the colour of a series: that of its roof, beneath a single roof one of its own."""
        if len(self.shown) == 1:
            return COLOURS[number % len(COLOURS)]
        return self.colours[self.series[number].roof]

    def series_name(self, number: int) -> str:
        """Return what a legend calls a series: the network, and of several roofs which."""
        each = self.series[number]
        return each.workload + (f", {brief_names(self.shown)[each.roof]}" if len(self.shown) > 1 else "")

    def balances(self, roof: Roof) -> list[BalancePoint]:
        """Return the balance points of a roof that are marked."""
        dynamic = self.with_dynamic and static_matters(roof)
        return [point for point in balance_points(roof) if point.kind != "dynamic" or dynamic]

    def points(self) -> list[RooflinePoint]:
        """Return all points by which the axes are chosen."""
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
    """Return what a figure of these shows.

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
    data = FigureData(tuple(shown), faint, series, layers, (1.0, 1.0), title)
    return FigureData(tuple(shown), faint, series, layers, _across(data), title)


def _across(data: FigureData) -> tuple[float, float]:
    """Return the ends of the axis of intensity: all balance points, networks, and layers that take time."""
    found = [point.flop_per_byte for roof in data.shown for point in balance_points(roof)]
    low, high = span([*found, *(point.flop_per_byte for point in data.points())], _PAD)
    corners = [roof.flops_per_s / roof.bytes_per_s for roof in data.shown]
    return min(low, min(corners) / _SLOPE), max(high, max(corners) * _TOP)


def point_words(points: Sequence[RooflinePoint], places: Sequence[tuple[float, float]]) -> list[str]:
    """Return what to write beside the points of a series: batch sizes, or passes of a language model at a single one.

    Of points that hide each other the last has the words of all.
    """
    several = len({point.batch_size for point in points}) > 1
    words = [str(point.batch_size if several or point.point is None else point.point) for point in points]
    for index, (here, after) in enumerate(pairwise(places)):
        if _hides(here, after):
            words[index], words[index + 1] = "", f"{words[index]}, {words[index + 1].rpartition(' ')[2]}"
    return words


def letter_words(places: Sequence[tuple[float, float]]) -> list[str]:
    """Return the letters to write beside layers, the largest first; of those at one place the largest has all.

    A network often has many equal layers: eight letters around one point would be lines and letters all over.
    """
    words = [""] * len(places)
    together: dict[int, list[int]] = {}
    for index, here in enumerate(places[: len(LETTERS)]):
        first = next((other for other in together if _hides(here, places[other])), index)
        together.setdefault(first, []).append(index)
    for first, indices in together.items():
        words[first] = _letters(indices)
    return words


def _hides(here: tuple[float, float], there: tuple[float, float]) -> bool:
    return all(max(a / b, b / a) < _SAME_PLACE for a, b in zip(here, there, strict=True))


def _letters(indices: Sequence[int]) -> str:
    """Return letters in order, three or more that follow each other as ``a-c``."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(
        f"{LETTERS[run[0]]}-{LETTERS[run[-1]]}" if len(run) > 2 else ", ".join(LETTERS[index] for index in run)
        for run in runs
    )


def percent(share: float) -> str:
    """Return a share as people write it."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
