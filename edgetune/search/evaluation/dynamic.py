"""Strategies judged at changing rates: every window of a trace is a problem, and what was measured is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from edgetune.artifacts.evaluation import EvaluationRun
from edgetune.artifacts.problem import Problem
from edgetune.search.evaluation.answering import StrategyAnswers, noisy
from edgetune.search.evaluation.cases import EvaluationCase, ProfiledWorkload, cases_of
from edgetune.search.evaluation.contenders import Contender
from edgetune.search.evaluation.measured import Array
from edgetune.search.evaluation.problem_set import ProblemSet
from edgetune.search.evaluation.runner import judged_run
from edgetune.search.evaluation.truth import best_answers
from edgetune.search.replay import replay


def window_cases(
    subjects: Sequence[ProfiledWorkload], rates: Sequence[float], power_w: float, latency_s: float
) -> list[EvaluationCase]:
    """Return a case for each inference workload, whose problems are the windows.

    Raises:
        InputError: as ``cases_of`` for inference.
    """
    rate = np.array(rates, dtype=float)
    windows = ProblemSet("infer", np.full(len(rate), power_w), np.full(len(rate), latency_s), np.maximum(rate, 1e-9))
    found = cases_of(subjects, "infer", grid="auto")
    return [replace(case, family="dynamic", problems=windows) for case in found]


def run_windows(
    cases: Iterable[EvaluationCase],
    rates: Sequence[float],
    contenders: Sequence[Contender],
    *,
    seeds: int,
    noise: float,
    tie: float,
    window_s: float,
) -> Iterator[EvaluationRun]:
    """Yield a run for each contender, case and seed. A window without requests is no problem and has no row."""
    busy = np.flatnonzero(np.array(rates) > 0)
    for contender in contenders:
        for case in cases:
            best = best_answers(case.measured, case.problems)
            for seed in range(seeds):
                answers, measurement_s = _windows(case, contender, rates, seed=seed, noise=noise, window_s=window_s)
                chosen = StrategyAnswers("", answers.rows[busy], answers.points[busy], answers.strategy_s[busy])
                who = (contender.strategy, contender.max_points, seed)
                yield judged_run(case, best, busy, chosen, who, tie=tie, measurement_s=measurement_s[busy])


def _windows(
    case: EvaluationCase, contender: Contender, rates: Sequence[float], *, seed: int, noise: float, window_s: float
) -> tuple[StrategyAnswers, Array]:
    """Return the answers to all windows, and the time spent measuring in each, s."""
    place = {point: row for row, point in enumerate(case.space.points)}
    first = case.problems.problem(0)
    windows = list(
        replay(
            rates,
            Problem("infer", first.power_budget_w, first.latency_budget_s),
            case.space.points,
            noisy(case.rows, noise, f"{seed} dynamic {case.label}"),
            strategy=contender.strategy,
            max_points=contender.max_points,
            seed=seed,
            power_noise=noise / 2,
            window_s=window_s,
        )
    )
    rows = np.array([-1 if window.answer is None else place[window.answer] for window in windows], dtype=np.intp)
    points = np.array([window.points for window in windows], dtype=np.intp)
    own_s = np.array([window.strategy_s for window in windows])
    return StrategyAnswers("", rows, points, own_s), np.array([window.measurement_s for window in windows])
