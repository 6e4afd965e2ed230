"""What is held for how long, networks as one layer, and tasks that are ready, in two orders."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedule_builder import graphs, layer

from edgetune.stages.schedule.memory_accounting import MemoryAccounting
from edgetune.stages.schedule.network import LayeredNetwork, as_one_layer, least_budget_bytes
from edgetune.stages.schedule.request_state import ReadySet
from edgetune.stages.schedule.tasks import LayerTask

#   0 -> 1 -> 3,  0 -> 2 (an output of the network, as 3 is), 4 reads the input too
GRAPH = LayeredNetwork(
    "g",
    (
        layer(weights=1000, output=100, scratch=1),
        layer(weights=2000, output=200, scratch=2, after=(0,)),
        layer(weights=0, output=300, scratch=3, after=(0,)),
        layer(weights=4000, output=400, scratch=4, after=(1,)),
        layer(output=500),
    ),
    input_bytes=7,
)


def task(kind, index, request=0, copy="g"):
    return LayerTask(kind, "g", copy, index, request, 0, 0)


def kinds(ledger):
    return tuple(ledger.by_kind[kind] for kind in ("weights", "activations", "scratch", "inputs"))


def test_each_kind_is_held_as_long_as_it_is_needed():
    ledger = MemoryAccounting({"g": GRAPH})
    ledger.begin(task("load", 0))
    assert kinds(ledger) == (1000, 0, 0, 0)
    seen = []
    for index in (0, 1, 2, 4, 3):
        ledger.begin(task("execute", index))
        seen.append(kinds(ledger)[1:])
        ledger.end(task("execute", index))
    assert seen == [
        (100, 1, 7),
        (100 + 200, 2, 7),
        (100 + 200 + 300, 3, 7),  # the first output is read for the last time, the input still to be
        (200 + 300 + 500, 0, 7),
        (200 + 300 + 500 + 400, 4, 0),
    ]
    assert kinds(ledger) == (1000, 300 + 500 + 400, 0, 0), (
        "outputs that nobody reads stay until the answer is handed over"
    )
    ledger.close(0)
    assert not ledger.settled
    ledger.unload("g", 0)
    assert ledger.settled
    assert ledger.peak_bytes == 1000 + 200 + 300 + 500 + 400 + 4


def test_mapped_copies_count_once_until_the_last_has_left():
    ledger = MemoryAccounting({"g": GRAPH}, maps_weights=True)
    assert ledger.load_bytes("g#2", "g", 0) == 1000
    for copy in ("g#0", "g#1"):
        ledger.begin(task("load", 0, copy=copy))
    assert (kinds(ledger)[0], ledger.load_bytes("g#2", "g", 0), ledger.load_bytes("g#2", "g", 1)) == (1000, 0, 2000)
    assert ledger.freed_bytes([("g#0", 0)]) == 0, "nothing is free once it has left: the other is there"
    ledger.unload("g#0", 0)
    assert (kinds(ledger)[0], ledger.freed_bytes([("g#1", 0)])) == (1000, 1000)
    with pytest.raises(ValueError, match="are not held"):
        ledger.unload("g#0", 0)
    ledger.unload("g#1", 0)
    assert ledger.settled
    assert ledger.load_bytes("g#2", "g", 0) == 1000


def test_contradictions_to_held_memory_are_errors():
    ledger = MemoryAccounting({"g": GRAPH})
    ledger.begin(task("load", 0))
    with pytest.raises(ValueError, match="layer 0 of g are held already"):
        ledger.begin(task("load", 0))
    with pytest.raises(ValueError, match="layer 1 of g are not held"):
        ledger.unload("g", 1)
    with pytest.raises(ValueError, match="layer 0 of request 0 is not being executed"):
        ledger.end(task("execute", 0))
    ledger.begin(task("execute", 0))
    ledger.end(task("execute", 0))
    with pytest.raises(ValueError, match="is not being executed"):
        ledger.end(task("execute", 0))
    with pytest.raises(ValueError, match="layer 0 of request 0 has been executed already"):
        ledger.begin(task("execute", 0))
    ledger.close(3)
    assert ledger.held_bytes == 1000 + 100 + 7


def test_weights_that_layers_share_count_once_and_leave_with_the_last_of_them():
    layers = [replace(layer(weights=4000 + own), shared=(("tied", 4000),)) for own in (0, 0, 500)]
    network = LayeredNetwork("g", (*layers, layer(weights=70)))
    assert (network.weight_bytes, as_one_layer(network).weight_bytes) == (4570, 4570)
    ledger = MemoryAccounting({"g": network})
    asked = []
    for index in range(4):
        asked.append(ledger.load_bytes("g", "g", index))
        ledger.begin(task("load", index))
    assert (asked, ledger.held_bytes) == ([4000, 0, 500, 70], 4570)
    assert [ledger.freed_bytes([("g", index)]) for index in range(4)] == [0, 0, 500, 70]
    assert ledger.freed_bytes([("g", 0), ("g", 1), ("g", 2)]) == 4500
    for index, left in enumerate((4570, 4570, 70, 0)):
        ledger.unload("g", index)
        assert ledger.held_bytes == left
    assert ledger.settled


@given(graphs("net"))
def test_a_whole_network_needs_at_least_the_memory_of_its_layers(network):
    whole = as_one_layer(network)
    (only,) = whole.layers
    read = {producer for each in network.layers for producer in each.after}
    assert only.output_bytes == sum(each.output_bytes for i, each in enumerate(network.layers) if i not in read)
    assert only.weight_bytes == network.weight_bytes
    assert only.scratch_bytes >= 0
    assert least_budget_bytes(network) <= least_budget_bytes(whole)
    assert as_one_layer(whole) == whole


PLACES = st.tuples(st.integers(0, 30), st.integers(0, 5))


def load_of(place, size):
    return LayerTask("load", "n", "n", place[1], place[0], size, 0)


def check_ready(ready, model):
    tasks = sorted(model.values(), key=lambda each: (each.request, each.layer))
    assert list(ready) == tasks
    assert len(ready) == len(tasks)
    assert ready.first == (tasks[0] if tasks else None)
    assert ready.smallest == min(tasks, key=lambda each: each.bytes, default=None)


@given(st.lists(st.tuples(st.dictionaries(PLACES, st.integers(0, 4), max_size=40), st.sets(PLACES, max_size=120))))
def test_both_orders_hold_whatever_comes_and_goes(steps):
    ready, model = ReadySet(), {}
    for coming, going in steps:
        new = [load_of(place, size) for place, size in coming.items() if place not in model]
        ready.add_all(new)
        model.update({(each.request, each.layer): each for each in new})
        check_ready(ready, model)
        gone = [model.pop(place) for place in sorted(going) if place in model]
        ready.remove_all(gone)
        check_ready(ready, model)
