"""What a measurement is worth to the whole front of power and cost, for budgets that nobody has named yet.

cost
  | o                 budgets, evenly spaced in log power; under each the best measured so far;
  |  |  o             a point is worth the gain it promises under every budget it may keep, added up
  |  |  |   |   o
  +--|--|---|---|---> power
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from edgetune.search.model.coordinates import Array

BUDGETS = 24
"""How many budgets stand for all of them."""
NOTHING_YET = 0.5
"""What keeping a budget is worth under which nothing has been measured, as a share of its cost."""


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
    """Return the chance of keeping each budget, shape (budgets, points); 1 where nothing is known of power."""
    known = np.isfinite(log_power)
    z = (budgets[:, None] - np.where(known, log_power, 0.0)) / np.where(known, np.maximum(power_sd, 1e-6), 1.0)
    return np.asarray(np.where(known, ndtr(z), 1.0))


def front_gain(chances: Array, log_cost: Array, cost_sd: Array, best: Array) -> Array:
    """Return what each point promises, mean over the budgets: chance x expected gain, a share of the best cost.

    Args:
        chances: Of keeping each budget, shape (budgets, points).
        log_cost, cost_sd: Belief of the log of the cost, shape (points,).
        best: Least log cost so far under each budget, shape (budgets, 1) or (budgets, points).
    """
    sd, known = np.maximum(cost_sd, 1e-6), np.isfinite(best)
    z = (np.where(known, best, 0.0) - log_cost) / sd
    gain = sd * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))
    worth = np.where(known, np.expm1(np.minimum(gain, 5.0)), NOTHING_YET)
    return np.asarray((chances * worth).mean(axis=0))
