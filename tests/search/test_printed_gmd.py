"""``gmd-study`` and ``als-study`` as Fulcrum (2025) prints them, where ``gmd`` and ``als`` differ on purpose."""

from __future__ import annotations

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.strategies import STRATEGIES, als, studies

GPU, MEM = (300.0, 600.0, 900.0, 1200.0, 1500.0), (1000.0, 2000.0, 3000.0)


def row(workload, task, gpu, mem, size=1):
    """GPU saves much time for much power, memory much for little."""
    watts = {"train": 5.0, "infer": 4.0 if mem < 3000 else 12.0}[task]
    time_s = size**0.5 * (0.1 * 1500 / gpu + 0.2 * 3000 / mem)
    return ProfileRow(
        workload, task, size, time_s, gpu_mhz=gpu, mem_mhz=mem, power_w=watts + gpu / 50 + mem / 1000, status="ok"
    )


TRAIN = {each.point: each for each in (row("net", "train", gpu, mem) for gpu in GPU for mem in MEM)}


def asked(strategy, problem, table, **settings):
    found: list[Point] = []

    def measure(point):
        found.append(point)
        return table[point]

    run_search(problem, list(table), measure, SearchSettings(strategy, **settings))
    return found


@pytest.mark.parametrize(("strategy", "first"), [("gmd", "gpu_mhz"), ("gmd-study", "mem_mhz")])
def test_over_the_budget_the_study_takes_the_largest_ratio_of_time_to_power(strategy, first):
    """The middle (900, 2000) draws 25 W; the slopes are those to (300, 2000) and (900, 1000)."""
    found = asked(strategy, Problem("train", power_budget_w=21.0), TRAIN)
    assert [point.mode for point in found[:3]] == [
        Mode(gpu_mhz=900.0, mem_mhz=2000.0), Mode(gpu_mhz=300.0, mem_mhz=2000.0), Mode(gpu_mhz=900.0, mem_mhz=1000.0),
    ]  # fmt: skip
    moved = {knob for knob, value in found[3].mode.knobs().items() if value != found[0].mode.knobs()[knob]}
    assert first in moved


def test_of_a_pair_the_study_measures_both_halves_of_every_point():
    table = {each.point: each for gpu in GPU for mem in MEM for each in (
        row("net", "train", gpu, mem), row("eyes", "infer", gpu, mem, 1), row("eyes", "infer", gpu, mem, 4))
    }  # fmt: skip
    problem = Problem(
        "train+infer", power_budget_w=24.0, latency_budget_s=6.0, arrival_rate_per_s=0.5, background="net",
        background_batch_size=1,
    )  # fmt: skip
    found = asked("gmd-study", problem, table)
    trained = {point.mode for point in found if point.task == "train"}
    served = [point.mode for point in found if point.task == "infer"]
    assert set(served[1:]) <= trained  # the first one asks whether the batch can be served at the highest mode
    assert set(asked("gmd", problem, table)) != set(found)


def test_als_study_takes_its_front_from_unmeasured_points(monkeypatch):
    """The measured points of the front leave room for the points behind them."""
    fronts = []

    def noted(rows, cost, power_w):
        fronts.append(set(map(int, rows)))
        return als.front(rows, cost, power_w)

    monkeypatch.setattr(studies, "front", noted)
    space_points = list(TRAIN)
    taken = asked("als-study", Problem("train", power_budget_w=30.0), TRAIN, seed=1)
    before = set(taken[:10])
    assert fronts
    assert not {space_points[each] for each in fronts[0]} & before


@pytest.mark.parametrize(("strategy", "again"), [("random", 0), ("gmd", 1)])
def test_a_search_that_ignores_budgets_answers_another_budget_from_what_it_has(strategy, again, monkeypatch):
    """More is measured on request."""
    monkeypatch.setattr(STRATEGIES["random"], "default_max_points", classmethod(lambda cls, problem: 6))
    known = [TRAIN[point] for point in asked("random", Problem("train", power_budget_w=40.0), TRAIN, max_points=6)]
    other = Problem("train", power_budget_w=33.0)
    assert (len(asked(strategy, other, TRAIN, known=known)) > 0) == bool(again)
    assert len(asked(strategy, other, TRAIN, known=known, max_points=2)) == 2
    assert len(asked("random", other, TRAIN, known=known[:4])) == 2
