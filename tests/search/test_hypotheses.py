"""Hypotheses of time and power: physics, jagged discrepancy, and relatives, weighed by evidence."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.model.beliefs import Beliefs
from edgetune.stages.search.model.coordinates import Coordinates
from edgetune.stages.search.model.fit import mixed
from edgetune.stages.search.model.hypotheses import MOST_RELATED
from edgetune.stages.search.model.relatives import relative_curves
from edgetune.stages.search.problem import judge
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategies import find_strategy
from edgetune.stages.search.strategy import LEAST_POINTS, NO_HINTS, Hints, PointResult

SPACE = Space.of(grid_points())
COORDINATES = Coordinates.of(SPACE)
ROWS = {point: measure_formula(point) for point in SPACE.points}
BUDGETS_W = tuple(float(budget_w) for budget_w in range(20, 47, 2))


def relative(rows: list[ProfileRow] | None = None, time_s: float = 2.0, power_w: float = 1.1) -> list[ProfileRow]:
    """Another network on the same board: so many times the time and power of some rows."""
    rows = list(ROWS.values()) if rows is None else rows
    return [
        replace(row, workload="other", minibatch_s=row.minibatch_s * time_s, power_w=row.power_w * power_w)
        for row in rows
    ]


def unlike() -> list[ProfileRow]:
    """A program bound by the CPU clock, which the other clocks neither make faster nor let draw more power."""
    shares = {point: point.mode.cpu_mhz / 2201.6 for point in ROWS}
    return [
        replace(row, workload="other", minibatch_s=0.1 / shares[point], power_w=12 + 10 * shares[point])
        for point, row in ROWS.items()
    ]


def mean_excess(rows: dict[Point, ProfileRow], hints: Hints, points: int, at_once: int = 1) -> float:
    """Return the mean excess over the budgets of a search by ``roofline``."""
    excess = []
    for budget_w in BUDGETS_W:
        settings = SearchSettings("roofline", max_points=points, at_once=at_once, hints=hints)
        plan = run_search(Problem("train", power_budget_w=budget_w), list(rows), rows.__getitem__, settings).plan
        assert plan.measured.power_w <= budget_w
        best = min(row.minibatch_s for row in rows.values() if row.power_w <= budget_w)
        excess.append(plan.measured.minibatch_s / best - 1)
    return float(np.mean(excess))


def test_the_mean_and_deviation_of_a_mixture_are_those_of_its_draws():
    weights, means, sds = np.array([0.2, 0.8]), np.array([[1.0], [3.0]]), np.array([[0.5], [0.1]])
    mean, sd = mixed(weights, means, sds)
    assert mean == pytest.approx([2.6])
    assert sd == pytest.approx([math.sqrt(0.2 * (0.25 + 1.6**2) + 0.8 * (0.01 + 0.4**2))])


def test_curves_of_the_same_points_are_the_rows_themselves():
    found = relative_curves(SPACE.points, relative())
    assert len(found.log_times) == 1
    assert found.log_times[0] == pytest.approx(np.log([2 * ROWS[point].minibatch_s for point in SPACE.points]))
    assert found.log_powers[0] == pytest.approx(np.log([1.1 * ROWS[point].power_w for point in SPACE.points]))


def test_a_relative_on_another_grid_is_interpolated():
    left_out = {row.gpu_mhz for row in ROWS.values()} - {726.75}
    found = relative_curves(SPACE.points, relative([row for row in ROWS.values() if row.gpu_mhz in left_out]))
    true = np.log([2 * ROWS[point].minibatch_s for point in SPACE.points])
    assert np.abs(found.log_times[0] - true).max() < 0.2
    assert np.abs(found.log_times[0] - true).mean() < 0.02


@pytest.mark.parametrize(
    "rows",
    [
        relative()[: LEAST_POINTS - 1],
        [replace(row, cpu_cores=4) for row in relative()],
        [replace(row, minibatch_s=None, status="failed") for row in relative()],
        [replace(row, minibatch_s=math.nan) for row in relative()],
    ],
    ids=["too few rows", "other knobs", "failed", "not a number"],
)
def test_what_says_nothing_has_no_curve(rows):
    assert relative_curves(SPACE.points, rows).log_times.size == 0


@pytest.mark.parametrize(("rows", "alike"), [(relative(), True), (unlike(), False)])
def test_evidence_decides_how_much_a_relative_counts(rows, alike):
    beliefs = Beliefs(COORDINATES, None, relatives=relative_curves(SPACE.points, rows))
    chosen = np.random.default_rng(0).choice(len(SPACE.points), 8, replace=False)
    times_s, powers_w = np.array([(row.minibatch_s, row.power_w) for row in map(ROWS.get, SPACE.points)]).T
    beliefs.learn(chosen, times_s[chosen], powers_w[chosen])
    for blend in (beliefs._time, beliefs._power):
        assert (blend.weights[-1] > 0.5 * blend.weights.sum()) == alike


def test_of_many_relatives_those_that_fit_the_measurements_are_used():
    rows = [replace(row, workload=f"unlike{i}") for i in range(20) for row in unlike()] + relative()
    beliefs = Beliefs(COORDINATES, None, relatives=relative_curves(SPACE.points, rows))
    times_s, powers_w = np.array([(row.minibatch_s, row.power_w) for row in map(ROWS.get, SPACE.points)]).T
    for count in (1, 8):
        chosen = np.random.default_rng(0).choice(len(SPACE.points), count, replace=False)
        beliefs.learn(chosen, times_s[chosen], powers_w[chosen])
    physics = (2, 3)
    for blend, others in zip((beliefs._time, beliefs._power), physics, strict=True):
        assert len(blend.hypotheses) == others + MOST_RELATED + 1
        assert blend.weights[-2] > 0.2 * blend.weights.sum()  # the one that is alike, given last
        assert blend.weights[-2] > 10 * blend.weights[-2 - MOST_RELATED + 1 : -2].max()


def test_three_measurements_suffice_where_the_relative_is_alike():
    assert mean_excess(ROWS, Hints(relatives=tuple(relative())), 3) < 0.04


@pytest.mark.parametrize("points", [6, pytest.param(10, marks=pytest.mark.slow)])
def test_an_unlike_relative_costs_little(points):
    without = mean_excess(ROWS, NO_HINTS, points)
    assert mean_excess(ROWS, Hints(relatives=tuple(unlike())), points) < without + 0.03


def non_monotone() -> dict[Point, ProfileRow]:
    """Rows of a board whose power decreases by a third from the lowest CPU clock to the highest."""
    clocks = sorted({point.mode.cpu_mhz for point in ROWS})
    return {
        point: replace(row, power_w=row.power_w * (1.0, 0.9, 0.78, 0.67)[clocks.index(point.mode.cpu_mhz)])
        for point, row in ROWS.items()
    }


def test_low_budgets_are_met_at_high_clocks_where_power_decreases_with_the_clock():
    assert mean_excess(non_monotone(), NO_HINTS, 11) < 0.03


@pytest.mark.parametrize("budget_w", BUDGETS_W)
def test_the_first_points_lie_far_from_one_another(budget_w):
    problem, strategy = Problem("train", power_budget_w=budget_w), find_strategy("roofline")
    searcher, places = strategy(SPACE, problem, seed=0), []
    for _ in range(3):
        row = ROWS[searcher.ask().point]
        searcher.tell(row.point, PointResult(judge(problem, row), row.minibatch_s, row.power_w))
        places.append(COORDINATES.unit[SPACE.rows[SPACE.levels[row.point]]])
    assert min(np.linalg.norm(a - b) for a, b in combinations(places, 2)) > 0.4


def test_the_expected_gain_shrinks_to_nothing_as_the_search_goes_on():
    problem = Problem("train", power_budget_w=28.0)
    strategy = find_strategy("roofline")(SPACE, problem, seed=0)
    gains = []
    assert strategy.expected_gain(10) is None
    for _ in range(12):
        suggestion = strategy.ask()
        if suggestion is None:
            break
        row = ROWS[suggestion.point]
        strategy.tell(suggestion.point, PointResult(judge(problem, row), row.minibatch_s, row.power_w))
        gains.append(strategy.expected_gain(10))
    known = [gain for gain in gains if gain is not None]
    assert known[0] > 0.02
    assert known[-1] < 0.003


@pytest.mark.slow
def test_four_points_at_a_time_cost_at_most_a_third_more_measurements():
    assert mean_excess(ROWS, NO_HINTS, 13, at_once=4) <= mean_excess(ROWS, NO_HINTS, 10) + 0.001
    assert mean_excess(non_monotone(), NO_HINTS, 13, at_once=4) < 0.03


def test_points_asked_for_at_once_differ_and_are_at_most_half_as_many_as_were_measured():
    problem = Problem("train", power_budget_w=28.0)
    strategy = find_strategy("roofline")(SPACE, problem, seed=0)
    asked, sizes = [], []
    while len(asked) < 8:
        suggestions = strategy.ask_many(4)
        sizes.append(len(suggestions))
        for suggestion in suggestions:
            row = ROWS[suggestion.point]
            strategy.tell(suggestion.point, PointResult(judge(problem, row), row.minibatch_s, row.power_w))
            asked.append(suggestion.point)
    assert sizes == [1, 1, 1, 2, 3]
    assert len(set(asked)) == len(asked)


def test_what_is_imagined_for_points_at_once_is_forgotten():
    problem = Problem("train", power_budget_w=28.0)
    strategy = find_strategy("roofline")(SPACE, problem, seed=0)
    for _ in range(6):
        suggestion = strategy.ask()
        row = ROWS[suggestion.point]
        strategy.tell(suggestion.point, PointResult(judge(problem, row), row.minibatch_s, row.power_w))
    first = strategy.ask()
    assert strategy.ask_many(3)[0] == first
    assert strategy.ask() == first
