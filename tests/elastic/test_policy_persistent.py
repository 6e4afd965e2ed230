"""The policy ``persistent``, and persistent launches on the simulated GPU and in the loop."""

from dataclasses import replace
from random import Random

import pytest
from kernel_scenes import FREE, GPU, US, Says, Scene, call, task

from contracts.elastic_contract import ElasticPolicyContract
from contracts.elastic_histories import made_case, play
from edgetune.errors import EdgetuneError
from edgetune.serving.clock import EventClock
from edgetune.stages.elastic.gpu import GpuTask
from edgetune.stages.elastic.kernel import NO_QUOTA
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.policies.elastic import Persistent
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stages.elastic.view import (
    Decision,
    ElasticPolicy,
    Launch,
    LaunchChain,
    LaunchPiece,
    SetQuota,
    TaskState,
    View,
)

LONG = call(blocks=64)
"""Of 128 threads, so that 8 are on each of the two multiprocessors: four waves, 100 us a block alone."""
WAVE = 16
SMALL = call(blocks=1, threads=64)
BIG = call(blocks=2, threads=1024)


class TestPersistent(ElasticPolicyContract):
    policy = "persistent"
    at_once = True
    keeps_to_leftovers = True


# --- on the simulated GPU


def ends(scene: Scene) -> dict[int, float]:
    return {number: at_us for (number, kind), at_us in scene.run().items() if kind == "ended"}


def test_a_persistent_launch_takes_as_long_as_its_waves() -> None:
    scene, plain = Scene(0), Scene(0)
    scene.launch(LONG, blocks=WAVE, persistent=True)
    plain.launch(LONG, blocks=64)
    assert ends(scene)[0] == pytest.approx(ends(plain)[0], rel=0.01)
    assert scene.gpu.blocks == WAVE


def test_blocks_above_the_quota_leave_after_one_logical_block_and_come_back() -> None:
    scene = Scene(0)
    scene.launch(LONG, blocks=WAVE, persistent=True)
    scene.until(20)
    scene.gpu.set_quota("t0", 0)
    scene.until(5000)
    assert scene.gpu.blocks == WAVE
    scene.gpu.set_quota("t0", NO_QUOTA)
    ended_us = ends(scene)[0]
    assert ended_us > 5000
    assert scene.gpu.blocks == 2 * WAVE


def test_the_last_logical_blocks_go_to_different_multiprocessors() -> None:
    scene = Scene(0)
    scene.launch(call(blocks=WAVE + 2, flop=1e6), blocks=WAVE, persistent=True)
    scene.run()
    ends_us = sorted(each.end_ns / US for each in scene.gpu.residencies)
    assert {each.sm for each in scene.gpu.residencies} == {0, 1}
    assert ends_us[-1] == pytest.approx(ends_us[-2])


def test_the_quota_leaves_room_for_a_critical_kernel() -> None:
    scene = Scene(0, 1)
    scene.launch(LONG, blocks=WAVE, persistent=True)
    scene.until(20)
    critical = scene.launch(BIG, stream=1)
    without_us = scene.run()[critical, "ended"]
    scene = Scene(0, 1)
    scene.launch(LONG, blocks=WAVE, persistent=True)
    scene.until(20)
    scene.gpu.set_quota("t0", 0)
    critical = scene.launch(BIG, stream=1)
    found = {}
    while (critical, "ended") not in found:
        found |= {(each.launch, each.kind): each.at_ns / US for each in scene.gpu.wait(None)}
    assert found[critical, "ended"] < 0.7 * without_us


def test_launches_behind_a_persistent_one_wait_until_all_its_blocks_are_done() -> None:
    scene = Scene(0)
    scene.launch(LONG, blocks=WAVE, persistent=True)
    behind = scene.launch(SMALL)
    scene.until(20)
    scene.gpu.set_quota("t0", 3)
    scene.until(500)
    scene.gpu.set_quota("t0", NO_QUOTA)
    times = scene.run()
    assert times[behind, "started"] >= times[0, "ended"]


def test_a_quota_of_some_blocks_is_slower_in_proportion() -> None:
    def took_us(quota: int) -> float:
        scene = Scene(0)
        scene.gpu.set_quota("t0", quota)
        scene.until(20)
        scene.launch(LONG, blocks=WAVE, persistent=True)
        return ends(scene)[0]

    assert took_us(2) > 2 * took_us(WAVE)
    assert took_us(WAVE) == pytest.approx(took_us(NO_QUOTA))


# --- in the loop


def ran(policy: ElasticPolicy, *tasks: GpuTask, duration_s: float = 0.05) -> ElasticLoop:
    gpu = SimulatedGpu(EventClock(), GPU, tasks, model=FREE)
    loop = ElasticLoop(policy, gpu, tasks, gpu=GPU, duration_s=duration_s)
    loop.run()
    return loop


def persistent_piece(count: int = 64) -> LaunchPiece:
    return LaunchPiece("normal", count, 1, WAVE, persistent=True)


def test_the_loop_waits_for_a_launch_whose_quota_was_zero_when_time_was_up() -> None:
    loop = ran(Says(persistent_piece(), SetQuota("normal", 0)), task("normal", LONG), duration_s=0.001)
    (record,) = loop.launches
    assert record.failure is None
    assert record.ended_ns > 1_000_000


@pytest.mark.parametrize(
    ("piece", "why"),
    [
        (persistent_piece(63), "takes all of its 64 blocks"),
        (replace(persistent_piece(), per_thread=2), "a persistent form that does not exist"),
        (replace(persistent_piece(), blocks=None), "a persistent form that does not exist"),
    ],
)
def test_impossible_persistent_pieces_are_refused(piece: LaunchPiece, why: str) -> None:
    with pytest.raises(EdgetuneError, match=why):
        ran(Says(piece), task("normal", LONG))


def test_a_kernel_without_a_persistent_form_is_refused() -> None:
    with pytest.raises(EdgetuneError, match="a persistent form that does not exist"):
        ran(Says(persistent_piece()), task("normal", replace(LONG, persistent=False)))


# --- what it decides


def state(of: GpuTask, **more: object) -> TaskState:
    waiting = [0] if not more.get("in_flight") and "arrived_ns" not in more else []
    return TaskState(of, **{"arrived_ns": waiting, "left": of.network.calls[0].logical.blocks, **more})  # type: ignore[arg-type]


def decided(*states: TaskState, resident: tuple[Launch, ...] = ()) -> list:
    return list(Persistent().decide(View(0, GPU, list(states), list(resident))))


NORMAL, URGENT = task("normal", LONG), task("urgent", BIG, priority=1)
RUNNING = Launch(0, "normal", 0, 0, LONG, 0, 64, 1, WAVE, persistent=True)


def test_alone_a_kernel_of_several_waves_is_launched_once() -> None:
    assert decided(state(NORMAL)) == [persistent_piece()]


@pytest.mark.parametrize("changed", [call(blocks=WAVE), replace(LONG, persistent=False), replace(LONG, elastic=False)])
def test_other_kernels_are_launched_as_elastic_does(changed) -> None:
    (decision,) = decided(state(task("normal", changed)))
    assert isinstance(decision, LaunchPiece)
    assert not decision.persistent


def test_a_critical_request_lowers_the_quota_and_is_launched() -> None:
    found = decided(state(NORMAL, in_flight=[RUNNING]), state(URGENT))
    assert found == [SetQuota("normal", 0), LaunchChain("urgent")]


def test_the_quota_follows_the_critical_kernel_that_runs() -> None:
    beside = Launch(1, "urgent", 0, 0, SMALL, 0, 1)
    urgent = task("urgent", SMALL, priority=1)
    (quota,) = decided(
        state(NORMAL, in_flight=[RUNNING], quota=0), state(urgent, in_flight=[beside]), resident=(RUNNING, beside)
    )
    assert quota == SetQuota("normal", 1)
    assert GPU.sm_count - 1 == 1, "one multiprocessor has no critical block"


@pytest.mark.parametrize(("place", "quota"), [(0, 0), (1, 0), (2, 1)])
def test_kernels_behind_the_critical_one_that_runs_count_too(place: int, quota: int) -> None:
    urgent = task("urgent", SMALL, BIG, SMALL, priority=1)
    chain = [Launch(1 + at, "urgent", 0, at, urgent.network.calls[at], 0, 1) for at in range(place, 3)]
    states = state(NORMAL, in_flight=[RUNNING]), state(urgent, in_flight=chain)
    assert decided(*states, resident=(RUNNING, chain[0])) == [SetQuota("normal", quota)]


def test_without_critical_work_all_blocks_come_back() -> None:
    assert decided(state(NORMAL, in_flight=[RUNNING], quota=0), state(URGENT, arrived_ns=[]))[0] == SetQuota(
        "normal", NO_QUOTA
    )


def test_in_histories_it_launches_persistent_forms_and_changes_quotas() -> None:
    launches: list[Launch] = []
    decisions: list[Decision] = []
    for seed in range(60):
        case = made_case(Random(seed))
        launches += play(Persistent(), case, lambda _, each: decisions.extend(each))
    assert sum(each.persistent for each in launches) > 20
    assert sum(isinstance(each, SetQuota) for each in decisions) > 10
