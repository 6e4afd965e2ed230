"""Networks of a few layers and runs of them on an event clock, for the tests of ``schedule``."""

from hypothesis import strategies as st

from edgetune.serving.clock import EventClock, Supervision
from edgetune.stages.schedule.loop import ScheduleLoop
from edgetune.stages.schedule.network import Layer, LayeredNetwork
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.simulation import SimulatedTaskBackend
from edgetune.stages.schedule.state import Parallelism
from edgetune.stages.schedule.tasks import Machine

MS = 1_000_000
BYTES = st.integers(0, 60)
SECONDS = st.sampled_from([0.0, 0.001, 0.0025, 0.01])


class FirstCome:
    """First come, first served, whatever is resident stays: unloads only what nobody wants, or to make room."""

    name = "first-come"
    whole = False
    overcommits = maps_weights = False

    def __init__(self, *, shares_weights=True):
        self.shares_weights = shares_weights

    def choose(self, view):
        spent = view.unwanted()
        if spent is not None and (not self.shares_weights or view.free_bytes <= 0):
            return spent
        if not view.idle_workers:
            return None
        tasks = [task for task in (view.executions.first, view.loads.first) if task is not None]
        if not tasks:
            return None
        for task in tasks if view.running else tasks[:1]:
            if task.bytes <= view.free_bytes:
                return task
        if view.running:
            return None
        makes_room = [task for task in view.unloads() if (task.copy, task.layer) != (tasks[0].copy, tasks[0].layer)]
        return makes_room[0] if makes_room else tasks[0]


def layer(*, weights=0, output=0, scratch=0, load_ms=0.0, execute_ms=0.0, after=(), name="layer", kind="other"):
    return Layer(name, kind, weights, output, scratch, load_ms / 1e3, execute_ms / 1e3, tuple(after))


def chain(name, *layers, input_bytes=0):
    """A network of layers one after another, each a dictionary of what ``layer`` takes."""
    made = [layer(**{"name": f"{name}{i}", "after": (i - 1,) if i else (), **each}) for i, each in enumerate(layers)]
    return LayeredNetwork(name, tuple(made), input_bytes)


def batch(*networks, **options):
    return [Request(number, name, 0, **options) for number, name in enumerate(networks)]


def loop_of(
    networks,
    requests,
    *,
    policy=None,
    budget=10**6,
    workers=1,
    machine=None,
    fault=None,
    clock=None,
    real=None,
    cores=None,
    streams=1,
    **supervised,
):
    known = {network.name: network for network in networks}
    backend = SimulatedTaskBackend(
        clock or EventClock(),
        {network.name: network for network in real or networks},
        machine=machine or Machine(cores=workers),
        fault=fault or (lambda _: None),
    )
    loop = ScheduleLoop(
        policy or FirstCome(), backend, known, requests, budget_bytes=budget,
        parallelism=Parallelism(workers, cores, streams), supervision=Supervision(**supervised),
    )  # fmt: skip
    return loop, backend


def run(networks, requests, **options):
    loop, backend = loop_of(networks, requests, **options)
    loop.run()
    assert backend.memory.settled, "the machine holds what the loop believes is returned"
    return loop


def times_ms(loop):
    """Kind, request, layer, start and end of every task but unloads."""
    tasks = [task for task in loop.tasks if task.kind != "unload"]
    return [(each.kind, each.request, each.layer, each.start_ns / MS, each.end_ns / MS) for each in tasks]


def ends_ms(loop):
    """What became of every request, and when."""
    return {each.request.number: (each.outcome, each.end_ns / MS) for each in loop.requests}


@st.composite
def graphs(draw, name):
    """A random graph: several sources, several outputs, branches, layers without weights, and some that share them."""
    layers, sizes = [], {file: draw(BYTES) for file in ("s", "t")[: draw(st.integers(0, 2))]}
    for index in range(draw(st.integers(1, 6))):
        after = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        shared = tuple((file, size) for file, size in sizes.items() if draw(st.booleans()))
        layers.append(
            Layer(
                f"{index}", draw(st.sampled_from(["conv", "fc", "other"])), draw(BYTES) + sum(dict(shared).values()),
                draw(BYTES), draw(BYTES), draw(SECONDS), draw(SECONDS), tuple(sorted(after)), shared=shared,
            )
        )  # fmt: skip
    return LayeredNetwork(name, tuple(layers), draw(BYTES))
