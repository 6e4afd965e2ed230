"""The staircase walks the edge of the power budget once: largest batch first, the clock only going up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import DeviceError, InputError
from edgetune.stages.search.driver import SearchSettings, run_search
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


def test_a_budget_that_everything_keeps_is_walked_up_once():
    assert walk(100.0) == [*((64, clock) for clock in CLOCKS), (32, 500.0), (16, 500.0), (8, 500.0)]


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


def test_several_knobs_are_raised_together():
    points = [Point("net", "train", 8, Mode(gpu_mhz=clock, mem_mhz=mem)) for clock in CLOCKS for mem in (1.0, 2.0)]
    problem = Problem("accuracy", epochs_to_target=EPOCHS)
    strategy = Staircase(Space.of(points), problem, seed=0)
    suggestion = strategy.ask()
    assert suggestion is not None
    assert suggestion.point.mode.knobs() == {"gpu_mhz": 500.0, "mem_mhz": 2.0}


def test_other_problems_are_refused():
    with pytest.raises(InputError, match="does not solve infer"):
        Staircase(Space.of(TABLE), Problem("infer", arrival_rate_per_s=1.0), seed=0)
