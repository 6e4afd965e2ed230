"""Statistics of a series of minibatch times: end of warm-up, median with confidence interval, and stopping rule.

Pure functions of the raw times, so that every summary can be computed again from an artifact. Times are in any one
unit (seconds here); none of the rules assumes a normal distribution, because minibatch times have a long right tail.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

CONFIDENCE = 0.95
_Z = 1.959963984540054  # 97.5th percentile of the standard normal distribution
_BATCHES = 10
_T_OF_BATCHES = 2.262157162798205  # 97.5th percentile of Student's distribution with 9 degrees of freedom
_EXACT_UP_TO = 1000  # above this many values the normal approximation of the binomial is exact to one rank


def is_positive(value: float) -> bool:
    """Return whether a number is finite and above zero."""
    return math.isfinite(value) and value > 0


def median(values: Sequence[float]) -> float:
    """Return the middle value, or the mean of the two middle ones.

    Raises:
        ValueError: for no values.
    """
    return percentile(values, 50.0)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the ``percent``-th percentile, interpolating linearly between order statistics (Hyndman and Fan's type 7).

    Raises:
        ValueError: for no values, or a percentage outside 0..100.
    """
    if not values or not 0 <= percent <= 100:
        raise ValueError(f"no {percent}th percentile of {len(values)} values")
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    if ordered[below] == ordered[above]:
        return ordered[below]
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def design_effect(values: Sequence[float]) -> float:
    """Return the factor by which autocorrelation increases the variance of the median, at least 1.

    Minibatch times drift in and out of slow spells, so n of them carry less than n independent ones. The variance of a
    sample median depends on the series of indicators "above the median"; if that series behaves like a first-order
    autoregression with lag-1 correlation r, n values are worth ``n (1 - r) / (1 + r)`` independent ones (Wilks,
    *Statistical Methods in the Atmospheric Sciences*, 5.2.4). A negative correlation is taken as none. Dependence much
    longer than the series, such as a fan that will start in a minute, cannot be seen in it and is not accounted for.
    """
    correlation = min(max(correlation_above_median(values), 0.0), 0.99)
    return (1 + correlation) / (1 - correlation)


def correlation_above_median(values: Sequence[float]) -> float:
    """Return the lag-1 autocorrelation of the indicators "above the median"; 0 below four values, or if all agree."""
    count = len(values)
    if count < 4:
        return 0.0
    middle = median(values)
    above = [1.0 if value > middle else 0.0 for value in values]
    mean = sum(above) / count
    variance = sum((flag - mean) ** 2 for flag in above)
    return sum((a - mean) * (b - mean) for a, b in pairwise(above)) / variance if variance else 0.0


def median_interval(values: Sequence[float], *, effect: float = 1.0) -> tuple[float, float] | None:
    """Return the distribution-free 95 % confidence interval of the median, or ``None`` with too few values for one.

    The number of independent values below the true median is binomial (n, 1/2), so the k-th smallest and k-th largest
    values enclose it with probability at least ``1 - 2 P(B <= k - 1)`` (David and Nagaraja, *Order Statistics*, 7.1).
    The interval takes the largest k for which that is 95 %; below six values there is none.

    Args:
        values: The sample.
        effect: ``design_effect``; ranks are moved outwards by its square root.
    """
    count = len(values)
    rank = _lower_rank(count)
    if effect > 1:
        rank = math.floor(count / 2 - (count / 2 - rank) * math.sqrt(effect))
    if rank < 1:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[count - rank]


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of the mean, or ``None`` with fewer than ten values.

    The values are averaged in ten batches of consecutive ones, so that an alternation of fast and slow values within a
    batch does not widen the interval (Schmeiser, *Batch size effects in the analysis of simulation output*, 1982).
    """
    size = len(values) // _BATCHES
    if not size:
        return None
    first = len(values) - size * _BATCHES
    means = [fmean(values[place : place + size]) for place in range(first, len(values), size)]
    reach = _T_OF_BATCHES * stdev(means) / math.sqrt(_BATCHES)
    return max(fmean(values) - reach, 0.0), fmean(values) + reach


def _lower_rank(count: int) -> int:
    """Return the largest k (from 1) with ``P(Binomial(count, 1/2) <= k - 1) <= 2.5 %``; 0 when there is none."""
    if count > _EXACT_UP_TO:
        return math.floor((count - _Z * math.sqrt(count)) / 2)
    allowed = 2**count * (1 - CONFIDENCE) / 2
    cumulative, term, rank = 0, 1, 0
    while True:
        cumulative += term
        if cumulative > allowed:
            return rank
        rank += 1
        term = term * (count - rank + 1) // rank


@dataclass(frozen=True, slots=True)
class Warmup:
    """The warm-up of a series.

    Args:
        length: Leading values that are warm-up.
        steady: False when the series has not settled within its first half, so that more values are needed.
    """

    length: int
    steady: bool


def find_warmup(values: Sequence[float]) -> Warmup:
    """Find how many leading values to leave out, from the data alone: the Marginal Standard Error Rule (MSER).

    It cuts where the standard error of what remains is smallest, ``argmin_d sum_{i>d} (y_i - mean_d)^2 / (n - d)^2``
    (White, *An effective truncation heuristic for bias reduction in simulation output*, Simulation 69(6), 1997;
    Franklin and White, WSC 2008), and, as they advise, never beyond the middle: a minimum there means that the series
    is too short, or still drifting. The rule reads the series through running medians of three (Tukey, *Exploratory
    Data Analysis*, 1977), which keep a slow start and a slow first value but take out a lone hiccup of the
    operating system later on, which is no warm-up.
    """
    count = len(values)
    if count < 4:
        return Warmup(0, steady=False)
    smooth = [values[0], *(sorted(values[i - 1 : i + 2])[1] for i in range(1, count - 1)), values[-1]]
    half = count // 2
    best, best_error = 0, math.inf
    mean = squares = 0.0
    for taken, index in enumerate(range(count - 1, -1, -1), start=1):  # Welford's update, from the end
        step = smooth[index] - mean
        mean += step / taken
        squares += step * (smooth[index] - mean)
        error = squares / taken**2
        if index <= half and error <= best_error:
            best, best_error = index, error
    return Warmup(best, steady=best < half)


@dataclass(frozen=True, slots=True)
class Summary:
    """The steady part of a series in figures.

    Args:
        count: Values summarised.
        median: Their median, or their mean.
        p95: Their 95th percentile.
        low, high: 95 % confidence interval of it, ``None`` with too few values.
    """

    count: int
    median: float
    p95: float
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float:
        """Half the interval as a fraction of the median; infinite when there is no interval."""
        if self.low is None or self.high is None or self.median <= 0:
            return math.inf
        return (self.high - self.low) / (2 * self.median)


def summarise(values: Sequence[float], *, mean: bool = False) -> Summary:
    """Return the figures of ``values``, its confidence interval widened by the dependence found in it.

    Args:
        values: The sample.
        mean: Whether the mean stands for the sample in place of the median: where a CPU quota stops the work now and
            then, most values have no stop in them.

    Raises:
        ValueError: for no values.
    """
    interval = mean_interval(values) if mean else median_interval(values, effect=design_effect(values))
    low, high = interval if interval is not None else (None, None)
    return Summary(len(values), fmean(values) if mean else median(values), percentile(values, 95.0), low, high)


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """The rule that ends the sampling of a point.

    Stopping as soon as an interval looks narrow favours samples that look narrow by luck, the more often one looks. The
    rule therefore starts at ``minimum`` values and looks only when the series has grown by half, so a dozen looks
    reach a thousand values; fixed-width sequential intervals of this kind are consistent (Chow and Robbins, 1965), and
    a test holds the coverage that remains at small samples: above 90 % for independent times.

    Args:
        target: Wanted half-width of the 95 % interval of the median, as a fraction of the median.
        minimum: Steady values needed before an interval is trusted.
        maximum: Values after which to stop whatever the interval.
        fixed: Take exactly this many steady values instead, as studies with a fixed number of minibatches do.
    """

    target: float = 0.02
    minimum: int = 10
    maximum: int = 1000
    fixed: int | None = None

    def more(self, values: Sequence[float]) -> int:
        """Return the number of further values before the next check; 0 at the end."""
        count = len(values)
        if count == 0:
            return self.fixed or self.minimum
        warmup = find_warmup(values)
        kept = count - warmup.length
        if self.fixed is not None:
            bound = 2 * self.fixed + self.minimum
            settled = warmup.steady or count < 4
            wanted = self.fixed - kept if settled else max(self.fixed - kept, self.minimum)
            return max(0, min(wanted, bound - count))
        if count >= self.maximum:
            return 0
        if kept >= self.minimum and warmup.steady and summarise(values[warmup.length :]).half_width <= self.target:
            return 0
        grown = max(count + max(1, self.minimum - kept), math.ceil(1.5 * count) if kept >= self.minimum else 0)
        return min(grown, self.maximum) - count

    def reached(self, summary: Summary) -> bool:
        """Whether the target interval was reached; a fixed number of values has no target."""
        return self.fixed is not None or summary.half_width <= self.target
