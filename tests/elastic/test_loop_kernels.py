"""The loop that shares a GPU among tasks: requests, decisions, launches, failures and the end."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_scenes import FREE, GPU, US, Pieces, Says, Whole, call, task

from edgetune import limits
from edgetune.errors import EdgetuneError, InputError
from edgetune.serving.clock import EventClock, Supervision
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.model import check_duration
from edgetune.stages.elastic.policies.simple import MultiStream
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stages.elastic.tasks import about_launches, check_count
from edgetune.stages.elastic.view import LaunchChain, LaunchPiece, LaunchRecord


def run(policy, *tasks, duration_us=1000.0, model=FREE, gpu=GPU, seed=0, fault=None, stopped=lambda: False):
    backend = SimulatedGpu(EventClock(), gpu, tasks, model=model, fault=fault or (lambda _: None))
    loop = ElasticLoop(
        policy, backend, tasks, gpu=gpu, duration_s=duration_us / 1e6, seed=seed, supervision=Supervision(stopped)
    )
    loop.run()
    return loop


def requests_of(loop, name="a"):
    return [each for each in loop.requests if each.task.name == name]


def latencies_us(loop, name="a"):
    return [(each.ended_ns - each.arrived_ns) / US for each in requests_of(loop, name) if each.outcome == "ok"]


def test_a_closed_client_asks_again_when_it_is_answered():
    loop = run(Whole(), task("a", call(blocks=2), call(blocks=2)), duration_us=1000)
    took = 10 + 100 + 100  # the second kernel is on its way while the first runs
    assert latencies_us(loop) == [took] * 5
    assert [each.arrived_ns / US for each in requests_of(loop)] == [0, 210, 420, 630, 840]
    assert {each.outcome for each in loop.requests} == {"ok"}


def test_requests_come_when_their_words_say_and_wait_for_their_turn():
    loop = run(Whole(), task("a", call(blocks=2), arrivals="uniform:10000/s", deadline_s=150e-6), duration_us=350)
    assert [each.arrived_ns / US for each in requests_of(loop)] == [100, 200, 300]
    assert latencies_us(loop) == [110, 110, 110]  # the next one's latency passes while the one before runs
    assert [each.met for each in loop.requests] == [True] * 3
    assert [each.due_ns / US for each in loop.requests] == [250, 350, 450]


def test_a_critical_request_waits_for_one_launch_of_normal_work_at_most():
    class Greedy:
        """Launches critical chains, or else pieces of a block without an end."""

        name = "greedy"

        def decide(self, view):
            critical, normal = view.tasks
            if critical.arrived_ns:
                return [LaunchChain("critical")]
            return [LaunchPiece("normal", 1, 1, 1)] if normal.left > 1 else []

    host_us = 10
    loop = run(
        Greedy(), task("critical", call(blocks=1), arrivals="uniform:14000/s", priority=1),
        task("normal", call(blocks=64)), duration_us=500, model=replace(FREE, host_s=host_us / 1e6),
    )  # fmt: skip
    waited_us = [(each.begun_ns - each.arrived_ns) / US for each in requests_of(loop, "critical")[:3]]
    assert all(each <= host_us for each in waited_us)
    assert max(waited_us) > 0, "the host was busy"


def test_pieces_are_parts_of_one_kernel_and_the_request_is_answered_with_the_last():
    loop = run(Pieces(count=3, blocks=2), task("a", call(blocks=8, threads=512)), duration_us=530)
    parts = [(each.launch.first, each.launch.count, each.launch.blocks) for each in loop.launches]
    assert parts == [(0, 3, 2), (3, 3, 2), (6, 2, 2)]
    (request,) = loop.requests
    assert request.ended_ns == loop.launches[-1].ended_ns == (3 * 10 + 200 + 200 + 100) * US


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(1, 9), st.integers(1, 5),
    st.sampled_from([1, 2, 4, 8]), st.integers(0, 3),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_every_logical_block_of_every_answered_request_is_launched_once(sizes, count, blocks, per_thread, seed):
    calls = [call(size, 256, 5) for size in sizes]
    tasks = [task("a", *calls), task("b", *calls[::-1], arrivals="poisson:5000/s"), task("c", calls[0], priority=1)]
    loop = run(Pieces(count, blocks, per_thread), *tasks, duration_us=2000, seed=seed)
    by_request = {}
    for record in loop.launches:
        launch = record.launch
        by_request.setdefault((launch.task, launch.request), []).append(launch)
    for request in loop.requests:
        launches = by_request.get((request.task.name, request.number), [])
        for place, what in enumerate(request.task.network.calls):
            taken = sorted((each.first, each.count) for each in launches if each.call == place)
            blocks_taken = [first + at for first, n in taken for at in range(n)]
            assert blocks_taken == list(range(len(blocks_taken)))
            assert request.outcome != "ok" or len(blocks_taken) == what.logical.blocks


def test_a_launch_that_fails_ends_its_request_and_the_task_goes_on():
    failing = {1}
    loop = run(
        Pieces(count=4, blocks=2), task("a", call(blocks=8, threads=512), call(blocks=2)), duration_us=1200,
        fault=lambda launch: "illegal address" if launch.number in failing else None,
    )  # fmt: skip
    first, second = loop.requests[:2]
    assert (first.number, first.outcome, first.failure) == (0, "failed", "kernel k: illegal address")
    assert first.ended_ns == loop.launches[1].ended_ns
    assert [each.launch.call for each in loop.launches if each.launch.request == 0] == [0, 0]
    assert (second.number, second.outcome) == (1, "ok")
    assert [(each.launch.number, each.failure) for each in loop.launches if each.failure] == [(1, "illegal address")]


def test_a_kernel_of_a_chain_that_fails_ends_the_request_once_the_others_are_over():
    loop = run(
        Whole(), task("a", call(blocks=2), call(blocks=2), call(blocks=2)), duration_us=200,
        fault=lambda launch: "illegal address" if launch.number == 0 else None,
    )  # fmt: skip
    (request,) = loop.requests
    assert (request.outcome, request.ended_ns / US) == ("failed", 110)
    assert len(loop.launches) == 3


def test_a_kernel_that_fits_nowhere_fails_only_its_own_requests():
    loop = run(
        Whole(), task("a", call(threads=1024, registers=255), arrivals="uniform:5000/s"), task("b", call(blocks=2))
    )
    assert {each.outcome for each in requests_of(loop, "a")} == {"failed"}
    assert "fits on a multiprocessor" in requests_of(loop, "a")[0].failure
    assert {each.outcome for each in requests_of(loop, "b")} == {"ok"}
    assert next(each for each in loop.launches if each.failure).started_ns is None


def test_when_time_is_up_what_was_launched_ends_and_the_rest_is_left():
    loop = run(Pieces(count=2, blocks=2), task("a", call(blocks=8, threads=512), arrivals="uniform:10000/s"),
               duration_us=320)  # fmt: skip
    assert [each.outcome for each in loop.requests] == ["abandoned"] * 3
    begun, *waiting = loop.requests
    assert begun.begun_ns == 100 * US
    assert [each.begun_ns for each in waiting] == [None, None]
    assert {each.failure for each in loop.requests} == {"the run ended before it was answered"}
    assert loop.launches[-1].ended_ns >= 320 * US


def test_a_run_stops_also_during_a_burst_and_in_a_simulation():
    asked = iter([False] * 4)
    loop = run(MultiStream(), task("a", call(), call(), arrivals="closed:1000"), stopped=lambda: next(asked, True))
    assert loop.launches == []
    assert [each.outcome for each in loop.requests] == ["abandoned"] * 1000
    assert sum(each.begun_ns is not None for each in loop.requests) == 3


@pytest.mark.parametrize("duration_us", [1000, 1e9])
def test_a_run_stops_also_within_a_kernel_of_very_many_blocks(duration_us):
    asked = iter([False] * 5)
    loop = run(Whole(), task("a", call(blocks=10**9)), duration_us=duration_us, stopped=lambda: next(asked, True))
    assert [each.outcome for each in loop.requests] == ["abandoned"]
    assert loop.requests[0].ended_ns < 1e9


def test_policies_see_what_waits_what_is_on_its_way_and_what_runs():
    seen = []

    class Watches(Whole):
        def decide(self, view):
            of = view.tasks[0]
            running = [each.number for each in view.resident]
            seen.append((view.now_ns / US, len(of.arrived_ns), [each.number for each in of.in_flight], running))
            return super().decide(view)

    run(Watches(), task("a", call(blocks=2), call(blocks=2), arrivals="uniform:5000/s"), duration_us=390)
    assert seen == [
        (0, 0, [], []), (200, 1, [], []), (200, 0, [0, 1], []), (210, 0, [0, 1], [0]), (310, 0, [1], []),
        (310, 0, [1], [1]),
    ]  # fmt: skip


def test_tasks_take_their_share_of_the_device_time():
    loop = run(Whole(), task("a", call(blocks=2)), task("b", call(blocks=2)), duration_us=1100)
    served = {each.task.name: each.served_s for each in loop._progress.values()}
    assert served == pytest.approx({"a": 1e-3, "b": 1e-3})


@pytest.mark.parametrize(
    ("decisions", "why"),
    [
        ([LaunchChain("c")], "no task of this run"),
        ([LaunchChain("b")], "no request waits"),
        ([LaunchPiece("a", 9, 1, 2)], "has 8 logical blocks left"),
        ([LaunchPiece("a", 0, 1, 2)], "has 8 logical blocks left"),
        ([LaunchPiece("a", 2, 3, 2)], "a shape that does not exist"),
        ([LaunchPiece("a", 2, 1, 0)], "a shape that does not exist"),
        ([LaunchPiece("a", 2)], "takes all of its 8 blocks"),
        ([LaunchPiece("a", 8, 2)], "takes all of its 8 blocks"),
        ([LaunchPiece("a", 2, 1, 2), LaunchChain("a")], "is being launched piece by piece"),
        ([LaunchPiece("a", 6, 1, 2), LaunchPiece("a", 6, 1, 2)], "has 2 logical blocks left"),
        ([], "launches nothing while nothing runs and 1 requests wait"),
    ],
)
def test_a_policy_that_decides_what_it_must_not_ends_the_run(decisions, why):
    tasks = [task("a", call(blocks=8)), task("b", call(), arrivals="uniform:1/s")][: 2 if decisions else 1]
    backend = SimulatedGpu(EventClock(), GPU, tasks, model=FREE)
    loop = ElasticLoop(Says(*decisions), backend, tasks, gpu=GPU, duration_s=1e-3)
    with pytest.raises(EdgetuneError, match=why):
        loop.run()
    assert [each.outcome for each in loop.requests] == ["abandoned"]
    assert loop.requests[0].failure == "the run broke down"


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        ([task("a", arrivals="-")], "cannot come from standard input"),
        ([task("a", arrivals="sometimes")], "unknown arrivals"),
    ],
)
def test_tasks_that_cannot_run_are_refused(tasks, why):
    with pytest.raises(InputError, match=why):
        ElasticLoop(Whole(), SimulatedGpu(EventClock(), GPU, tasks), tasks, gpu=GPU, duration_s=1.0)


def test_records_are_told_as_they_are_made_and_deciding_is_counted():
    told = []
    tasks = [task("a", call(blocks=2))]
    gpu = SimulatedGpu(EventClock(), GPU, tasks, model=FREE)
    done = ElasticLoop(
        MultiStream(), gpu, tasks, gpu=GPU, duration_s=1e-3, supervision=Supervision(on_record=told.append)
    )
    done.run()
    assert [each for each in told if isinstance(each, LaunchRecord)] == list(done.launches)
    assert len(told) == len(done.launches) + len(done.requests)
    assert done.overhead.decisions > len(done.requests)
    assert 0 < done.overhead.longest_s <= done.overhead.decisions_s
    assert gpu.blocks == sum(each.blocks for each in gpu.residencies) == 2 * len(done.launches)


class _Fairest(Whole):
    """Launches a kernel of the task that had the least device time, when nothing runs."""

    def decide(self, view):
        ready = [each for each in view.tasks if each.arrived_ns or each.request is not None]
        if not ready or any(each.in_flight for each in view.tasks):
            return []
        least = min(ready, key=lambda each: each.served_s)
        return [LaunchPiece(least.task.name, least.left)]


def test_a_task_that_was_idle_has_no_claim_on_the_time_before(tmp_path):
    burst = tmp_path / "burst.csv"
    burst.write_text("arrival_s\n0\n" + "".join(f"0.00300{number}\n" for number in range(8)))
    early, late = task("early", call(blocks=2)), task("late", call(blocks=2), arrivals=f"trace:{burst}")
    turns = [each.launch.task for each in run(_Fairest(), early, late, duration_us=6000).launches]
    begun = turns.index("late", 10)
    assert [turns[begun : begun + 8].count(name) for name in ("early", "late")] == [4, 4]


def test_requests_at_a_rate_come_to_all_of_their_kernels(tmp_path):
    for arrivals in ("uniform:50/s", "poisson:50/s"):
        assert about_launches(task("a", call(), call(), arrivals=arrivals), GPU, duration_s=3.0) == 2 * 50 * 3
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s\n0\n1\n2\n")  # three requests in three seconds, over again
    assert about_launches(task("a", call(), arrivals=f"trace:{trace}"), GPU, duration_s=12.0) == pytest.approx(12)
    trace.write_text("arrival_s\n0\n0\n")  # once
    assert about_launches(task("a", call(), arrivals=f"trace:{trace}"), GPU, duration_s=12.0) == 2


def test_a_closed_loop_is_as_fast_as_its_kernels_follow_each_other():
    slow, quick = call(blocks=2, block_us=1000), call(blocks=2, block_us=0.1)
    assert about_launches(task("a", slow), GPU, duration_s=1.0) == pytest.approx(1000, rel=0.01)
    assert about_launches(task("a", quick), GPU, duration_s=1.0) == pytest.approx(1 / 7.125e-6, rel=0.01)  # by the host
    clients = task("a", slow, arrivals="closed:10000")
    assert about_launches(clients, GPU, duration_s=1.0) == pytest.approx(11_000, rel=0.01)
    assert about_launches(task("a", slow), None, duration_s=1e9) == 1


def test_more_than_can_be_kept_is_refused_critical_tasks_counted_once_more():
    rate = limits.limit("simulated_launches") // 3 + 1
    most = [
        task("often", call(), arrivals=f"uniform:{rate}/s", priority=1),
        task("seldom", call(), arrivals="uniform:1/s"),
    ]
    check_count(most, 1, GPU, duration_s=1.0)
    with pytest.raises(InputError, match=r"a run of 1 s by 2 policies has .* than the limit simulated_launches allows"):
        check_count(most, 2, GPU, duration_s=1.0)


def test_a_kernel_longer_than_any_runs_is_refused():
    with pytest.raises(InputError, match=r"kernel .* takes about 1e"):
        check_duration(call(block_us=1e19), GPU)
