"""Runs in a few figures: what is printed of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgetune.artifacts.evaluation import EvaluationRun
from edgetune.search.evaluation.measured import Array
from edgetune.search.problem import PAIRS


@dataclass(frozen=True, slots=True)
class Merit:
    """Figures of some runs together; excess is a share, points and own computation (s) are means per problem.

    Args:
        name: What they have in common, e.g. ``roofline:10``.
        problems, solvable, solved, violations: Counts; a problem counts once per seed.
        median, mean, p90, p99: Of the excess of the solved ones; not a number where none was.
        points: Measured per solvable problem, in the mean; by strategies that measure once, in all.
        strategy_s: Own computation per solvable problem, s.
        measurement_s: Time spent measuring in all, s; not a number where it was not reckoned.
    """

    name: str
    problems: int
    solvable: int
    solved: int
    violations: int
    median: float
    mean: float
    p90: float
    p99: float
    points: float
    strategy_s: float
    measurement_s: float

    @property
    def solved_percent(self) -> float:
        """The solved share in per cent, rounded down to two decimals: 100 says that all are."""
        return math.floor(1e4 * self.solved / self.solvable) / 100 if self.solvable else math.nan


def excess_named(family: str) -> str:
    """Return what excess is an excess of, in problems of a family."""
    if family in PAIRS:
        return "background throughput lost"
    return "latency over the best" if family in ("infer", "dynamic") else "time over the best"


def solvable_problems(runs: Sequence[EvaluationRun]) -> int:
    """Return how many different problems of these runs have a solution; unlike in ``Merit`` seeds do not count."""
    return len({(run.label, number) for run in runs for number in run.problem[run.solvable].tolist()})


def merits(runs: Sequence[EvaluationRun], key: Callable[[EvaluationRun], str]) -> list[Merit]:
    """Return the figures of runs that share a key, in the order in which the keys first appear."""
    groups: dict[str, list[EvaluationRun]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return [_merit(name, group) for name, group in groups.items()]


def _merit(name: str, runs: Sequence[EvaluationRun]) -> Merit:
    def joined(column: str) -> Array:
        values: Array = np.concatenate([getattr(run, column) for run in runs])
        return values

    solvable, excess, spent_s = joined("solvable").astype(bool), joined("excess"), joined("measurement_s")
    excess = np.sort(excess[~np.isnan(excess)])
    return Merit(
        name,
        problems=len(solvable),
        solvable=int(solvable.sum()),
        solved=int(joined("solved").sum()),
        violations=int(joined("violated").sum()),
        median=_quantile(excess, 0.5),
        mean=float(excess.mean()) if len(excess) else np.nan,
        p90=_quantile(excess, 0.9),
        p99=_quantile(excess, 0.99),
        points=_mean(joined("points")[solvable]),
        strategy_s=_mean(joined("strategy_s")[solvable]),
        measurement_s=np.nan if np.isnan(spent_s).all() else float(np.nansum(spent_s)),
    )


def _quantile(ordered: Array, share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    return float(ordered[max(int(np.ceil(share * len(ordered))) - 1, 0)]) if len(ordered) else np.nan


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else np.nan
