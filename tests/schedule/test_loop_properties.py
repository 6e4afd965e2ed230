"""Whatever the networks, requests and faults: every task once, in order, within memory, and everything returned."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_builder import MS, FirstCome, graphs, loop_of

from edgetune.stages.schedule.network import least_budget_bytes
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.tasks import Machine


@st.composite
def scenarios(draw):
    networks = [draw(graphs(name)) for name in ("a", "b")[: draw(st.integers(1, 2))]]
    names = st.sampled_from([network.name for network in networks])
    gaps = st.sampled_from([0, 0, 1, 7 * MS])
    at_ns, requests = 0, []
    for number in range(draw(st.integers(1, 7))):
        at_ns += draw(gaps)
        after = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number and draw(st.booleans()) else set()
        requests.append(Request(number, draw(names), at_ns, after=tuple(sorted(after))))
    return networks, requests


def executions(loop):
    """Every execution."""
    return [task for task in loop.tasks if task.kind == "execute"]


def spans(loop, copy, layer):
    """From when until when weights were resident."""
    of = [task for task in loop.tasks if (task.copy, task.layer) == (copy, layer)]
    loaded = [task.end_ns for task in of if task.kind == "load"]
    unloaded = [task.start_ns for task in of if task.kind == "unload"]
    return list(zip(loaded, unloaded, strict=True))


def check_order(loop, networks):
    """Executions come after what they read, and while their weights are resident."""
    known = {network.name: network for network in networks}
    ended = {(task.request, task.layer): task.end_ns for task in executions(loop)}
    for task in executions(loop):
        layer = known[task.network].layers[task.layer]
        assert all(ended[task.request, producer] <= task.start_ns for producer in layer.after)
        if layer.weight_bytes:
            resident = spans(loop, task.copy, task.layer)
            assert any(loaded <= task.start_ns and task.end_ns <= unloaded for loaded, unloaded in resident)


@settings(max_examples=150, deadline=None)
@given(scenarios(), st.integers(1, 3), st.booleans(), st.integers(1, 2))
def test_everything_once_in_order_and_returned(scenario, workers, shares_weights, cores):
    networks, requests = scenario
    policy = FirstCome(shares_weights=shares_weights)
    loop, backend = loop_of(networks, requests, workers=workers, policy=policy, machine=Machine(cores=cores))
    loop.run()
    assert sorted(each.request.number for each in loop.requests) == [request.number for request in requests]
    assert {each.outcome for each in loop.requests} == {"ok"}
    executed = sorted((task.request, task.layer) for task in executions(loop))
    counts = {network.name: len(network.layers) for network in networks}
    assert executed == [(request.number, i) for request in requests for i in range(counts[request.network])]
    check_order(loop, networks)
    assert set(loop.state.memory.by_kind.values()) == {0}
    assert backend.memory.settled
    assert backend.memory.peak_bytes == loop.state.memory.peak_bytes
    answered = {each.request.number: each.end_ns for each in loop.requests}
    for task in executions(loop):
        assert all(answered[before] <= task.start_ns for before in requests[task.request].after)


@settings(max_examples=100, deadline=None)
@given(scenarios(), st.integers(1, 3))
def test_one_request_at_a_time_keeps_within_the_least_budget(scenario, workers):
    """The test's policy is in order of layers here, as what is the least that a network needs is defined."""

    class InOrder(FirstCome):
        def choose(self, view):
            spent = view.unwanted()
            if spent is not None:
                return spent
            if view.running or not view.requests:
                return None
            standing = next(iter(view.requests.values()))
            layer = next(i for i in range(len(standing.network.layers)) if not standing.executed(i))
            return next(task for task in [*standing.executions(), *standing.loads()] if task.layer == layer)

    networks, requests = scenario
    used = {request.network for request in requests}
    budget = max(least_budget_bytes(network) for network in networks if network.name in used)
    loop, _ = loop_of(networks, requests, workers=workers, budget=budget, policy=InOrder(shares_weights=False))
    loop.run()
    assert {each.outcome for each in loop.requests} == {"ok"}
    assert loop.state.memory.peak_bytes == budget, "what is the least that works is what is held at most"


@settings(max_examples=150, deadline=None)
@given(scenarios(), st.integers(1, 3), st.booleans(), st.data())
def test_faults_take_only_their_own_requests_and_all_memory_comes_back(scenario, workers, shares_weights, data):
    networks, requests = scenario
    kinds = st.tuples(st.sampled_from(["load", "execute"]), st.integers(0, len(requests) - 1), st.integers(0, 5))
    broken = data.draw(st.sets(kinds, max_size=3))

    def fault(task):
        return "broke" if (task.kind, task.request, task.layer) in broken else None

    policy = FirstCome(shares_weights=shares_weights)
    loop, backend = loop_of(networks, requests, workers=workers, policy=policy, fault=fault)
    loop.run()
    assert sorted(each.request.number for each in loop.requests) == [request.number for request in requests]
    assert loop.state.memory.settled
    assert backend.memory.settled
    outcomes = {each.request.number: each for each in loop.requests}
    failed_tasks = [task for task in loop.tasks if task.failure]
    for number, record in outcomes.items():
        own = [task for task in failed_tasks if task.request == number]
        shared = [task for task in failed_tasks if task.kind == "load" and task.copy == record.request.network]
        before = [outcomes[other].outcome for other in record.request.after]
        if record.outcome == "failed":
            assert own or shared or "failed" in before
        else:
            assert not own
            assert "failed" not in before


@settings(max_examples=60, deadline=None)
@given(scenarios(), st.integers(1, 3), st.integers(0, 40), st.booleans())
def test_a_stop_at_any_time_leaves_nothing_behind(scenario, workers, stop_ms, shares_weights):
    networks, requests = scenario
    policy = FirstCome(shares_weights=shares_weights)
    seen = []
    loop, backend = loop_of(
        networks, requests, workers=workers, policy=policy, stopped=lambda: seen[0].now_ns() >= stop_ms * MS
    )  # fmt: skip
    seen.append(backend)
    loop.run()
    assert loop.state.memory.settled
    assert backend.memory.settled
    numbers = [each.request.number for each in loop.requests]
    assert len(numbers) == len(set(numbers))
    came = {request.number for request in requests if request.arrival_ns < stop_ms * MS}
    assert came <= set(numbers)


class Auditor(FirstCome):
    """Compares everything that it is shown with what follows from first principles."""

    def __init__(self, networks, *, faulty, **options):
        super().__init__(**options)
        self._networks = {network.name: network for network in networks}
        self._faulty = faulty

    def choose(self, view):
        if not self._faulty:  # what a request that failed still holds is not shown
            self._check_held(view)
        self._check_requests(view)
        self._check_ready(view)
        self._check_unloads(view)
        return super().choose(view)

    def _check_held(self, view):
        unloads = [*view.unloads(), *[task for task in view.running if task.kind == "load"]]
        running = [task for task in view.running if task.kind == "execute"]
        parts = {}
        for copy, index in {(task.copy, task.layer) for task in [*unloads, *running]}:
            layer = self._networks[copy.split("#")[0]].layers[index]
            shared = dict(layer.shared)
            parts |= {(copy, index): layer.weight_bytes - sum(shared.values())}
            parts |= {(copy, file): size for file, size in shared.items()}
        held = sum(parts.values())
        for standing in view.requests.values():
            network = self._networks[standing.request.network]
            executing = {task.layer for task in running if task.request == standing.request.number}
            held += sum(network.layers[i].scratch_bytes for i in executing)
            begun = executing | {i for i in range(len(network.layers)) if standing.executed(i)}
            for i in begun:
                readers = [j for j, layer in enumerate(network.layers) if i in layer.after]
                if not readers or not all(standing.executed(j) for j in readers):
                    held += network.layers[i].output_bytes
            sources = [i for i, layer in enumerate(network.layers) if not layer.after]
            if begun and not all(standing.executed(i) for i in sources):
                held += network.input_bytes
        assert view.held_bytes == held
        assert view.free_bytes == view.budget_bytes - held

    def _check_requests(self, view):
        assert list(view.requests) == sorted(view.requests)
        assert view.idle_workers == view.workers - len(view.running)
        for standing in view.requests.values():
            layers = self._networks[standing.request.network].layers
            undone = [i for i in range(len(layers)) if not standing.executed(i)]
            absent = [i for i in undone if not view.resident(standing.copy, i)]
            left_s = sum(layers[i].execute_s for i in undone) + sum(layers[i].load_s for i in absent)
            assert standing.left_ns == pytest.approx(left_s * 1e9, abs=1)
            assert standing.left == len(undone)
            running = {(task.kind, task.copy, task.layer) for task in view.running}
            loads = [i for i in absent if ("load", standing.copy, i) not in running]
            assert [task.layer for task in standing.loads()] == loads
            number = standing.request.number
            executing = {task.layer for task in view.running if (task.kind, task.request) == ("execute", number)}
            ready = [
                i
                for i in undone
                if i not in executing and i not in absent and all(standing.executed(p) for p in layers[i].after)
            ]
            assert [task.layer for task in standing.executions()] == ready

    def _check_ready(self, view):
        standings = view.requests.values()
        assert list(view.executions) == [task for standing in standings for task in standing.executions()]
        assert set(view.loads) == {task for standing in standings for task in standing.loads()}
        for ready in (view.executions, view.loads):
            tasks = list(ready)
            assert len(ready) == len(tasks)
            assert tasks == sorted(tasks, key=lambda task: (task.request, task.layer))
            assert ready.first == (tasks[0] if tasks else None)
            assert ready.smallest == min(tasks, key=lambda task: task.bytes, default=None)
        for task in view.loads:
            assert task.request == view.wanted_by(task.copy, task.layer)

    def _check_unloads(self, view):
        used = {(task.copy, task.layer) for task in view.running if task.kind == "execute"}
        for task in view.unloads():
            assert view.resident(task.copy, task.layer)
            assert (task.copy, task.layer) not in used
            wanting = [
                number
                for number, standing in view.requests.items()
                if standing.copy == task.copy and not standing.executed(task.layer)
            ]
            assert task.request == min(wanting, default=-1) == view.wanted_by(task.copy, task.layer)
        unwanted = [task for task in view.unloads() if task.request == -1]
        assert view.unwanted() == (unwanted[0] if unwanted else None)
        assert not view.resident("no such copy", 0)


@settings(max_examples=150, deadline=None)
@given(scenarios(), st.integers(1, 3), st.booleans(), st.sampled_from([1.0, 1.5, 4.0]), st.data())
def test_the_view_of_policies_follows_from_the_events(scenario, workers, shares_weights, room, data):
    networks, requests = scenario
    budget = round(max(least_budget_bytes(network) for network in networks) * room)
    broken = data.draw(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 5)), max_size=1))
    loop, _ = loop_of(
        networks,
        requests,
        workers=workers,
        policy=Auditor(networks, faulty=bool(broken), shares_weights=shares_weights),
        budget=max(budget, 1),
        fault=lambda task: "broke" if (task.request, task.layer) in broken else None,
    )
    loop.run()
