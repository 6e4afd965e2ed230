"""The benchmark: order, ratios, intervals, misses in closed form on made-up runs; and small networks simulated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.elastic.backend import Outcome, RequestRecord
from edgetune.stages.elastic.bench import Ratio, bench, mean_ratio, with_load
from edgetune.stages.elastic.gpu import find_gpu
from edgetune.stages.elastic.mdtb.workloads import TaskPair, workload
from edgetune.stages.elastic.model import GpuTimingModel
from edgetune.stages.elastic.policies import POLICIES
from edgetune.stages.elastic.policies.multistream import SOLO, MultiStream
from edgetune.stages.elastic.runner import RequestLatencies, answers_of, runner, simulated
from edgetune.stages.elastic.view import ElasticPolicy
from edgetune.stages.elastic.work import GpuTask, KernelSequence

WORKLOAD = TaskPair(
    "A",
    GpuTask("first", KernelSequence("first", ()), 1, "uniform:10/s"),
    GpuTask("second", KernelSequence("second", ())),
)
SLOWER = {"sequential": 3.0, "multistream": 2.0, "elastic": 1.25}
NORMAL = {"sequential": 10, "multistream": 40, "elastic": 30}


class Runs:
    """A runner whose answers follow from its arguments: alone, turn t takes 10 + t ms."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str, int]] = []

    def __call__(self, tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
        self.asked.append((len(tasks), policy, turn))
        alone_s = 0.010 + turn / 1000
        if len(tasks) == 1:
            return RequestLatencies({"first": [alone_s] * 10}, {"first": []}, 1.0)
        latencies_s = [alone_s * SLOWER[policy]] * 10
        return RequestLatencies(
            {"first": latencies_s, "second": [0.1] * NORMAL[policy]}, {"first": [], "second": []}, 1.0
        )


def test_policies_alternate_and_each_turn_has_a_run_alone() -> None:
    runs = Runs()
    bench(WORKLOAD, ["sequential", "elastic"], runs, turns=3)
    assert runs.asked == [
        (1, "solo", 0), (1, "solo", 0), (2, "sequential", 0), (2, "elastic", 0),
        (1, "solo", 1), (1, "solo", 1), (2, "elastic", 1), (2, "sequential", 1),
        (1, "solo", 2), (1, "solo", 2), (2, "sequential", 2), (2, "elastic", 2),
    ]  # fmt: skip


def test_the_time_to_wake_an_idle_host_is_told_apart_and_no_part_of_ratios() -> None:
    def waking(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
        if len(tasks) == 1:  # at a rate: three of ten wait for the one before, and the host was asleep before each
            wakes_s = 0.004 if tasks[0].arrivals != "closed" else 0.0
            queue_s = [0.0] * 7 + [0.006] * 3 if wakes_s else [0.0] * 10
            return RequestLatencies({"first": [0.010 + wakes_s + each for each in queue_s]}, {"first": []}, 1.0)
        return RequestLatencies({"first": [0.012] * 10, "second": [0.1] * 10}, {"first": [], "second": []}, 1.0)

    figures = bench(WORKLOAD, ["elastic"], waking, turns=2, deadline=1.5)
    assert figures.waking_s == pytest.approx(0.004)
    assert figures.alone_p50_s == pytest.approx(0.014)
    assert figures.deadline_s == pytest.approx(1.5 * 0.010)
    assert figures.policies[0].p50_x.value == pytest.approx(1.2)
    assert figures.policies[0].p99_x.value == pytest.approx(0.012 / 0.016)


def test_ratios_are_within_turns() -> None:
    figures = bench(WORKLOAD, list(SLOWER), Runs(), turns=3)
    assert figures.alone_p50_s == pytest.approx(0.011)
    assert figures.busy == pytest.approx(10 * 0.011)
    for policy in figures.policies:
        assert policy.p50_x.value == pytest.approx(SLOWER[policy.policy])  # although turns take 10, 11 and 12 ms
        assert policy.throughput_x is not None
        assert policy.throughput_x.value == pytest.approx((10 + NORMAL[policy.policy]) / 20)
        assert policy.normal_x is not None
        assert policy.normal_x.value == pytest.approx(NORMAL[policy.policy] / 10)


def test_misses_are_late_or_never_answered() -> None:
    figures = bench(WORKLOAD, list(SLOWER), Runs(), turns=1, deadline=2.5)
    assert [policy.missed for policy in figures.policies] == [1.0, 0.0, 0.0]

    def some_unanswered(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
        return RequestLatencies(
            {"first": [0.01] * 3, "second": [0.01]}, {"first": [0.5, 0.001], "second": [0.1] * 9}, 1.0
        )

    figures = bench(WORKLOAD, ["sequential"], some_unanswered, turns=1)
    assert figures.policies[0].requests == 4
    assert figures.policies[0].missed == 0.25


def test_without_sequential_nothing_is_relative_to_it() -> None:
    figures = bench(WORKLOAD, ["elastic"], Runs(), turns=2)
    assert figures.policies[0].throughput_x is None
    assert figures.policies[0].normal_x is None


def test_a_base_that_answered_nothing_gives_no_ratio() -> None:
    def starved(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
        return RequestLatencies({"first": [0.01], "second": []}, {"first": [], "second": [1.0]}, 1.0)

    (figures,) = bench(WORKLOAD, ["sequential"], starved, turns=1).policies
    assert figures.normal_x is None
    assert figures.throughput_x is not None


def test_an_interval_encloses_the_mean_and_narrows_with_turns() -> None:
    few, many = mean_ratio([1.0, 1.2] * 3), mean_ratio([1.0, 1.2] * 50)
    for ratio in (few, many):
        assert ratio.low is not None
        assert ratio.high is not None
        assert 1.0 <= ratio.low < ratio.value < ratio.high <= 1.2
    # Half the width is 1.96 standard errors, 0.1 / sqrt(100), within what 2000 draws can tell.
    assert many.high - many.low == pytest.approx(2 * 1.96 * 0.1 / math.sqrt(100), rel=0.15)  # type: ignore[operator]
    assert mean_ratio([1.5]) == Ratio(1.5)
    assert mean_ratio([1.5, 1.5, 1.5]) == Ratio(1.5)
    assert mean_ratio([1.0, 1.3, 1.1], seed=3) == mean_ratio([1.0, 1.3, 1.1], seed=3)


def test_a_load_sets_the_rate() -> None:
    assert with_load(WORKLOAD, 0.5, 0.010).critical.arrivals == "uniform:50/s"
    closed = TaskPair("A", GpuTask("first", KernelSequence("first", ()), 1, "closed"), WORKLOAD.normal)
    assert with_load(closed, 0.5, 0.010) is closed


def test_under_a_load_normal_requests_at_a_rate_keep_the_ratio_of_both() -> None:
    made = with_load(replace(WORKLOAD, normal=replace(WORKLOAD.normal, arrivals="uniform:12.5/s")), 0.5, 0.010)
    assert (made.critical.arrivals, made.normal.arrivals) == ("uniform:50/s", "uniform:62.5/s")
    assert with_load(WORKLOAD, 0.5, 0.010).normal.arrivals == "closed"


def test_several_normal_requests_in_flight_are_tasks_of_their_own_that_share_the_rate() -> None:
    normal = replace(WORKLOAD.normal, arrivals="uniform:12.5/s")
    made = replace(WORKLOAD, normal=normal, in_flight=2)
    assert [(each.name, each.arrivals) for each in made.normals] == [
        ("second-1", "uniform:6.25/s"), ("second-2", "uniform:6.25/s"),
    ]  # fmt: skip
    assert [each.arrivals for each in replace(WORKLOAD, in_flight=3).normals] == ["closed"] * 3
    assert WORKLOAD.normals == (WORKLOAD.normal,)

    def answers(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
        waits = {task.name: [0.01] * (10 if task.name == "first" else NORMAL[policy]) for task in tasks}
        return RequestLatencies(waits, {task.name: [] for task in tasks}, 1.0)

    sequential, elastic = bench(made, ["sequential", "elastic"], answers, turns=1).policies
    assert (sequential.normal_per_s, elastic.normal_per_s) == (20, 60)
    assert elastic.throughput_x == Ratio(70 / 30)


def test_more_normal_requests_in_flight_fill_a_gpu_that_one_leaves_idle() -> None:
    sizes = {"lstm": {"units": 64, "inputs": 64, "steps": 4}, "squeezenet": {"side": 64, "narrow": 4}}
    made, gpu = workload("D", sizes=sizes), find_gpu("orin-agx")
    made = with_load(made, 0.1, 0.0005)
    rates = {}
    for in_flight in (1, 4):
        backend = simulated(gpu, GpuTimingModel(host_s=1e-6))  # a host of 7 us is busy with one already
        run = runner(backend, {"multistream": MultiStream()}, gpu, duration_s=0.008)
        (found,) = bench(replace(made, in_flight=in_flight), ["multistream"], run, turns=1).policies
        rates[in_flight] = found.normal_per_s
    assert rates[4] > 1.3 * rates[1]


def test_a_run_without_critical_answers_is_refused() -> None:
    def nothing(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
        return RequestLatencies({"first": [], "second": []}, {"first": [], "second": []}, 1.0)

    with pytest.raises(InputError, match="no request of first was answered"):
        bench(WORKLOAD, ["sequential"], nothing)


def record(task: GpuTask, outcome: Outcome, ended_ns: int, failure: str | None = None) -> RequestRecord:
    return RequestRecord(task, 0, 1_000_000, None, ended_ns, outcome, failure)


def test_figures_of_a_run() -> None:
    tasks = (WORKLOAD.critical, WORKLOAD.normal)
    records = [record(tasks[0], "ok", 3_000_000), record(tasks[0], "abandoned", 9_000_000)]
    given = answers_of(records, tasks, 0.5)
    assert given == RequestLatencies({"first": [0.002], "second": []}, {"first": [0.008], "second": []}, 0.5)
    assert given.rate_per_s("first", "second") == 2.0
    with pytest.raises(EdgetuneError, match="request 0 of second failed: kernel add: out of memory"):
        answers_of([*records, record(tasks[1], "failed", 2_000_000, "kernel add: out of memory")], tasks, 0.5)


def test_simulated_runs_of_one_turn_have_the_same_arrivals_and_of_another_others() -> None:
    small = {"gru": {"units": 8, "inputs": 8, "steps": 2}, "resnet": {"side": 33, "narrow": 16}}
    made, gpu = workload("C", sizes=small), find_gpu("orin-nano")
    critical = replace(made.critical, arrivals="poisson:1000/s")
    run = runner(simulated(gpu), {"multistream": MultiStream()}, gpu, duration_s=0.01, seed=7)
    tasks = (critical, made.normal)
    assert run(tasks, "multistream", 0) == run(tasks, "multistream", 0)
    counts = {len(run((critical,), SOLO, turn).latencies_s["gru"]) for turn in range(4)}
    assert len(counts) > 1


def test_alone_a_network_is_never_slower_than_beside_another() -> None:
    sizes = {"lstm": {"units": 64, "inputs": 64, "steps": 4}, "squeezenet": {"side": 64, "narrow": 4}}
    made, gpu = workload("D", sizes=sizes), find_gpu("orin-nano")
    policies: dict[str, ElasticPolicy] = {
        name: POLICIES.find(name)() for name in ("sequential", "multistream", "elastic")
    }
    run = runner(simulated(gpu), policies, gpu, duration_s=0.01)
    figures = bench(with_load(made, 0.3, 0.0005), list(policies), run, turns=2)
    assert all(policy.p50_x.value >= 1.0 for policy in figures.policies)
    assert figures.policies[0].throughput_x == Ratio(1.0)
