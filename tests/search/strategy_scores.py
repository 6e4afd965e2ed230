"""One table, some problems, one strategy, in this process: what a script needs to judge a strategy."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import InputError
from edgetune.stages.search.answer import NoPowerError, NothingFeasibleError
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.evaluation.answering import perturbed
from edgetune.stages.search.problem import judge
from edgetune.stages.search.space import offered_space

ARRIVAL_RATES_PER_S: tuple[float, ...] = (1, 5, 10, 20, 30, 45, 60, 75, 90)
LATENCY_BUDGETS_S: tuple[float, ...] = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""A thinned grid over the ranges of Fulcrum's inference problems: 1 to 90 requests per s, 50 ms to 10 s."""


@dataclass(frozen=True, slots=True)
class Score:
    """How one search of one problem went.

    Args:
        problem: The problem; some point of the table solves it.
        solved: Whether it gave an answer.
        violated: Whether the answer, by the table's own figures, breaks a budget.
        excess: Time, latency or energy of the answer over that of the best point, less one; ``None`` unless it gave
            an answer that keeps the budgets.
        points: Points it measured.
    """

    problem: Problem
    solved: bool
    violated: bool
    excess: float | None
    points: int


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Scores of many problems in figures; shares, not per cent, and points per problem."""

    problems: int
    solved: int
    violations: int
    mean: float
    p90: float
    points: float


def train_problems(rows: Iterable[ProfileRow], *, step_w: float = 1.0) -> list[Problem]:
    """Return a training problem per power budget, from the lowest that some row meets to the highest drawn, W."""
    powers = [row.power_w for row in rows if row.status == "ok" and row.power_w is not None]
    if not powers:
        raise InputError("no row of the table has a power figure", "give a table with power_w")
    first, last = math.ceil(min(powers) / step_w), math.ceil(max(powers) / step_w)
    return [Problem("train", power_budget_w=step * step_w) for step in range(first, last + 1)]


def infer_problems(rows: Iterable[ProfileRow], *, sample: int | None = None, seed: int = 0) -> list[Problem]:
    """Return inference problems over power budget, latency budget and arrival rate; a random sample when asked."""
    budgets = [problem.power_budget_w for problem in train_problems(rows)]
    grid = [
        Problem("infer", power_budget_w=power_w, latency_budget_s=latency_s, arrival_rate_per_s=rate)
        for power_w in budgets
        for latency_s in LATENCY_BUDGETS_S
        for rate in ARRIVAL_RATES_PER_S
    ]
    return grid if sample is None or sample >= len(grid) else random.Random(seed).sample(grid, sample)


def evaluate(
    rows: Sequence[ProfileRow],
    problems: Iterable[Problem],
    strategy: str,
    *,
    max_points: int | None = None,
    seed: int = 0,
    time_noise: float = 0.0,
    power_noise: float = 0.0,
) -> list[Score]:
    """Replay the problems that the table can solve; those it cannot solve have no score.

    Args:
        rows: A fully measured table of one workload.
        problems: What to solve, each from nothing.
        strategy: Name of a strategy.
        max_points: Most points per problem; ``None`` takes the strategy's default.
        seed: Of the strategy and of the noise.
        time_noise, power_noise: Relative standard deviation added to every measurement the strategy makes.
    """
    table = {row.point: row for row in rows if row.status == "ok"}
    scores = []
    for number, problem in enumerate(problems):
        best = max((v for row in table.values() if (v := _value(problem, row)) is not None), default=None)
        if best is not None:
            noise = random.Random(f"{seed} {number}")
            noisy = {
                point: perturbed(row, noise.gauss(0, time_noise), noise.gauss(0, power_noise))
                for point, row in (table.items() if time_noise or power_noise else ())
            }
            scores.append(
                _score(problem, table, noisy or table, best, strategy=strategy, max_points=max_points, seed=seed)
            )
    return scores


def summarise(scores: Sequence[Score]) -> ScoreSummary:
    """Return the figures of many scores; those of no answer at all are not a number."""
    excess = sorted(score.excess for score in scores if score.excess is not None)
    number = max(len(scores), 1)
    return ScoreSummary(
        problems=len(scores),
        solved=sum(score.solved for score in scores),
        violations=sum(score.violated for score in scores),
        mean=sum(excess) / len(excess) if excess else math.nan,
        p90=_quantile(excess, 0.9),
        points=sum(score.points for score in scores) / number,
    )


def _score(
    problem: Problem,
    table: dict[Point, ProfileRow],
    measured: dict[Point, ProfileRow],
    best: float,
    *,
    strategy: str,
    max_points: int | None,
    seed: int,
) -> Score:
    offered = offered_space(problem, table).points
    try:
        result = run_search(
            problem, offered, measured.__getitem__, SearchSettings(strategy, max_points=max_points, seed=seed)
        )
    except (NothingFeasibleError, NoPowerError) as error:
        steps = () if error.trace is None else error.trace.rows
        return Score(problem, False, False, None, len(steps))
    answer = result.plan.configuration
    truth = table[replace(offered[0], batch_size=answer.batch_size or offered[0].batch_size, mode=answer.mode)]
    value = _value(problem, truth)
    excess = None if value is None else _excess(value, best)
    return Score(problem, True, value is None, excess, result.plan.search.points_measured)


def _value(problem: Problem, row: ProfileRow) -> float | None:
    """Return the objective of a row that keeps every budget, else ``None``."""
    judgement = judge(problem, row)
    return judgement.objective if judgement.feasible else None


def _excess(value: float, best: float) -> float:
    """Return the cost over the best, less one; objectives that are costs are negative, throughput is positive."""
    return best / value - 1 if best > 0 else value / best - 1


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else math.nan
