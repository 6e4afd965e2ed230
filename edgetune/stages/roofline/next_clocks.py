"""Changes of time and energy with the next lower and the next higher value of each knob: measured, else a range.

One measured mode does not determine the time in another. In the reference mode ResNet-50 takes six times as long as its
layers would at their roofs, and a lower memory clock slows only the share of the time that waits for memory, which may
be all or nothing. A mode in which the network was measured therefore has figures, and any other mode has a range that
covers every explanation of the time (see ``explanations``) and a GPU or a host that slows as its own clock does.

    time      1 <= T(m) / T(ref) <= max(ref clock / clock, every explanation)        of a lower value; reversed above
    energy    E(m) = D x + static_w(m) T(m)        D = E(ref) - static_w(ref) T(ref), x from 1 to d(m) / d(ref)

Checked on the digital twin by ``tests/roofline/test_clock_advice.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.roofline import Roof
from edgetune.artifacts.row_figures import energy_per_minibatch_j, mean_minibatch_s
from edgetune.stages.roofline.balance import costs_of
from edgetune.stages.roofline.explanations import possible_explanations, time_ratios
from edgetune.stages.roofline.placement import layers_time

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
