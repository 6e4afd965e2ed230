"""The best answer to every problem, from sorted arrays.

    points by power:   10 W   11 W   13 W   14 W   17 W ...
    how good:           3      5      4      -      9       (- breaks another budget)
    best so far:        3      5      5      5      9       <-- one look-up answers any power budget

Problems that differ in the power budget alone share one such row, so 50,000 problems take a thousand rows. The rules
are those of ``judge`` and ``judge_pair`` of ``search.problem``, for arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgetune.stages.search.evaluation.problems import Array, Flags, Measured, ProblemSet, Rows

_A_WHOLE = 1e-9
"""Rounding error allowed in a whole number of minibatches, as in ``search.problem``."""
_Numbers = Array | float


class Judged(NamedTuple):
    """Objectives of answers (larger is better), tie-breakers, and whether every budget is kept."""

    objective: Array
    second: Array
    feasible: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The best answer to each problem: its row (-1 for none) and its objective (NaN for none)."""

    rows: Rows
    objective: Array


def best_answers(measured: Measured, problems: ProblemSet) -> Best:
    """Return the best answer to every problem among the points that were measured."""
    rows = np.full(len(problems), -1, dtype=np.intp)
    by_power = np.argsort(_drawn_w(measured), kind="stable")
    powers_w = _drawn_w(measured)[by_power]
    known = int(np.searchsorted(powers_w, np.inf, side="right"))  # not a number sorts last: unknown power
    for chosen in _sharing_all_but_power(problems):
        first = chosen[0]
        latency_s, rate = problems.latency_budget_s[first], problems.arrival_rate_per_s[first]
        leaders = np.concatenate(([-1], _leaders(_judged(measured, by_power, problems, latency_s, rate))))
        budgets_w = problems.power_budget_w[chosen]
        within = np.where(np.isnan(budgets_w), len(powers_w), np.searchsorted(powers_w[:known], budgets_w, "right"))
        places = leaders[within]
        rows[chosen] = np.where(places >= 0, by_power[places], -1)
    objective = np.full(len(problems), np.nan)
    there = rows >= 0
    objective[there] = judge_answers(measured, problems.take(np.flatnonzero(there)), rows[there]).objective
    return Best(rows, objective)


def judge_answers(measured: Measured, problems: ProblemSet, rows: Rows) -> Judged:
    """Judge one answer per problem, the point in ``rows``, by the figures of ``measured``; power included."""
    judged = _judged(measured, rows, problems, problems.latency_budget_s, problems.arrival_rate_per_s)
    with np.errstate(invalid="ignore"):
        in_power = np.isnan(problems.power_budget_w) | (_drawn_w(measured)[rows] <= problems.power_budget_w)
    return Judged(judged.objective, judged.second, judged.feasible & in_power)


def excess_of(problems: ProblemSet, objective: Array, best: Array) -> Array:
    """Return the excess over the best: time or latency over the least, less one; of pairs the throughput lost."""
    if problems.base.kind == "train":
        return best / objective - 1
    if problems.base.kind in ("train+infer", "infer+infer"):
        return 1 - objective / best
    return objective / best - 1


def _sharing_all_but_power(problems: ProblemSet) -> list[Rows]:
    """Return the numbers of problems in groups that have latency budget and arrival rate in common."""
    others = np.stack([problems.latency_budget_s, problems.arrival_rate_per_s], axis=1)
    _, which = np.unique(np.nan_to_num(others, nan=-1.0), axis=0, return_inverse=True)
    which = which.ravel()
    members = np.argsort(which, kind="stable")
    return np.split(members, np.cumsum(np.bincount(which))[:-1]) if len(members) else []


def _judged(measured: Measured, rows: Rows, problems: ProblemSet, latency_s: _Numbers, rate: _Numbers) -> Judged:
    """Judge points by everything but power; ``latency_s`` and ``rate`` are one for all points or one each."""
    sizes, times_s = measured.batch_size[rows], measured.minibatch_s[rows]
    never = np.zeros(len(rows))
    if problems.base.kind == "train":
        return Judged(sizes / times_s, never, ~np.isnan(times_s))
    if problems.base.kind == "accuracy":
        epochs = dict(problems.base.epochs_to_target)
        needed = np.array([epochs.get(int(size), np.nan) for size in sizes])
        return Judged(-(times_s / sizes * needed), never, ~np.isnan(times_s * needed))
    arrives_s = sizes / rate
    latencies_s = (times_s if measured.late_s is None else measured.late_s[rows]) + (sizes - 1) / rate
    with np.errstate(invalid="ignore"):
        feasible = (times_s <= arrives_s) & (np.isnan(latency_s) | (latencies_s <= latency_s))
    if measured.background_s is None:
        return Judged(-latencies_s, never, feasible)
    spare = (arrives_s - times_s) / measured.background_s[rows]
    count = np.maximum(np.floor(spare + _A_WHOLE), 0)
    return Judged(count * measured.background_batch_size / arrives_s, -latencies_s, feasible & (count >= 1))


def _leaders(judged: Judged) -> Rows:
    """Return for each place the place of the best feasible point up to it, the earlier of equals; -1 for none."""
    objective = np.where(judged.feasible, judged.objective, -np.inf)
    if judged.second.any():
        order = np.lexsort((judged.second, objective))
        ranked, second = objective[order], judged.second[order]
        changes = (ranked[1:] != ranked[:-1]) | (second[1:] != second[:-1])
        ranks = np.empty(len(order))
        ranks[order] = np.concatenate(([0.0], np.cumsum(changes)))
        grade = np.where(judged.feasible, ranks, -np.inf)
    else:
        grade = objective
    best = np.maximum.accumulate(grade)
    before = np.concatenate(([-np.inf], best[:-1]))
    places: npt.NDArray[np.intp] = np.maximum.accumulate(np.where(grade > before, np.arange(len(grade)), -1))
    return places


def _drawn_w(measured: Measured) -> Array:
    """Return the power compared with the budget, W: the larger of two workloads; NaN where unknown."""
    if measured.background_w is None:
        return measured.power_w
    return np.maximum(measured.power_w, measured.background_w)
