"""Forecast of the time and energy of a network in other power modes.

In the reference mode a minibatch takes longer than its layers would at their roofs:

    measured    |======== layers at their roofs ========|------- above the roofs -------|

Layers at their roofs slow with the peak that bounds them: those bound by compute with FLOP/s, those bound by memory
with bandwidth. What lies above is known only by its length. It may be the host, which launches kernels and loads data
and slows with the CPU clock, before or behind the accelerator's work; or kernels that stay below their roof. Every
``Explanation`` says one of these, and each measurement in another mode tells which are likely.

    time      T(m) = T(ref) (device(m)^p + host(m)^p)^(1/p)        p = 1: one after the other, p = 4: side by side
    energy    E(m) = D d(m)/d(ref) + static_w(m) T(m)              d = flop_j W + byte_j Q, D as measured

Source of the layer-wise bound: Pagoda (2025); its prediction for ResNet-50 at 1100, 700 and 300 MHz of 1300 was 1.2,
9.8 and 17.5 % where 1.8, 7 and 24 % were measured, which is why predictions only choose what to measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.repeats import energy_per_minibatch_j, mean_minibatch_s
from edgetune.artifacts.roofline import Roof
from edgetune.errors import InputError
from edgetune.stages.roofline.balance import costs_of
from edgetune.stages.roofline.clocks import HOST_KNOBS
from edgetune.stages.roofline.placement import layers_time, require_placeable

Array = NDArray[np.float64]

Follows = Literal["layers", "compute", "memory"]

OVERLAPS = (1.0, 4.0)
"""Powers ``p`` of the sum of two activities: 1 for one after the other; with 4 the longer nearly hides the shorter,
and where they are equal both together take 19 % longer than either."""
STEPS = 4
"""In how many steps the host's part of the time of the reference is thought possible."""
HOST = 0.1
"""The least part that is thought of: no network runs without a host, and one of which nothing is seen
would be thought to run as well at a twentieth of its clock."""
LEAST = 0.5
"""The least that the accelerator works, as a part of what layers take at their roofs, and the most that layers' bounds
are relied on by explanations that doubt them. Roofs are beaten where a runtime fuses layers or a cache keeps tensors,
which saves half of the bytes at most: a layer of which neither input nor output goes to memory is a rare one."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One possible composition of the time of the reference.

    Args:
        device_share: Share of it in which the accelerator works.
        follows: What that slows with: each layer with its own bound, or most of it with one peak, since kernels are
            seldom at their roofs and a layer below its roof may wait for the other one.
        overlap: See ``OVERLAPS``.
        cores: Whether the host's work is spread over the cores beside the first (loading images), else the first's.
    """

    device_share: float
    follows: Follows
    overlap: float
    cores: bool


def possible_explanations(table: OpsTable, at_roofs_share: float) -> tuple[Explanation, ...]:
    """Return the possible explanations of the reference's time, of which layers at their roofs take a share."""
    kinds: tuple[Follows, ...] = ("layers", "compute", "memory")
    spreads = (False, True) if table.loads_images else (False,)
    return tuple(
        Explanation(share, follows, overlap, cores)
        for overlap in OVERLAPS
        for share in _shares(at_roofs_share * LEAST, overlap)
        for follows in kinds
        for cores in spreads
    )


def _shares(least: float, overlap: float) -> list[float]:
    """Return the accelerator's shares that leave the host so much of the time that it needs at most, and less."""
    longest = (1 - least**overlap) ** (1 / overlap)
    hosts = [max(longest * step / STEPS, HOST) for step in range(STEPS + 1)]
    return [_device(host, overlap) for host in dict.fromkeys(hosts)]


def _device(host_share: float, overlap: float) -> float:
    return float((1 - host_share**overlap) ** (1 / overlap))


def time_ratios(
    explanations: Sequence[Explanation], roofs: Sequence[Roof], here: Roof, at_roofs: Array, at_roofs_share: float
) -> Array:
    """Return the time of every mode as a multiple of the reference's, a row per explanation."""
    compute = here.flops_per_s / np.array([roof.flops_per_s for roof in roofs])
    memory = here.bytes_per_s / np.array([roof.bytes_per_s for roof in roofs])
    known = min(at_roofs_share, LEAST)
    slows = {
        "layers": at_roofs,
        "compute": known * at_roofs + (1 - known) * compute,
        "memory": known * at_roofs + (1 - known) * memory,
    }
    clock = np.array([_ratio(here.mode.cpu_mhz, roof.mode.cpu_mhz) for roof in roofs])
    cores = clock * np.array([_ratio(_others(here.mode), _others(roof.mode)) for roof in roofs])
    found = []
    for one in explanations:
        p = one.overlap
        device = one.device_share * slows[one.follows]
        host = (1 - one.device_share**p) ** (1 / p) * (cores if one.cores else clock)
        found.append((device**p + host**p) ** (1 / p))
    return np.array(found)


def _ratio(here: float | None, there: float | None) -> float:
    return here / there if here and there else 1.0


def _others(mode: Mode) -> float | None:
    """Return the number of cores besides the one that launches kernels."""
    return None if mode.cpu_cores is None else max(mode.cpu_cores - 1, 1)


MISSED = 2.0
"""Largest factor by which one mode's change corrects the predictions of others: one mode proves no more."""
DOUBT = 0.05
"""Share of the reference that is added to the predicted and the measured change before they are compared, so that a
slowdown of 1 % where 2 % were predicted does not halve all others. Of 0.005 to 0.1 on the AGX Orin's twin 0.05 saves
most in all, by little."""
MODEL_ERROR = 0.02
"""Relative error of a right explanation, in standard deviations: measured times repeat to 1 to 3 %."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the time of the reference, which add up to one; ``above`` is the time beyond the roofs."""

    compute: float
    memory: float
    above: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predicted time and energy of every mode, by every explanation.

    Args:
        reference: The mode that slowdown is counted from.
        seconds, energy_j: Of one minibatch in it, s and J.
        roofs: One per mode.
        shares: What the time of the reference is made of.
        ratios: Time as a multiple of that of the reference; one row per explanation, one column per mode.
        beyond_j: Energy of one minibatch beyond static power in every mode, J.
        log_odds: How likely each explanation is, up to a constant.
    """

    reference: Mode
    seconds: float
    energy_j: float
    roofs: tuple[Roof, ...]
    shares: Shares
    ratios: Array = field(compare=False, repr=False)
    beyond_j: Array = field(compare=False, repr=False)
    log_odds: Array = field(compare=False, repr=False)

    @property
    def energies_j(self) -> Array:
        """Energy of one minibatch, J, in the layout of ``ratios``."""
        return np.asarray(self.beyond_j + _static(self.roofs) * self.seconds * self.ratios)

    @property
    def weights(self) -> Array:
        """Probability of each explanation."""
        odds = np.exp(self.log_odds - self.log_odds.max())
        return np.asarray(odds / odds.sum())

    def column(self, mode: Mode) -> int:
        """Return the column of a mode."""
        return next(column for column, roof in enumerate(self.roofs) if roof.mode == mode)

    def expected(self, column: int) -> tuple[float, float]:
        """Return the expected time of a mode as a multiple of the reference's, and its expected energy, J."""
        return float(self.weights @ self.ratios[:, column]), float(self.weights @ self.energies_j[:, column])

    def learn(self, column: int, ratio: float, energy_j: float) -> Forecast:
        """Return the posterior after measuring one mode.

        Explanations count by how near they came. What all of them missed is taken to be missed in other modes too, as
        the same part of the slowdown, and of the change of energy beyond static power. Modes that differ only in what
        the host beside a GPU does take the latter as measured.

        The mean squared error of the explanations in the measured mode never rises. The error of their mean may: a
        mean of wrong explanations can be right by chance before the measurement, and moves when their weights do.

        Args:
            column: Of the mode.
            ratio: Its time as a multiple of that of the reference.
            energy_j: Energy of one minibatch in it, J.
        """
        misses = np.log(ratio / self.ratios[:, column]) / MODEL_ERROR
        known = replace(self, log_odds=self.log_odds - misses**2 / 2)
        slower = _missed(known.expected(column)[0] - 1, ratio - 1)
        here_j = float(self.beyond_j[self.column(self.reference)])
        seen_j = energy_j - float(_static(self.roofs)[column]) * ratio * self.seconds
        less = _missed(1 - float(self.beyond_j[column]) / here_j, 1 - seen_j / here_j) if here_j > 0 else 1.0
        beyond_j = here_j + (self.beyond_j - here_j) * less
        beyond_j[[_same_gpu(roof.mode, self.roofs[column].mode) for roof in self.roofs]] = seen_j
        return replace(known, ratios=1 + (known.ratios - 1) * slower, beyond_j=beyond_j)


def _missed(predicted: float, measured: float) -> float:
    """Return the correction of predicted relative changes; close to 1 if the measured change is small."""
    return min(max((measured + DOUBT) / (max(predicted, 0.0) + DOUBT), 1 / MISSED), MISSED)


def _same_gpu(mode: Mode, other: Mode) -> bool:
    knobs = [knob for knob in KNOBS if knob not in HOST_KNOBS]
    beside_gpu = mode.gpu_mhz is not None
    return mode == other or (beside_gpu and all(getattr(mode, knob) == getattr(other, knob) for knob in knobs))


def _static(roofs: Sequence[Roof]) -> Array:

    return np.array([roof.static_w for roof in roofs], dtype=np.float64)


def forecast_modes(table: OpsTable, roofs: Sequence[Roof], reference: Mode, row: ProfileRow) -> Forecast:
    """Return the forecast of a network in every mode with a roof.

    Args:
        table: What its operators cost.
        roofs: One per mode, measured or inferred, of one precision; those without energy are passed over.
        reference: The mode that slowdown is counted from.
        row: What was measured in it.

    Raises:
        InputError: the reference has no roof with energy or was not measured properly, or see ``place``.
    """
    here, known = _with_energy(roofs, reference)
    require_placeable(table, here)
    seconds, energy_j = reference_figures(row)
    times_s = _layer_times(table, known)
    compute_s, memory_s = (float(part[known.index(here)]) for part in times_s)
    least = min((compute_s + memory_s) / seconds, 1.0)
    at_roofs = (times_s[0] + times_s[1]) / (compute_s + memory_s)
    ratios = time_ratios(possible_explanations(table, least), known, here, at_roofs, least)
    lower = [no_knob_above(roof.mode, reference) for roof in known]
    ratios[:, lower] = ratios[:, lower].clip(min=1.0)  # inferred peaks err, yet lower clocks never help
    scale = least / (compute_s + memory_s)
    return Forecast(
        reference=reference, seconds=seconds, energy_j=energy_j, roofs=tuple(known),
        shares=Shares(compute_s * scale, memory_s * scale, 1 - least), ratios=ratios,
        beyond_j=_beyond(table, known, here, energy_j - _static([here])[0] * seconds), log_odds=ratios[:, 0] * 0.0,
    )  # fmt: skip


def reference_figures(row: ProfileRow) -> tuple[float, float]:
    """Return time and energy of the reference's minibatch, s and J.

    Raises:
        InputError: it was not measured, or without power.
    """
    time_s = mean_minibatch_s(row)
    if row.status != "ok" or not time_s:
        why = row.reason or row.status
        raise InputError(f"the reference mode ({row.mode}) was not measured: {why}", "choose another with --modes")
    energy_j = energy_per_minibatch_j(row)
    if energy_j is None:
        raise InputError(
            f"no power was measured in the reference mode: {row.reason or 'no sensor'}",
            "energy can be tuned only where power is measured; see edgetune doctor",
        )
    return time_s, energy_j


def fastest_mode(table: OpsTable, roofs: Sequence[Roof]) -> Mode:
    """Return the mode that a slowdown is counted from unless another is named: none has a knob higher; else, where no
    mode has all knobs highest, the one in which layers take least time at their roofs.

    Raises:
        InputError: see ``layers_time``.
    """
    highest = {knob: max(values) for knob in KNOBS if (values := [v for r in roofs if (v := getattr(r.mode, knob))])}
    for roof in roofs:
        if roof.mode.knobs() == highest:
            return roof.mode
    return min(roofs, key=lambda roof: layers_time(table, roof)).mode


def no_knob_above(mode: Mode, other: Mode) -> bool:
    """Return whether a mode has no knob above that of another, so that it cannot be faster."""
    ours, theirs = mode.knobs(), other.knobs()
    return ours.keys() == theirs.keys() and all(ours[knob] <= theirs[knob] for knob in ours)


def _with_energy(roofs: Sequence[Roof], reference: Mode) -> tuple[Roof, list[Roof]]:
    """Return the roof of the reference and all roofs with energy."""
    known = [roof for roof in roofs if costs_of(roof) is not None]
    here = next((roof for roof in known if roof.mode == reference), None)
    if here is None:
        what = "no roof" if all(roof.mode != reference for roof in roofs) else "a roof without energy"
        raise InputError(
            f"the reference mode ({reference}) has {what}",
            "measure peaks where power is measured, with power at rest, in several modes",
        )
    return here, known


def _layer_times(table: OpsTable, roofs: Sequence[Roof]) -> tuple[Array, Array]:
    """Return the time of the layers bound by compute and of those bound by memory, s, for every roof.

    With the layers in order of intensity each mode's balance point splits them in two, and sums are looked up.
    """
    flops, moved = np.array([[row.flops, row.bytes_moved] for row in table.rows], dtype=np.float64).T
    intensity = np.divide(flops, moved, out=np.full_like(flops, np.inf), where=moved > 0)
    order = np.argsort(intensity, kind="stable")
    flops_below, bytes_below = (np.concatenate(([0.0], np.cumsum(part[order]))) for part in (flops, moved))
    flops_per_s = np.array([roof.flops_per_s for roof in roofs])
    bytes_per_s = np.array([roof.bytes_per_s for roof in roofs])
    first = np.searchsorted(intensity[order], flops_per_s / bytes_per_s, side="right")
    return (flops_below[-1] - flops_below[first]) / flops_per_s, bytes_below[first] / bytes_per_s


def _beyond(table: OpsTable, roofs: Sequence[Roof], here: Roof, measured_j: float) -> Array:
    """Return the energy beyond static power, J: that of the reference as measured, scaled by the cost of its work."""
    costs = [cost for roof in roofs if (cost := costs_of(roof)) is not None]
    beyond = np.array([cost.flop_j * table.flops + cost.byte_j * table.bytes_moved for cost in costs])
    column = roofs.index(here)
    return np.asarray(beyond * (measured_j / beyond[column]) if measured_j > 0 and beyond[column] > 0 else beyond)
