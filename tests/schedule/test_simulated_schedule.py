"""The simulated backend: storage, cores and memory are shared as closed forms say, and the kernel kills above them."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_builder import MS, batch, chain, layer, loop_of

from edgetune.serving.clock import EventClock
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.simulation import SimulatedTaskBackend, SimulationCase, simulate
from edgetune.stages.schedule.tasks import FITS, LayerTask, Machine, Paging, RequestRecord

NET = LayeredNetwork(
    "net",
    (
        layer(weights=1000, load_ms=10, execute_ms=20),
        layer(weights=1000, load_ms=30, execute_ms=40),
        layer(load_ms=0, execute_ms=0),
    ),
)


def backend_of(network=NET, **machine):
    options = {"cores": 4, **machine}
    return SimulatedTaskBackend(EventClock(), {network.name: network}, machine=Machine(**options))


def load(layer, copy="net"):
    return LayerTask("load", "net", copy, layer, 0, 0, 0)


def execute(layer, request=0):
    return LayerTask("execute", "net", "net", layer, request, 0, 0)


def drain(backend):
    """Everything that ends from now on: kind, layer, request, when."""
    found = []
    while over := backend.wait(None):
        found += [(done.task.kind, done.task.layer, done.task.request, done.end_ns / MS) for done in over]
    return found


def test_memory_beyond_the_machine_slows_every_task_until_released():
    paging = Paging(s_per_byte=20e-6, thrash=1)
    backend = backend_of(memory_bytes=1000, paging=paging)
    backend.start(load(0))
    assert drain(backend) == [("load", 0, 0, 10.0)], "all of it fits"
    backend.start(load(1))
    # 2000 held, 1000 fit: of 1000 touched half is gone, which costs 10 ms on 30
    assert drain(backend) == [("load", 1, 0, 50.0)]
    backend.start(execute(1))
    backend.wait(60 * MS)  # half of 1000 touched: 50 instead of 40, of which 10 have passed
    backend.unload("net", 0)
    assert drain(backend) == [("execute", 1, 0, 60.0 + 40 * 0.8)], "the other four fifths at full speed"


def test_the_share_that_is_gone_is_read_again():
    paging = Paging(s_per_byte=1e-6, thrash=1)
    assert paging.extra_s(100, 1000, 1000) == 0
    assert paging.extra_s(100, 2000, 1000) == pytest.approx(50e-6)
    assert Paging(1e-6, thrash=1.5).extra_s(100, 2000, 1000) == pytest.approx(75e-6)
    assert Paging(1e-6, thrash=3).extra_s(100, 2000, 1000) == pytest.approx(100e-6), "no more than all"
    assert paging.extra_s(0, 2000, 1000) == 0
    assert FITS.extra_s(10**9, 10**9, 1) == 0


def test_held_memory_may_exceed_the_accounts_of_the_loop():
    believed = chain("net", {"weights": 100, "load_ms": 10, "execute_ms": 10})
    real = replace(believed, layers=(replace(believed.layers[0], weight_bytes=150, load_s=0.03),))
    loop, backend = loop_of([believed], batch("net"), budget=100, real=[real])
    loop.run()
    assert [task.end_ns / MS for task in loop.tasks] == [30.0, 40.0, 40.0]
    assert (loop.state.memory.peak_bytes, backend.memory.peak_bytes) == (100, 150)


def test_unloading_keeps_the_loop_busy_and_what_ends_meanwhile_waits_for_it():
    slow = LayeredNetwork("net", (replace(NET.layers[0], unload_s=0.03), NET.layers[1]))
    backend = backend_of(slow)
    backend.start(load(0))
    backend.wait(None)
    backend.start(load(1))
    backend.wait(20 * MS)
    backend.unload("net", 0)
    assert (backend.now_ns(), backend.memory.held_bytes) == (50 * MS, 1000)
    assert [(done.end_ns / MS, backend.now_ns() / MS) for done in backend.wait(None)] == [(40.0, 50.0)]


def test_the_first_execution_of_a_layer_may_take_longer():
    lazy = LayeredNetwork("net", (replace(NET.layers[0], first_execute_s=0.05),))
    backend = backend_of(lazy)
    for request in range(2):
        backend.start(execute(0, request))
        backend.wait(None)
    assert backend.now_ns() == (50 + 20) * MS


def test_copies_of_weights_that_are_mapped_are_one_memory_and_are_read_once():
    mapped = LayeredNetwork("net", (replace(NET.layers[0], mapped_load_s=0.001, unload_s=0.002),))
    backend = backend_of(mapped)
    backend.start(load(0, "net/0"))
    backend.wait(4 * MS)
    backend.start(load(0, "net/1"))
    assert [end for *_, end in drain(backend)] == [10.0, 11.0], "the second waits for what the first reads"
    backend.start(load(0, "net/2"))
    assert [end for *_, end in drain(backend)] == [12.0], "all of it is there"
    assert backend.memory.held_bytes == 1000
    for copy, held in (("net/0", 1000), ("net/2", 1000), ("net/1", 0)):
        backend.unload(copy, 0)
        assert backend.memory.held_bytes == held
    assert backend.now_ns() == 14 * MS, "only the last gives memory back"


def test_pages_of_mapped_weights_are_only_read_again():
    layers = tuple(replace(each, mapped_load_s=0.001) for each in NET.layers[:2])
    backend = backend_of(LayeredNetwork("net", layers), memory_bytes=1000, paging=Paging(s_per_byte=1.0, thrash=1))
    for index in (0, 1):
        backend.start(load(index))
        backend.wait(None)
    begun_ns = backend.now_ns()
    backend.start(execute(1))
    backend.wait(None)
    assert backend.now_ns() - begun_ns == (40 + 30 / 2) * MS, "half of 2000 is gone: half of the load once more"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from([0.3, 1.0, 2.7, 9.1])), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_work_is_conserved(tasks, cores, streams):
    """However tasks share, none ends before its time alone, and storage and cores never stand still without reason."""
    layers = tuple(layer(weights=1, load_ms=ms, execute_ms=ms) for _, ms in tasks)
    backend = backend_of(LayeredNetwork("net", layers), cores=cores, streams=streams)
    for index, (loads, _) in enumerate(tasks):
        backend.start(load(index) if loads else execute(index, index))
    ends = {index: end for _, index, _, end in drain(backend)}
    for kind, parallel in ((True, streams), (False, cores)):
        alone = {index: ms for index, (loads, ms) in enumerate(tasks) if loads is kind}
        assert all(ends[index] >= ms - 1e-5 for index, ms in alone.items())
        if alone:
            last = max(ends[index] for index in alone)
            least = max(sum(alone.values()) / parallel, *alone.values())
            assert last >= least - 1e-5
            if len(set(alone.values())) == 1:
                assert last == pytest.approx(max(len(alone) / parallel, 1) * max(alone.values()), abs=1e-4)


def test_a_wait_that_ends_within_a_fraction_of_a_nanosecond_ends():
    """The clock counts whole nanoseconds: the rest of 0.0005 ns never passes."""
    mapped = LayeredNetwork("net", (replace(NET.layers[0], mapped_load_s=0.001), NET.layers[1]))
    backend = backend_of(mapped, streams=2, memory_bytes=1000, paging=Paging(s_per_byte=1e-14))
    backend.start(load(1))
    backend.start(load(0, "net/0"))  # half of 1000 touched is gone: 0.005 ns more in 10 ms, 0.0005 of them in the first
    backend.wait(1 * MS)
    backend.start(load(0, "net/1"))
    assert [end for *_, end in drain(backend)] == pytest.approx([10.0, 11.0, 30.0], abs=2e-6)


WEIGHTS, OUTPUT = 80, 10
NETWORK = chain("a", {"weights": WEIGHTS, "output": OUTPUT, "load_ms": 2, "execute_ms": 3})
MAPPED = replace(NETWORK, layers=(replace(NETWORK.layers[0], mapped_load_s=0.0),))


def killed_run(network, memory_bytes, swap_bytes, *, count=1, policy="bulk", **layer):
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
    done = killed_run(NETWORK, memory, swap)
    assert (done.killed is not None) is killed
    assert sum(isinstance(each, RequestRecord) for each in done.records) == (not killed)


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
