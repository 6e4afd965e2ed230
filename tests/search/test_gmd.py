"""The gradient search, against sequences worked by hand and against the truth."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from statistics import median

import pytest

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import InfeasibleError
from edgetune.stages.search.driver import SearchResult, SearchSettings, run_search

SMALL = [
    Point("net", "train", 1, Mode(cpu_mhz=cpu, gpu_mhz=gpu, mem_mhz=mem))
    for cpu, gpu, mem in product((1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 2.0, 3.0))
]


def small_board(point: Point) -> ProfileRow:
    """t = 6/cpu + 24/gpu + 6/mem s, P = 10 + cpu + 3 gpu + 2 mem W."""
    cpu, gpu, mem = point.mode.cpu_mhz, point.mode.gpu_mhz, point.mode.mem_mhz
    time_s, power_w = 6 / cpu + 24 / gpu + 6 / mem, 10 + cpu + 3 * gpu + 2 * mem
    return ProfileRow("net", "train", 1, time_s, cpu_mhz=cpu, gpu_mhz=gpu, mem_mhz=mem, power_w=power_w)


def search(points, measure, budget_w: float | None, **options) -> SearchResult:
    return run_search(Problem("train", power_budget_w=budget_w), points, measure, SearchSettings("gmd", **options))


def modes(result: SearchResult) -> list[tuple[float, float, float]]:
    return [(row.cpu_mhz, row.gpu_mhz, row.mem_mhz) for row in result.trace.rows]


def test_under_the_budget_it_raises_the_knob_that_saves_most_time_per_watt():
    # middle: 26 W, 13 s. High ends: cpu 0.8 s / 2 W = 0.4, gpu 3.2/6 = 0.53, mem 1/2 = 0.5 s/W.
    result = search(SMALL, small_board, 30.0)
    assert modes(result) == [
        (3, 3, 2),  # the middle
        (5, 3, 2),  # cpu, high end: 28 W
        (3, 5, 2),  # gpu, high end: 32 W, over
        (3, 3, 3),  # mem, high end: 28 W
        (3, 4, 2),  # gpu first: what is left of it: 29 W, kept; gpu is exhausted
        (3, 4, 3),  # mem next: 31 W, over
        (4, 4, 2),  # cpu last, the lower middle of 4 and 5: 30 W, kept
        (5, 4, 2),  # 31 W, over
        (4, 3, 3),  # back-tracking: the middle again, mem first (28 W), no gpu above (31 W), so cpu: 29 W
        (5, 3, 3),  # 30 W
    ]
    assert result.plan.configuration.mode == Mode(cpu_mhz=4, gpu_mhz=4, mem_mhz=2)
    assert result.plan.measured.minibatch_s == 6 / 4 + 24 / 4 + 6 / 2


def test_over_the_budget_it_lowers_the_knob_that_costs_least_time_per_watt():
    # middle: 26 W, 13 s. Low ends: cpu 4 s / 2 W = 2, gpu 16/6 = 2.67, mem 3/2 = 1.5 s/W.
    result = search(SMALL, small_board, 22.0)
    assert modes(result) == [
        (3, 3, 2),  # the middle: over
        (1, 3, 2),  # cpu, low end: 24 W, over
        (3, 1, 2),  # gpu, low end: 20 W
        (3, 3, 1),  # mem, low end: 24 W, over. mem costs least and is within nowhere: it stays low
        (1, 3, 1),  # cpu next, the lower middle of 1 and 2: 22 W, kept
        (2, 3, 1),  # 23 W, over
        (1, 4, 1),  # within budget, so gpu is raised: 25 W, over
        (1, 2, 2),  # back-tracking: cpu first, at its low end, then gpu (1 is no faster than the probe): 21 W
        (1, 2, 3),  # mem raised: 23 W, over
        (3, 2, 1),  # the best point (1, 3, 1), gpu lowered half-way, cpu raised: 21 W, as fast and 1 W less
    ]
    assert result.plan.configuration.mode == Mode(cpu_mhz=3, gpu_mhz=2, mem_mhz=1)


def test_without_a_budget_the_top_is_the_answer_and_ends_the_search():
    result = search(SMALL, small_board, None, max_points=75)
    assert result.plan.configuration.mode == Mode(cpu_mhz=5, gpu_mhz=5, mem_mhz=3)
    assert len(result.trace.rows) == 1


@pytest.mark.parametrize("budget_w", [16.5, 18.0, 20.0, 23.0, 26.0, 29.0, 32.0, 36.0, 45.0])
def test_never_better_than_the_truth_never_over_budget_at_most_ten_points(budget_w: float):
    points = grid_points()
    problem = Problem("train", power_budget_w=budget_w)
    truth = run_search(problem, points, measure_formula, SearchSettings("exhaustive")).plan.measured
    try:
        plan = search(points, measure_formula, budget_w).plan
    except InfeasibleError:
        assert budget_w < 20  # ten points may miss the few lowest modes
        return
    assert plan.search.points_measured <= 10
    assert plan.measured.power_w <= budget_w
    assert plan.measured.minibatch_s >= truth.minibatch_s
    assert plan.measured.minibatch_s <= 1.35 * truth.minibatch_s


def test_with_points_to_spare_it_reaches_the_truth_and_stops_before_the_end():
    for budget_w in (20.0, 24.0, 30.0, 38.0):
        problem = Problem("train", power_budget_w=budget_w)
        truth = run_search(problem, grid_points(), measure_formula, SearchSettings("exhaustive")).plan.measured
        result = search(grid_points(), measure_formula, budget_w, max_points=180)
        assert result.plan.measured.minibatch_s == truth.minibatch_s
        assert len(result.trace.rows) < 180


def test_known_points_are_walked_over_without_measuring():
    first = search(SMALL, small_board, 30.0)
    known = [small_board(Point("net", "train", 1, Mode(cpu_mhz=c, gpu_mhz=g, mem_mhz=m))) for c, g, m in modes(first)]
    asked = []

    def measure(point: Point) -> ProfileRow:
        asked.append(point)
        return small_board(point)

    again = search(SMALL, measure, 30.0, known=known)
    assert again.plan.measured == first.plan.measured
    assert not {row.point for row in known} & set(asked)


def test_power_that_falls_as_memory_speeds_up_hides_nothing():
    def board(point: Point) -> ProfileRow:
        row = small_board(point)
        return replace(row, power_w=row.power_w - 6 * point.mode.mem_mhz)

    points, problem = SMALL, Problem("train", power_budget_w=12.0)
    truth = run_search(problem, points, board, SearchSettings("exhaustive")).plan.measured
    assert search(points, board, 12.0, max_points=75).plan.measured.minibatch_s == truth.minibatch_s


def test_a_power_change_within_noise_is_no_slope_and_its_knob_comes_last():
    def board(point: Point) -> ProfileRow:
        mode = point.mode  # the CPU saves a lot of time for 0.1 W a step: less than can be told from noise
        time_s = 60 / mode.cpu_mhz + 24 / mode.gpu_mhz
        power_w = 20 + 0.1 * mode.cpu_mhz + 3 * mode.gpu_mhz
        return ProfileRow("net", "train", 1, time_s, cpu_mhz=mode.cpu_mhz, gpu_mhz=mode.gpu_mhz, power_w=power_w)

    points = sorted({replace(point, mode=replace(point.mode, mem_mhz=None)) for point in SMALL}, key=str)
    rows = search(points, board, 32.5, max_points=6).trace.rows
    assert [(row.cpu_mhz, row.gpu_mhz) for row in rows] == [(3, 3), (5, 3), (3, 5), (3, 4), (4, 4), (5, 4)]


def test_a_middle_that_fails_gives_way_to_its_neighbour():
    def board(point: Point) -> ProfileRow:
        row = small_board(point)
        broken = (point.mode.cpu_mhz, point.mode.gpu_mhz, point.mode.mem_mhz) == (3, 3, 2)
        return replace(row, status="failed", minibatch_s=None, reason="crashed") if broken else row

    result = search(SMALL, board, 30.0)
    assert result.trace.rows[0].reason == "crashed"
    assert result.trace.rows[1].reason == "the middle of every knob"
    assert result.plan.measured.power_w <= 30


def test_on_a_grid_of_441_modes_it_is_near_the_truth_at_most_budgets():
    knobs = product(
        (4.0, 8.0, 12.0),
        [422.4 + 296.5 * i for i in range(7)],
        [114.75 + 197.6 * i for i in range(7)],
        (665.6, 2133.0, 3199.0),
    )
    points = [Point("net", "train", 16, Mode(int(cores), *clocks)) for cores, *clocks in knobs]
    table = {point: measure_formula(point) for point in points}
    excesses = []
    for budget_w in range(17, 46):
        truth = min(row.minibatch_s for row in table.values() if row.power_w <= budget_w)
        plan = search(points, table.__getitem__, float(budget_w)).plan
        assert plan.measured.power_w <= budget_w
        assert plan.search.points_measured <= 10
        excesses.append(plan.measured.minibatch_s / truth - 1)
    assert min(excesses) >= 0
    assert median(excesses) <= 0.05
    assert sum(excesses) / len(excesses) <= 0.10
