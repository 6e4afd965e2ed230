"""The staircase walks the edge of the power budget once: largest batch first, the clock only going up."""

from dataclasses import replace
from itertools import product
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import DeviceError, InputError
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.history import MOST_READINGS
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategies.staircase import Staircase

CLOCKS = (100.0, 200.0, 300.0, 400.0, 500.0)
SIZES = (8, 16, 32, 64)
EPOCHS = ((8, 2.0), (16, 2.2), (32, 3.0), (64, 5.0))


def row(size: int, clock: float) -> ProfileRow:
    """Power grows with clock and batch; a larger batch takes less time per sample."""
    return ProfileRow("net", "train", size, (1 + size / 16) / clock, gpu_mhz=clock, power_w=clock / 100 + size / 32)


TABLE = {r.point: r for r in (row(size, clock) for size in SIZES for clock in CLOCKS)}


def walk(budget_w: float | None, measure=TABLE.__getitem__, points=tuple(TABLE)) -> list[tuple[int, float]]:
    problem = Problem("accuracy", power_budget_w=budget_w, epochs_to_target=EPOCHS)
    result = run_search(problem, points, measure, SearchSettings("staircase"))
    return [(step.batch_size, step.gpu_mhz) for step in result.trace.rows]


def test_the_steps_are_those_of_a_stair():
    # at 4.3 W: batch 64 has 2 W of its own and keeps the budget up to 200, 32 up to 300, 16 to 300, 8 to 400
    assert walk(4.3) == [
        (64, 100.0), (64, 200.0), (64, 300.0),
        (32, 300.0), (32, 400.0),
        (16, 400.0), (16, 300.0),
        (8, 400.0), (8, 500.0),
    ]  # fmt: skip


def test_without_a_budget_every_size_is_measured_at_the_top():
    assert walk(None) == [(size, 500.0) for size in reversed(SIZES)]


def test_one_failure_is_stepped_over_and_two_end_a_size():
    def measure(point: Point) -> ProfileRow:
        if point.batch_size == 64 or (point.batch_size == 32 and point.mode.gpu_mhz == 100.0):
            raise DeviceError("out of memory", "take a smaller batch")
        return TABLE[point]

    steps = walk(4.3, measure)
    assert steps[:5] == [(64, 100.0), (64, 200.0), (32, 100.0), (32, 200.0), (32, 300.0)]


@settings(max_examples=50, deadline=None)
@given(st.floats(1.3, 8.0))
def test_every_size_gets_its_highest_clock_within_any_budget(budget_w):
    """Where power grows with clock and batch, the sweep finds the true optimum, in few points."""
    problem = Problem("accuracy", power_budget_w=budget_w, epochs_to_target=EPOCHS)
    result = run_search(problem, TABLE, TABLE.__getitem__, SearchSettings("staircase"))
    exact = run_search(problem, TABLE, TABLE.__getitem__, SearchSettings("exhaustive"))
    assert result.plan.configuration == exact.plan.configuration
    assert len(result.trace.rows) <= 2 * len(SIZES) + len(CLOCKS)


def four_knobs(size: int, cores: int, cpu: float, gpu: float, mem: float) -> ProfileRow:
    """Compute on the GPU and data loading on the cores overlap in part; the memory clock is dear and helps little."""
    sample_s = ((1 / gpu) ** 2 + (2 / (cores * cpu)) ** 2) ** 0.5 + 0.05 / mem
    power_w = 1 + 0.2 * cores * cpu**2 + 2 * gpu**2.5 + 1.5 * mem + size / 64
    return ProfileRow(
        "net", "train", size, sample_s * (size + 2), cpu_cores=cores, cpu_mhz=cpu, gpu_mhz=gpu, mem_mhz=mem,
        power_w=power_w, power_peak_w=power_w * 1.2,
    )  # fmt: skip


WIDE = {
    r.point: r
    for size, cores, cpu, gpu, mem in product(SIZES, (1, 2, 4), (0.5, 1.0, 1.5, 2.0), (0.5, 1.0, 1.5, 2.0), (1.0, 2.0))
    for r in [four_knobs(size, cores, cpu, gpu, mem)]
}


def test_trades_between_several_knobs_end_near_the_best_mode():
    excess, counts = [], []
    for budget_w in range(5, 21):
        problem = Problem("accuracy", power_budget_w=float(budget_w), epochs_to_target=EPOCHS)
        found = run_search(problem, WIDE, WIDE.__getitem__, SearchSettings("staircase"))
        exact = run_search(problem, WIDE, WIDE.__getitem__, SearchSettings("exhaustive"))
        excess.append(found.history.best.objective / exact.history.best.objective - 1)
        counts.append(len(found.trace.rows))
    assert fmean(excess) <= 0.03  # 0.4 where all knobs only go up together
    assert max(counts) <= len(WIDE) / 10


def test_the_peak_of_power_is_a_budget():
    peaks = {point: replace(each, power_peak_w=1.5 * each.power_w) for point, each in TABLE.items()}
    mean = Problem("accuracy", power_budget_w=4.3, epochs_to_target=EPOCHS)
    peak = replace(mean, power_budget_w=None, power_peak_budget_w=1.5 * 4.3)
    ways = [run_search(problem, peaks, peaks.__getitem__, SearchSettings("staircase")) for problem in (mean, peak)]
    assert ways[0].plan.configuration == ways[1].plan.configuration
    assert [step.gpu_mhz for step in ways[0].trace.rows] == [step.gpu_mhz for step in ways[1].trace.rows]


def test_no_point_is_measured_more_often_than_a_bound():
    near = {point: replace(each, power_w=each.power_w * 4.29 / 4.25) for point, each in TABLE.items()}
    problem = Problem("accuracy", power_budget_w=4.3, epochs_to_target=EPOCHS)
    steps = run_search(problem, near, near.__getitem__, SearchSettings("staircase", power_noise=0.015)).trace.rows
    readings = [(step.batch_size, step.gpu_mhz) for step in steps]
    assert max(map(readings.count, readings)) <= MOST_READINGS


def test_other_problems_are_refused():
    with pytest.raises(InputError, match="does not solve infer"):
        Staircase(Space.of(TABLE), Problem("infer", arrival_rate_per_s=1.0), seed=0)
