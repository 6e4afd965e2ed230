"""The problems that strategies are judged by: the grids of the Fulcrum study, and one for any other table.

Fulcrum (2025) replays about 273,000 problems on five networks on an Orin AGX. Its ranges, from lowest to highest:

    family        power            latency budget          arrival rate             problems
    train         10-50 W by 1     -                       -                        4 x 41 + 51 = 215
      BERT        10-60 W by 1
    infer         10-50 W by 1     50-1000 ms by 10        30-90/s by 5             4 x 51,168 + 35,190 = 239,862
      BERT        10-60 W by 1     1-10 s by 0.2           1-5/s by 1
    train+infer   10-50 W by 1     0.5-2 s by 0.1          30-120/s by 10 *         4 x 6,560 + 6,885 = 33,125
      BERT        10-60 W by 1     2-6 s by 0.5 *          1-15/s by 1 *
    infer+infer   as train+infer, power by 2 W *                                    3,360 + 3,510 = 6,870

The published totals are 215, 240,000, 33,000 and 6,600. The study does not state the starred steps of pairs: they are
the ones that come nearest to the total. For BERT's inference its text says 1 to 5 requests per s, which makes 11,730
problems where it counts about 35,000 and 240,000 in all; 1 to 15 per s, as for its pairs, makes both counts.

The best answer to every problem, from sorted arrays.

    points by power:   10 W   11 W   13 W   14 W   17 W ...
    how good:           3      5      4      -      9       (- breaks another budget)
    best so far:        3      5      5      5      9       <-- one look-up answers any power budget

Problems that differ in the power budget alone share one such row, so 50,000 problems take a thousand rows. The rules
are those of ``judge`` and ``judge_pair`` of ``search.problem``, for arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from edgetune.artifacts.problem import Problem, ProblemKind
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.artifacts.repeats import late_minibatch_s, mean_minibatch_s
from edgetune.errors import InputError
from edgetune.stages.search.space import Space

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

Family = ProblemKind
GridName = Literal["fulcrum", "auto"]

STUDY_NETWORKS: dict[Task, dict[str, str]] = {
    "train": {
        "resnet18": "resnet",
        "mobilenet_v3_large": "mobilenet",
        "yolov8n": "yolo",
        "bert_base": "bert",
        "lstm_wikitext": "lstm",
    },
    "infer": {
        "resnet50": "resnet",
        "mobilenet_v3_large": "mobilenet",
        "yolov8n": "yolo",
        "bert_large": "bert",
        "lstm_wikitext": "lstm",
    },
}
"""Networks of the study by task and by their names in tables (table 3 of the study)."""
STUDY_PAIRS: dict[str, tuple[tuple[str, str], ...]] = {
    "train+infer": (
        ("yolo", "resnet"), ("resnet", "mobilenet"), ("mobilenet", "mobilenet"), ("resnet", "bert"),
        ("mobilenet", "lstm"),
    ),
    "infer+infer": (("resnet", "mobilenet"), ("resnet", "bert")),
}  # fmt: skip
"""The study's pairs: the background workload, then the urgent one."""
PUBLISHED: dict[str, int] = {"train": 215, "infer": 240_000, "train+infer": 33_000, "infer+infer": 6_600}
"""Problems by family, as published."""

_LEAST_BUDGETS = 20
_STEPS_W = (1.0, 0.5, 0.2, 0.1, 0.05)
_LATENCIES = {"infer": (2.0, 100.0, 12), "pairs": (5.0, 200.0, 8)}
"""Latency budgets of the grid for any table, as multiples of the shortest minibatch: lowest, highest, count."""
_RATE_SHARES = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
"""Arrival rates of that grid, as shares of the highest rate that the smallest batch serves."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The figures of each point of a space, in its order; NaN where nothing was measured.

    Args:
        batch_size, minibatch_s, power_w: Of the one workload, or the urgent one of two: samples, s and W.
        background_batch_size: Samples of the second workload's minibatch; 0 where there is one workload.
        background_s, background_w: Of the second workload in the mode of each point.
        late_s: The times that latencies follow from, s; ``None`` where they are the mean times.
    """

    batch_size: Array
    minibatch_s: Array
    power_w: Array
    background_batch_size: int = 0
    background_s: Array | None = None
    background_w: Array | None = None
    late_s: Array | None = None

    @classmethod
    def of(cls, space: Space, rows: Mapping[Point, ProfileRow]) -> Measured:
        """Return the figures that ``rows`` have of the points of ``space``; NaN for points without a row."""
        sizes = np.array([point.batch_size for point in space.points], dtype=float)
        found = [rows.get(point) for point in space.points]
        urgent = _figures(found)
        late_s = np.array([np.nan if row is None else late_minibatch_s(row) or np.nan for row in found], dtype=float)
        late_s[np.isnan(urgent[0])] = np.nan
        if space.background is None:
            return cls(sizes, *urgent, late_s=late_s)
        background = _figures([rows.get(space.partner(point)) for point in space.points])
        return cls(sizes, *urgent, space.background.batch_size, *background, late_s)


def _figures(rows: list[ProfileRow | None]) -> tuple[Array, Array]:
    """Return s and W of the rows; NaN for what is missing, failed or no figure."""
    figures = np.array([(np.nan, np.nan) if row is None else _pair(row) for row in rows], dtype=float).reshape(-1, 2)
    figures[~(np.isfinite(figures) & (figures > 0))] = np.nan
    return figures[:, 0], figures[:, 1]


def _pair(row: ProfileRow) -> tuple[float, float]:
    time_s = mean_minibatch_s(row)
    if row.status != "ok" or time_s is None:
        return np.nan, np.nan
    return time_s, np.nan if row.power_w is None else row.power_w


@dataclass(frozen=True, slots=True, eq=False)
class ProblemSet:
    """Problems that differ in their budgets and arrival rates only, by number; NaN where there is no budget.

    Args:
        base: The common part of the problems; its budgets and rate are ignored.
        power_budget_w, latency_budget_s, arrival_rate_per_s: Values of each problem, shape (problems,).
    """

    base: Problem
    power_budget_w: Array
    latency_budget_s: Array
    arrival_rate_per_s: Array

    def __len__(self) -> int:
        return len(self.power_budget_w)

    def problem(self, number: int) -> Problem:
        """Return the problem with that number."""
        budgets = (self.power_budget_w, self.latency_budget_s, self.arrival_rate_per_s)
        power_w, latency_s, rate = (None if np.isnan(each[number]) else float(each[number]) for each in budgets)
        return replace(self.base, power_budget_w=power_w, latency_budget_s=latency_s, arrival_rate_per_s=rate)

    def unbounded(self) -> Problem:
        """Return a problem of this kind that every point solves: no budgets, requests that hardly ever come."""
        rate = None if np.isnan(self.arrival_rate_per_s).all() else 1e-6
        return replace(self.base, power_budget_w=None, latency_budget_s=None, arrival_rate_per_s=rate)

    def take(self, numbers: Rows) -> ProblemSet:
        """Return the problems with these numbers, renumbered."""
        budgets = (self.power_budget_w, self.latency_budget_s, self.arrival_rate_per_s)
        return ProblemSet(self.base, *(each[numbers] for each in budgets))


Range = tuple[float, float, float]
"""First value, last value and step of evenly spaced values."""
_W, _BERT_W = (10, 50, 1), (10, 60, 1)
_PAIR, _BERT_PAIR = ((0.5, 2, 0.1), (30, 120, 10)), ((2, 6, 0.5), (1, 15, 1))
_FULCRUM: dict[str, tuple[tuple[Range | None, ...], tuple[Range | None, ...]]] = {
    "train": ((_W, None, None), (_BERT_W, None, None)),
    "infer": ((_W, (0.05, 1, 0.01), (30, 90, 5)), (_BERT_W, (1, 10, 0.2), (1, 15, 1))),
    "train+infer": ((_W, *_PAIR), (_BERT_W, *_BERT_PAIR)),
    "infer+infer": (((10, 50, 2), *_PAIR), ((10, 60, 2), *_BERT_PAIR)),
}
"""Power, W, latency, s, and arrival rate, 1/s, by family: of the other networks, and of BERT."""


def fulcrum_problems(family: Family, network: str) -> ProblemSet:
    """Return the study's problems of a family for one of its networks; of two workloads, the urgent one.

    Raises:
        InputError: the study does not have the network or the family.
    """
    known_as = STUDY_NETWORKS["train" if family == "train" else "infer"]
    name = known_as.get(network, network)
    if name not in known_as.values() or family not in _FULCRUM:
        known = ", ".join(known_as)
        raise InputError(f"the Fulcrum study has no {family} problems of {network}", f"--grid auto; it has: {known}")
    return _product(family, *map(_spaced, _FULCRUM[family][name == "bert"]))


def _spaced(values: Range | None) -> Array:
    """Return evenly spaced values, both ends among them, without accumulated rounding errors; NaN for none."""
    if values is None:
        return np.array([np.nan])
    first, last, step = values
    return np.round(first + step * np.arange(round((last - first) / step) + 1), 9)


def table_problems(family: Family, measured: Measured) -> ProblemSet:
    """Return problems scaled to a table: power budgets from its lowest to its highest power, times from its own.

    Power goes in steps of 1 W, less where that makes fewer than 20 budgets. Latency budgets and arrival rates are
    scaled to the shortest minibatch, so that the grid of a board ten times slower is ten times slower too.

    Raises:
        InputError: the table has no power figures, or no times.
    """
    budgets_w = power_budgets_w(measured)
    if family == "train":
        return _product(family, budgets_w, np.array([np.nan]), np.array([np.nan]))
    shortest_s = float(np.nanmin(measured.minibatch_s))
    smallest = float(measured.batch_size.min())
    low, high, count = _LATENCIES["infer" if family == "infer" else "pairs"]
    latencies_s = _rounded(np.asarray(np.geomspace(low, high, count) * shortest_s, dtype=float))
    return _product(family, budgets_w, latencies_s, _rounded(_RATE_SHARES * smallest / shortest_s))


def power_budgets_w(measured: Measured) -> Array:
    """Return power budgets, W, from the lowest that some point keeps to the highest drawn.

    Raises:
        InputError: no point has a power figure.
    """
    drawn_w = measured.power_w if measured.background_w is None else np.maximum(measured.power_w, measured.background_w)
    drawn_w = drawn_w[np.isfinite(drawn_w) & ~np.isnan(measured.minibatch_s)]
    if not len(drawn_w):
        raise InputError(
            "no row of the table has a power figure", "problems have power budgets: give a table with power_w"
        )
    low_w, high_w = float(drawn_w.min()), float(drawn_w.max())
    step_w = next((step for step in _STEPS_W if (high_w - low_w) / step >= _LEAST_BUDGETS), _STEPS_W[-1])
    return np.round(step_w * np.arange(np.ceil(low_w / step_w), np.ceil(high_w / step_w) + 1), 9)


def _product(kind: ProblemKind, power_w: Array, latency_s: Array, rate_per_s: Array) -> ProblemSet:
    powers, latencies, rates = np.meshgrid(power_w, latency_s, rate_per_s, indexing="ij")
    return ProblemSet(Problem(kind), powers.ravel(), latencies.ravel(), rates.ravel())


def _rounded(values: Array) -> Array:
    """Return values rounded to three digits."""
    return np.array([float(f"{value:.3g}") for value in values])


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
