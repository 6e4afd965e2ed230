"""The results of an evaluation: figures per strategy."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetune.artifacts.evaluation import EvaluationRun
from edgetune.stages.search.evaluation.problems import Array
from edgetune.stages.search.problem import PAIRS


@dataclass(frozen=True, slots=True)
class Merit:
    """Figures of some runs together; excess is a share, points and computation (s) are means per problem.

    Args:
        name: Name of the group, e.g. ``roofline:10``.
        problems, solvable, solved, violations: Counts; each problem counts once per seed.
        median, mean, p90, p99, worst: Statistics of the excess of solved problems; NaN if none was solved.
        mean_low, mean_high: Interval of the mean that holds in 95 % of the cases, by bootstrap over the problems; NaN
            if fewer than two were solved.
        points: Mean number of measured points per solvable problem; of strategies that measure once, in all.
        strategy_s: Computation of the strategy per solvable problem, s.
        measurement_s: Total time spent measuring, s; NaN where it was not computed.
        points_to_3_percent, points_to_1_percent: Points after which a measured one is within 3 % and 1 % of the best in
            half of the solvable problems; NaN if that is never so, or where it was not computed.
    """

    name: str
    problems: int
    solvable: int
    solved: int
    violations: int
    median: float
    mean: float
    mean_low: float
    mean_high: float
    p90: float
    p99: float
    worst: float
    points: float
    strategy_s: float
    measurement_s: float
    points_to_3_percent: float
    points_to_1_percent: float

    @property
    def solved_percent(self) -> float:
        """The solved share in per cent, rounded down to two decimals: 100 says that all are."""
        return math.floor(1e4 * self.solved / self.solvable) / 100 if self.solvable else math.nan


def excess_named(family: str) -> str:
    """Return the quantity that excess is measured in, for a family of problems."""
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
    low, high = _mean_interval([run.excess for run in runs], [(run.label, run.problem) for run in runs])
    excess = np.sort(excess[~np.isnan(excess)])
    return Merit(
        name,
        problems=len(solvable),
        solvable=int(solvable.sum()),
        solved=int(joined("solved").sum()),
        violations=int(joined("violated").sum()),
        median=_quantile(excess, 0.5),
        mean=float(excess.mean()) if len(excess) else np.nan,
        mean_low=low,
        mean_high=high,
        p90=_quantile(excess, 0.9),
        p99=_quantile(excess, 0.99),
        worst=_quantile(excess, 1.0),
        points=_mean(joined("points")[solvable]),
        strategy_s=_mean(joined("strategy_s")[solvable]),
        measurement_s=np.nan if np.isnan(spent_s).all() else float(np.nansum(spent_s)),
        points_to_3_percent=_usual_count(joined("points_to_3_percent")[solvable]),
        points_to_1_percent=_usual_count(joined("points_to_1_percent")[solvable]),
    )


_RESAMPLES, _DRAWS = 1000, 10_000_000
"""Resamples of a bootstrap, and the most problems drawn for all of them: fewer resamples of very many problems."""


def _mean_interval(
    excesses: Sequence[Array], problems: Sequence[tuple[str, npt.NDArray[np.intp]]]
) -> tuple[float, float]:
    """Return the 2.5 % and the 97.5 % quantile of the mean excess when the problems are drawn anew, with their seeds.

    Args:
        excesses: Excess per problem of each run; NaN is left out.
        problems: Label and numbers of the problems of each run.
    """
    labels = list(dict.fromkeys(label for label, _ in problems))
    keys = np.concatenate([numbers * len(labels) + labels.index(label) for label, numbers in problems])
    excess = np.concatenate(excesses)
    solved = ~np.isnan(excess)
    _, which = np.unique(keys[solved], return_inverse=True)
    sums, counts = np.bincount(which, excess[solved]), np.bincount(which)
    if len(sums) < 2:
        return np.nan, np.nan
    random, number = np.random.default_rng(0), len(sums)
    resamples = min(_RESAMPLES, max(_DRAWS // number, 100))
    drawn = (random.integers(number, size=number) for _ in range(resamples))
    low, high = np.quantile([sums[rows].sum() / counts[rows].sum() for rows in drawn], [0.025, 0.975])
    return float(low), float(high)


def _usual_count(counts: Array) -> float:
    """Return the median of counts of which NaN is more than any number; NaN if that is the median."""
    return _quantile(np.sort(counts), 0.5)  # NaN sorts last


def _quantile(ordered: Array, share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    return float(ordered[max(int(np.ceil(share * len(ordered))) - 1, 0)]) if len(ordered) else np.nan


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else np.nan
