"""The real GPU as a backend, on the fake: what is told of launches and when, what goes wrong, and whole runs."""

from dataclasses import replace

import numpy as np
import pytest
from cuda_scene import KERNELS, US, VALUES, Machine, launch, moments, task

from edgetune.stages.elastic.cuda.backend import stream_priorities
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.policies import POLICIES
from edgetune.stages.elastic.view import LaunchEvent

SHORT_S = 0.01


def kinds(found: list[LaunchEvent]) -> list[tuple[int, str]]:
    return [(moment.launch, moment.kind) for moment in found]


def test_times_are_those_of_the_gpu_however_late_one_asks() -> None:
    machine = Machine()
    with machine.backend(task("a")) as backend:
        backend.launch(launch(0))
        backend.launch(launch(1, call=1))
        machine.clock.sleep_s(0.5)
        found = {(moment.launch, moment.kind): moment.at_ns for moment in backend.wait(None)}
        real, uncertain_ns = machine.cuda.launches, backend.times.uncertain_ns
    assert uncertain_ns < 5 * US
    for number in (0, 1):
        assert abs(found[number, "ended"] - real[number].end_ns) <= uncertain_ns + 100  # a single's step
    assert found[1, "started"] >= found[0, "ended"] - 100
    assert found[0, "started"] <= real[0].start_ns


def test_times_stay_true_when_the_clocks_were_set_long_ago() -> None:
    """After ten minutes a step of milliseconds in single precision is 63 us; clocks are set anew before that."""
    machine = Machine()
    with machine.backend(task("a")) as backend:
        for number in range(3):
            machine.clock.sleep_s(611.23456)
            backend.launch(launch(number))
            ended_ns = moments(backend)[-1].at_ns
            assert abs(ended_ns - machine.cuda.launches[-1].end_ns) <= backend.times.uncertain_ns + 100


def test_tasks_run_side_by_side_by_priority() -> None:
    machine = Machine()
    with machine.backend(task("a"), task("b", 1), task("c", 2)) as backend:
        for number, name in enumerate("abc"):
            backend.launch(launch(number, name))
        found = moments(backend)
    assert kinds(found)[:3] == [(0, "started"), (1, "started"), (2, "started")]
    assert [each.priority for each in machine.cuda.launches] == [0, -4, -5]


def test_events_of_several_streams_are_reported_in_order_of_time() -> None:
    machine = Machine()
    with machine.backend(task("a"), task("b")) as backend:
        for number, name in enumerate("aabb"):
            backend.launch(launch(number, name))
        machine.clock.sleep_s(0.01)
        found = backend.wait(None)
    assert len(found) == 8
    assert [moment.at_ns for moment in found] == sorted(moment.at_ns for moment in found)
    assert {moment.launch for moment in found[:2]} == {0, 2}


def test_a_launch_waits_for_others_of_other_tasks() -> None:
    machine = Machine()
    with machine.backend(task("a"), task("b")) as backend:
        backend.launch(launch(0, "a"))
        backend.launch(launch(1, "b", after=(0,)))
        found = moments(backend)
    first, second = machine.cuda.launches
    assert second.start_ns >= first.end_ns
    at_ns = {(moment.launch, moment.kind): moment.at_ns for moment in found}
    assert abs(at_ns[1, "started"] - at_ns[0, "ended"]) < 100, "a step of single precision"


def test_waiting_ends_when_it_is_time_and_no_nap_makes_it_late() -> None:
    machine = Machine()
    with machine.backend(task("a")) as backend:
        until_ns = backend.now_ns() + 5_000_000
        assert backend.wait(until_ns) == ()
        assert 0 <= backend.now_ns() - until_ns < 10 * US


def test_behind_another_launch_its_end_is_the_start() -> None:
    machine = Machine()
    with machine.backend(task("a")) as backend:
        before = machine.cuda.calls.count("cuEventRecord")
        for number in range(5):
            backend.launch(launch(number))
        assert machine.cuda.calls.count("cuEventRecord") - before == 1 + 5
        at_ns = {(moment.launch, moment.kind): moment.at_ns for moment in moments(backend)}
    assert all(at_ns[number, "started"] == at_ns[number - 1, "ended"] for number in range(1, 5))


def test_a_launch_made_when_the_one_before_it_has_ended_unseen_does_not_start_in_the_past() -> None:
    machine = Machine()
    with machine.backend(task("a")) as backend:
        backend.launch(launch(0))
        machine.clock.sleep_s(0.01)
        launched_ns = machine.clock.now_ns()
        backend.launch(launch(1))
        at_ns = {(moment.launch, moment.kind): moment.at_ns for moment in moments(backend)}
    assert at_ns[0, "ended"] < launched_ns - 9_000_000
    assert launched_ns <= at_ns[1, "started"] <= machine.cuda.launches[1].start_ns


def test_a_launch_that_cuda_refuses_fails_and_the_next_one_does_not() -> None:
    machine = Machine()
    with machine.backend(task("a")) as backend:
        backend.launch(launch(0, blocks=2**31))
        backend.launch(launch(1))
        found = moments(backend)
    assert kinds(found) == [(0, "ended"), (1, "started"), (1, "ended")]
    assert found[0].failure is not None
    assert "CUDA_ERROR_INVALID_VALUE" in found[0].failure
    assert found[-1].failure is None


def test_a_kernel_that_fails_takes_everything_with_it() -> None:
    machine = Machine(kernels={**KERNELS, "double_it": replace(KERNELS["double_it"], fails=700)})
    with machine.backend(task("a"), task("b")) as backend:
        backend.launch(launch(0, "a"))
        backend.launch(launch(1, "b", call=1))
        backend.launch(launch(2, "a", call=1))
        found = moments(backend)
        assert backend.lost is not None
        backend.launch(launch(3, "b"))
        (after,) = backend.wait(None)
    failed = [moment for moment in [*found, after] if moment.failure is not None]
    assert {moment.launch for moment in failed} >= {2, 3}
    assert {moment.failure for moment in failed} == {
        "a kernel read or wrote memory that is not its own (CUDA error 700)"
    }
    assert [moment.launch for moment in [*found, after] if moment.kind == "ended"].count(3) == 1
    assert sorted(moment.launch for moment in found if moment.kind == "ended") == [0, 1, 2]


def test_a_kernel_that_fails_while_another_is_launched() -> None:
    machine = Machine(kernels={**KERNELS, "double_it": replace(KERNELS["double_it"], fails=719)})
    with machine.backend(task("a")) as backend:
        backend.launch(launch(0))
        machine.clock.sleep_s(0.01)
        backend.launch(launch(1))
        assert backend.lost
        found = moments(backend)
    assert sorted(kinds(found)) == [(0, "ended"), (1, "ended")]
    assert all(moment.failure == "a kernel failed (CUDA error 719)" for moment in found)


def test_a_kernel_that_never_ends_is_given_up() -> None:
    machine = Machine(kernels={**KERNELS, "double_it": replace(KERNELS["double_it"], duration_ns=None)})
    with machine.backend(task("a"), task("b"), hang_s=SHORT_S) as backend:
        backend.launch(launch(0, "a"))
        found = moments(backend)
        assert kinds(found) == [(0, "started"), (0, "ended")]
        assert found[-1].failure == "nothing has happened for 0.01 s, and kernel double_it is waited for"
        backend.launch(launch(1, "b"))
        assert [moment.failure for moment in backend.wait(None)] == [found[-1].failure]
    assert "cuMemFree" not in machine.cuda.calls, "it would not come back"


def test_a_kernel_that_hangs_is_found_though_others_are_launched_again_and_again() -> None:
    machine = Machine(kernels={**KERNELS, "double_it": replace(KERNELS["double_it"], duration_ns=None)})
    with machine.backend(task("a"), hang_s=SHORT_S) as backend:
        for number in range(100):
            backend.launch(launch(number))
            backend.wait(backend.now_ns() + 1_000_000)
            if backend.lost:
                break
        assert 9 <= number <= 12


def test_a_long_queue_is_no_hang() -> None:
    """Every kernel is shorter than the limit, all of them together are longer."""
    machine = Machine(kernels={**KERNELS, "double_it": replace(KERNELS["double_it"], duration_ns=6_000_000)})
    with machine.backend(task("a"), hang_s=SHORT_S) as backend:
        for number in range(4):
            backend.launch(launch(number))
        assert [moment.failure for moment in moments(backend)] == [None] * 8


@pytest.mark.parametrize(
    ("priorities", "lowest", "highest", "streams"),
    [
        ([0, 1], 0, -5, {0: 0, 1: -5}),
        ([0, 1, 2, 7], 0, -5, {0: 0, 1: -3, 2: -4, 7: -5}),
        ([0, 1, 2, 3], 0, -2, {0: 0, 1: -1, 2: -1, 3: -2}),
        ([0, 1], 0, 0, {0: 0, 1: 0}),  # a GPU without priorities
        ([0], 0, -5, {0: 0}),
    ],
)
def test_stream_priorities(priorities: list[int], lowest: int, highest: int, streams: dict[int, int]) -> None:
    tasks = [task(f"t{each}", each) for each in priorities]
    assert stream_priorities(tasks, lowest, highest) == streams


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_answers_on_it_and_the_answers_are_right(policy: str) -> None:
    machine = Machine()
    tasks = (task("a", 1, arrivals="uniform:500/s"), task("b"), task("c"))
    with machine.backend(*tasks) as backend:
        loop = ElasticLoop(POLICIES.find(policy)(), backend, tasks, gpu=machine.gpu, duration_s=0.02)
        loop.run()
        for name in "abc":
            assert np.array_equal(machine.programs[name].read("z"), 2 * VALUES["x"] + 1), name
    answered = {name: sum(each.task.name == name and each.outcome == "ok" for each in loop.requests) for name in "abc"}
    assert answered["a"] == 9
    assert answered["b"] > 0 or policy == "sequential"
    assert not [each for each in loop.launches if each.failure]
