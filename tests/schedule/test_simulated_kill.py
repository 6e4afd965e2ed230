"""The simulator knows what the kernel kills: memory of the process's own above its limit and swap."""

from dataclasses import replace

import pytest
from schedule_builder import MS, batch, chain

from edgetune.stages.schedule.machine import Machine
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.simulation import SimulationCase, simulate
from edgetune.stages.schedule.tasks import RequestRecord

WEIGHTS, OUTPUT = 80, 10
NETWORK = chain("a", {"weights": WEIGHTS, "output": OUTPUT, "load_ms": 2, "execute_ms": 3})
MAPPED = replace(NETWORK, layers=(replace(NETWORK.layers[0], mapped_load_s=0.0),))


def run(network, memory_bytes, swap_bytes, *, count=1, policy="bulk", **layer):
    network = replace(network, layers=(replace(network.layers[0], **layer),))
    machine = Machine(cores=1, memory_bytes=memory_bytes, swap_bytes=swap_bytes)
    return simulate(
        make_policy(policy), SimulationCase({"a": network}, batch(*["a"] * count), memory_bytes, 1, machine)
    )


@pytest.mark.parametrize(
    ("memory", "swap", "killed"),
    [(90, 0, False), (89, 0, True), (89, 1, False), (60, 29, True), (60, 30, False), (60, None, False)],
)
def test_memory_and_swap_are_the_most(memory, swap, killed):
    done = run(NETWORK, memory, swap)
    assert (done.killed is not None) is killed
    assert sum(isinstance(each, RequestRecord) for each in done.records) == (not killed)


def test_what_loading_takes_beside_weights_counts():
    assert run(NETWORK, 100, 0, policy="linear", load_scratch_bytes=30).killed is not None
    assert run(NETWORK, 110, 0, policy="linear", load_scratch_bytes=30).killed is None


def test_pages_of_files_leave_instead():
    case = SimulationCase({"a": MAPPED}, batch("a"), 90, 1, Machine(cores=1, memory_bytes=OUTPUT, swap_bytes=0))
    assert simulate(make_policy("linear"), case).killed is None
    less = replace(case, machine=replace(case.machine, memory_bytes=OUTPUT - 1))
    assert simulate(make_policy("linear"), less).killed is not None


def test_answers_before_the_end_are_kept():
    """The second request comes while the first is there: both networks at once are too much."""
    networks = {"a": NETWORK, "b": chain("b", {"weights": 200, "load_ms": 1, "execute_ms": 1})}
    machine = Machine(cores=1, memory_bytes=100, swap_bytes=0)
    done = simulate(make_policy("bulk"), SimulationCase(networks, batch("a", "b"), 100, 1, machine))
    assert done.killed is not None
    assert "200" in done.killed.message
    assert [(each.request.network, each.end_ns) for each in done.records if isinstance(each, RequestRecord)] == [
        ("a", 5 * MS)
    ]
