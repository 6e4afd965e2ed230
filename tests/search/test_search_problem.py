"""The demands of a problem, against the formulas written out, and the offered points as data."""

import math
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import energy_per_minibatch_j
from edgetune.errors import InputError
from edgetune.stages.search.problem import (
    Violation,
    judge,
    peak_latency_s,
    runs_back_to_back,
    validate,
)
from edgetune.stages.search.space import Axis, Space, offered_space
from edgetune.stages.search.strategies.gmd_state import Bounds


def train_row(minibatch_s: float | None = 0.5, power_w: float | None = 20.0, **rest) -> ProfileRow:
    return ProfileRow("net", "train", 16, minibatch_s, gpu_mhz=1.0, power_w=power_w, **rest)


def infer_row(minibatch_s: float = 0.05, power_w: float | None = 20.0, batch_size: int = 4) -> ProfileRow:
    return ProfileRow("net", "infer", batch_size, minibatch_s, gpu_mhz=1.0, power_w=power_w)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, 0.0])
@pytest.mark.parametrize("field", ["power_budget_w", "latency_budget_s", "arrival_rate_per_s"])
def test_budgets_that_are_no_positive_number_are_refused(field: str, bad: float):
    with pytest.raises(InputError, match=field):
        validate(Problem("infer", **{"arrival_rate_per_s": 60.0, field: bad}))


@pytest.mark.parametrize("margin", [math.nan, -0.1, 1.0, 2.0])
def test_margins_outside_the_budget_are_refused(margin: float):
    with pytest.raises(InputError, match="margin"):
        validate(Problem("train", power_budget_w=30.0, margin=margin))


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Problem("train+infer", power_budget_w=30.0), "no arrival rate"),
        (Problem("infer+infer", latency_budget_s=1.0), "no arrival rate"),
        (Problem("accuracy"), "needs the epochs"),
        (Problem("accuracy", epochs_to_target=((8, 0.0),)), "epochs at batch size 8 are 0"),
        (Problem("accuracy", arrival_rate_per_s=1.0, epochs_to_target=((8, 1.0),)), "neither a latency budget"),
        (Problem("train", background="net"), "no second workload"),
        (Problem("swim"), "no problems of kind"),
        (Problem("train+infer", arrival_rate_per_s=1.0, objective="energy"), "has no objective"),
    ],
)
def test_missing_and_superfluous_parts_of_a_problem_are_named(problem, message):
    with pytest.raises(InputError, match=message):
        validate(problem)


def test_time_to_accuracy_is_time_per_sample_times_the_epochs_of_the_batch_size():
    problem = Problem("accuracy", epochs_to_target=((8, 10.0), (16, 12.0)))
    row = train_row(2.0, 20.0)
    assert judge(problem, replace(row, batch_size=8)).objective == pytest.approx(-2.0 / 8 * 10)
    assert judge(problem, replace(row, batch_size=16)).objective == pytest.approx(-2.0 / 16 * 12)
    energy = replace(problem, objective="energy")
    assert judge(energy, replace(row, batch_size=8)).objective == pytest.approx(-20.0 * 2.0 / 8 * 10)


def test_without_an_arrival_rate_batches_run_back_to_back():
    for problem in (Problem("infer"), Problem("infer", objective="throughput", latency_budget_s=0.1)):
        validate(problem)
        assert runs_back_to_back(problem)
        assert peak_latency_s(problem, 16, 0.05) == 0.05
    late = judge(Problem("infer", latency_budget_s=0.04), infer_row())
    assert late.violations == (Violation("latency", 0.05, 0.04),)
    assert judge(Problem("infer", latency_budget_s=0.05), infer_row()).objective == -0.05
    stated = Problem("infer", 20.0, 0.08, 60.0, margin=0.05)
    validate(stated)
    assert not runs_back_to_back(stated)
    assert not runs_back_to_back(Problem("train"))


def test_throughput_is_samples_per_second_and_power_must_be_within_budget():
    judgement = judge(Problem("train", power_budget_w=20.0), train_row())
    assert (judgement.objective, judgement.feasible, judgement.violations) == (16 / 0.5, True, ())
    over = judge(Problem("train", power_budget_w=19.9), train_row())
    assert over.feasible is False
    assert over.violations == (Violation("power", 20.0, 19.9),)


def test_a_margin_keeps_its_share_of_the_budget_free():
    assert judge(Problem("train", power_budget_w=25.0, margin=0.2), train_row()).feasible is True
    assert judge(Problem("train", power_budget_w=25.0, margin=0.21), train_row()).feasible is False
    tight = Problem("infer", latency_budget_s=0.1, arrival_rate_per_s=100.0, margin=0.3)
    assert judge(tight, infer_row(minibatch_s=0.0399)).feasible is True  # 3 / 100 + 0.0399 < 0.07
    assert judge(tight, infer_row(minibatch_s=0.0401)).feasible is False


def test_peak_latency_is_the_wait_for_the_batch_and_its_run():
    problem = Problem("infer", arrival_rate_per_s=60.0)
    assert peak_latency_s(problem, 16, 0.08) == pytest.approx(15 / 60 + 0.08)
    assert peak_latency_s(problem, 1, 0.08) == 0.08
    assert judge(problem, infer_row(0.05, batch_size=4)).objective == pytest.approx(-(3 / 60 + 0.05))


def test_the_device_must_keep_up_with_arrivals():
    problem = Problem("infer", arrival_rate_per_s=60.0)
    assert judge(problem, infer_row(4 / 60, batch_size=4)).feasible is True
    late = judge(problem, infer_row(0.07, batch_size=4))
    assert late.violations == (Violation("rate", 0.07, 4 / 60),)


def test_energy_and_energy_delay_per_sample():
    row = train_row(0.5, 20.0)  # 10 J a minibatch of 16, 1/32 s a sample
    assert judge(Problem("train", objective="energy"), row).objective == -10 / 16
    assert judge(Problem("train", objective="energy-delay"), row).objective == -10 / 16 / 32
    measured = train_row(0.5, 20.0, energy_j=9.0)
    assert judge(Problem("train", objective="energy"), measured).objective == -9 / 16
    assert energy_per_minibatch_j(measured) == 9.0
    served = Problem("infer", arrival_rate_per_s=60.0, objective="energy-delay")
    assert judge(served, infer_row(0.05, 20.0, 4)).objective == pytest.approx(-(1.0 / 4) * (3 / 60 + 0.05))


def test_without_power_a_budget_cannot_be_told_but_a_pure_speed_search_can():
    blind = judge(Problem("train", power_budget_w=30.0), train_row(power_w=None))
    assert (blind.feasible, blind.objective, blind.unknown) == (None, 32.0, "no power was measured")
    assert judge(Problem("train"), train_row(power_w=None)).feasible is True
    energy = judge(Problem("train", objective="energy"), train_row(power_w=None, reason="two samples only"))
    assert (energy.feasible, energy.objective, energy.unknown) == (None, None, "two samples only")
    assert judge(Problem("train", objective="energy"), train_row(power_w=None, energy_j=8.0)).objective == -0.5


@pytest.mark.parametrize("status", ["failed", "throttled", "drifted"])
def test_rows_that_are_not_ok_are_not_judged(status):
    assert judge(Problem("train"), train_row(status=status, reason="too hot")).unknown == "too hot"
    assert judge(Problem("train"), train_row(status=status)).unknown == f"the measurement {status}"


def test_only_points_of_the_task_and_of_one_workload_are_offered():
    train, infer = Point("net", "train", 16, Mode(gpu_mhz=1.0)), Point("net", "infer", 1, Mode(gpu_mhz=1.0))
    assert offered_space(Problem("train"), [infer, train]).points == (train,)
    with pytest.raises(InputError, match="no train points"):
        offered_space(Problem("train"), [infer])
    with pytest.raises(InputError, match="several workloads: net, other"):
        offered_space(Problem("train"), [train, Point("other", "train", 16, Mode(gpu_mhz=1.0))])


@given(
    minibatch_s=st.floats(allow_nan=True, allow_infinity=True) | st.none(),
    power_w=st.floats(allow_nan=True, allow_infinity=True) | st.none(),
    budget_w=st.floats(0.1, 1e4) | st.none(),
    margin=st.floats(0, 0.99),
)
def test_feasible_means_a_real_measurement_within_budget(minibatch_s, power_w, budget_w, margin):
    problem = Problem("train", power_budget_w=budget_w, margin=margin)
    judgement = judge(problem, train_row(minibatch_s, power_w))
    if judgement.feasible:
        assert minibatch_s > 0
        assert math.isfinite(minibatch_s)
        assert judgement.objective is not None
        assert budget_w is None or 0 < power_w <= budget_w * (1 - margin)
    else:
        assert judgement.violations or judgement.unknown


POINTS = [
    Point("net", "train", 16, Mode(gpu_mhz=gpu, mem_mhz=mem)) for gpu, mem in product((9.0, 1.0, 5.0), (2.0, 4.0))
]


def test_axes_are_the_knobs_that_vary_ascending():
    space = Space.of(POINTS)
    assert space.axes == (Axis("gpu_mhz", (1.0, 5.0, 9.0)), Axis("mem_mhz", (2.0, 4.0)))
    assert space.at((2, 0)) == Point("net", "train", 16, Mode(gpu_mhz=9.0, mem_mhz=2.0))
    assert all(space.at(space.levels[point]) == point for point in POINTS)


def test_the_order_offered_and_duplicates_change_nothing():
    assert Space.of(POINTS) == Space.of(POINTS[::-1] + POINTS[:2])


def test_several_batch_sizes_are_an_axis_and_one_value_is_none():
    points = [replace(POINTS[0], batch_size=size) for size in (16, 1, 4)]
    assert Space.of(points).axes == (Axis("batch_size", (1, 4, 16)),)
    assert Space.of(points[:1]).axes == ()
    assert Space.of([Point("net", "train", 1, Mode())]).at(()) is not None


def test_no_points_and_knobs_set_in_some_points_only_are_refused():
    with pytest.raises(InputError, match="no points were offered"):
        Space.of([])
    with pytest.raises(InputError, match="some points set mem_mhz"):
        Space.of([*POINTS, Point("net", "train", 16, Mode(gpu_mhz=1.0))])


def test_a_line_holds_the_offered_places_of_one_knob():
    space = Space.of(point for point in POINTS if point != Point("net", "train", 16, Mode(gpu_mhz=5.0, mem_mhz=2.0)))
    assert space.line((0, 0), 0, above=True) == [(2, 0)]  # the hole is not offered
    assert space.line((2, 1), 0, above=False) == [(0, 1), (1, 1)]
    assert space.line((2, 1), 1, above=True) == []


def three_knobs() -> Space:
    knobs = product((1.0, 2.0, 3.0), (1.0, 2.0, 3.0), (1.0, 2.0, 3.0))
    return Space.of(Point("net", "train", 1, Mode(cpu_mhz=c, gpu_mhz=g, mem_mhz=m)) for c, g, m in knobs)


def test_a_point_over_budget_rules_out_those_above_it_at_the_same_memory_clock():
    bounds = Bounds(three_knobs(), limit_w=20.0)
    bounds.note((1, 1, 1), 21.0)
    assert bounds.rules_out((1, 1, 1))
    assert bounds.rules_out((2, 1, 1))
    assert bounds.rules_out((2, 2, 1))
    assert not bounds.rules_out((2, 2, 2))  # a faster memory may draw less
    assert not bounds.rules_out((0, 2, 1))


def test_a_point_within_budget_makes_those_below_it_pointless():
    bounds = Bounds(three_knobs(), limit_w=20.0)
    bounds.note((1, 1, 1), 20.0)
    ruled_out = {levels for levels in three_knobs().levels.values() if bounds.rules_out(levels)}
    assert ruled_out == set(product((0, 1), (0, 1), (0, 1)))


def test_without_power_only_a_search_without_a_budget_learns():
    blind, free = Bounds(three_knobs(), limit_w=20.0), Bounds(three_knobs(), limit_w=float("inf"))
    for bounds in (blind, free):
        bounds.note((2, 2, 2), None)
    assert not blind.rules_out((0, 0, 0))
    assert free.rules_out((0, 0, 0))
