"""Two workloads on one board: how much of the one without a deadline fits between the batches of the one with.

    |<------------- b / a: the time in which the next batch of b requests arrives ------------->|
    | infer b requests | background minibatch | background minibatch | ... k of them |   idle   |

The urgent workload always goes first; background minibatches fill what is left. Interleaved time is the sum of the two,
interleaved power the larger of the two (Fulcrum, 2025, whose authors checked both on an Orin AGX).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgetune.artifacts.problem import Problem
from edgetune.search.problem import Judgement, Violation, peak_latency_s

_A_WHOLE = 1e-9
"""What rounding may take from a whole number of minibatches."""


@dataclass(frozen=True, slots=True)
class Half:
    """One of two workloads in some mode: samples per minibatch, s per minibatch and W (``None`` when not measured)."""

    batch_size: int
    minibatch_s: float
    power_w: float | None


def background_minibatches(problem: Problem, urgent: Half, background_s: float) -> int:
    """Return how many background minibatches fit between two batches: the largest k with t + k t_bg <= b / a."""
    assert problem.arrival_rate_per_s is not None
    spare_s = urgent.batch_size / problem.arrival_rate_per_s - urgent.minibatch_s
    return max(math.floor(spare_s / background_s + _A_WHOLE), 0)


def half_violations(problem: Problem, *, urgent: Half | None = None, background: Half | None = None) -> list[Violation]:
    """Return the constraints that one workload breaks whatever the other does."""
    kept, found = 1 - problem.margin, []
    half = urgent or background
    if half is not None and half.power_w is not None and problem.power_budget_w is not None:
        limit_w = problem.power_budget_w * kept
        found += [Violation("power", half.power_w, limit_w)] if half.power_w > limit_w else []
    if urgent is None or problem.arrival_rate_per_s is None:
        return found
    arrives_s = urgent.batch_size / problem.arrival_rate_per_s
    found += [Violation("rate", urgent.minibatch_s, arrives_s)] if urgent.minibatch_s > arrives_s else []
    latency_s = peak_latency_s(problem, urgent.batch_size, urgent.minibatch_s)
    if problem.latency_budget_s is not None and latency_s > problem.latency_budget_s * kept:
        found.append(Violation("latency", latency_s, problem.latency_budget_s * kept))
    return found


def judge_pair(problem: Problem, urgent: Half, background: Half) -> Judgement:
    """Return how good a mode and batch size are for both workloads: background samples per s, then lower latency."""
    assert problem.arrival_rate_per_s is not None
    broken = {v.constraint: v for v in half_violations(problem, urgent=urgent)}
    for violation in half_violations(problem, background=background):  # the larger of the two powers counts
        if violation.constraint not in broken or violation.value > broken[violation.constraint].value:
            broken[violation.constraint] = violation
    arrives_s = urgent.batch_size / problem.arrival_rate_per_s
    k = background_minibatches(problem, urgent, background.minibatch_s)
    if k == 0 and "rate" not in broken:
        broken["room"] = Violation("room", background.minibatch_s, max(arrives_s - urgent.minibatch_s, 1e-9))
    unknown = None
    if problem.power_budget_w is not None and (urgent.power_w is None or background.power_w is None):
        unknown = "no power was measured"
    throughput = k * background.batch_size / arrives_s
    latency_s = peak_latency_s(problem, urgent.batch_size, urgent.minibatch_s)
    feasible = False if broken else (None if unknown else True)
    return Judgement(throughput, feasible, tuple(broken.values()), unknown, -latency_s)
