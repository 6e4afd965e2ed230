"""What a pair of halves is worth: how much more of the background workload may fit between two urgent batches.

    |<----------------- b / a ----------------->|      k = floor((b / a - t_inf) / t_bg)
    | t_inf | t_bg | t_bg | ... k of them | idle |      background samples per s = k B a / b

Both times are believed to be log-normal, so k is uncertain, and k is a whole number: the value climbs in steps. Given
t_inf, the chance of each step is one of the normal distribution; over t_inf it is averaged at a few of its quantiles
among those that keep up and answer in time. The first steps above the best so far are added up one by one, those far
above it as an integral (the midpoint rule, whose integral of a log-normal is in closed form).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from edgetune.artifacts.problem import Problem
from edgetune.search.confirmation import EXPECTED_READINGS, Z
from edgetune.search.model.beliefs import Belief
from edgetune.search.model.coordinates import Array

QUANTILES = 5
"""At how many quantiles of the urgent workload's time the gain is averaged."""
STEPS = 6
"""How many steps above the best so far are added up one by one."""
SLOPE = 0.05
"""Share of the gain as it would be without whole numbers, so that a plateau has a way up."""
TIE = 1e-3
"""Share of the lower latency of a pair that is as good as the best."""
SURE = 1e-6
"""Standard deviation of what has been measured, in log."""


@dataclass(frozen=True, slots=True)
class BestPair:
    """The best pair measured so far: background samples per s, and the latency of the urgent workload, s."""

    throughput_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Pairs:
    """What is believed of both halves of some pairs.

    Args:
        urgent, background: Beliefs of the halves, shape (pairs,).
        batch_sizes: Of the urgent halves, shape (pairs,).
        background_size: Samples of a background minibatch.
    """

    urgent: Belief
    background: Belief
    batch_sizes: Array
    background_size: int


@dataclass(frozen=True, slots=True)
class PairGain:
    """What pairs may bring, shape (pairs,) each.

    Args:
        urgent_chance: Chance that the urgent half keeps the power budget, keeps up and answers in time.
        background_chance: Chance that the background half keeps the power budget and fits at least once.
        gain: Expected background samples per s above the best, as a share of the best, if power allows.
        score: What measuring the pair is worth.
    """

    urgent_chance: Array
    background_chance: Array
    gain: Array
    score: Array


def pair_gain(problem: Problem, pairs: Pairs, best: BestPair | None, *, power_noise: float = 0.0) -> PairGain:
    """Return what pairs are worth, from what is believed of their halves.

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
    in_time, times_s = _times_within(urgent, limit_s)
    spare_s = np.maximum(arrives_s - times_s, 1e-12)  # shape (quantiles, pairs)
    log_count, sd = np.log(spare_s) - background.log_time, np.maximum(background.time_sd, SURE)
    fits = ndtr(log_count / sd).mean(axis=0)
    each = pairs.background_size / arrives_s
    found = PairGain(powers[0] * in_time, powers[1] * fits, np.zeros(len(arrives_s)), np.zeros(len(arrives_s)))
    chance = found.urgent_chance * found.background_chance
    if best is None:
        throughput = np.log(each) + np.median(log_count, axis=0)
        top = float(throughput[chance > 0].max(initial=-math.inf))
        return _with(found, chance, chance * (0.2 + 0.3 * np.exp(np.minimum(throughput - top, 0.0))))
    steps, smooth = _steps_above(log_count, sd, best.throughput_per_s / each)
    gain = each * steps / best.throughput_per_s
    latency_s = waits_s + np.exp(urgent.log_time)
    as_good = ndtr((log_count - np.log(np.ceil(best.throughput_per_s / each - 1e-9))) / sd).mean(axis=0)
    sooner = as_good * np.maximum(1 - latency_s / best.latency_s, 0.0)
    worth = gain + SLOPE * fits * each * smooth / best.throughput_per_s + TIE * sooner
    return _with(found, gain, powers[0] * powers[1] * in_time * worth)


def within_power(problem: Problem, belief: Belief, power_noise: float) -> Array:
    """Return the chance that each point keeps the power budget; 1 without a budget or any measured power."""
    if problem.power_budget_w is None:
        return np.ones(len(belief.log_power))
    confirmed = 1 + Z * power_noise / math.sqrt(EXPECTED_READINGS)
    spare = np.log(problem.power_budget_w * (1 - problem.margin) / confirmed) - belief.log_power
    return np.asarray(np.where(np.isfinite(spare), ndtr(spare / np.maximum(belief.power_sd, SURE)), 1.0))


def _with(found: PairGain, gain: Array, score: Array) -> PairGain:
    return PairGain(found.urgent_chance, found.background_chance, gain, score)


def _times_within(urgent: Belief, limit_s: Array) -> tuple[Array, Array]:
    """Return the chance of a time within the limit, and quantiles of such times, s, shape (quantiles, pairs)."""
    sd = np.maximum(urgent.time_sd, SURE)
    possible = limit_s > 0
    z = np.where(possible, (np.log(np.where(possible, limit_s, 1.0)) - urgent.log_time) / sd, -np.inf)
    chance = ndtr(z)
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
