"""Binary search on lines and planes that can be halved by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.stages.search.problem import judge
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategies.binary import Binary
from edgetune.stages.search.strategy import PointResult


def line(count: int = 8) -> list[Point]:
    return [Point("net", "train", 1, Mode(gpu_mhz=float(k))) for k in range(1, count + 1)]


def measure(point: Point) -> ProfileRow:
    """Take 1 / gpu + 0.1 (b - 1) s and draw 10 + gpu + 0.1 mem W; the memory clock does nothing else."""
    gpu, mem = point.mode.gpu_mhz or 0.0, point.mode.mem_mhz or 0.0
    time_s = 1 / gpu + 0.1 * (point.batch_size - 1)
    row = ProfileRow(point.workload, point.task, point.batch_size, time_s, power_w=10 + gpu + 0.1 * mem)
    return replace(row, gpu_mhz=gpu)


def search(
    points: list[Point],
    problem: Problem,
    measured: Callable[[Point], ProfileRow] = measure,
    known: tuple[Point, ...] = (),
) -> list[Point]:
    strategy, asked = Binary(Space.of(points), problem, seed=0), []
    for point in known:
        strategy.tell(point, outcome(problem, measured(point)))
    while (suggestion := strategy.ask()) is not None:
        asked.append(suggestion.point)
        strategy.tell(suggestion.point, outcome(problem, measured(suggestion.point)))
    return asked


def outcome(problem: Problem, row: ProfileRow) -> PointResult:
    return PointResult(judge(problem, row), row.minibatch_s, row.power_w)


def clocks(points: list[Point]) -> list[float | None]:
    return [point.mode.gpu_mhz for point in points]


def test_one_knob_is_halved_to_the_highest_value_within_budget():
    # Of 1 to 8: 4 draws 14 W, so 5 to 8 are left; 6 draws 16 W, so 5 is; 5 draws 15 W and is the answer.
    assert clocks(search(line(), Problem("train", power_budget_w=15.0))) == [4, 6, 5]


def test_without_a_power_budget_it_goes_up():
    assert clocks(search(line(), Problem("train"))) == [4, 6, 7, 8]


def test_with_nothing_within_budget_it_goes_down_and_then_to_what_is_nearest():
    # 4, 2 and 1 are the halves; after them what is nearest to 1, until all are measured.
    assert clocks(search(line(), Problem("train", power_budget_w=10.5))) == [4, 2, 1, 3, 5, 6, 7, 8]


def test_points_known_from_earlier_are_not_asked_for():
    assert clocks(search(line(), Problem("train", power_budget_w=15.0), known=(line()[3], line()[5]))) == [5]


def test_a_failed_measurement_leaves_the_line():
    def fails_at_six(point: Point) -> ProfileRow:
        row = measure(point)
        return replace(row, minibatch_s=None, power_w=None, status="failed") if row.gpu_mhz == 6 else row

    # 5 to 8 are left after 4; 6 fails; of 5, 7, 8 the middle is 7, over budget; then 5.
    assert clocks(search(line(), Problem("train", power_budget_w=15.0), fails_at_six)) == [4, 6, 7, 5]


def test_knobs_come_in_turn_and_each_stays_at_its_best():
    points = [Point("net", "train", 1, Mode(gpu_mhz=g, mem_mhz=m)) for g in (1.0, 2.0, 3.0) for m in (1.0, 2.0, 3.0)]
    asked = search(points, Problem("train", power_budget_w=12.5))
    # The middle (2, 2) draws 12.2 W; GPU 3 is over; memory 3 is within (12.3 W) but no faster, so the knob stays at 2.
    assert [(point.mode.gpu_mhz, point.mode.mem_mhz) for point in asked] == [(2, 2), (3, 2), (2, 3)]


@pytest.mark.parametrize(
    ("problem", "sizes"),
    [
        (Problem("infer", latency_budget_s=10.0, arrival_rate_per_s=1.0), [2, 1]),  # latency: small batches
        (Problem("infer", objective="throughput"), [2, 4, 8]),  # throughput: large ones
        (Problem("infer", latency_budget_s=0.6, arrival_rate_per_s=100.0, objective="throughput"), [2, 4]),
        (Problem("infer", arrival_rate_per_s=3.5), [2, 4]),  # 1.1 s for 2 requests does not keep up with 3.5 per s
    ],
)
def test_a_batch_size_goes_where_constraint_and_objective_want_it(problem: Problem, sizes: list[int]):
    def slow(point: Point) -> ProfileRow:
        fixed_s, each_s = (1.0, 0.05) if problem.arrival_rate_per_s == 3.5 else (0.1, 0.1)
        return replace(measure(point), minibatch_s=fixed_s + each_s * point.batch_size)

    points = [Point("net", "infer", size, Mode(gpu_mhz=1.0)) for size in (1, 2, 4, 8)]
    assert [point.batch_size for point in search(points, problem, slow)][: len(sizes)] == sizes


def test_a_round_over_a_grid_ends_on_the_best_of_each_line():
    problem = Problem("train", power_budget_w=28.0)
    asked = search(grid_points(), problem, measure_formula)
    assert 5 <= len(asked) <= 12
    rows = [measure_formula(point) for point in asked]
    best = min((row for row in rows if (row.power_w or 99) <= 28.0), key=lambda row: row.minibatch_s or 99)
    # No neighbour on one knob is faster within budget: that is what a whole round without anything new means.
    for point in grid_points():
        row = measure_formula(point)
        changed = [getattr(row, k) != getattr(best, k) for k in ("cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz")]
        if sum(changed) == 1 and (row.power_w or 99) <= 28.0:
            assert (row.minibatch_s or 0) >= (best.minibatch_s or 99)


def test_default_points_grow_with_what_is_chosen():
    kinds = ("train", "accuracy", "infer", "train+infer", "infer+infer")
    assert [Binary.default_max_points(Problem(kind)) for kind in kinds] == [10, 10, 12, 15, 15]
