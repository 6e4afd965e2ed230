"""Being sure that a point keeps the power budget, when one reading of a sensor says little.

With readings that waver by 1.5 %, the best of ten points that read "within budget" truly exceeds it in 5 to 10 % of
searches: among points near the budget, the search picks those that happened to read low. So the answer must keep the
budget with its interval: mean reading x (1 + z x noise / sqrt(readings)). Measuring again narrows it.
"""

from __future__ import annotations

import math

from edgetune.artifacts.problem import Problem

Z = 1.9
"""How many standard deviations the interval reaches upwards: one-sided 97 %.

``roofline`` with ten points on 1,900 training problems of the twin (190 budgets, ten seeds), where readings of time
waver by 3 % and of power by 1.5 % (answers over the budget / mean excess of the others): not confirmed 18 % / 0.9 %;
1.645: 1.3 % / 3.3 %; 1.8: 0.9 % / 3.6 %; 1.9: 0.5 % / 3.7 %; 2.0: 0.4 % / 3.9 %.
"""
EXPECTED_READINGS = 3
"""Readings that a strategy may expect an answer to be confirmed with."""


def is_confirmed(problem: Problem, power_w: float | None, readings: int, power_noise: float) -> bool:
    """Return whether the mean of so many readings, W, is within the power budget with its interval."""
    if problem.power_budget_w is None or not power_noise:
        return True
    if power_w is None:
        return False
    limit_w = problem.power_budget_w * (1 - problem.margin)
    return power_w * (1 + Z * power_noise / math.sqrt(readings)) <= limit_w


def could_be_confirmed(problem: Problem, power_w: float | None, readings: int, more: int, power_noise: float) -> bool:
    """Return whether so many more readings with the same mean would confirm it."""
    return more > 0 and is_confirmed(problem, power_w, readings + more, power_noise)
