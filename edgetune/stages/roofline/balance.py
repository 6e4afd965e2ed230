"""Balance points of a device: the intensity at which computing and moving data cost the same, in time and in energy.

A network of few FLOP per byte waits for memory, one of many for arithmetic; the balance point in time is where the
two take equally long. In energy the efficiency W/E rises with intensity along two hyperbolas that meet there,

    left of it    1 / (flop_j + (byte_j + static_w / bytes_per_s) / I)
    right of it   1 / (flop_j + static_w / flops_per_s + byte_j / I)

and the balance point in energy is where it reaches half of its peak, 1 / (flop_j + static_w / flops_per_s).

Source: Choi, Bedard, Fowler and Vuduc, "A roofline model of energy" (IPDPS 2013); with static power Pagoda (2025),
eq. 5, which holds left of the balance point in time; right of it the second hyperbola is solved for half of the peak.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.roofline import Roof
from edgetune.units import format_si

SAME_TIME = 0.01
"""Share by which a mode may be slower than the fastest and count as fast: medians of kernels repeat to about 1 %, and
many modes differ in knobs that have no effect at all."""


@dataclass(frozen=True, slots=True)
class EnergyBalance:
    """Balance in energy of one roof, with static power or without.

    Args:
        flop_per_byte: Intensity with half of the peak efficiency; ``None`` where a FLOP costs nothing.
        peak_flops_per_j: What efficiency tends to at high intensity; ``None`` where a FLOP costs nothing.
    """

    flop_per_byte: float | None
    peak_flops_per_j: float | None


@dataclass(frozen=True, slots=True)
class Balance:
    """Balance points of one roof, FLOP per byte; of energy ``None`` where it was not measured.

    Args:
        mode: The power mode.
        precision: What is computed in.
        time: Where computing and moving data take equally long.
        energy: With static power.
        dynamic: Without: what a FLOP and a byte cost beyond it.
    """

    mode: Mode
    precision: str
    time: float
    energy: EnergyBalance | None
    dynamic: EnergyBalance | None


@dataclass(frozen=True, slots=True)
class ModeComparison:
    """The fastest mode and the mode of least energy for some work.

    Args:
        flop_per_byte: Intensity of the work.
        fastest, least_energy: The modes.
        wins: Whether racing wins: the mode of least energy is as fast as any, to within ``SAME_TIME``.
        slowdown_share: By what share of the fastest one's time the mode of least energy is slower.
        saving_share: What share of the fastest one's energy it saves.
    """

    flop_per_byte: float
    fastest: Mode
    least_energy: Mode
    wins: bool
    slowdown_share: float
    saving_share: float


@dataclass(frozen=True, slots=True)
class Statements:
    """Facts about a device over its modes, in one precision.

    Args:
        precision: The precision.
        modes: Modes with energy constants.
        most_efficient: The mode of the highest peak efficiency, static power included.
        peak_flops_per_j: That efficiency.
        lowest_flop_j: The mode in which a FLOP costs least beyond static power.
        flop_j: That cost, J.
        races: One for each intensity asked about.
        failing, failing_dynamic: The modes in which it does not imply it, with static power and without.
    """

    precision: str
    modes: int
    most_efficient: Mode
    peak_flops_per_j: float
    lowest_flop_j: Mode
    flop_j: float
    races: tuple[ModeComparison, ...]
    failing: tuple[Mode, ...] = ()
    failing_dynamic: tuple[Mode, ...] = ()

    @property
    def implied(self) -> int:
        """In how many modes time efficiency implies energy efficiency.

        There the balance in energy is at or below the one in time, so that work that keeps arithmetic busy is also past
        half of the peak efficiency.
        """
        return self.modes - len(self.failing)

    @property
    def implied_dynamic(self) -> int:
        """The same without static power."""
        return self.modes - len(self.failing_dynamic)


@dataclass(frozen=True, slots=True)
class EnergyCosts:
    """Energy constants of a roof, none of them missing: static power W, energy per FLOP and per byte J."""

    static_w: float
    flop_j: float
    byte_j: float


def costs_of(roof: Roof, *, static: bool = True) -> EnergyCosts | None:
    """Return the energy constants, without static power if ``static`` is false; ``None`` without energy."""
    if roof.static_w is None or roof.flop_j is None or roof.byte_j is None:
        return None
    return EnergyCosts(roof.static_w if static else 0.0, roof.flop_j, roof.byte_j)


def balance(roof: Roof) -> Balance:
    """Return the balance points of a roof."""
    energy, dynamic = _energy_balance(roof, static=True), _energy_balance(roof, static=False)
    return Balance(roof.mode, roof.precision, roof.flops_per_s / roof.bytes_per_s, energy, dynamic)


def _energy_balance(roof: Roof, *, static: bool) -> EnergyBalance | None:
    costs = costs_of(roof, static=static)
    if costs is None:
        return None
    at_peak_j = costs.flop_j + costs.static_w / roof.flops_per_s
    if at_peak_j == 0:
        return EnergyBalance(None, None)
    left = (costs.byte_j + costs.static_w / roof.bytes_per_s) / (costs.flop_j + 2 * costs.static_w / roof.flops_per_s)
    right = costs.byte_j / at_peak_j
    # Both lie on one side of the balance in time: left <= B_t says byte_j <= B_t at_peak_j, and so does right <= B_t.
    return EnergyBalance(left if left <= roof.flops_per_s / roof.bytes_per_s else right, 1 / at_peak_j)


def work_time(roof: Roof, flops: float, bytes_moved: float) -> float:
    """Return the least time of some work, s: the longer of computing and moving data, one hidden behind the other."""
    return max(flops / roof.flops_per_s, bytes_moved / roof.bytes_per_s)


def work_energy(costs: EnergyCosts, flops: float, bytes_moved: float, seconds: float) -> float:
    """Return the energy of some work that takes ``seconds``, J."""
    return costs.flop_j * flops + costs.byte_j * bytes_moved + costs.static_w * seconds


def efficiency(roof: Roof, flop_per_byte: float, *, static: bool = True) -> float | None:
    """Return FLOP per joule at an intensity, from the two hyperbolas; ``None`` if energy is unknown or zero."""
    costs = costs_of(roof, static=static)
    if costs is None:
        return None
    energy_j = work_energy(costs, flop_per_byte, 1.0, work_time(roof, flop_per_byte, 1.0))
    return flop_per_byte / energy_j if energy_j else None


def statements(roofs: Sequence[Roof], intensities: Sequence[float] = ()) -> Statements | None:
    """Return the facts about the roofs of one precision; ``None`` without energy.

    Args:
        roofs: One per mode; those without energy constants are left out.
        intensities: FLOP per byte of the work to race with, e.g. of a network.
    """
    known = [(roof, costs) for roof in roofs if (costs := costs_of(roof)) is not None]
    balances = [balance(roof) for roof, _ in known]
    efficient = [(found.energy.peak_flops_per_j, found.mode) for found in balances
                 if found.energy is not None and found.energy.peak_flops_per_j is not None]  # fmt: skip
    priced = [(costs.flop_j, roof.mode) for roof, costs in known if costs.flop_j > 0]
    if not efficient or not priced:
        return None
    peak_flops_per_j, most_efficient = max(efficient, key=lambda item: item[0])
    flop_j, lowest = min(priced, key=lambda item: item[0])
    return Statements(
        precision=known[0][0].precision, modes=len(known),
        most_efficient=most_efficient, peak_flops_per_j=peak_flops_per_j, lowest_flop_j=lowest, flop_j=flop_j,
        races=tuple(_race(known, flop_per_byte) for flop_per_byte in intensities),
        failing=tuple(found.mode for found in balances if not _is_implied(found.time, found.energy)),
        failing_dynamic=tuple(found.mode for found in balances if not _is_implied(found.time, found.dynamic)),
    )  # fmt: skip


def _is_implied(time: float, energy: EnergyBalance | None) -> bool:
    return energy is not None and energy.flop_per_byte is not None and energy.flop_per_byte <= time


def _race(known: Sequence[tuple[Roof, EnergyCosts]], flop_per_byte: float) -> ModeComparison:
    """Compare modes on one byte and its FLOP; of equally fast modes, the one of less energy counts as fastest."""
    results = []
    for roof, costs in known:
        seconds = work_time(roof, flop_per_byte, 1.0)
        results.append((seconds, work_energy(costs, flop_per_byte, 1.0, seconds), roof.mode))
    fastest = min(results, key=lambda result: result[:2])
    least = min(results, key=lambda result: (result[1], result[0]))
    slowdown = least[0] / fastest[0] - 1
    saving = 1 - least[1] / fastest[1] if fastest[1] else 0.0
    return ModeComparison(flop_per_byte, fastest[2], least[2], slowdown <= SAME_TIME, slowdown, saving)


def sentences(found: Statements) -> list[str]:
    """Return the facts in words, one sentence each."""
    return [
        _implication(found),
        *_exceptions(found),
        f"{found.precision} computes with the least energy per FLOP, {format_si(found.peak_flops_per_j, 'FLOP/J')} at "
        f"most with static power, at {found.most_efficient}",
        f"a FLOP beyond static power costs least at {found.lowest_flop_j}: {1e12 * found.flop_j:.3g} pJ",
        *map(race_sentence, found.races),
    ]


def _implication(found: Statements) -> str:
    rule = "what is efficient in time is efficient in energy"
    within, without = _share(found.implied, found.modes), _share(found.implied_dynamic, found.modes)
    if within == without:
        return f"{rule} in {within}, with static power or without"
    return f"{rule} in {within} with static power, in {without} without"


def _exceptions(found: Statements) -> list[str]:
    """Return the modes in which the implication fails, if it holds in others."""
    told = []
    for failing, how in ((found.failing, "with static power"), (found.failing_dynamic, "without static power")):
        if 0 < len(failing) < found.modes:
            told.append(f"it fails {how} in {len(failing)} mode{'s' if len(failing) > 1 else ''}: {_modes(failing)}")
    return told


def _modes(failing: Sequence[Mode]) -> str:
    """Return modes in words: a single one, or the values of each knob."""
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


def race_sentence(race: ModeComparison) -> str:
    """Return whether racing to halt saves energy, in words."""
    at = f"for kernels at their roof of {race.flop_per_byte:.4g} FLOP/byte"
    if race.wins:
        return f"{at} racing to halt wins: the fastest mode is also that of least energy ({race.least_energy})"
    return (
        f"{at} racing to halt loses: {race.least_energy} takes {race.slowdown_share:.1%} longer than the fastest "
        f"({race.fastest}) and {race.saving_share:.1%} less energy"
    )
