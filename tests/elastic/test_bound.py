"""The worst case of critical latency: above every simulated one without contention, and who may run for it to hold."""

from dataclasses import replace
from random import Random

import pytest

from contracts.elastic_histories import CALLS, GPUS
from edgetune.errors import InfeasibleError
from edgetune.serving.clock import EventClock
from edgetune.stages.elastic.bound import (
    admitted,
    describe_bound,
    latency_bound,
    measured_costs,
    preemptions,
    simulated_costs,
)
from edgetune.stages.elastic.gpu import Call, GpuTask, KernelSequence, Logical, blocks_resident
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.model import ASSUMED, GpuTimingModel, seen_by_policies
from edgetune.stages.elastic.pieces import PieceShape
from edgetune.stages.elastic.policies import make_policy
from edgetune.stages.elastic.policies.elastic import Elastic
from edgetune.stages.elastic.policies.simple import MultiStream
from edgetune.stages.elastic.simulated import SimulatedGpu

GPU = GPUS[2]
ROUNDING_S = 1e-9
"""Of each kernel's end: the clock is in whole nanoseconds."""


def network(name: str, rng: Random, gpu, kernels: int) -> KernelSequence:
    fitting = [
        call for call in CALLS if blocks_resident(gpu, call.resources.get(1, ASSUMED), call.logical.threads)
    ]  # fmt: skip
    return KernelSequence(
        name, tuple(replace(rng.choice(fitting), block_s=rng.uniform(2e-6, 2e-4)) for _ in range(kernels))
    )


def slowest_s(policy, tasks, gpu, model) -> float:
    loop = ElasticLoop(
        policy, SimulatedGpu(EventClock(), gpu, tasks, model=model), tasks, gpu=seen_by_policies(gpu, model),
        duration_s=0.1,
    )  # fmt: skip
    loop.run()
    return max((each.ended_ns - each.arrived_ns) / 1e9 for each in loop.requests if each.task.critical)


def test_no_simulated_latency_is_above_it_without_contention() -> None:
    """Multiprocessors and bandwidth are enough for all resident blocks, and requests come one at a time."""
    used, beyond_one = [], 0
    for seed in (0, 1, 2, 3, 25):
        rng = Random(seed)
        gpu = rng.choice(GPUS[1:])
        decision_s = rng.choice((0.0, 20e-6))
        model = GpuTimingModel(
            saturating_threads=gpu.threads_per_sm, bandwidth_sms=1.0, decision_s=decision_s, event_s=decision_s / 8
        )
        critical = GpuTask("critical", network("critical", rng, gpu, rng.randint(1, 5)), 1, "uniform:60/s")
        normal = [GpuTask(f"n{at}", network(f"n{at}", rng, gpu, rng.randint(1, 3))) for at in range(rng.randint(1, 3))]
        tasks, seen = (critical, *normal), seen_by_policies(gpu, model)
        alone_s = slowest_s(MultiStream(), (critical,), gpu, model)
        for name in ("elastic", "multistream"):
            policy = make_policy(name, tasks, seen)
            found = latency_bound(policy, tasks, seen, simulated_costs(gpu, model), alone_s=alone_s)
            assert found is not None
            bound, _ = found
            took_s = slowest_s(policy, tasks, gpu, model)
            assert took_s <= bound.latency_s + bound.kernels * ROUNDING_S
            used.append((took_s - alone_s) / bound.added_s)
            beyond_one += took_s > alone_s + bound.host_s + bound.longest.block_s
    assert max(used) > 0.5, "it is no bound of anything"
    assert beyond_one, "several kernels of a chain wait, not the first alone"


CALL = Call("k", Logical((49, 1, 1), (256, 1, 1)), block_s=10e-6, whole_s=15e-6, resources={1: ASSUMED, 2: ASSUMED})
SMALL = replace(CALL, kernel="a", logical=Logical((4, 1, 1), (256, 1, 1)))
CRITICAL = GpuTask("c", KernelSequence("c", (SMALL,) * 3), 1)
NORMAL = GpuTask("n", KernelSequence("n", (CALL,)))
TASKS = (CRITICAL, NORMAL)


def test_its_terms_are_the_blocks_that_may_be_in_the_way() -> None:
    costs = measured_costs(GPU)
    by_streams = latency_bound(MultiStream(), TASKS, GPU, costs, alone_s=1e-3)
    assert by_streams is not None
    assert by_streams[0].latency_s == pytest.approx(1e-3 + GPU.launch_s + 3 * 15e-6)  # all 49 blocks beside each other
    two = (*TASKS, replace(NORMAL, name="m", network=replace(NORMAL.network, calls=(CALL, CALL))))
    at_once = latency_bound(MultiStream(), two, GPU, costs, alone_s=1e-3)  # requests of three kernels
    assert at_once is not None
    assert at_once[0].host_s == pytest.approx(3 * GPU.launch_s)
    policy, slow = Elastic(), replace(GPU, launch_s=100e-6)
    shape = policy.beside(slow, CALL).choose(4, 256)
    assert shape.count > shape.blocks, "blocks go through several logical ones"
    (wait,) = preemptions(policy, TASKS, slow, costs.block_s)
    slower = 1.0 if shape.per_thread == 1 else 256 / (256 / shape.per_thread)
    assert wait.block_s == pytest.approx(-(-shape.count // shape.blocks) * slower * 10e-6)


def test_on_the_model_a_persistent_block_pays_its_turns() -> None:
    model = GpuTimingModel()
    block_s = simulated_costs(GPU, model).block_s
    assert block_s(CALL, PieceShape(7, 1, 7)) == pytest.approx(10e-6 + model.turn_s)
    assert block_s(CALL, PieceShape(12, 1, 4)) == pytest.approx(3 * (10e-6 + model.turn_s))


def test_blocks_of_a_piece_slow_each_other_down() -> None:
    model = GpuTimingModel()
    block_s = simulated_costs(GPU, model).block_s
    resident, per_sm = GPU.sm_count * 8, 8  # 2048 threads of 256
    alone_s, slower = 10e-6, per_sm * 256 / model.saturating_threads
    assert block_s(CALL, PieceShape(49, 1, 49)) == pytest.approx(alone_s * 7 * 256 / model.saturating_threads)
    many = replace(CALL, logical=Logical((500, 1, 1), (256, 1, 1)))
    assert block_s(many, PieceShape(500, 1, 500)) == pytest.approx(alone_s * slower)
    assert block_s(many, PieceShape(500, 1, resident)) == pytest.approx(8 * slower * alone_s, rel=0.03)
    assert measured_costs(GPU).block_s(replace(many, whole_s=500e-6), PieceShape(500, 1, 500)) == pytest.approx(
        resident / 500 * 500e-6
    )


def test_pieces_are_shortened_before_a_kernel_is_left_out() -> None:
    policy, slow = Elastic(), replace(GPU, launch_s=60e-6)
    costs = measured_costs(slow)
    tasks, why = admitted(policy, TASKS, slow, costs, alone_s=2e-3, within=0.1)  # 140 us over 3 kernels
    assert (tasks, why) == (list(TASKS), [])
    bound, _ = latency_bound(policy, TASKS, slow, costs, alone_s=2e-3)
    assert bound.added_s <= 0.2e-3
    assert policy.beside(slow, CALL).choose(4, 256).count < Elastic().beside(slow, CALL).choose(4, 256).count


def test_a_task_with_a_kernel_that_breaks_it_is_left_out() -> None:
    long = GpuTask("long", KernelSequence("long", (CALL, replace(CALL, kernel="slow", block_s=1e-3))))
    tasks, why = admitted(Elastic(), (*TASKS, long), GPU, measured_costs(GPU), alone_s=1e-3, within=0.1)
    assert [task.name for task in tasks] == ["c", "n"]
    assert why == [
        "long is left out: kernel slow of long may keep each of its 3 kernels waiting 1 ms, in all 3 ms of 1 ms alone"
    ]


def test_where_nobody_is_admitted_it_says_from_when_on() -> None:
    with pytest.raises(InfeasibleError, match=r"no best-effort task may run within 1% of") as caught:
        admitted(Elastic(), TASKS, GPU, measured_costs(GPU), alone_s=1e-3, within=0.01)
    assert caught.value.hint == "one may from --admit-within 5% on"
    admitted(Elastic(), TASKS, GPU, measured_costs(GPU), alone_s=1e-3, within=0.05)


def test_it_is_told_with_its_terms() -> None:
    bound, _ = latency_bound(MultiStream(), TASKS, GPU, measured_costs(GPU), alone_s=1e-3)
    told = describe_bound(bound, 1.02e-3)
    assert told == (
        "c takes at most 1.05 ms = alone 1 ms + host 5 µs + 3 kernels x 15 µs (block of k of n); "
        "the slowest took 1.02 ms"
    )
    assert describe_bound(bound, 1.2e-3).endswith("which is more: what the bound leaves out made it longer")
    assert "more" not in told
    assert describe_bound(bound, None).endswith("none was answered")
