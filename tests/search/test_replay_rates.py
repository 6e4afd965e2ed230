"""Changing rates: reuse first, measure little, and answer every window that can be answered."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import InputError
from edgetune.stages.search.driver import SearchSettings
from edgetune.stages.search.evaluation.answering import Contender
from edgetune.stages.search.evaluation.cases import ProfiledWorkload
from edgetune.stages.search.evaluation.dynamic import (
    MEASURING_SHARE,
    REFINEMENT_POINTS,
    WINDOW_S,
    WINDOWS,
    poisson_rates,
    replay,
    run_windows,
    window_cases,
    window_rates,
)
from edgetune.stages.search.evaluation.runner import EvaluationConditions
from edgetune.stages.search.problem import judge

BUDGETS = Problem("infer", power_budget_w=16.0, latency_budget_s=0.25)


def table(duration_s: float = 8.0) -> dict[Point, ProfileRow]:
    rows = [
        ProfileRow(
            "net", "infer", size, 6 * size**0.6 / gpu, gpu_mhz=gpu, mem_mhz=mem, duration_s=duration_s,
            power_w=8 + gpu / 150 + mem / 1000,
        )
        for size in (1, 4, 16) for gpu in (300.0, 500.0, 700.0, 900.0, 1100.0) for mem in (600.0, 3200.0)
    ]  # fmt: skip
    return {row.point: row for row in rows}


def feasible(rows: dict[Point, ProfileRow], rate: float) -> list[Point]:
    now = replace(BUDGETS, arrival_rate_per_s=rate)
    return [point for point, row in rows.items() if judge(now, row).feasible]


def test_rates_of_windows_worked_by_hand():
    # 300 s at one request every 2 s, 300 s at one every second, and a rest that fills no window.
    times = [2.0 * n for n in range(150)] + [300.0 + n for n in range(300)] + [600.0, 650.0]
    assert window_rates(times, duration_s=600.0) == (0.5, 1.0)
    assert window_rates(times, duration_s=1500.0) == (0.5, 1.0, 0.5, 1.0, 0.5)
    with pytest.raises(InputError, match="less than one window"):
        window_rates([0.0, 200.0])
    with pytest.raises(InputError, match="less than one window"):
        window_rates([])


def test_poisson_rates_have_their_mean_and_spread():
    rates = poisson_rates(60.0, windows=4000)
    mean = sum(rates) / len(rates)
    assert mean == pytest.approx(60.0, abs=0.5)
    assert sum((rate - mean) ** 2 for rate in rates) / len(rates) == pytest.approx(60.0, rel=0.1)
    assert len(poisson_rates(60.0)) == WINDOWS
    assert poisson_rates(60.0, seed=1) != poisson_rates(60.0, seed=2)


def test_known_points_answer_a_rate_like_one_before():
    rows, asked = table(), Counter()

    def measure(point: Point) -> ProfileRow:
        asked[point] += 1
        return rows[point]

    windows = list(replay((60.0, 62.0, 58.0, 60.0), BUDGETS, rows, measure, SearchSettings("roofline")))
    assert windows[0].points > 0
    assert [window.points for window in windows[1:]] == [0, 0, 0]
    assert all(window.answer in feasible(rows, window.rate_per_s) for window in windows)
    assert max(asked.values()) == 1
    assert windows[0].measurement_s == pytest.approx(8.0 * windows[0].points)


def test_a_rate_far_from_all_before_is_refined_as_long_as_that_costs_little():
    rows = table(duration_s=1.0)
    rates = (60.0, 30.0, *([60.0] * 22))
    windows = list(replay(rates, BUDGETS, rows, rows.__getitem__, SearchSettings("random", max_points=5)))
    assert windows[0].points == 5
    assert windows[1].points == REFINEMENT_POINTS
    assert sum(window.measurement_s for window in windows) <= MEASURING_SHARE * WINDOW_S * len(rates)
    slow = table(duration_s=100.0)  # five of these are more than the share allows
    windows = list(replay(rates, BUDGETS, slow, slow.__getitem__, SearchSettings("random", max_points=5)))
    assert [window.points for window in windows[:2]] == [5, 0]


@settings(deadline=None, max_examples=30)
@given(rates=st.lists(st.sampled_from([0.0, 5.0, 20.0, 60.0, 110.0, 150.0, 1e4]), min_size=1, max_size=8))
def test_every_window_that_can_be_answered_is(rates):
    rows = table()
    windows = list(replay(rates, BUDGETS, rows, rows.__getitem__, SearchSettings("exhaustive")))
    assert [window.rate_per_s for window in windows] == rates
    for window in windows:
        good = feasible(rows, window.rate_per_s) if window.rate_per_s else []
        assert (window.answer in good) if good else window.answer is None


def test_hopeless_rates_are_searched_for_once_and_hardly_again():
    rows = table()
    windows = list(replay([1e4] * 5, BUDGETS, rows, rows.__getitem__, SearchSettings("random", max_points=6)))
    assert [window.answer for window in windows] == [None] * 5
    assert [window.points for window in windows] == [6, REFINEMENT_POINTS, REFINEMENT_POINTS, 0, 0]
    assert [window.strategy_s > 0 for window in windows] == [True, True, True, False, False]


def test_predictions_are_judged_under_changing_rates_too(monkeypatch):
    monkeypatch.setattr("edgetune.stages.search.strategies.power_train_network.EPOCHS", 5)
    rates = (20.0, 0.0, 30.0)
    cases = window_cases([ProfiledWorkload("t", None, "net", "infer", tuple(table().values()))], rates, 40.0, 0.5)
    runs = list(run_windows(cases, rates, [Contender("nn", 30)], EvaluationConditions()))
    assert [run.strategy for run in runs] == ["nn", "nn-predicted"]
    assert [len(run.problem) for run in runs] == [2, 2]


def test_a_window_in_which_nothing_measured_has_power_has_no_answer_and_ends_nothing():
    rows = {point: replace(row, power_w=None) for point, row in table().items()}
    windows = list(replay([20.0, 60.0], BUDGETS, rows, rows.__getitem__, SearchSettings("random", max_points=3)))
    assert [window.answer for window in windows] == [None, None]
