"""Changes of time and energy with the next lower and the next higher value of each knob: measured, else a range.

One measured mode does not determine the time in another. In the reference mode ResNet-50 takes six times as long as its
layers would at their roofs, and a lower memory clock slows only the share of the time that waits for memory, which may
be all or nothing. A mode in which the network was measured therefore has figures, and any other mode has a range that
covers every explanation of the time (see ``explanations``) and a GPU or a host that slows as its own clock does.

    time      1 <= T(m) / T(ref) <= max(ref clock / clock, every explanation)        of a lower value; reversed above
    energy    E(m) = D x + static_w(m) T(m)        D = E(ref) - static_w(ref) T(ref), x from 1 to d(m) / d(ref)

Checked on the digital twin by ``tests/roofline/test_clock_advice.py``.

Explanations of the time of a network in the reference mode, and how each part of it slows in other modes.

A network takes 10 ms where its layers at their roofs would take 4. The other 6 may be kernels below their roofs, or a
host that launches them one by one while the accelerator waits or works. In a mode with a slower CPU these differ.

    T(m) / T(ref) = (device(m)^p + host(m)^p)^(1/p)        p = 1: one after the other, p = 4: side by side
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.repeats import energy_per_minibatch_j, mean_minibatch_s
from edgetune.artifacts.roofline import Roof
from edgetune.stages.roofline.balance import costs_of
from edgetune.stages.roofline.placement import layers_time

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


TIME_REPEAT, ENERGY_REPEAT = 0.015, 0.03
"""Standard deviations of time and of energy between two visits of one mode: boards repeat to 1 to 2 % in time and 2 to
3 % in power. Each mode is visited once."""
_SURE = 1.96 * 2**0.5
"""Standard deviations of one visit in half a 95 % interval of the ratio of two."""


@dataclass(frozen=True, slots=True)
class Share:
    """Relative change of a figure, negative if it falls.

    Args:
        low, high: The least and the most that is possible, or a 95 % interval of what was measured.
        value: As measured; ``None`` where it was not.
    """

    low: float
    high: float
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of the next value of one knob, with all others unchanged.

    Args:
        knob: The knob.
        value: Its next value.
        mode: The mode with it.
        time: Of one minibatch.
        energy: The same of energy; ``None`` where nothing is known of it.
    """

    knob: str
    value: float
    mode: Mode
    time: Share
    energy: Share | None


def changes(
    table: OpsTable, roof: Roof, roofs: Sequence[Roof], rows: Mapping[Mode, ProfileRow], *, exact: bool = False
) -> tuple[Change, ...]:
    """Return the effects of the next lower and the next higher value of each knob.

    Args:
        table: What the network's operators cost.
        roof: Of the mode to start from.
        roofs: Of other modes; those of other precisions are passed over.
        rows: What was measured of the network, by mode.
        exact: Whether measurements repeat exactly, as those of a table do.
    """
    alike = {other.mode: other for other in roofs if other.precision == roof.precision}
    here = _measured(rows, roof.mode)
    found = []
    for knob, mode in next_modes(roof.mode, list(alike)):
        value, there = getattr(mode, knob), _measured(rows, mode)
        if here is not None and there is not None:
            changed = _measured_time(here, there, exact=exact), _measured_energy(here, there, exact=exact)
            found.append(Change(knob, value, mode, *changed))
            continue
        time = _possible_time(table, roof, alike[mode], knob, here)
        found.append(Change(knob, value, mode, time, _possible_energy(table, roof, alike[mode], time, here)))
    return tuple(found)


def next_modes(mode: Mode, modes: Sequence[Mode]) -> list[tuple[str, Mode]]:
    """Return the knobs, each with the mode of its next lower and of its next higher value, if they exist."""
    found = []
    for knob in KNOBS:
        here = getattr(mode, knob)
        if here is None:
            continue
        alike = [
            other for other in modes if getattr(other, knob) is not None and replace(other, **{knob: here}) == mode
        ]
        lower = [other for other in alike if getattr(other, knob) < here]
        higher = [other for other in alike if getattr(other, knob) > here]
        found += [(knob, max(lower, key=lambda other: getattr(other, knob)))] if lower else []
        found += [(knob, min(higher, key=lambda other: getattr(other, knob)))] if higher else []
    return found


def _measured(rows: Mapping[Mode, ProfileRow], mode: Mode) -> ProfileRow | None:
    row = rows.get(mode)
    return row if row is not None and row.status == "ok" and row.minibatch_s else None


def _measured_time(here: ProfileRow, there: ProfileRow, *, exact: bool) -> Share:
    """Return the measured change; its interval covers those of both means and the variation between visits."""
    (low_s, seconds, high_s), (then_low_s, then_s, then_high_s) = _interval(here), _interval(there)
    less, more = _between_visits(0.0 if exact else TIME_REPEAT)
    return Share(less * then_low_s / high_s - 1, more * then_high_s / low_s - 1, then_s / seconds - 1)


def _interval(row: ProfileRow) -> tuple[float, float, float]:
    """Return the mean time of a minibatch and its interval, as wide, relative to it, as that of the median, s."""
    mean_s, time_s = mean_minibatch_s(row), row.minibatch_s
    assert mean_s is not None
    assert time_s is not None
    low_s, high_s = row.minibatch_ci95_low_s or time_s, row.minibatch_ci95_high_s or time_s
    return low_s * mean_s / time_s, mean_s, high_s * mean_s / time_s


def _measured_energy(here: ProfileRow, there: ProfileRow, *, exact: bool) -> Share | None:
    now_j, then_j = energy_per_minibatch_j(here), energy_per_minibatch_j(there)
    if now_j is None or then_j is None:
        return None
    less, more = _between_visits(0.0 if exact else ENERGY_REPEAT)
    return Share(less * then_j / now_j - 1, more * then_j / now_j - 1, then_j / now_j - 1)


def _between_visits(deviation: float) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of two visits, given the standard deviation of one."""
    factor = 1 + _SURE * deviation
    return 1 / factor, factor


def _possible_time(table: OpsTable, roof: Roof, other: Roof, knob: str, here: ProfileRow | None) -> Share:
    """Return the range of the change of time over all explanations; without a measurement, all are possible."""
    now_s, then_s = layers_time(table, roof), layers_time(table, other)
    time_s = None if here is None else mean_minibatch_s(here)
    at_roofs_share = min(now_s / time_s, 1.0) if time_s else 0.0
    explanations = possible_explanations(table, at_roofs_share)
    ratios = time_ratios(explanations, [other], roof, np.array([then_s / now_s]), at_roofs_share)[:, 0].tolist()
    value, next_value = getattr(roof.mode, knob), getattr(other.mode, knob)
    if knob.endswith("_mhz"):
        ratios.append(value / next_value)
    at_least, at_most = (1.0, np.inf) if next_value < value else (0.0, 1.0)  # inferred peaks err; clocks do not
    ratios = [min(max(ratio, at_least), at_most) for ratio in ratios]
    return Share(min(ratios) - 1, max(ratios) - 1)


def _possible_energy(table: OpsTable, roof: Roof, other: Roof, time: Share, here: ProfileRow | None) -> Share | None:
    """Return the range of the change of energy; without a measurement, static power may be any share of it."""
    now, then = costs_of(roof), costs_of(other)
    if now is None or then is None:
        return None
    now_j, then_j = (cost.flop_j * table.flops + cost.byte_j * table.bytes_moved for cost in (now, then))
    energy_j, time_s = (None, None) if here is None else (energy_per_minibatch_j(here), mean_minibatch_s(here))
    if energy_j is None or not time_s:
        possible = [(now_j, layers_time(table, roof)), (0.0, 1.0)]
    else:
        possible = [(max(energy_j - now.static_w * time_s, 0.0), time_s)]
    scales = (1.0, then_j / now_j if now_j else 1.0)
    shares = [
        (beyond_j * scale + then.static_w * seconds * (1 + slower)) / (beyond_j + now.static_w * seconds) - 1
        for beyond_j, seconds in possible
        for scale in scales
        for slower in (time.low, time.high)
        if beyond_j + now.static_w * seconds > 0
    ]
    return Share(min(shares), max(shares)) if shares else None
