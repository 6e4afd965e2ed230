"""The pareto strategy: one set of measurements answers every budget."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.strategy_contract import INFER, grid_points, measure_formula
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.model.gain import (
    BUDGETS,
    NOTHING_YET,
    best_under,
    budgets_between,
    chances_under,
    front_gain,
)
from edgetune.stages.search.strategies.pareto import Pareto

NO_POWER = np.full(2, np.nan)


def measured_for(problem: Problem, points: int, **changed) -> list[ProfileRow]:
    """Return what the strategy measures of the formula landscape."""
    seen: list[ProfileRow] = []

    def measure(point: Point) -> ProfileRow:
        seen.append(measure_formula(point))
        return seen[-1]

    run_search(problem, grid_points(problem.kind), measure, SearchSettings("pareto", max_points=points, **changed))
    return seen


def worst_and_mean_excess(found: list[ProfileRow], every: list[ProfileRow]) -> tuple[float, float]:
    excess = []
    for budget_w in np.arange(np.ceil(min(row.power_w for row in every)), max(row.power_w for row in every) + 1):
        best, truth = (
            min((row.minibatch_s for row in rows if row.power_w <= budget_w), default=np.inf) for rows in (found, every)
        )
        excess.append(best / truth - 1)
    return max(excess), float(np.mean(excess))


def test_thirty_points_of_training_come_near_the_optimum_of_every_budget():
    every = [measure_formula(point) for point in grid_points()]
    worst, mean = worst_and_mean_excess(measured_for(Problem("train"), 30), every)
    assert mean <= 0.015
    assert worst <= 0.10
    assert Pareto.default_max_points(Problem("train")) == 30


def test_no_budget_is_looked_at():
    assert Pareto.budget_free
    asked = [
        [row.point for row in measured_for(Problem("train", power_budget_w=budget_w), 12)] for budget_w in (20.0, 40.0)
    ]
    assert asked[0] == asked[1]


def test_in_inference_every_batch_size_has_its_front():
    every = [measure_formula(point) for point in grid_points("infer")]
    found = measured_for(INFER, 45)
    for size in (1, 4, 16):
        of_size = [[row for row in rows if row.batch_size == size] for rows in (found, every)]
        worst, mean = worst_and_mean_excess(*of_size)
        assert len(of_size[0]) >= 8
        assert mean <= 0.04
        assert worst <= 0.25


def test_without_power_figures_there_is_one_budget_and_the_fastest_point_is_found():
    def measure(point: Point) -> ProfileRow:
        row = measure_formula(point)
        return ProfileRow(row.workload, row.task, row.batch_size, row.minibatch_s, **{
            name: getattr(point.mode, name) for name in ("cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz")
        })  # fmt: skip

    plan = run_search(Problem("train"), grid_points(), measure, SearchSettings("pareto", max_points=6)).plan
    assert plan.measured.minibatch_s == min(measure_formula(point).minibatch_s for point in grid_points())


def test_budgets_lie_between_the_extremes_and_leave_out_none():
    budgets = budgets_between(np.log([10.0, 40.0, 20.0]))
    assert len(budgets) == BUDGETS
    assert np.log(10.0) < budgets[0] < np.log(11.0)
    assert budgets[-1] == pytest.approx(np.log(40.0))
    assert budgets_between(NO_POWER).tolist() == [np.inf]
    assert len(budgets_between(np.log([10.0, 10.0]))) == 1


def test_under_each_budget_the_best_is_the_fastest_that_keeps_it():
    budgets = np.log([10.0, 20.0, 30.0])
    best = best_under(budgets, np.array([3.0, 2.0, 2.5]), np.log([15.0, 29.0, 25.0]))
    assert best.tolist() == [np.inf, 3.0, 2.0]
    assert best_under(budgets, np.array([3.0]), np.array([np.nan])).tolist() == [3.0, 3.0, 3.0]


def test_a_point_is_worth_the_mean_of_its_gains_and_something_where_nothing_is_known():
    # Twice as fast under one of two budgets, the other not kept; sure of both.
    found = front_gain(np.array([[1.0], [0.0]]), np.array([0.0]), np.array([0.0]), np.log([[2.0], [2.0]]))
    assert found == pytest.approx([(2.0 - 1.0) / 2], abs=1e-4)
    nothing = front_gain(np.array([[1.0], [0.5]]), np.zeros(1), np.zeros(1), np.full((2, 1), np.inf))
    assert nothing == pytest.approx([0.75 * NOTHING_YET])
    assert chances_under(np.log([10.0, 20.0]), np.log([10.0]), np.array([0.1]))[0, 0] == pytest.approx(0.5)
    assert chances_under(np.log([10.0]), np.array([np.nan]), np.array([np.nan])).tolist() == [[1.0]]
