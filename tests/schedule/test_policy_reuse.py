"""What this project's policy is for: shared weights, what stays, what comes in early, deadlines, and nobody starves."""

from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.schedule_contract import made_networks
from edgetune.serving.clock import EventClock
from edgetune.stages.schedule.loop import ScheduleLoop
from edgetune.stages.schedule.memory_accounting import MemoryAccounting
from edgetune.stages.schedule.network import Layer, LayeredNetwork, least_budget_bytes
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.policies.request_groups import Footprint, can_all_finish
from edgetune.stages.schedule.policies.request_order import PASSES
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.simulation import SimulatedTaskBackend
from edgetune.stages.schedule.state import Parallelism
from edgetune.stages.schedule.tasks import LayerTask, Machine
from edgetune.units import NS


def chain(name, *layers):
    """Return a network of layers in a row: bytes of weights, seconds to load, seconds to execute."""
    made = [
        Layer(f"{index}", "conv", weights, 1, 0, load_s, execute_s, (index - 1,) if index else ())
        for index, (weights, load_s, execute_s) in enumerate(layers)
    ]
    return LayeredNetwork(name, tuple(made))


def run(policy, networks, requests, *, budget_bytes, workers=2, streams=1):
    known = {network.name: network for network in networks}
    machine = Machine(cores=workers, streams=streams)
    backend = SimulatedTaskBackend(EventClock(), known, machine=machine)
    parallelism = Parallelism(workers, streams=streams)
    loop = ScheduleLoop(
        make_policy(policy), backend, known, requests, budget_bytes=budget_bytes, parallelism=parallelism
    )
    loop.run()
    return loop


def loads(loop):
    return [f"{task.network}{task.layer}" for task in loop.tasks if task.kind == "load"]


def answered_s(loop):
    return {record.request.number: record.end_ns / NS for record in loop.requests}


A = chain("a", (100, 2, 1), (200, 4, 1))


def test_weights_stay_after_the_queue_for_the_next_request():
    loop = run("reuse", [A], [Request(0, "a", 0), Request(1, "a", 100 * NS)], budget_bytes=1000)
    assert loads(loop) == ["a0", "a1"]
    assert answered_s(loop)[1] == 100 + 1 + 1


def test_the_next_layer_is_loaded_while_one_is_executed():
    loop = run("reuse", [A], [Request(0, "a", 0)], budget_bytes=1000)
    assert answered_s(loop)[0] == 2 + 4 + 1  # the first execution is hidden behind the second load


def test_where_weights_cannot_all_stay_a_queue_goes_through_each_layer_together():
    """Ten requests, room for one layer: each is loaded once, not ten times."""
    large = chain("l", (100, 5, 0.1), (110, 5, 0.1))
    requests = [Request(number, "l", 0) for number in range(10)]
    assert loads(run("reuse", [large], requests, budget_bytes=150)) == ["l0", "l1"]


def test_weights_that_are_used_last_leave_first():
    """Room for two of three: those of the network for which requests wait stay, those of the one nobody wants leave."""
    networks = [chain(name, (100, 3, 1)) for name in "abc"]
    requests = [Request(0, "a", 0), Request(1, "b", 10 * NS), Request(2, "c", 20 * NS), Request(3, "b", 20 * NS)]
    assert loads(run("reuse", networks, requests, budget_bytes=210)) == ["a0", "b0", "c0"]


def test_a_deadline_goes_before_what_is_shorter_only_where_it_would_be_missed():
    networks = [chain("s", (10, 1, 2)), chain("l", (10, 1, 4))]
    early = [Request(0, "s", 0), Request(1, "l", 0, 6 * NS)]
    late = [Request(0, "s", 0), Request(1, "l", 0, 60 * NS)]
    assert answered_s(run("reuse", networks, early, budget_bytes=1000, workers=1))[1] == 5
    assert answered_s(run("reuse", networks, late, budget_bytes=1000, workers=1))[0] == 3


def test_a_request_that_cannot_be_in_time_delays_none_that_can():
    networks = [chain("a", (10, 1, 9)), chain("b", (10, 1, 2))]
    requests = [Request(0, "a", 0, 5 * NS), Request(1, "b", 0, 6 * NS)]
    loop = run("reuse", networks, requests, budget_bytes=1000, workers=1)
    assert [record.met for record in sorted(loop.requests, key=lambda record: record.request.number)] == [False, True]


def test_a_request_is_passed_by_no_more_than_it_may_be():
    networks = [chain("s", (100, 0.01, 0.1)), chain("l", (100, 1, 50))]
    requests = [Request(0, "l", 0), *(Request(number, "s", number * NS // 20) for number in range(1, 400))]
    loop = run("reuse", networks, requests, budget_bytes=1000, workers=1)
    order = [record.request.number for record in sorted(loop.requests, key=lambda record: record.end_ns)]
    assert order.index(0) <= PASSES


def test_two_requests_are_executed_beside_each_other():
    flat = chain("f", (10, 1, 5))
    loop = run("reuse", [flat], [Request(0, "f", 0), Request(1, "f", 0)], budget_bytes=1000)
    assert set(answered_s(loop).values()) == {6.0}


@settings(deadline=None, max_examples=60)
@given(network=made_networks("a"), data=st.data())
def test_a_footprint_is_what_the_ledger_says(network, data):
    footprint, ledger = Footprint(network), MemoryAccounting({"a": network})
    executed, layers = 0, network.layers
    ready = [index for index, layer in enumerate(layers) if not layer.after]
    assert footprint.needed(0) == least_budget_bytes(network)
    while ready:
        index = data.draw(st.sampled_from(ready))
        task = LayerTask("execute", "a", "a", index, 0, 0, 0)
        ledger.begin(task)
        ledger.end(task)
        executed |= 1 << index
        assert footprint.held(executed) == ledger.held_bytes
        ready = [
            i
            for i, layer in enumerate(layers)
            if not executed >> i & 1 and all(executed >> before & 1 for before in layer.after)
        ]
    assert executed == footprint.all_executed


def test_a_request_that_needs_little_more_memory_finishes_first_and_frees_the_rest():
    assert can_all_finish([(40, 50), (30, 90)], 100)  # 30 are free: the first ends, then 70 are
    assert not can_all_finish([(40, 90), (30, 90)], 100)
    assert can_all_finish([], 0)


def test_in_an_overload_networks_do_not_take_turns_of_one_answer():
    """Room for one of two networks; the shorter one's requests pass the other's too often, again and again.

    Where the one that was passed too often went first only until it no longer was, there was a load for most answers.
    """
    networks = [chain("s", (100, 1, 0.1)), chain("l", (100, 1, 1))]
    requests = [Request(number, "sl"[number % 2], number * NS // 4) for number in range(1000)]
    loop = run("reuse", networks, requests, budget_bytes=150, workers=1)
    assert len(loads(loop)) < len(requests) / 10


def test_a_long_queue_with_deadlines_is_answered_in_time_where_that_is_possible():
    """Plans are not made anew at every change then; some that came last are due first."""
    requests = [Request(number, "a", 0, (600 if number < 290 else 40) * NS) for number in range(300)]
    loop = run("reuse", [A], requests, budget_bytes=1000, workers=1)
    late = [record.request.number for record in loop.requests if not record.met]
    assert len(late) <= 10
