"""The strategies that Optuna leads: what it is told, and that a table without every place does not disturb it."""

import random
import sys
import warnings
from dataclasses import replace

import numpy as np
import optuna
import pytest
import torch

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.errors import InputError
from edgetune.stages.search.problem import Judgement, Violation, judge
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategies.optuna_search import STARTUP_POINTS, Gp, OptunaSearch, Tpe
from edgetune.stages.search.strategy import PointResult

PROBLEM = Problem("train", power_budget_w=28.0)
BOTH = pytest.mark.parametrize("kind", [Tpe, Gp])


def outcome(problem: Problem, point: Point) -> PointResult:
    row = measure_formula(point)
    return PointResult(judge(problem, row), row.minibatch_s, row.power_w)


def trials(strategy: OptunaSearch) -> list[optuna.trial.FrozenTrial]:
    return strategy._study.get_trials(deepcopy=False)


def walk(strategy: OptunaSearch, steps: int, problem: Problem = PROBLEM) -> list[Point]:
    asked = []
    for _ in range(steps):
        suggestion = strategy.ask()
        if suggestion is None:
            break
        asked.append(suggestion.point)
        strategy.tell(suggestion.point, outcome(problem, suggestion.point))
    return asked


@BOTH
def test_optuna_is_told_places_objective_and_constraints(kind: type[OptunaSearch]):
    space = Space.of(grid_points())
    strategy = kind(space, PROBLEM, seed=0)
    asked = walk(strategy, 7)
    for point, trial in zip(asked, trials(strategy), strict=True):
        row = measure_formula(point)
        assert tuple(trial.params[axis.name] for axis in space.axes) == space.levels[point]
        assert trial.value == pytest.approx(16 / (row.minibatch_s or 0))
        assert trial.constraints == {"power": pytest.approx((row.power_w or 0) / 28 - 1)}


@BOTH
def test_a_failed_measurement_is_a_failed_trial(kind: type[OptunaSearch]):
    strategy = kind(Space.of(grid_points()), PROBLEM, seed=0)
    suggestion = strategy.ask()
    assert suggestion is not None
    strategy.tell(suggestion.point, PointResult(Judgement(None, None, unknown="out of memory")))
    (trial,) = trials(strategy)
    assert trial.state == optuna.trial.TrialState.FAIL
    assert suggestion.point not in walk(strategy, 20)


@BOTH
def test_a_place_that_is_not_offered_becomes_the_nearest_that_is(kind: type[OptunaSearch]):
    points = [point for point in grid_points() if (point.mode.gpu_mhz == 1300.5) == (point.mode.mem_mhz == 3199.0)]
    space = Space.of(points)
    strategy = kind(space, PROBLEM, seed=3)
    asked = walk(strategy, 15)
    assert set(asked) <= set(points)
    failed = [trial for trial in trials(strategy) if trial.state == optuna.trial.TrialState.FAIL]
    told = [trial for trial in trials(strategy) if trial.state == optuna.trial.TrialState.COMPLETE]
    assert failed
    assert len(told) == 15
    wanted = tuple(failed[0].params[axis.name] for axis in space.axes)
    taken = tuple(told[failed[0].number].params[axis.name] for axis in space.axes)  # the next told after it
    left = set(space.levels.values()) - {space.levels[point] for point in asked[: failed[0].number]}
    assert space.distance(taken, wanted) == min(space.distance(levels, wanted) for levels in left)


def test_every_constraint_of_an_inference_problem_is_told_with_its_slack():
    problem = Problem("infer", power_budget_w=40.0, latency_budget_s=0.5, arrival_rate_per_s=20.0, margin=0.1)
    points = [replace(point, task="infer", batch_size=size) for point in grid_points()[::30] for size in (1, 4)]
    strategy = Tpe(Space.of(points), problem, seed=0)
    (asked,) = walk(strategy, 1, problem)
    row = measure_formula(asked)
    time_s, waited_s = row.minibatch_s or 0.0, (asked.batch_size - 1) / 20
    assert trials(strategy)[0].constraints == {
        "power": pytest.approx((row.power_w or 0) / 36 - 1),
        "rate": pytest.approx(time_s * 20 / asked.batch_size - 1),
        "latency": pytest.approx((waited_s + time_s) / 0.45 - 1),
    }


def test_a_point_that_one_of_two_workloads_rules_out_is_told_as_broken():
    problem = Problem("train+infer", power_budget_w=40.0, arrival_rate_per_s=20.0)
    strategy = Tpe(Space.of(grid_points()), problem, seed=0)
    first, second = grid_points()[:2]
    strategy.tell(first, PointResult(Judgement(8.0, True, second=-0.1), 0.1, 20.0))
    over = Judgement(None, False, (Violation("power", 50.0, 40.0), Violation("room", 1.0, 1e-9)))
    strategy.tell(second, PointResult(over, 0.1, 50.0))
    kept, broken = trials(strategy)
    assert kept.constraints == {"power": -0.5, "rate": 0.0, "room": 0.0}
    assert broken.constraints == {"power": 0.25, "rate": 0.0, "room": 10.0}  # no room at all counts as ten times over
    assert broken.value == 8.0


@BOTH
def test_nothing_of_optuna_torch_or_numpy_is_left_changed(kind: type[OptunaSearch]):
    level, filters, threads = optuna.logging.get_verbosity(), list(warnings.filters), torch.get_num_threads()
    drawn, state = torch.random.get_rng_state(), random.getstate()
    numbers = np.random.get_state()[1].copy()
    dtype = torch.get_default_dtype()
    walk(kind(Space.of(grid_points()), PROBLEM, seed=0), STARTUP_POINTS + 3)
    assert optuna.logging.get_verbosity() == level
    assert warnings.filters == filters
    assert (torch.get_num_threads(), torch.get_default_dtype()) == (threads, dtype)
    assert torch.equal(torch.random.get_rng_state(), drawn)
    assert random.getstate() == state
    assert (np.random.get_state()[1] == numbers).all()


def test_the_process_needs_pytorch_too_and_says_so_before_measuring(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match="gp needs PyTorch") as caught:
        Gp(Space.of(grid_points()), PROBLEM, seed=0)
    assert caught.value.hint == "pip install 'edgetune[bayes,torch]'"
    assert Tpe(Space.of(grid_points()), PROBLEM, seed=0).ask() is not None
