"""Power of a window of time, from timestamped readings on the clock that timed the work.

A reading is the mean over the refresh interval that ends at its time stamp. Only intervals that lie wholly inside the
window count: one that straddles its start still carries the idle board. Of those that do, the first ones may still show
power on its way, as the sensor averages and regulators and temperatures follow the work; they are told by the data:

    power   . . .-*"*********        ``.`` before the window, ``-`` left out, ``*`` counted
                |-- window --|

The energy of a prompt's token and of an answer's token, from measurements with several lengths.

A request of p prompt tokens and o output tokens takes p x prompt_j + o x output_j. With at least two pairs of lengths,
least squares of the relative errors give both; the residual says how well they describe all pairs. The share of idle
power is in both figures: it grows with the time of each phase.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean as mean

from edgetune.artifacts.profile import PowerSample, ProfileRow
from edgetune.artifacts.repeats import SAME, energy_per_request_j
from edgetune.devices.capabilities import PowerReading, PowerSensor
from edgetune.stats import Warmup, find_warmup

MINIMUM_SAMPLES = 5
"""Fresh readings below which a mean is not given."""

SPARE_READINGS = 2
"""One reading straddles the start of the window and one its end."""

_MISSED = 1.5
"""A gap longer than this many refresh intervals means that readings were missed; the later one covers its own only."""


_DISCARDED_INTERVALS = 2
"""Refresh intervals after the start of work that never count: one that began before it, and one until it is shown."""

_MATERIAL = 0.01
"""A cut that moves the mean by less than this share is no transient but noise, or a drift too slow to wait for: boards
repeat a measurement to 2 to 3 % (``SAME``), so less than half of that changes nothing."""


@dataclass(frozen=True, slots=True)
class PowerFigures:
    """Power over a window.

    Args:
        samples: Fresh readings that count: inside the window, after the transient.
        from_ns: When the first of them began, on the device's clock; ``None`` when there is none.
        settled: Whether the transient, if there is one, was over within the first half of the window.
        power_w: Their mean, weighted by the time each covers, W; ``None`` when there are too few.
        peak_w: The highest of them, W.
        reason: Why there is no power, or why it may be off.
    """

    samples: int
    from_ns: int | None = None
    settled: bool = False
    power_w: float | None = None
    peak_w: float | None = None
    reason: str | None = None


_Covered = tuple[PowerReading, int]
"""A reading, and the length of the interval that it is the mean of, ns."""


def power_figures(readings: Sequence[PowerReading], *, start_ns: int, end_ns: int, refresh_s: float) -> PowerFigures:
    """Return mean and peak power between two readings of the clock, after power has settled.

    Args:
        readings: Fresh readings of the sensor, oldest first.
        start_ns, end_ns: The window, the settling time of the sensor already left out, on the device's clock.
        refresh_s: The sensor's refresh interval, s.
    """
    window = _inside(readings, start_ns=start_ns, end_ns=end_ns, refresh_s=refresh_s)
    transient = find_transient([reading.power_w for reading, _ in window])
    counted = window[transient.length :]
    if not counted:
        return PowerFigures(0, reason=_too_few(0, len(window)))
    from_ns = counted[0][0].time_ns - counted[0][1]
    if len(counted) < MINIMUM_SAMPLES:
        return PowerFigures(len(counted), from_ns, transient.steady, reason=_too_few(len(counted), len(window)))
    return PowerFigures(
        len(counted), from_ns, transient.steady, power_w=_mean_w(counted),
        peak_w=max(reading.power_w for reading, _ in counted),
        reason=None if transient.steady else "power had not settled when the time to measure was over",
    )  # fmt: skip


def find_transient(power_w: Sequence[float]) -> Warmup:
    """Return the number of leading readings before power settles, by the rule that finds the warm-up of times.

    That rule (``stats.find_warmup``, MSER) minimises a standard error, so on a handful of readings it also cuts where
    there is only noise, and always where there is a slow drift. What it cuts is therefore left out only where that
    moves the mean by more than ``_MATERIAL``. Nor does the rule see a step late in a short window: power counts as
    steady only when the halves of what is kept agree as two measurements do.
    """
    if not power_w:
        return Warmup(0, steady=False)
    found = find_warmup(power_w)
    kept = power_w[found.length :]
    if abs(mean(power_w) - mean(kept)) <= _MATERIAL * abs(mean(kept)):
        found, kept = Warmup(0, steady=True), power_w
    middle = len(kept) // 2
    agree = middle == 0 or abs(mean(kept[:middle]) - mean(kept[middle:])) <= SAME * abs(mean(kept))
    return Warmup(found.length, steady=found.steady and agree)


def settling_s(sensor: PowerSensor) -> float:
    """Return the time after the start of work in which readings do not count, s."""
    return max(sensor.settle_s, _DISCARDED_INTERVALS * sensor.refresh_s)


def measurable_s(sensor: PowerSensor) -> float:
    """Return how long work must run for a mean of its power, where it is steady, s."""
    return settling_s(sensor) + (MINIMUM_SAMPLES + SPARE_READINGS) * sensor.refresh_s


def _inside(readings: Sequence[PowerReading], *, start_ns: int, end_ns: int, refresh_s: float) -> list[_Covered]:
    """Return the readings whose intervals lie wholly inside the window; they are consecutive."""
    refresh_ns = round(refresh_s * 1e9)  # integers: a float cannot hold a clock that has run for months
    found: list[_Covered] = []
    before_ns: int | None = None
    for reading in readings:
        gap_ns = refresh_ns if before_ns is None else reading.time_ns - before_ns
        length_ns = refresh_ns if gap_ns > _MISSED * refresh_ns else gap_ns
        before_ns = reading.time_ns
        if reading.time_ns - length_ns >= start_ns and reading.time_ns <= end_ns and length_ns > 0:
            found.append((reading, length_ns))
    return found


def _mean_w(counted: Sequence[_Covered]) -> float:
    mean_w = sum(reading.power_w * ns for reading, ns in counted) / sum(ns for _, ns in counted)
    return min(mean_w, max(reading.power_w for reading, _ in counted))  # that of equal ones is rounded upwards


def _too_few(counted: int, inside: int) -> str:
    unsettled = f", {inside - counted} more before power had settled" if inside > counted else ""
    return f"too few power samples: {counted}, {MINIMUM_SAMPLES} needed{unsettled}"


def power_trace(readings: Sequence[PowerReading], start_ns: int) -> tuple[PowerSample, ...]:
    """Return the readings with times counted from ``start_ns``, s."""
    return tuple(PowerSample((reading.time_ns - start_ns) / 1e9, reading.power_w) for reading in readings)


def window_figures(readings: Sequence[PowerReading], *, start_ns: int, end_ns: int, refresh_s: float) -> PowerFigures:
    """Return mean and peak power of all readings between two readings of the clock, transients included.

    Args:
        readings, start_ns, end_ns, refresh_s: See ``power_figures``.
    """
    window = _inside(readings, start_ns=start_ns, end_ns=end_ns, refresh_s=refresh_s)
    if len(window) < MINIMUM_SAMPLES:
        return PowerFigures(len(window), reason=_too_few(len(window), len(window)))
    peak_w = max(reading.power_w for reading, _ in window)
    return PowerFigures(len(window), start_ns, settled=True, power_w=_mean_w(window), peak_w=peak_w)


_LEAST_ANGLE = 1e-3
"""Sine of the angle between two pairs of lengths below which they do not separate prompts from answers."""


@dataclass(frozen=True, slots=True)
class TokenEnergy:
    """The energy of tokens in one mode with one number of streams.

    Args:
        row: The first of the measurements, which names mode and number of streams.
        prompt_j: Energy of a token of a prompt, J.
        output_j: Energy of a token of an answer, J.
        residual: Root mean square of the relative errors of the energy of a request; 0 with two pairs of lengths.
        pairs: Number of pairs of lengths.
    """

    row: ProfileRow
    prompt_j: float
    output_j: float
    residual: float
    pairs: int


def token_energies(rows: Iterable[ProfileRow]) -> list[TokenEnergy]:
    """Return the energy of tokens of each mode and number of streams, where the measurements tell it.

    There is none without power, without the server's count of prompt tokens, or if the lengths are too much alike.
    """
    groups: dict[tuple[object, ...], dict[str, ProfileRow]] = {}
    for row in rows:
        if row.status == "ok" and row.prompt_tokens and row.output_tokens and energy_per_request_j(row) is not None:
            server = row.workload.rsplit(":", 2)[0]
            groups.setdefault((server, row.device, row.batch_size, row.mode), {})[row.workload] = row
    return [found for group in groups.values() if (found := _fit(list(group.values()))) is not None]


def _fit(rows: Sequence[ProfileRow]) -> TokenEnergy | None:
    """Solve the normal equations of prompt_j x p / E + output_j x o / E = 1."""
    scaled = [(row.prompt_tokens or 0.0, row.output_tokens or 0.0, energy_per_request_j(row) or 0.0) for row in rows]
    points = [(prompt / energy_j, output / energy_j) for prompt, output, energy_j in scaled]
    pp, oo = sum(p * p for p, _ in points), sum(o * o for _, o in points)
    po, p_sum, o_sum = sum(p * o for p, o in points), sum(p for p, _ in points), sum(o for _, o in points)
    determinant = pp * oo - po * po
    if determinant <= _LEAST_ANGLE**2 * pp * oo:
        return None
    prompt_j, output_j = (oo * p_sum - po * o_sum) / determinant, (pp * o_sum - po * p_sum) / determinant
    if prompt_j <= 0 or output_j <= 0:
        return None
    errors = [prompt_j * p + output_j * o - 1 for p, o in points]
    return TokenEnergy(rows[0], prompt_j, output_j, math.sqrt(sum(e * e for e in errors) / len(errors)), len(rows))
