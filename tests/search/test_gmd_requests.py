"""The gradient search for inference and for two workloads, against sequences worked by hand and against the truth."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from contracts.strategy_contract import INFER, PAIR, grid_points
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import InputError
from edgetune.stages.search.driver import SearchResult, SearchSettings, run_search
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategies.gmd import Gmd

MODES = [Mode(cpu_mhz=cpu, gpu_mhz=gpu) for cpu, gpu in product((1.0, 2.0, 3.0), (1.0, 2.0, 3.0, 4.0, 5.0))]
SERVED = [Point("net", "infer", size, mode) for mode in MODES for size in (1, 4, 16)]
TRAINED = [Point("net", "train", 16, mode) for mode in MODES]


def board(point: Point) -> ProfileRow:
    """Inference (6/cpu + 12 b/gpu)/1000 s, 10 + cpu + 3 gpu + b/4 W; training 0.24/gpu s, 12 + 4 gpu W."""
    cpu, gpu, size = point.mode.cpu_mhz, point.mode.gpu_mhz, point.batch_size
    time_s, power_w = (6 / cpu + 12 * size / gpu) / 1000, 10 + cpu + 3 * gpu + size / 4
    if point.task == "train":
        time_s, power_w = 0.24 / gpu, 12 + 4 * gpu
    return ProfileRow("net", point.task, size, time_s, cpu_mhz=cpu, gpu_mhz=gpu, power_w=power_w)


def infer(budget_w: float | None, latency_s: float | None, rate_per_s: float, points=SERVED, **options) -> SearchResult:
    problem = Problem("infer", power_budget_w=budget_w, latency_budget_s=latency_s, arrival_rate_per_s=rate_per_s)
    return run_search(problem, points, options.pop("measure", board), SearchSettings("gmd", **options))


def pair(budget_w: float | None, latency_s: float, rate_per_s: float, **options) -> SearchResult:
    problem = Problem("train+infer", power_budget_w=budget_w, latency_budget_s=latency_s, arrival_rate_per_s=rate_per_s)
    return run_search(problem, SERVED + TRAINED, options.pop("measure", board), SearchSettings("gmd", **options))


def steps(result: SearchResult) -> list[tuple]:
    return [(row.task[0], row.batch_size, row.cpu_mhz, row.gpu_mhz) for row in result.trace.rows]


def test_inference_takes_the_smallest_batch_and_raises_what_saves_most_time_per_watt():
    # middle: 21.25 W. High ends: cpu 1 ms / 1 W = 1, gpu 1.6/6 = 0.27 ms/W.
    result = infer(25.0, 0.1, 60.0)
    assert steps(result)[:5] == [
        ("i", 1, 2, 3),  # the middle
        ("i", 1, 3, 3),  # cpu, high end: 22.25 W, so cpu is exhausted
        ("i", 1, 2, 5),  # gpu, high end: 27.25 W, over
        ("i", 1, 3, 4),  # from cpu 3, the middle of what is left of gpu: 25.25 W, over
        ("i", 1, 2, 4),  # back-tracking, gpu first: 24.25 W, as fast as the best and dearer
    ]
    assert result.plan.configuration.mode == Mode(cpu_mhz=3, gpu_mhz=3)
    assert result.plan.configuration.batch_size == 1


def test_where_single_samples_cannot_keep_up_it_tries_larger_batches_within_power_fastest_first():
    # 230/s: a sample each 4.35 ms; the middle takes 7 ms, and cpu and gpu by themselves save 1 and 1.6 ms: too little.
    result = infer(25.0, 0.2, 230.0)
    assert steps(result)[:6] == [
        ("i", 1, 2, 3),  # the middle
        ("i", 1, 3, 3),  # cpu, high end: 22.25 W
        ("i", 1, 2, 5),  # gpu, high end: over
        ("i", 4, 3, 3),  # the fastest within power at 4 samples: 18 ms, where 17.4 ms keep up
        ("i", 16, 3, 3),  # at 16 samples it draws 26 W, over
        ("i", 16, 2, 3),  # the next fastest: 67 ms keep up with 69.6 ms, at 25 W
    ]
    answer = result.plan.configuration  # the points left find 4 samples at 25 W: 6/2 + 48/4 = 15 ms
    assert (answer.mode, answer.batch_size) == (Mode(cpu_mhz=2, gpu_mhz=4), 4)


def test_a_batch_that_takes_the_whole_latency_budget_to_fill_is_never_asked_for():
    result = infer(30.0, 0.05, 60.0, max_points=45)
    assert {row.batch_size for row in result.trace.rows} == {1}  # 3/60 s = 50 ms


@pytest.mark.parametrize("rate", [20.0, 60.0, 110.0, 160.0, 190.0])
def test_with_points_to_spare_inference_reaches_the_truth(rate: float):
    problem = Problem("infer", power_budget_w=22.0, latency_budget_s=0.2, arrival_rate_per_s=rate)
    truth = run_search(problem, SERVED, board, SearchSettings("exhaustive")).plan
    result = infer(22.0, 0.2, rate, max_points=45)
    assert result.plan.configuration.batch_size == truth.configuration.batch_size
    assert result.plan.measured.minibatch_s == truth.measured.minibatch_s
    assert len(result.trace.rows) < 45


def test_a_new_arrival_rate_looks_first_at_what_was_measured_for_the_last_one():
    first = infer(25.0, 0.1, 60.0)
    known = [board(p) for p in SERVED if ("i", p.batch_size, p.mode.cpu_mhz, p.mode.gpu_mhz) in steps(first)]
    again = infer(25.0, 0.1, 70.0, known=known)
    assert again.plan.configuration == first.plan.configuration
    assert again.plan.search.points_measured == 0  # all that was worthwhile is known


def test_two_workloads_begin_at_the_largest_batch_that_the_top_serves_in_time():
    # 20/s within 0.5 s: 16 samples take 0.75 s to gather, 4 take 0.15 s. Training draws more at the middle.
    result = pair(26.0, 0.5, 20.0)
    assert steps(result) == [
        ("i", 4, 3, 5),  # the top serves 4 in time
        ("t", 16, 2, 3),  # the middle, both halves: 24 W and 22 W
        ("i", 4, 2, 3),
        ("t", 16, 3, 3),  # cpu, high end: training first
        ("i", 4, 3, 3),
        ("t", 16, 2, 5),  # gpu, high end: training alone is over, so no inference there
        ("t", 16, 2, 4),  # the middle of what is left of gpu: over
        ("t", 16, 1, 4),  # not above anything over the budget yet
    ]
    answer = result.plan.configuration
    assert (answer.mode, answer.infer_batch_size, answer.train_minibatches) == (Mode(cpu_mhz=3, gpu_mhz=3), 4, 2)


def test_slopes_are_those_of_the_workload_that_draws_more():
    result = pair(26.0, 1.0, 20.0)  # at 16 samples inference draws 25 W and training 24 W
    assert steps(result)[:6] == [
        ("i", 16, 3, 5),
        ("t", 16, 2, 3),
        ("i", 16, 2, 3),
        ("i", 16, 3, 3),  # from here on inference first
        ("t", 16, 3, 3),
        ("i", 16, 2, 5),  # over by itself: training is not measured there
    ]
    assert result.plan.configuration.train_minibatches == 9  # (0.8 s - 0.066 s) / 0.08 s


@pytest.mark.parametrize("budget_w", [20.0, 22.0, 24.0, 26.0, 29.0, 33.0, None])
@pytest.mark.parametrize(("latency_s", "rate"), [(1.0, 20.0), (0.3, 20.0), (0.2, 25.0), (5.0, 5.0)])
def test_with_points_to_spare_two_workloads_reach_the_truth(budget_w: float | None, latency_s: float, rate: float):
    problem = Problem("train+infer", power_budget_w=budget_w, latency_budget_s=latency_s, arrival_rate_per_s=rate)
    truth = run_search(problem, SERVED + TRAINED, board, SearchSettings("exhaustive"))
    result = pair(budget_w, latency_s, rate, max_points=60)
    best, found = truth.trace.rows[-1].best, result.trace.rows[-1].best
    assert found == best
    assert len(result.trace.rows) < len(truth.trace.rows)


def test_a_half_that_fails_rules_out_its_mode_alone():
    def broken(point: Point) -> ProfileRow:
        row = board(point)
        fails = point.task == "train" and (point.mode.cpu_mhz, point.mode.gpu_mhz) == (2.0, 3.0)
        return replace(row, status="failed", minibatch_s=None, reason="out of memory") if fails else row

    result = pair(26.0, 0.5, 20.0, measure=broken)
    assert steps(result)[1] == ("t", 16, 2, 3)
    assert ("i", 4, 2, 3) not in steps(result)
    assert result.plan.configuration.mode == Mode(cpu_mhz=3, gpu_mhz=3)


def test_its_budgets_are_those_of_the_paper():
    assert [Gmd.default_max_points(p) for p in (Problem("train"), INFER, PAIR)] == [10, 11, 30]


@pytest.mark.parametrize("problem", [replace(INFER, objective="energy"), replace(INFER, objective="throughput")])
def test_other_objectives_are_refused(problem: Problem):
    with pytest.raises(InputError, match=r"not (energy|throughput) of infer"):
        Gmd(Space.of(grid_points("infer")), problem, seed=0)
