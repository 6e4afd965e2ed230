"""The state of requests and of weights: what has been executed, what is resident, and which tasks are ready.

    weights   absent -> loading -> resident -> absent
    request   a layer is open once its inputs are there, ready once its weights are resident, and then executed

``state`` keeps all of them.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.tasks import LayerTask

_Place = tuple[int, int]
"""Request and layer: unique among the executions, and among the loads, each of which has one earliest request."""


class ReadySet:
    """Tasks of one kind; in two orders at once: as they came, and by the memory that they need.

    Both orders are sorted lists: a place is found in O(log n) steps, and what lies behind it is moved as one block of
    memory, which for the tens of thousands of tasks of a long queue takes microseconds.
    """

    def __init__(self) -> None:
        self._tasks: dict[_Place, LayerTask] = {}
        self._by_arrival: list[_Place] = []
        self._by_bytes: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[LayerTask]:
        return map(self._tasks.__getitem__, self._by_arrival)

    @property
    def first(self) -> LayerTask | None:
        """The first in order of arrival, and of layers."""
        return self._tasks[self._by_arrival[0]] if self._by_arrival else None

    @property
    def smallest(self) -> LayerTask | None:
        """The one that needs the least memory; the earliest of several."""
        return self._tasks[self._by_bytes[0][1:]] if self._by_bytes else None

    def find(self, request: int, layer: int) -> LayerTask | None:
        """Return the task of this request and layer, if it is ready."""
        return self._tasks.get((request, layer))

    def add(self, task: LayerTask) -> None:
        """Add a task; its place must be free."""
        place = (task.request, task.layer)
        self._tasks[place] = task
        insort(self._by_arrival, place)
        insort(self._by_bytes, (task.bytes, *place))

    def remove(self, task: LayerTask) -> None:
        """Remove a task."""
        place = (task.request, task.layer)
        del self._tasks[place]
        del self._by_arrival[bisect_left(self._by_arrival, place)]
        del self._by_bytes[bisect_left(self._by_bytes, (task.bytes, *place))]

    def add_all(self, tasks: Sequence[LayerTask]) -> None:
        """Add many tasks at once: weights came in that a whole queue waited for."""
        if len(tasks) < _MANY:
            for task in tasks:
                self.add(task)
            return
        self._tasks.update(((task.request, task.layer), task) for task in tasks)
        self._by_arrival += [(task.request, task.layer) for task in tasks]
        self._by_arrival.sort()
        self._by_bytes += [(task.bytes, task.request, task.layer) for task in tasks]
        self._by_bytes.sort()

    def remove_all(self, tasks: Sequence[LayerTask]) -> None:
        """Remove many tasks at once: the weights went that they all need."""
        if len(tasks) < _MANY:
            for task in tasks:
                self.remove(task)
            return
        for task in tasks:
            del self._tasks[(task.request, task.layer)]
        self._by_arrival = [place for place in self._by_arrival if place in self._tasks]
        self._by_bytes = [place for place in self._by_bytes if place[1:] in self._tasks]


_MANY = 16
"""From how many tasks on sorting anew is faster than finding a place for each (sorted runs are merged in one pass)."""


Residence = Literal["absent", "loading", "resident"]


class Weights:
    """One copy of a network's weights, layer by layer. Layers without weights are resident from the beginning.

    Args:
        name: Of the copy.
        network: The network.
    """

    __slots__ = ("absent_ns", "begun", "loads", "name", "network", "open", "residence", "users", "wanting")

    def __init__(self, name: str, network: LayeredNetwork) -> None:
        self.name, self.network = name, network
        layers = network.layers
        self.residence: list[Residence] = ["absent" if layer.weight_bytes else "resident" for layer in layers]
        self.users = [0] * len(layers)
        """The number of running executions of each layer."""
        self.wanting: list[list[int]] = [[] for _ in layers]
        """For each layer a heap of the requests that want it, some of which may have executed it since."""
        self.open: list[dict[int, RequestProgress]] = [{} for _ in layers]
        """For each layer the requests whose inputs for it are there and that have not begun it, by number."""
        self.begun: dict[int, RequestProgress] = {}
        """Requests that have executed a layer and are not answered yet."""
        self.loads: dict[int, LayerTask] = {}
        """The loads that are ready, by layer."""
        self.absent_ns = sum(network.load_ns)
        """The time to load all layers that are not resident, ns."""

    def become(self, layer: int, residence: Residence) -> None:
        """Change the residence of the weights of a layer, and the loading time of the requests that wait for them."""
        before, self.residence[layer] = self.residence[layer], residence
        gone = (residence != "resident") - (before != "resident")
        if gone:
            load_ns = self.network.load_ns[layer] * gone
            self.absent_ns += load_ns
            for progress in self.begun.values():
                if progress.done[layer]:
                    progress.done_absent_ns += load_ns

    def load(self, layer: int, request: int, size_bytes: int) -> LayerTask:
        """Return the task of loading a layer for a request, which takes so many bytes."""
        network = self.network
        return LayerTask("load", network.name, self.name, layer, request, size_bytes, network.load_ns[layer])


@dataclass(slots=True, eq=False)
class RequestProgress:
    """A request that has arrived and is not answered yet; what has been executed, and what is ready.

    Args:
        request: The request.
        weights: The weights that it uses.
    """

    request: Request
    weights: Weights
    network: LayeredNetwork = field(init=False)
    copy: str = field(init=False)
    left: int = field(init=False)
    begun_ns: int | None = None
    executing: bool = False
    """Whether any of its executions has begun: its input is held since."""
    done: bytearray = field(init=False)
    """For each layer, whether it has been executed."""
    inputs_left: list[int] = field(init=False)
    """For each layer, how many of the layers that it reads have not been executed."""
    ready: dict[int, LayerTask] = field(default_factory=dict)
    """Its executions that are ready, by layer."""
    execute_left_ns: int = field(init=False)
    done_absent_ns: int = 0
    """The time to load the layers that it has executed and that are not resident any more, ns."""

    def __post_init__(self) -> None:
        self.network, self.copy, self.left = self.weights.network, self.weights.name, len(self.weights.network.layers)
        self.done = bytearray(self.left)
        self.inputs_left = [len(layer.after) for layer in self.network.layers]
        self.execute_left_ns = sum(self.network.execute_ns)

    @property
    def left_ns(self) -> int:
        """Expected time of the loads and executions that it still needs, alone, ns; what runs counts until it ends."""
        return self.execute_left_ns + self.weights.absent_ns - self.done_absent_ns

    def executed(self, layer: int) -> bool:
        """Return whether a layer has been executed."""
        return bool(self.done[layer])

    def executions(self) -> Sequence[LayerTask]:
        """Return its executions that are ready, in the order of layers."""
        return [self.ready[layer] for layer in sorted(self.ready)]

    def loads(self) -> Sequence[LayerTask]:
        """Return the loads that it needs, still absent and not on their way, in the order of layers."""
        return [self.weights.loads[layer] for layer in sorted(self.weights.loads) if not self.done[layer]]

    def execution(self, layer: int) -> LayerTask:
        """Return the task of executing a layer; the first one of a request brings the network's input with it."""
        network, number = self.network, self.request.number
        needed = network.execution_bytes[layer] + (0 if self.executing else network.input_bytes)
        return LayerTask("execute", network.name, self.copy, layer, number, needed, network.execute_ns[layer])

    def note_executed(self, layer: int) -> list[int]:
        """Note that a layer has been executed; return the layers whose inputs are all there now."""
        self.weights.begun[self.request.number] = self
        self.done[layer] = True
        self.left -= 1
        self.execute_left_ns -= self.network.execute_ns[layer]
        opened = []
        for reader in self.network.readers[layer]:
            self.inputs_left[reader] -= 1
            if self.inputs_left[reader] == 0:
                opened.append(reader)
        return opened


def earliest_wanting(weights: Weights, layer: int, requests: Mapping[int, RequestProgress]) -> int:
    """Return the earliest request that still has to execute a layer; -1 if there is none.

    Those that have executed it, or are gone, are taken off the heap for good.
    """
    heap = weights.wanting[layer]
    while heap:
        progress = requests.get(heap[0])
        if progress is not None and not progress.done[layer]:
            return heap[0]
        heapq.heappop(heap)
    return -1
