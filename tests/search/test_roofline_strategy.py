"""The roofline strategy, against the truth of landscapes that follow a formula."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from math import ceil
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import DeviceError, InfeasibleError
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.evaluation.answering import perturbed
from edgetune.stages.search.problem import judge
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategies import find_strategy
from edgetune.stages.search.strategy import Hints, PointResult

RATES_PER_S: tuple[float, ...] = (1, 5, 10, 20, 30, 45, 60, 75, 90)
LATENCIES_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass
class Summary:
    """How the searches of some solvable problems went; excess is a share."""

    problems: int = 0
    solved: int = 0
    violations: int = 0
    most_points: int = 0
    excess: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return fmean(self.excess)


def train_problems(rows: list[ProfileRow], step_w: float = 1.0) -> list[Problem]:
    """Return a problem per power budget, from the lowest that some row keeps to the highest power."""
    powers = [row.power_w / step_w for row in rows]
    return [Problem("train", power_budget_w=n * step_w) for n in range(ceil(min(powers)), ceil(max(powers)) + 1)]


def judged(rows, problems=None, points: int = 10, time_noise: float = 0.0, power_noise: float = 0.0) -> Summary:
    """Search for the problems that some row solves, and judge the answers by the rows themselves."""
    table, summary = {row.point: row for row in rows}, Summary()
    for number, problem in enumerate(problems or train_problems(rows)):
        values = {point: value.objective for point, row in table.items() if (value := judge(problem, row)).feasible}
        if not values:
            continue
        noise, summary.problems = Random(number), summary.problems + 1
        read = {p: perturbed(row, noise.gauss(0, time_noise), noise.gauss(0, power_noise)) for p, row in table.items()}
        try:
            result = run_search(problem, list(table), read.__getitem__, SearchSettings("roofline", points))
        except InfeasibleError:
            continue
        answer, best = result.history.best.row.point, max(values.values())
        summary.solved, summary.violations = summary.solved + 1, summary.violations + (answer not in values)
        summary.most_points = max(summary.most_points, result.plan.search.points_measured)
        if answer in values:
            summary.excess.append(best / values[answer] - 1 if best > 0 else values[answer] / best - 1)
    return summary


def board_row(point: Point) -> ProfileRow:
    """A board whose time is a 3-norm of its parts and whose power is static + clock x voltage squared x busy."""
    mode, b = point.mode, point.batch_size / 16
    gpu, mem, cpu = (mode.gpu_mhz or 1300) / 1300, (mode.mem_mhz or 3200) / 3200, (mode.cpu_mhz or 2200) / 2200
    parts = (0.08 * b / gpu, (0.01 + 0.03 * b) / mem, 0.03 / cpu)
    time_s = sum(part**3 for part in parts) ** (1 / 3) + 0.004
    power_w = 9 + 4 * mem + gpu * (0.6 + 0.4 * gpu) ** 2 * (3 + 20 * parts[0] / time_s) + 6 * cpu**2
    row = ProfileRow(point.workload, point.task, point.batch_size, time_s, power_w=power_w)
    return replace(row, **{name: getattr(mode, name) for name in mode.__slots__})


def capped_row(batch_size: int, cap_w: float) -> ProfileRow:
    """A GPU under a cap: 0.1 s per 64 samples at full clock, less than the cap for small batches, else held to it."""
    busy = batch_size / (batch_size + 32)
    natural_w = 60 + 200 * busy
    slowing = max((natural_w - 50) / (cap_w - 50), 1.0) ** 0.5
    time_s = 0.05 + 0.1 * batch_size / 64 * slowing
    return ProfileRow("net", "train", batch_size, time_s, power_w=min(natural_w, cap_w), power_limit_w=cap_w)


def clocks(task: str = "train", batch_sizes: tuple[int, ...] = (16,), cores: tuple[int | None, ...] = (None,)):
    gpu, mem, cpu = (100, 300, 500, 700, 900, 1100, 1300), (800, 2100, 3200), (400, 1000, 1600, 2200)
    modes = [Mode(c, f, g, m) for c, f, g, m in product(cores, cpu, gpu, mem)]
    return [Point("net", task, b, mode) for mode in modes for b in batch_sizes]


def test_finds_the_optimum_of_the_formula_at_every_budget():
    summary = judged([measure_formula(point) for point in grid_points()])
    assert (summary.solved, summary.violations) == (summary.problems, 0)
    assert summary.most_points <= 10
    assert summary.mean <= 0.01
    assert sorted(summary.excess)[int(0.9 * summary.solved)] <= 0.03


def test_finds_the_optimum_of_a_board_at_every_budget():
    summary = judged([board_row(point) for point in clocks()])
    assert (summary.solved, summary.violations) == (summary.problems, 0)
    assert summary.mean <= 0.01


def test_a_knob_that_does_nothing_costs_little():
    rows = [board_row(point) for point in clocks(cores=(1, 4, 8, 12))]
    summary = judged(rows, train_problems(rows)[::3])
    assert (summary.solved, summary.violations) == (summary.problems, 0)
    assert summary.mean <= 0.01


def test_noise_of_a_few_per_cent_costs_a_few_per_cent():
    rows = [board_row(point) for point in clocks()]
    summary = judged(rows, train_problems(rows)[::2], time_noise=0.03, power_noise=0.015)
    assert summary.solved >= 0.9 * summary.problems  # noise hides the one point within the lowest budget
    assert summary.mean <= 0.04


def test_batches_that_fill_too_slowly_are_never_measured():
    # At 10 requests per s a batch of 64 takes 6.3 s to fill and one of 16 takes 1.5 s.
    points = clocks("infer", (1, 4, 16, 64))
    problem = Problem("infer", power_budget_w=25.0, latency_budget_s=1.5, arrival_rate_per_s=10.0)
    result = run_search(problem, points, board_row, SearchSettings("roofline", max_points=40))
    assert {row.batch_size for row in result.trace.rows} <= {1, 4}


def test_a_point_told_again_takes_the_place_of_its_first_reading():
    space = Space.of(clocks())
    problem = Problem("train", power_budget_w=25.0)
    once, twice = (find_strategy("roofline")(space, problem, seed=0, hints=Hints(power_noise=0.01)) for _ in range(2))
    for point in space.points[::17]:
        row = board_row(point)
        wrong = replace(row, power_w=row.power_w * 0.97)
        twice.tell(point, PointResult(judge(problem, wrong), wrong.minibatch_s, wrong.power_w))
        for strategy in (once, twice):
            strategy.tell(point, PointResult(judge(problem, row), row.minibatch_s, row.power_w))
    asked, again = once.ask(), twice.ask()
    assert again.point not in space.points[::17]
    assert again.predicted_power_w == pytest.approx(asked.predicted_power_w, rel=0.02)


def test_where_power_is_known_to_waver_it_aims_lower_than_the_budget():
    space, predicted_w = Space.of(clocks()), []
    problem = Problem("train", power_budget_w=24.0)
    for noise in (0.0, 0.03):
        strategy = find_strategy("roofline")(space, problem, seed=0, hints=Hints(power_noise=noise))
        for point in space.points[::7]:
            row = board_row(point)
            strategy.tell(point, PointResult(judge(problem, row), row.minibatch_s, row.power_w))
        predicted_w.append(strategy.ask().predicted_power_w)
    exact_w, wavering_w = predicted_w
    assert exact_w > 0.97 * 24.0
    assert wavering_w < 0.97 * 24.0


def test_a_power_limit_is_a_cap_and_not_a_clock():
    rows = [capped_row(b, cap) for b in (8, 16, 32, 64, 128, 256) for cap in (100, 125, 150, 175, 200, 225, 250)]
    summary = judged(rows, train_problems(rows, step_w=5.0), points=8)
    assert (summary.solved, summary.violations) == (summary.problems, 0)
    assert summary.mean <= 0.01


def test_the_lowest_budget_with_one_feasible_point_is_solved():
    rows = [board_row(point) for point in clocks()]
    lowest = min(row.power_w for row in rows)
    assert sum(row.power_w <= lowest * 1.0001 for row in rows) == 1
    summary = judged(rows, [Problem("train", power_budget_w=lowest * 1.0001)])
    assert (summary.solved, summary.mean) == (1, 0.0)


def test_inference_over_batch_sizes_meets_latency_rate_and_power():
    rows = [board_row(point) for point in clocks("infer", (1, 4, 16, 64))]
    budgets = product([problem.power_budget_w for problem in train_problems(rows)], LATENCIES_S, RATES_PER_S)
    problems = [Problem("infer", power_w, latency_s, rate) for power_w, latency_s, rate in budgets]
    summary = judged(rows, Random(3).sample(problems, 40), points=12)
    assert summary.problems > 20
    assert summary.violations == 0
    assert summary.solved >= 0.97 * summary.problems
    assert summary.mean <= 0.02


@pytest.mark.parametrize("objective", ["energy", "energy-delay"])
def test_other_objectives_come_near_their_optimum(objective):
    rows = [board_row(point) for point in clocks()]
    problems = [Problem("train", power_budget_w=watts, objective=objective) for watts in (20.0, 30.0, 60.0)]
    assert judged(rows, problems).mean <= 0.01


def test_without_a_power_budget_and_without_power_it_finds_the_fastest():
    def measure(point: Point) -> ProfileRow:
        return replace(board_row(point), power_w=None)

    result = run_search(Problem("train"), clocks(), measure, SearchSettings("roofline"))
    assert result.plan.configuration.mode == Mode(None, 2200, 1300, 3200)
    assert result.plan.search.points_measured <= 8
    assert result.plan.predicted.power_w is None


def test_points_that_fail_are_left_and_the_rest_is_searched():
    def measure(point: Point) -> ProfileRow:
        if point.mode.gpu_mhz >= 900:
            raise DeviceError("the board hung", "reset it")
        return board_row(point)

    result = run_search(
        Problem("train", power_budget_w=60.0), clocks(), measure, SearchSettings("roofline", max_points=20)
    )
    assert result.plan.configuration.mode.gpu_mhz == 700


@settings(max_examples=15, deadline=None)
@given(st.sets(st.integers(0, 83), min_size=1, max_size=40), st.floats(12.0, 60.0))
def test_any_subset_of_points_and_any_budget_is_searched_without_a_broken_promise(chosen, budget_w):
    points = [clocks()[i] for i in sorted(chosen)]
    strategy = find_strategy("roofline")(Space.of(points), Problem("train", power_budget_w=budget_w), seed=0)
    rows = [board_row(point) for point in points]
    summary = judged(rows, [Problem("train", power_budget_w=budget_w)], points=len(points))
    assert (summary.solved, summary.violations) == (summary.problems, 0)
    assert strategy.ask().point in points


def test_a_search_ends_when_nothing_promises_a_gain():
    result = run_search(
        Problem("train", power_budget_w=100.0), clocks(), board_row, SearchSettings("roofline", max_points=60)
    )
    assert result.plan.search.points_measured <= 10
    assert result.plan.configuration.mode == Mode(None, 2200, 1300, 3200)
