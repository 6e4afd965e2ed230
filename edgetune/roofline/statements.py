"""Statements about a device in words: one line each, for the terminal and for figures."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.artifacts.mode import Mode
from edgetune.roofline.balance import ModeComparison, Statements
from edgetune.units import format_si


def sentences(found: Statements) -> list[str]:
    """Return what holds over the modes of a device, one sentence each."""
    return [
        _implication(found),
        *_exceptions(found),
        f"{found.precision} computes with the least energy per FLOP, {format_si(found.peak_flops_per_j, 'FLOP/J')} at "
        f"most with static power, at {found.most_efficient}",
        f"a FLOP beyond static power costs least at {found.lowest_flop_j}: {1e12 * found.flop_j:.3g} pJ",
        *map(_race, found.races),
    ]


def _implication(found: Statements) -> str:
    rule = "what is efficient in time is efficient in energy"
    within, without = _share(found.implied, found.modes), _share(found.implied_dynamic, found.modes)
    if within == without:
        return f"{rule} in {within}, with static power or without"
    return f"{rule} in {within} with static power, in {without} without"


def _exceptions(found: Statements) -> list[str]:
    """Return where the implication fails, where it does in some modes and holds in others."""
    told = []
    for failing, how in ((found.failing, "with static power"), (found.failing_dynamic, "without static power")):
        if 0 < len(failing) < found.modes:
            told.append(f"it fails {how} in {len(failing)} mode{'s' if len(failing) > 1 else ''}: {_modes(failing)}")
    return told


def _modes(failing: Sequence[Mode]) -> str:
    """Return modes in words: the one, or the values of each knob among them."""
    if len(failing) == 1:
        return str(failing[0])
    values = {knob: sorted({mode.knobs()[knob] for mode in failing}) for knob in failing[0].knobs()}
    return ", ".join(f"{_KNOBS[knob]} {' or '.join(f'{value:g}' for value in found)}" for knob, found in values.items())


_KNOBS = {
    "cpu_cores": "cores",
    "cpu_mhz": "CPU MHz",
    "gpu_mhz": "GPU MHz",
    "mem_mhz": "memory MHz",
    "power_limit_w": "limit W",
}


def _share(count: int, modes: int) -> str:
    if modes == 1:
        return "the only mode known" if count else "no mode, of one known"
    return {modes: f"all {modes} modes", 0: f"none of {modes} modes"}.get(count, f"{count} of {modes} modes")


def _race(race: ModeComparison) -> str:
    at = f"for kernels at their roof of {race.flop_per_byte:.4g} FLOP/byte"
    if race.wins:
        return f"{at} racing to halt wins: the fastest mode is also that of least energy ({race.least_energy})"
    return (
        f"{at} racing to halt loses: {race.least_energy} takes {race.slowdown_share:.1%} longer than the fastest "
        f"({race.fastest}) and {race.saving_share:.1%} less energy"
    )
