"""Contract tests of every policy of ``schedule``, as a test class to subclass.

    class TestMine(SchedulePolicyContract):
        policy = "mine"

runs the policy of that name on random networks, requests, budgets and workers, on an event clock: chains and graphs,
all at once and one by one, with memory for a layer and for everything.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetune.serving.clock import EventClock
from edgetune.stages.schedule.loop import ScheduleLoop
from edgetune.stages.schedule.network import Layer, LayeredNetwork, LayerKind, least_budget_bytes
from edgetune.stages.schedule.policies import POLICIES, make_policy
from edgetune.stages.schedule.policies.policy import taken_by
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.simulation import SimulatedTaskBackend
from edgetune.stages.schedule.state import Parallelism
from edgetune.stages.schedule.tasks import Machine, TaskRecord

_MS = 1_000_000
_promise = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.differing_executors])
"""The health check warns about one test in several classes; here each policy has a class of its own."""


@dataclass(frozen=True, slots=True)
class ScheduleCase:
    """A random case: see ``loop.ScheduleLoop``."""

    networks: Mapping[str, LayeredNetwork]
    requests: tuple[Request, ...]
    budget_bytes: int
    workers: int
    cores: int
    streams: int


@st.composite
def made_networks(draw: st.DrawFn, name: str) -> LayeredNetwork:
    """Return a network of up to six layers, each after up to two others; some have no weights, some take no time."""
    layers: list[Layer] = []
    seconds = st.sampled_from([0.0, 0.001, 0.01, 0.1, 1.0])
    for index in range(draw(st.integers(1, 6))):
        chain = draw(st.booleans())
        before = {index - 1} if chain else set(draw(st.lists(st.integers(0, max(index - 1, 0)), max_size=2)))
        after = tuple(sorted(before)) if index else ()
        kind: LayerKind = draw(st.sampled_from(["conv", "fc", "other"]))
        weights, output, scratch = draw(st.integers(0, 1000)), draw(st.integers(0, 100)), draw(st.integers(0, 100))
        layers.append(Layer(f"{index}", kind, weights, output, scratch, draw(seconds), draw(seconds), after))
    return LayeredNetwork(name, tuple(layers), draw(st.integers(0, 50)))


@st.composite
def cases(draw: st.DrawFn) -> ScheduleCase:
    """Return a case whose memory suffices for each network, one layer at a time."""
    networks = {name: draw(made_networks(name)) for name in ["a", "b", "c"][: draw(st.integers(1, 3))]}
    requests, at_ns = [], 0
    for number in range(draw(st.integers(1, 10))):
        at_ns += draw(st.sampled_from([0, 0, _MS, 500 * _MS]))
        deadline_ns = draw(st.none() | st.integers(1, 3000).map(lambda ms: ms * _MS))
        after = tuple(sorted(draw(st.sets(st.integers(0, number - 1), max_size=1)))) if number else ()
        due_ns = None if deadline_ns is None else at_ns + deadline_ns
        requests.append(Request(number, draw(st.sampled_from(sorted(networks))), at_ns, due_ns, after))
    least = max(least_budget_bytes(network) for network in networks.values())
    budget_bytes = round(least * draw(st.sampled_from([1.0, 1.1, 1.5, 3.0, 10.0])))
    small = st.integers(1, 3)
    return ScheduleCase(networks, tuple(requests), max(budget_bytes, 1), draw(small), draw(small), draw(small))


def run(policy: str, case: ScheduleCase) -> ScheduleLoop:
    """Return the loop after the run."""
    made = make_policy(policy)
    networks = taken_by(made, case.networks)
    machine = Machine(cores=case.cores, streams=case.streams)
    backend = SimulatedTaskBackend(EventClock(), networks, machine=machine)
    parallelism = Parallelism(case.workers, case.cores, case.streams)
    loop = ScheduleLoop(
        made, backend, networks, case.requests, budget_bytes=case.budget_bytes, parallelism=parallelism
    )  # fmt: skip
    loop.run()
    return loop


class SchedulePolicyContract:
    """The contract tests of a policy. Subclass it in a test module and set ``policy``."""

    policy: ClassVar[str]
    """The policy's name in ``POLICIES``, with its variant if any."""
    keeps_budget: ClassVar[bool] = True
    """Whether it checks the free memory before it executes."""
    passes: ClassVar[int | None] = None
    """Largest number of later requests answered before a request; ``None`` for no bound."""

    def test_is_in_the_table_under_its_name(self) -> None:
        name = self.policy.partition(":")[0]
        assert POLICIES[name].name == name

    @_promise
    @given(case=cases())
    def test_a_run_keeps_what_every_policy_promises(self, case: ScheduleCase) -> None:
        loop, again = run(self.policy, case), run(self.policy, case)
        assert (loop.tasks, loop.requests) == (again.tasks, again.requests), "the same run goes another way"
        check_answers(loop, case, self.policy)
        check_weights(loop, case, self.policy)
        if self.keeps_budget:
            check_budget(loop, case)

    def test_a_request_for_a_large_network_is_passed_by_no_more_than_it_may(self) -> None:
        if self.passes is None:
            return
        large = LayeredNetwork("large", (Layer("0", "fc", 900, 1, 1, 1.0, 1.0, ()),))
        small = LayeredNetwork("small", (Layer("0", "fc", 200, 1, 1, 0.01, 0.03, ()),))
        flood = [Request(number, "small", number * 20 * _MS) for number in range(1, 600)]
        networks = {"large": large, "small": small}
        loop = run(self.policy, ScheduleCase(networks, (Request(0, "large", 0), *flood), 1000, 1, 1, 1))
        assert _answers(loop).index(0) <= self.passes

    def test_a_request_that_will_be_late_is_passed_by_no_more_than_it_may(self) -> None:
        if self.passes is None:
            return
        network = LayeredNetwork("a", (Layer("0", "fc", 100, 1, 1, 0.01, 0.03, ()),))
        in_time = [Request(n, "a", 0, 20 * _MS + n * 30 * _MS) for n in range(1, 400)]
        loop = run(self.policy, ScheduleCase({"a": network}, (Request(0, "a", 0, 1), *in_time), 1000, 1, 1, 1))
        assert _answers(loop).index(0) <= self.passes

    def test_requests_of_several_networks_are_passed_by_no_more_than_they_may_for_each(self) -> None:
        if self.passes is None:
            return
        layers = {"a": (1.0, 0.03), "b": (1.0, 0.05), "c": (1.0, 0.1)}
        networks = {n: LayeredNetwork(n, (Layer("0", "fc", 600, 1, 1, *took_s, ()),)) for n, took_s in layers.items()}
        requests = [Request(n, "aaaabc"[n % 6], n * 20 * _MS) for n in range(1000)]
        answers = _answers(run(self.policy, ScheduleCase(networks, tuple(requests), 1000, 1, 1, 1)))
        passed = [sum(later > n for later in answers[:place]) for place, n in enumerate(answers)]
        assert max(passed) <= self.passes * len(networks)


def check_answers(loop: ScheduleLoop, case: ScheduleCase, policy: str) -> None:
    """Check that every request is answered, and every layer executed once."""
    assert sorted(record.request.number for record in loop.requests) == list(range(len(case.requests)))
    assert {record.outcome for record in loop.requests} == {"ok"}
    networks = taken_by(make_policy(policy), case.networks)
    assert sorted((task.request, task.layer) for task in loop.tasks if task.kind == "execute") == [
        (request.number, layer) for request in case.requests for layer in range(len(networks[request.network].layers))
    ]


def check_weights(loop: ScheduleLoop, case: ScheduleCase, policy: str) -> None:
    """Check that layers run after those they read, while their weights are there; nothing is held in the end."""
    networks = taken_by(make_policy(policy), case.networks)
    executions = {(task.request, task.layer): task for task in loop.tasks if task.kind == "execute"}
    stays = _stays(loop.tasks)
    for task in executions.values():
        layer = networks[task.network].layers[task.layer]
        assert all(executions[task.request, before].end_ns <= task.start_ns for before in layer.after)
        there = [begin <= task.start_ns and task.end_ns <= end for begin, end in stays[task.copy, task.layer]]
        assert any(there) or not layer.weight_bytes
    assert sum(map(len, stays.values())) == sum(task.kind == "load" for task in loop.tasks)
    assert loop.state.memory.settled


def check_budget(loop: ScheduleLoop, case: ScheduleCase) -> None:
    """Check that memory is above the budget only where nothing else runs."""
    tasks = [task for task in loop.tasks if task.kind != "unload"]
    for task in tasks:
        if task.held_bytes > case.budget_bytes:
            assert not [other for other in tasks if other.start_ns < task.start_ns < other.end_ns]


def _answers(loop: ScheduleLoop) -> list[int]:
    """Return the requests in the order in which they were answered."""
    return [record.request.number for record in sorted(loop.requests, key=lambda record: record.end_ns)]


def _stays(tasks: list[TaskRecord]) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Return the intervals with weights in memory: from the end of each load to the next unload."""
    stays, since = defaultdict(list), dict[tuple[str, int], int]()
    for task in tasks:  # in the order in which they ended
        key = (task.copy, task.layer)
        if task.kind == "load":
            assert key not in since
            since[key] = task.end_ns
        elif task.kind == "unload":
            stays[key].append((since.pop(key), task.start_ns))
    assert not since
    return stays
