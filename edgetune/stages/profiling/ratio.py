"""The ratio of two measured figures with its 95 % interval, from raw values or from the intervals of a table.

The interval is that of Price and Bonett (*Confidence intervals for ratios of means and medians*, Journal of Educational
and Behavioral Statistics 45, 2020): the logarithm of the ratio of medians, with standard errors from order statistics.
Three things are added, because minibatch times are no independent sample of a fixed size. The variance of a median
grows by its design effect, from an autocorrelation without the bias of short series. A sample that ended early because
it looked steady by luck is not believed: its variance is raised towards that of the other one. A factor makes up for
the looks of the stopping rule. ``tests/profiling/test_ratio.py`` checks the calibration.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.stats import CONFIDENCE, correlation_above_median, median

LOOKS = 1.1
"""Factor of every interval: sampling ends when it looks narrow."""
_MOST_RAISED = 3.0
"""Most by which a variance is raised towards that of the other sample; beyond, the noise itself differs."""
_FEWEST = 6
"""Values below which there is no interval, as for ``stats.median_interval``."""
_MANY = 1e6
MANY_RATIOS = 10
"""Ratios from which their scatter shows how certain they are."""
_Z = 1.959963984540054  # 97.5th percentile of the standard normal distribution
_MAD = 1.482602218505602  # from the median absolute deviation to the standard deviation of a normal distribution


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its uncertainty.

    Args:
        value: The figure, above zero.
        variance: Of the logarithm of the figure, times ``count``; ``None`` where unknown.
        count: Values behind the figure.
        freedom: Degrees of freedom of the variance.
    """

    value: float
    variance: float | None = None
    count: float = 1.0
    freedom: float = _MANY


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio and its 95 % confidence interval; ``None`` where the uncertainty is unknown."""

    ratio: float
    low: float | None = None
    high: float | None = None

    @property
    def differs(self) -> int:
        """-1 below 1 with certainty, 1 above 1, 0 if the interval holds 1 or is unknown."""
        if self.low is None or self.high is None:
            return 0
        return (self.low > 1) - (self.high < 1)


def estimate_of_times(times_s: Sequence[float]) -> Estimate | None:
    """Return the median of steady minibatch times; ``None`` with too few of them for an interval."""
    from scipy.special import bdtr, ndtri

    count = len(times_s)
    if count < _FEWEST or min(times_s) <= 0:
        return None
    ordered = sorted(times_s)
    rank = max(1, round((count + 1) / 2 - math.sqrt(count)))
    quantile = -float(ndtri(bdtr(rank - 1, count, 0.5)))
    error = math.log(ordered[count - rank] / ordered[rank - 1]) / (2 * quantile)
    effect = _effect(times_s)
    return Estimate(median(times_s), error**2 * effect * count, count, max(count / effect - 1, 1.0))


def estimate_of_mean(values: Sequence[float]) -> Estimate | None:
    """Return the mean of readings, such as those of power; ``None`` with too few of them."""
    count = len(values)
    mean = sum(values) / max(count, 1)
    if count < _FEWEST or mean <= 0:
        return None
    effect = _effect(values)
    variance = sum((value - mean) ** 2 for value in values) / (count - 1) / mean**2
    return Estimate(mean, variance * effect, count, max(count / effect - 1, 1.0))


def estimate_of_interval(value: float, low: float, high: float, count: int | None) -> Estimate:
    """Return a figure with a 95 % interval as a table states it; ``count`` is the number of values behind it."""
    if low <= 0 or (count is not None and count < _FEWEST):
        return Estimate(value)
    error = math.log(high / low) / (2 * _Z)
    return Estimate(value, error**2 * (count or 1), count or 1, (count or _MANY) - 1)


def ratio_of(before: Estimate, after: Estimate) -> Ratio:
    """Return the ratio of ``after`` to ``before``."""
    ratio = after.value / before.value
    if before.variance is None or after.variance is None:
        return Ratio(ratio)
    largest = max(before.variance, after.variance)
    parts = [(min(largest, _MOST_RAISED * of.variance) / of.count, of.freedom) for of in (before, after)
             if of.variance is not None]  # fmt: skip
    return _with_error(ratio, sum(part for part, _ in parts), _freedom(parts), LOOKS)


def surely_above(ratio: Ratio, limit: float, among: int) -> bool:
    """Return whether a ratio is above a limit with 97.5 % confidence for that many ratios together (Bonferroni)."""
    from scipy.special import ndtri

    if ratio.low is None:
        return False
    wider = -float(ndtri((1 - CONFIDENCE) / 2 / among)) / _Z
    return bool(math.log(ratio.ratio / limit) > wider * math.log(ratio.ratio / ratio.low))


def excess_scatter(ratios: Sequence[Ratio]) -> float:
    """Return by how much ratios scatter more than their intervals explain: a standard deviation of their logarithms.

    It is a robust one, from the median absolute deviation, so that a few ratios that differ do not count.
    """
    logs = [math.log(each.ratio) for each in ratios]
    middle = median(logs)
    scatter = _MAD * median([abs(log - middle) for log in logs])
    errors = [math.log(each.high / each.low) / (2 * _Z) if each.low and each.high else 0.0 for each in ratios]
    return math.sqrt(max(scatter**2 - median(errors) ** 2, 0.0))


def widened(ratio: Ratio, scatter: float) -> Ratio:
    """Return a ratio whose interval includes a further scatter; without an interval it stays as it is."""
    if not ratio.low or not ratio.high:
        return ratio
    down, up = (math.exp(math.hypot(math.log(reach), _Z * scatter))
                for reach in (ratio.ratio / ratio.low, ratio.high / ratio.ratio))  # fmt: skip
    return Ratio(ratio.ratio, ratio.ratio / down, ratio.ratio * up)


def slowed_by(ratio: Ratio, before: float, after: float) -> Ratio:
    """Return a ratio whose interval includes what other processes, with these shares of the CPUs, may have changed.

    A share ``s`` leaves ``1 - s`` of the CPU time, and again as much is allowed for caches, and for threads that wait
    for the one that was interrupted: undisturbed, the figure may be as low as ``(1 - s)**2`` times the measured one.
    """
    if not ratio.low or not ratio.high:
        return ratio
    left = [max(1 - share, 0.01) ** 2 for share in (before, after)]
    return Ratio(ratio.ratio, ratio.low * left[1], ratio.high / left[0])


def mean_ratio(ratios: Sequence[Ratio], *, alike: bool = True) -> Ratio | None:
    """Return the geometric mean of ratios; ``None`` for none.

    The interval of the mean of many follows from how they scatter. That of few is as wide as theirs on average, since
    the error of a run may be common to all of them, and so may that of many that are not ``alike``, since a busy
    machine disturbed them; it is missing where one of theirs is.
    """
    if not ratios:
        return None
    count, logs = len(ratios), [math.log(each.ratio) for each in ratios]
    mean = sum(logs) / count
    if alike and count >= MANY_RATIOS:
        variance = sum((log - mean) ** 2 for log in logs) / (count - 1) / count
        return _with_error(math.exp(mean), variance, count - 1, 1.0)
    known = [(each.low, each.high) for each in ratios if each.low and each.high]
    if len(known) < count:
        return Ratio(math.exp(mean))
    low, high = (sum(map(math.log, ends)) / count for ends in zip(*known, strict=True))
    return Ratio(math.exp(mean), math.exp(low), math.exp(high))


def _with_error(ratio: float, variance: float, freedom: float, factor: float) -> Ratio:
    from scipy.special import stdtrit

    reach = math.exp(min(factor * float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(variance), 700.0))
    return Ratio(ratio, ratio / reach, ratio * reach)


def _freedom(parts: Sequence[tuple[float, float]]) -> float:
    """Return the degrees of freedom of a sum of variances after Welch and Satterthwaite."""
    squares = sum(part**2 / freedom for part, freedom in parts)
    return sum(part for part, _ in parts) ** 2 / squares if squares else _MANY


def _effect(values: Sequence[float]) -> float:
    """Return the design effect; n values show ``(1 + 3 r) / n`` less than their autocorrelation r (Kendall, 1954)."""
    count = len(values)
    correlation = min(max((count * correlation_above_median(values) + 1) / (count - 3), 0.0), 0.95)
    return (1 + correlation) / (1 - correlation)
