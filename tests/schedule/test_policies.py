"""Every policy keeps the promises of its kind, and published ones do what can be written down."""

import pytest

from contracts.schedule_contract import SchedulePolicyContract
from edgetune.serving.clock import EventClock
from edgetune.stages.schedule.loop import ScheduleLoop
from edgetune.stages.schedule.network import Layer, LayeredNetwork
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.policies.policy import taken_by
from edgetune.stages.schedule.policies.request_order import PASSES
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.simulation import SimulatedTaskBackend
from edgetune.stages.schedule.state import Parallelism
from edgetune.stages.schedule.tasks import Machine
from edgetune.units import NS

ALONE = {"keeps_budget": False}  # on the machine it may be larger than the budget, or nothing looks at it
for words, promises in {
    "bulk": {**ALONE, "passes": 0}, "linear": {"passes": 0}, "deepeye": {"passes": 0}, "deepeye:greedy": ALONE,
    "partial": {}, "fcfs": {}, "sjf": {}, "snf": {}, "rr": {}, "masa": {}, "masa:code": ALONE, "masa:mapped": {},
    "reuse": {"passes": PASSES},
}.items():  # fmt: skip
    name = f"Test{words.title().replace(':', '')}"
    globals()[name] = type(name, (SchedulePolicyContract,), {"policy": words, "__module__": __name__, **promises})


def chain(name, *layers):
    """Return a network of layers in a row: kind, bytes of weights, seconds to load, seconds to execute."""
    made = [
        Layer(f"{name}{index}", kind, weights, 0, 0, load_s, execute_s, (index - 1,) if index else ())
        for index, (kind, weights, load_s, execute_s) in enumerate(layers)
    ]
    return LayeredNetwork(name, tuple(made))


def run(policy, networks, names, *, budget_bytes=1000, workers=2, streams=None):
    policy = make_policy(policy)
    known = taken_by(policy, {network.name: network for network in networks})
    backend = SimulatedTaskBackend(EventClock(), known, machine=Machine(cores=workers, streams=streams or workers))
    requests = [Request(number, name, 0) for number, name in enumerate(names)]
    parallelism = Parallelism(workers, streams=streams or workers)
    loop = ScheduleLoop(policy, backend, known, requests, budget_bytes=budget_bytes, parallelism=parallelism)
    loop.run()
    return loop


def begun(loop):
    """Return what began, in order, as e.g. ``L a0`` for the load of layer 0 for the first request."""
    tasks = sorted(loop.tasks, key=lambda task: (task.start_ns, task.kind == "unload"))
    return " ".join(f"{task.kind[0].upper()}{task.network}{task.layer}" for task in tasks if task.kind != "unload")


def end_s(loop):
    return max(record.end_ns for record in loop.requests) / NS


A = chain("a", ("conv", 10, 1, 2), ("fc", 40, 4, 1))
B = chain("b", ("conv", 20, 1, 1), ("conv", 5, 1, 1))


def test_linear_runs_a_layer_at_a_time_and_holds_one():
    loop = run("linear", [A, B], "ab")
    assert begun(loop) == "La0 Ea0 La1 Ea1 Lb0 Eb0 Lb1 Eb1"
    assert end_s(loop) == 1 + 2 + 4 + 1 + 1 + 1 + 1 + 1
    assert loop.state.memory.peak_bytes == 40


def test_bulk_takes_networks_as_a_whole():
    loop = run("bulk", [A, B], "ab")
    assert begun(loop) == "La0 Ea0 Lb0 Eb0"
    assert end_s(loop) == (1 + 4) + (2 + 1) + (1 + 1) + (1 + 1)
    assert loop.state.memory.peak_bytes == 50


def test_deepeye_loads_fully_connected_layers_beside_convolutions():
    loop = run("deepeye", [A, B], "ab")
    assert begun(loop) == "La0 La1 Ea0 Ea1 Lb0 Eb0 Lb1 Eb1"
    assert end_s(loop) == max(1 + 2, 4) + 1 + 4


def test_deepeye_as_in_the_thesis_loads_all_networks_at_once_whatever_fits():
    """Both streams of both networks: 115 bytes of weights in 50, where the paced variant holds one network."""
    networks = [A, chain("c", ("conv", 20, 1, 9), ("fc", 45, 4, 1))]
    greedy, paced = (run(name, networks, "ac", budget_bytes=50, workers=4) for name in ("deepeye:greedy", "deepeye"))
    assert set(begun(greedy).split()[:4]) == {"La0", "La1", "Lc0", "Lc1"}
    assert (greedy.state.memory.peak_bytes, paced.state.memory.peak_bytes) == (10 + 40 + 20 + 45, 50)
    assert end_s(greedy) < end_s(paced)


def test_partial_loads_in_the_order_of_requests_and_layers():
    assert begun(run("partial", [A, B], "ab", workers=1)) == "La0 Ea0 La1 Ea1 Lb0 Eb0 Lb1 Eb1"
    assert begun(run("partial", [A, B], "ab")).startswith("La0 La1 Ea0")


def test_fcfs_executes_before_it_loads():
    assert begun(run("fcfs", [B, A], "ba")).startswith("Lb0 Lb1 Eb0 La0")


def test_masa_takes_what_needs_the_least_memory():
    assert begun(run("masa", [A, B], "ab", workers=1)) == "Lb1 La0 Ea0 Lb0 Eb0 Eb1 La1 Ea1"


def test_masa_loads_more_than_fits_where_nothing_runs_and_nothing_fits():
    """The small layers of both are in the way of the large ones, one of which has to begin for anything to end."""
    networks = [chain(name, ("conv", 40, 1, 1), ("conv", 20, 1, 1)) for name in "ab"]
    loop = run("masa", networks, "ab", budget_bytes=75)
    assert begun(loop).startswith("La1 Lb1 La0 Ea0")
    assert loop.state.memory.peak_bytes == 20 + 20 + 40


def test_masa_counts_weights_once_where_requests_map_the_same_file():
    """Two requests for one network: both map the large layer at once, which fits one time only."""
    network = chain("a", ("conv", 10, 1, 1), ("fc", 60, 4, 1))
    published, mapped = (run(name, [network], "aa", budget_bytes=100) for name in ("masa", "masa:mapped"))
    assert begun(mapped).count("La1") == begun(published).count("La1") == 2
    loads = [task for task in mapped.tasks if task.kind == "load"]
    assert sorted(task.bytes for task in loads) == [0, 0, 10, 60]
    assert end_s(mapped) < end_s(published)


def test_more_workers_do_not_slow_masa_down_where_storage_serves_one_load():
    """Loads that share storage all come late, the first that is needed among them."""
    sizes = {
        "a": [(50, 5, 3), (40, 3, 4), (30, 3, 2), (90, 4, 5)],
        "b": [(10, 7, 3), (10, 5, 3), (20, 5, 8), (70, 3, 5)],
    }
    networks = [chain(name, *(("conv", *layer) for layer in layers)) for name, layers in sizes.items()]

    def ends(policy):
        return [end_s(run(policy, networks, "ab", budget_bytes=150, workers=n, streams=1)) for n in range(1, 8)]

    assert ends("masa") == [68, 48, 52, 54, 54, 54, 54]
    assert ends("masa:mapped") == [68, 48, 48, 48, 48, 48, 48]


def test_the_published_code_of_masa_lets_the_shortest_network_go_first():
    assert begun(run("masa:code", [A, B], "ab", workers=1)) == "Lb0 Eb0 Lb1 Eb1 La0 Ea0 La1 Ea1"


def test_the_published_code_of_masa_executes_without_looking_at_memory():
    layers = [Layer("0", "conv", 10, 50, 0, 1.0, 5.0, ())]
    networks = [LayeredNetwork(name, tuple(layers)) for name in "ab"]
    assert run("masa:code", networks, "ab", budget_bytes=80).state.memory.peak_bytes == 2 * (10 + 50)
    assert run("masa", networks, "ab", budget_bytes=80).state.memory.peak_bytes == 10 + 50 + 10


@pytest.mark.parametrize(("policy", "first"), [("sjf", "b"), ("snf", "b"), ("fcfs", "a")])
def test_the_first_request_of_each_policy(policy, first):
    assert begun(run(policy, [A, B], "ab", workers=1)).startswith(f"L{first}0 E{first}0")


def test_round_robin_has_requests_take_turns():
    assert begun(run("rr", [B, A], "ba", workers=1)).split()[:4] == ["Lb0", "Eb0", "La0", "Ea0"]
