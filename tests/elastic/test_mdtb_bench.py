"""The benchmark: order, ratios, intervals, misses in closed form on made-up runs; and small networks simulated."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.elastic.bench import Ratio, RequestLatencies, answers_of, bench, mean_ratio, runner
from edgetune.stages.elastic.gpu import GpuTask, KernelSequence, find_gpu
from edgetune.stages.elastic.mdtb.networks import TaskPair, workload
from edgetune.stages.elastic.policies.simple import SOLO, MultiStream
from edgetune.stages.elastic.view import Outcome, RequestRecord
from edgetune.workflows.kernels.place import model_place

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

    figures = bench(WORKLOAD, ["elastic"], waking, turns=2)
    assert figures.waking_s == pytest.approx(0.004)
    assert figures.alone_p50_s == pytest.approx(0.014)
    assert figures.deadline_s == pytest.approx(2 * 0.010)
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
    figures = bench(WORKLOAD, list(SLOWER), Runs(), turns=1)
    assert [policy.missed for policy in figures.policies] == [1.0, 0.0, 0.0]

    def some_unanswered(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
        return RequestLatencies(
            {"first": [0.01] * 3, "second": [0.01]}, {"first": [0.5, 0.001], "second": [0.1] * 9}, 1.0
        )

    figures = bench(WORKLOAD, ["sequential"], some_unanswered, turns=1)
    assert figures.policies[0].requests == 4
    assert figures.policies[0].missed == 0.25


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
    run = runner(model_place(gpu).open_backend, {"multistream": MultiStream()}, gpu, duration_s=0.01, seed=7)
    tasks = (critical, made.normal)
    assert run(tasks, "multistream", 0) == run(tasks, "multistream", 0)
    counts = {len(run((critical,), SOLO, turn).latencies_s["gru"]) for turn in range(4)}
    assert len(counts) > 1
