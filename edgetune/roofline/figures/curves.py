"""The roofs of a figure: which are drawn in full, what they are called, their curves and their balance points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.roofline import Roof
from edgetune.roofline.balance import balance, costs_of, efficiency

_STEPS = 96
"""Points of a drawn hyperbola; at six decades across they are closer than a line is thick."""
_FEW = 4
"""Roofs that are told apart at a glance: two precisions in two modes, say."""

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


KINDS = {
    "time": "balance in time",
    "energy": "balance in energy",
    "dynamic": "balance in energy\nwithout static power",
}
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
    """Return the shortest names that tell roofs apart: of several precisions which, and one knob where one will do."""
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
