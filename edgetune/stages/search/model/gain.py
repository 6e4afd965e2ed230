"""The value of a measurement: the chance that a point keeps every budget, times the expected gain if it does.

One problem: ``worth``. The whole front of power and cost, for budgets not known yet: ``front_gain``, the mean over

    cost
      | o                 budgets, evenly spaced in log power; under each the best measured so far;
      |  |  o             a point is worth the gain it promises under every budget it may keep, added up
      |  |  |  |   |   o
      +--|--|---|---|---> power

Two workloads: ``pair_gain``, how much more of the background workload may fit between two urgent batches.

    |<----------------- b / a ----------------->|      k = floor((b / a - t_inf) / t_bg)
    | t_inf | t_bg | t_bg | ... k of them | idle |      background samples per s = k B a / b

Both times are believed to be log-normal, so k is uncertain, and k is a whole number: the value climbs in steps. Given
t_inf, the chance of each step is one of the normal distribution; over t_inf it is averaged at a few of its quantiles
among those that keep up and answer in time. The first steps above the best so far are added up one by one, those far
above it as an integral (the midpoint rule, whose integral of a log-normal is in closed form).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from edgetune.artifacts.problem import Problem
from edgetune.stages.search.model.beliefs import WAVER, Belief
from edgetune.stages.search.model.coordinates import Array
from edgetune.stages.search.problem import EXPECTED_READINGS, Z, is_continuous, objective_of

WIDEST = 0.3
"""Upper bound of the standard deviation of the log of a cost in its expected gain.

Wider ones belong to modes unlike any measured, whose expected gain seldom comes true. Mean excess at ten points on half
of the budgets of the twin's 441 modes, FlexiBO, LoudVA and Zeus: 0.70 % without a bound, 0.61 % with any from 0.15 to
0.5.
"""


@dataclass(frozen=True, slots=True)
class Worth:
    """Chances of keeping the power budget and all others, and mean and standard deviation of the log of the cost.

    Each has the shape (points,), or of parts of time and parts of power (1 where it depends on one alone), and points.
    """

    in_power: Array
    in_time: Array
    log_cost: Array
    cost_sd: Array

    @property
    def chance(self) -> Array:
        """Chance of keeping every budget."""
        return self.in_power * self.in_time

    def score(self, best_log_cost: float | None) -> Array:
        """Return chance times expected gain over the best so far, a share of its cost."""
        return self.chance * self._gain(best_log_cost)

    def mean_score(self, best_log_cost: float | None, of_time: Array, of_power: Array) -> Array:
        """Return the mean of the score over parts of these weights, which are independent, shape (points,)."""
        given_power = np.tensordot(of_time, self.in_time * self._gain(best_log_cost), 1)
        if len(given_power) == 1:
            return np.asarray((of_power @ self.in_power[0]) * given_power[0])
        return np.asarray((of_power[:, None] * self.in_power[0] * given_power).sum(axis=0))

    def _gain(self, best_log_cost: float | None) -> Array:
        """Return the expected gain where every budget is kept.

        With no best yet, a point within budget is worth having whatever it costs, and a little more if it is fast.
        """
        if best_log_cost is None:
            span = max(float(np.ptp(self.log_cost)), 1.0)
            return np.asarray(0.2 + 0.3 * (self.log_cost.max() - self.log_cost) / span)
        sd = np.clip(self.cost_sd, 1e-6, WIDEST)
        z = (best_log_cost - self.log_cost) / sd
        gain = sd * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))
        return np.asarray(np.expm1(np.minimum(gain, 5.0)))


def worth(problem: Problem, belief: Belief, batch_sizes: Array, *, power_noise: float = 0.0) -> Worth:
    """Return the value of measuring each point for the problem, from its beliefs.

    With ``power_noise``, the relative standard deviation of power readings, a point within the budget has a value only
    if a few readings can confirm that it is.
    """
    kept = 1 - problem.margin
    in_power, in_time = np.ones_like(belief.log_power), np.ones_like(belief.log_time)
    if problem.power_budget_w is not None and np.isfinite(belief.log_power).all():
        waver = power_noise / math.sqrt(EXPECTED_READINGS)
        spare = np.log(problem.power_budget_w * kept / (1 + Z * waver)) - belief.log_power
        in_power = ndtr(spare / np.hypot(belief.power_sd, WAVER))
    rate = problem.arrival_rate_per_s
    waits = (batch_sizes - 1) / rate if rate is not None else np.zeros(len(batch_sizes))
    longest = np.full(len(batch_sizes), np.inf) if rate is None else batch_sizes / rate
    if problem.latency_budget_s is not None:
        longest = np.minimum(longest, problem.latency_budget_s * kept - waits)
    if np.isfinite(longest).any():
        spare = np.log(np.maximum(longest, 1e-300)) - belief.log_time
        in_time = np.where(longest > 0, ndtr(spare / np.hypot(belief.time_sd, WAVER)), 0.0)
    return Worth(in_power, in_time, *_log_cost_of(problem, belief, batch_sizes, waits))


def _log_cost_of(problem: Problem, belief: Belief, batch_sizes: Array, waits: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of the log of the cost, which the problem minimises."""
    objective = objective_of(problem)
    per_sample = belief.log_time - np.log(batch_sizes)
    if problem.kind == "accuracy":
        per_sample = per_sample + _log_epochs(problem, batch_sizes)
    if objective in ("throughput", "time"):
        return per_sample, belief.time_sd
    latency = np.log(waits + np.exp(belief.log_time))
    share = np.exp(belief.log_time - latency)  # of the latency that the batch itself takes
    if objective == "latency":
        return latency, share * belief.time_sd
    log_power = np.nan_to_num(belief.log_power)
    power_sd = np.nan_to_num(belief.power_sd)
    if objective in ("energy", "tokens-per-joule"):  # as many tokens in each request
        return per_sample + log_power, np.hypot(belief.time_sd, power_sd)
    delay, slope = (latency, share) if problem.kind == "infer" else (per_sample, 1.0)
    return per_sample + log_power + delay, np.hypot((1 + slope) * belief.time_sd, power_sd)


def _log_epochs(problem: Problem, batch_sizes: Array) -> Array:
    """Return the log of the epochs until the target accuracy at each of these batch sizes."""
    sizes, epochs = np.array(sorted(problem.epochs_to_target), dtype=float).T
    logs: Array = np.log(epochs)[np.searchsorted(sizes, batch_sizes)]
    return logs


BUDGETS = 24
"""Number of budgets that represent all budgets."""
NOTHING_YET = 0.5
"""Value of keeping a budget under which nothing has been measured, as a share of the cost."""


def budgets_between(log_power: Array) -> Array:
    """Return logs of budgets, W, from just above the lowest of these powers to the highest, shape (budgets,)."""
    known = log_power[np.isfinite(log_power)]
    if not len(known):
        return np.array([np.inf])
    return np.linspace(known.min(), known.max() + 1e-9, BUDGETS + 1)[1:] if np.ptp(known) > 1e-6 else known[:1] + 1e-9


def best_under(budgets: Array, log_cost: Array, log_power: Array) -> Array:
    """Return the least log cost measured within each budget, shape (budgets,); infinite for none.

    A power that was not measured keeps every budget.
    """
    power = np.where(np.isfinite(log_power), log_power, -np.inf)
    return np.asarray(np.where(power <= budgets[:, None], log_cost, np.inf).min(axis=1, initial=np.inf))


def chances_under(budgets: Array, log_power: Array, power_sd: Array) -> Array:
    """Return the chance of keeping each budget, shape (budgets, points); 1 where power is unknown."""
    known = np.isfinite(log_power)
    z = (budgets[:, None] - np.where(known, log_power, 0.0)) / np.where(known, np.maximum(power_sd, 1e-6), 1.0)
    return np.asarray(np.where(known, ndtr(z), 1.0))


def front_gain(chances: Array, log_cost: Array, cost_sd: Array, best: Array) -> Array:
    """Return the mean over the budgets of chance x expected gain of each point, a share of the best cost.

    Args:
        chances: Chances of keeping each budget, shape (budgets, points).
        log_cost, cost_sd: Belief of the log of the cost, shape (points,).
        best: Least log cost so far under each budget, shape (budgets, 1) or (budgets, points).
    """
    sd, known = np.maximum(cost_sd, 1e-6), np.isfinite(best)
    z = (np.where(known, best, 0.0) - log_cost) / sd
    gain = sd * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))
    worth = np.where(known, np.expm1(np.minimum(gain, 5.0)), NOTHING_YET)
    return np.asarray((chances * worth).mean(axis=0))


QUANTILES = 9
"""Number of quantiles of the urgent workload's time over which the gain is averaged."""
STEPS = 6
"""Number of steps above the best so far that are added up one by one."""
SLOPE = 0.05
"""Share of the gain computed with a real k, so that plateaus of the whole k have a slope."""
TIE = 1e-3
"""Share of the score for a lower latency between pairs of equal throughput."""
IMPOSSIBLE = 1e-9
"""Chance of keeping every budget below which a pair has no value."""
SURE = 1e-6
"""Standard deviation of a measured figure, in log."""


@dataclass(frozen=True, slots=True)
class BestPair:
    """The best pair measured so far: background samples per s, and the latency of the urgent workload, s."""

    throughput_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Pairs:
    """The beliefs of both halves of some pairs.

    Args:
        urgent, background: Beliefs of the halves, shape (pairs,).
        batch_sizes: Batch sizes of the urgent halves, shape (pairs,).
        background_size: Samples of a background minibatch.
    """

    urgent: Belief
    background: Belief
    batch_sizes: Array
    background_size: int


@dataclass(frozen=True, slots=True)
class PairGain:
    """The expected gain of pairs, shape (pairs,) each.

    Args:
        urgent_chance: Chance that the urgent half keeps the power budget, keeps up and answers in time.
        background_chance: Chance that the background half keeps the power budget and fits at least once.
        gain: Expected background samples per s above the best, as a share of the best, if power allows.
        score: Value of measuring the pair.
    """

    urgent_chance: Array
    background_chance: Array
    gain: Array
    score: Array


def pair_gain(problem: Problem, pairs: Pairs, best: BestPair | None, *, power_noise: float = 0.0) -> PairGain:
    """Return the gains of pairs from the beliefs of their halves.

    Args:
        problem: The problem, with its arrival rate.
        pairs: The pairs.
        best: The best so far; ``None`` while nothing measured keeps every budget.
        power_noise: Relative standard deviation of one power reading.
    """
    urgent, background, batch_sizes = pairs.urgent, pairs.background, pairs.batch_sizes
    assert problem.arrival_rate_per_s is not None
    arrives_s = batch_sizes / problem.arrival_rate_per_s
    waits_s = (batch_sizes - 1) / problem.arrival_rate_per_s
    limit_s = arrives_s
    if problem.latency_budget_s is not None:
        limit_s = np.minimum(arrives_s, problem.latency_budget_s * (1 - problem.margin) - waits_s)
    powers = [within_power(problem, half, power_noise) for half in (urgent, background)]
    likely = powers[0] * powers[1] * _chance_within(urgent, limit_s) > IMPOSSIBLE
    if not likely.all():
        return _among(likely, problem, pairs, best, power_noise)
    in_time, times_s = _times_within(urgent, limit_s)
    spare_s = np.maximum(arrives_s - times_s, 1e-12)  # shape (quantiles, pairs)
    log_count, sd = np.log(spare_s) - background.log_time, np.maximum(background.time_sd, SURE)
    fits = ndtr(log_count / sd).mean(axis=0)
    if is_continuous(problem):
        room_s = _room_s(problem, times_s)
        fits = ndtr((np.log(room_s) - background.log_time) / sd).mean(axis=0)
    each = pairs.background_size / arrives_s
    found = PairGain(powers[0] * in_time, powers[1] * fits, np.zeros(len(arrives_s)), np.zeros(len(arrives_s)))
    chance = found.urgent_chance * found.background_chance
    if best is None:
        throughput = np.log(each) + np.median(log_count, axis=0)
        top = float(throughput[chance > 0].max(initial=-math.inf))
        return _with(found, chance, chance * (0.2 + 0.3 * np.exp(np.minimum(throughput - top, 0.0))))
    steps, smooth = _steps_above(log_count, sd, best.throughput_per_s / each)
    if is_continuous(problem):
        steps = smooth * fits
    gain = each * steps / best.throughput_per_s
    latency_s = waits_s + np.exp(urgent.log_time)
    as_good = ndtr((log_count - np.log(np.ceil(best.throughput_per_s / each - 1e-9))) / sd).mean(axis=0)
    sooner = as_good * np.maximum(1 - latency_s / best.latency_s, 0.0)
    worth = gain + SLOPE * fits * each * smooth / best.throughput_per_s + TIE * sooner
    return _with(found, gain, powers[0] * powers[1] * in_time * worth)


def _among(
    likely: NDArray[np.bool_], problem: Problem, pairs: Pairs, best: BestPair | None, power_noise: float
) -> PairGain:
    """Return the gains of the likely pairs, which take time to compute, and zeros for the others."""
    urgent, background = (
        Belief(half.log_time[likely], half.time_sd[likely], half.log_power[likely], half.power_sd[likely])
        for half in (pairs.urgent, pairs.background)
    )
    some = Pairs(urgent, background, pairs.batch_sizes[likely], pairs.background_size)
    columns = np.zeros((4, len(likely)))
    if likely.any():
        found = pair_gain(problem, some, best, power_noise=power_noise)
        columns[:, likely] = found.urgent_chance, found.background_chance, found.gain, found.score
    return PairGain(*columns)


def _room_s(problem: Problem, times_s: Array) -> Array:
    """Return the longest background minibatch behind which a batch of these times answers in time, s."""
    if problem.latency_budget_s is None:
        return np.full_like(times_s, np.inf)
    waited_s = np.maximum(times_s - 1 / (problem.arrival_rate_per_s or np.inf), 0.0)
    room_s: Array = np.maximum(problem.latency_budget_s * (1 - problem.margin) - times_s - waited_s, 1e-12)
    return room_s


def within_power(problem: Problem, belief: Belief, power_noise: float) -> Array:
    """Return the chance that each point keeps the power budget; 1 without a budget or any measured power."""
    if problem.power_budget_w is None:
        return np.ones(len(belief.log_power))
    confirmed = 1 + Z * power_noise / math.sqrt(EXPECTED_READINGS)
    spare = np.log(problem.power_budget_w * (1 - problem.margin) / confirmed) - belief.log_power
    return np.asarray(np.where(np.isfinite(spare), ndtr(spare / np.maximum(belief.power_sd, SURE)), 1.0))


def _with(found: PairGain, gain: Array, score: Array) -> PairGain:
    return PairGain(found.urgent_chance, found.background_chance, gain, score)


def _chance_within(urgent: Belief, limit_s: Array) -> Array:
    """Return the chance of a time within the limit."""
    possible = limit_s > 0
    spare = np.log(np.where(possible, limit_s, 1.0)) - urgent.log_time
    return np.asarray(ndtr(np.where(possible, spare / np.maximum(urgent.time_sd, SURE), -np.inf)))


def _times_within(urgent: Belief, limit_s: Array) -> tuple[Array, Array]:
    """Return the chance of a time within the limit, and quantiles of such times, s, shape (quantiles, pairs)."""
    sd, chance = np.maximum(urgent.time_sd, SURE), _chance_within(urgent, limit_s)
    shares = (np.arange(QUANTILES)[:, None] + 0.5) / QUANTILES
    places = ndtri(np.maximum(shares * chance, 1e-300))
    return chance, np.minimum(np.exp(urgent.log_time + sd * places), np.maximum(limit_s, 0.0))


def _steps_above(log_count: Array, sd: Array, least: Array) -> tuple[Array, Array]:
    """Return the mean of (k - least)+ and of (x - least)+, k the whole part of a log-normal x, over the quantiles.

    With j the first whole number above ``least``, the mean of (k - least)+ is (j - least) P(x >= j) plus the sum of
    P(x >= i) over all i > j. ``log_count`` is the mean of log x, shape (quantiles, pairs).
    """
    first = np.floor(least + 1e-9) + 1
    steps = (first - least) * ndtr((log_count - np.log(first)) / sd).mean(axis=0)
    for i in range(1, STEPS):
        steps = steps + ndtr((log_count - np.log(first + i)) / sd).mean(axis=0)
    beyond = _mean_above(log_count, sd, first + STEPS - 0.5).mean(axis=0)
    return steps + beyond, _mean_above(log_count, sd, least).mean(axis=0)


def _mean_above(log_mean: Array, sd: Array, least: Array) -> Array:
    """Return the mean of (x - least)+ of a log-normal x (as a call option is priced)."""
    z: NDArray[np.float64] = (log_mean - np.log(least)) / sd
    return np.asarray(np.exp(log_mean + sd**2 / 2) * ndtr(z + sd) - least * ndtr(z))
