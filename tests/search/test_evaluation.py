"""Judging strategies: problems, scores and figures that can be worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from strategy_scores import Score, evaluate, infer_problems, summarise, train_problems

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.errors import InputError

# GPU clock k: 1/k s, 10 + k W.
LINE = [ProfileRow("net", "train", 1, 1 / k, gpu_mhz=float(k), power_w=10.0 + k) for k in (1, 2, 3, 4, 5)]


def test_training_problems_go_from_the_lowest_budget_met_to_the_highest_power():
    assert [problem.power_budget_w for problem in train_problems(LINE)] == [11, 12, 13, 14, 15]
    rows = [replace(LINE[0], power_w=10.2), replace(LINE[1], power_w=11.7)]
    assert [problem.power_budget_w for problem in train_problems(rows, step_w=0.5)] == [10.5, 11.0, 11.5, 12.0]


def test_a_table_without_power_has_no_budgets():
    with pytest.raises(InputError, match="no row of the table has a power figure"):
        train_problems([replace(row, power_w=None) for row in LINE])


def test_inference_problems_are_the_grid_or_a_sample_of_it():
    grid = infer_problems(LINE)
    assert len(grid) == 5 * 8 * 9
    sample = infer_problems(LINE, sample=20, seed=1)
    assert len(sample) == 20
    assert set(sample) < set(grid)
    assert sample == infer_problems(LINE, sample=20, seed=1)
    assert sample != infer_problems(LINE, sample=20, seed=2)


def test_measuring_everything_is_always_right():
    rows = [measure_formula(point) for point in grid_points()[::5]]
    summary = summarise(evaluate(rows, train_problems(rows)[::6], "exhaustive"))
    assert (summary.solved, summary.violations, summary.mean) == (summary.problems, 0, 0.0)
    assert summary.points == len(rows)


def test_excess_is_the_time_over_the_best_time():
    # gmd with one point measures the middle, k = 3; within 15 W the best is k = 5: (1/3) / (1/5) - 1.
    (score,) = evaluate(LINE, [Problem("train", power_budget_w=15.0)], "gmd", max_points=1)
    assert score.excess == pytest.approx(2 / 3)
    assert (score.solved, score.violated, score.points) == (True, False, 1)


def test_an_unanswered_problem_is_unsolved_and_one_without_answer_has_no_score():
    scores = evaluate(LINE, [Problem("train", power_budget_w=w) for w in (10.5, 11.0)], "gmd", max_points=1)
    assert [(score.problem.power_budget_w, score.solved, score.excess) for score in scores] == [(11.0, False, None)]
    assert scores[0].points == 1


def test_energy_is_a_cost_whose_excess_is_a_ratio_too():
    # Energy (10 + k) / k J: 13/3 in the middle, 3 at best.
    problem = Problem("train", objective="energy")
    table = {row.gpu_mhz: row for row in LINE}
    for row in evaluate(list(table.values()), [problem], "random", max_points=1, seed=0):
        assert row.excess in [pytest.approx((10 + k) / k / 3 - 1) for k in (1, 2, 3, 4, 5)]


def test_with_noise_the_answer_is_judged_by_the_true_figures():
    problems = [Problem("train", power_budget_w=13.0)] * 60
    scores = evaluate(LINE, problems, "exhaustive", power_noise=0.05, seed=1)
    assert 0 < sum(score.violated for score in scores) < 30  # a reading of 14 W falls below 13 W now and then
    assert all(score.excess is None for score in scores if score.violated)
    assert scores[:5] == evaluate(LINE, problems[:5], "exhaustive", power_noise=0.05, seed=1)


def test_figures_of_scores_worked_by_hand():
    problem = Problem("train")
    scores = [Score(problem, True, False, share / 100, 10) for share in range(10)]
    scores += [Score(problem, True, True, None, 4), Score(problem, False, False, None, 0)]
    summary = summarise(scores)
    assert (summary.problems, summary.solved, summary.violations) == (12, 11, 1)
    assert (summary.mean, summary.p90) == (pytest.approx(0.045), 0.08)
    assert summary.points == pytest.approx(104 / 12)


def test_no_scores_are_not_a_number():
    summary = summarise([])
    assert summary.problems == 0
    assert math.isnan(summary.mean)
