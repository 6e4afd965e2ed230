"""Where readings of power waver, the answer keeps the budget with its interval, and measuring again is counted."""

import random
from dataclasses import replace

import pytest

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.errors import InfeasibleError
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.problem import Z, is_confirmed

BUDGET = Problem("train", power_budget_w=30.0)
NOISE = 0.015


def rows(*powers_w: float) -> list[ProfileRow]:
    return [
        ProfileRow("net", "train", 16, 1.0 / (i + 1), gpu_mhz=100.0 * (i + 1), power_w=power_w)
        for i, power_w in enumerate(powers_w)
    ]


def test_an_interval_narrows_with_the_root_of_the_readings():
    just_sure_w = 30.0 / (1 + Z * NOISE / 2)  # of four readings
    assert is_confirmed(BUDGET, just_sure_w * 0.9999, 4, NOISE)
    assert not is_confirmed(BUDGET, just_sure_w * 0.9999, 3, NOISE)
    assert is_confirmed(BUDGET, 29.999, 1, 0.0)
    assert not is_confirmed(replace(BUDGET, margin=0.1), 28.0, 1, 0.0001)


def test_the_best_point_is_measured_again_until_its_power_is_sure():
    table = {row.point: row for row in rows(20.0, 29.48)}  # 29.48 W needs three readings at 1.5 %
    result = run_search(
        BUDGET, list(table), table.__getitem__, SearchSettings("exhaustive", power_noise=NOISE, max_points=9)
    )
    asked = [(row.gpu_mhz, row.reason) for row in result.trace.rows]
    assert [clock for clock, _ in asked] == [100.0, 200.0, 200.0, 200.0]
    assert "reading 3" in asked[-1][1]
    assert result.plan.configuration.mode.gpu_mhz == 200.0
    assert result.plan.search.points_measured == 4


def test_a_point_that_could_not_be_confirmed_gives_way_to_the_next():
    table = {row.point: row for row in rows(20.0, 28.0, 29.95)}  # the last would need a thousand readings
    result = run_search(
        BUDGET, list(table), table.__getitem__, SearchSettings("exhaustive", power_noise=NOISE, max_points=12)
    )
    assert result.plan.configuration.mode.gpu_mhz == 200.0


def test_nothing_sure_is_no_answer():
    table = {row.point: row for row in rows(29.95)}
    with pytest.raises(InfeasibleError, match=r"29\.95"):
        run_search(
            BUDGET,
            list(table),
            table.__getitem__,
            SearchSettings("exhaustive", power_noise=NOISE, max_points=5),
        )


def test_readings_known_from_earlier_make_as_sure_as_new_ones():
    table = {row.point: row for row in rows(20.0, 29.5)}
    known = [*table.values(), *[rows(20.0, 29.5)[1]] * 2]
    result = run_search(
        BUDGET,
        list(table),
        table.__getitem__,
        SearchSettings("exhaustive", power_noise=NOISE, known=known, max_points=0),
    )
    assert result.plan.configuration.mode.gpu_mhz == 200.0  # its three readings are enough
    assert result.plan.search.points_measured == 0


def test_a_reading_that_changes_the_mind_takes_the_answer_back():
    readings = iter([20.0, 29.5, 31.5, 31.5])  # within the budget at first, over it in the mean
    points = [row.point for row in rows(20.0, 29.5)]

    def measure(point):
        power_w = next(readings)
        return replace({r.point: r for r in rows(20.0, 29.5)}[point], power_w=power_w)

    result = run_search(BUDGET, points, measure, SearchSettings("exhaustive", power_noise=NOISE, max_points=6))
    assert result.plan.configuration.mode.gpu_mhz == 100.0


@pytest.mark.parametrize("strategy", ["random", "roofline"])
def test_with_wavering_readings_answers_still_keep_the_budget(strategy):
    points, over, solved = grid_points(), 0, 0
    for seed in range(30):
        wavering = random.Random(seed)

        def measure(point, wavering=wavering):
            row = measure_formula(point)
            return replace(row, power_w=row.power_w * (1 + wavering.gauss(0, NOISE)))

        problem = Problem("train", power_budget_w=20.0 + seed)
        try:
            plan = run_search(
                problem, points, measure, SearchSettings(strategy, seed=seed, power_noise=NOISE, max_points=14)
            ).plan
        except InfeasibleError:
            continue
        true_w = next(measure_formula(p).power_w for p in points if p.mode == plan.configuration.mode)
        solved += 1
        over += true_w > problem.power_budget_w
    assert solved >= 20
    assert over <= 1


def test_one_point_goes_to_what_is_known_and_not_sure_yet():
    known = rows(29.5)
    table = {row.point: row for row in rows(29.5, 29.0)}
    result = run_search(
        BUDGET,
        list(table),
        table.__getitem__,
        SearchSettings("exhaustive", power_noise=NOISE, max_points=1, known=known),
    )
    assert [row.source for row in result.trace.rows] == ["known", "measured"]


def test_a_reading_that_fails_says_so():
    readings = iter([20.0, 29.5, None, 29.5, 29.5])

    def measure(point):
        row = {r.point: r for r in rows(20.0, 29.5)}[point]
        power_w = next(readings)
        return (
            replace(row, power_w=power_w) if power_w else replace(row, minibatch_s=None, status="failed", reason="hot")
        )

    points = [row.point for row in rows(20.0, 29.5)]
    result = run_search(BUDGET, points, measure, SearchSettings("exhaustive", power_noise=NOISE, max_points=6))
    assert result.trace.rows[2].reason == "hot"
