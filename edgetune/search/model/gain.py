"""What a measurement is worth: the chance that the point keeps every budget, times the gain to expect if it does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from edgetune.artifacts.problem import Problem
from edgetune.search.confirmation import EXPECTED_READINGS, Z
from edgetune.search.model.beliefs import Belief
from edgetune.search.model.coordinates import Array
from edgetune.search.problem import objective_of

WAVER = 0.01
"""Standard deviation by which one more measurement differs from what a point truly is, in log time and log power."""

WIDEST = 0.3
"""Most that the log of a cost is taken to waver by when its gain is expected, however little is known of it.

Wider ones are of modes unlike any measured, whose promises seldom come true and would each take a point. Mean excess at
ten points on half of the budgets of the twin's 441 modes, FlexiBO, LoudVA and Zeus: 0.70 % without a limit, 0.61 % with
any from 0.15 to 0.5.
"""


@dataclass(frozen=True, slots=True)
class Worth:
    """Chance of keeping every budget, and mean and standard deviation of the log of the cost, per point."""

    chance: Array
    log_cost: Array
    cost_sd: Array

    def score(self, best_log_cost: float | None) -> Array:
        """Return chance times expected gain over the best so far, a share of its cost.

        With no best yet, a point within budget is worth having whatever it costs, and a little more if it is fast.
        """
        if best_log_cost is None:
            span = max(float(np.ptp(self.log_cost)), 1e-9)
            return np.asarray(self.chance * (0.2 + 0.3 * (self.log_cost.max() - self.log_cost) / max(span, 1.0)))
        sd = np.clip(self.cost_sd, 1e-6, WIDEST)
        z = (best_log_cost - self.log_cost) / sd
        gain = sd * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))
        return np.asarray(self.chance * np.expm1(np.minimum(gain, 5.0)))


def worth(problem: Problem, belief: Belief, batch_sizes: Array, *, power_noise: float = 0.0) -> Worth:
    """Return what measuring each point is worth to the problem, from what is believed of it.

    Where power readings waver by a relative standard deviation of ``power_noise``, a point within budget is worth
    something only if a few readings can confirm that it is.
    """
    kept = 1 - problem.margin
    chance = np.ones(len(batch_sizes))
    if problem.power_budget_w is not None and np.isfinite(belief.log_power).all():
        waver = power_noise / math.sqrt(EXPECTED_READINGS)
        spare = np.log(problem.power_budget_w * kept / (1 + Z * waver)) - belief.log_power
        chance = chance * ndtr(spare / np.hypot(belief.power_sd, WAVER))
    rate = problem.arrival_rate_per_s
    waits = (batch_sizes - 1) / rate if rate is not None else np.zeros(len(batch_sizes))
    longest = np.full(len(batch_sizes), np.inf) if rate is None else batch_sizes / rate
    if problem.latency_budget_s is not None:
        longest = np.minimum(longest, problem.latency_budget_s * kept - waits)
    if np.isfinite(longest).any():
        spare = np.log(np.maximum(longest, 1e-300)) - belief.log_time
        chance = chance * np.where(longest > 0, ndtr(spare / np.hypot(belief.time_sd, WAVER)), 0.0)
    return Worth(chance, *_cost(problem, belief, batch_sizes, waits))


def _cost(problem: Problem, belief: Belief, batch_sizes: Array, waits: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of the log of what the problem wants little of."""
    objective = objective_of(problem)
    per_sample = belief.log_time - np.log(batch_sizes)
    if problem.kind == "accuracy":
        per_sample = per_sample + _log_epochs(problem, batch_sizes)
    latency = np.log(waits + np.exp(belief.log_time))
    share = np.exp(belief.log_time - latency)  # of the latency that the batch itself takes
    if objective in ("throughput", "time"):
        return per_sample, belief.time_sd
    if objective == "latency":
        return latency, share * belief.time_sd
    log_power = np.nan_to_num(belief.log_power)
    power_sd = np.nan_to_num(belief.power_sd)
    if objective == "energy":
        return per_sample + log_power, np.hypot(belief.time_sd, power_sd)
    delay, slope = (latency, share) if problem.kind == "infer" else (per_sample, 1.0)
    return per_sample + log_power + delay, np.hypot((1 + slope) * belief.time_sd, power_sd)


def _log_epochs(problem: Problem, batch_sizes: Array) -> Array:
    """Return the log of the epochs until the target accuracy at each of these batch sizes."""
    sizes, epochs = np.array(sorted(problem.epochs_to_target), dtype=float).T
    logs: Array = np.log(epochs)[np.searchsorted(sizes, batch_sizes)]
    return logs
