"""The state of a run: what policies see, kept up to date as requests arrive and tasks begin and end.

    arrive -> [requests] -> loads, executions --begin--> running --end--> weights resident, layers executed, ...

``View`` is what a policy reads, ``State`` adds what the loop writes; neither starts anything. Every step touches only
what it changes, so that a long queue costs no more per step than a short one.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from edgetune.stages.schedule.memory_accounting import MemoryAccounting
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.request_state import ReadySet, RequestProgress, Weights, earliest_wanting
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.tasks import LayerTask


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Numbers of tasks that run at once.

    Args:
        workers: Number of workers.
        cores: Number of executions that run at full speed at once; ``None``: the number of workers.
        streams: Number of loads that run at full speed at once: storage serves more loads more slowly.
    """

    workers: int
    cores: int | None = None
    streams: int = 1


class View:
    """Everything that a choice of a policy depends on; policies only read it.

    Args:
        networks: By name.
        parallelism: Numbers of tasks that run at once.
        shares_weights, maps_weights: See ``policies.policy.SchedulePolicy``.
        budget_bytes: The memory budget.
    """

    def __init__(
        self, networks: Mapping[str, LayeredNetwork], *, parallelism: Parallelism, shares_weights: bool,
        budget_bytes: int, maps_weights: bool = False,
    ) -> None:  # fmt: skip
        self.now_ns, self.budget_bytes = 0, budget_bytes
        self.workers = self.idle_workers = parallelism.workers
        self.cores, self.streams = parallelism.cores or self.workers, parallelism.streams
        self.came: list[int] = []
        """Numbers of all requests that ``requests`` has gained so far, in this order."""
        self.gone: list[int] = []
        """Numbers of all requests that it has lost, answered or failed."""
        self.running: list[LayerTask] = []
        self.requests: dict[int, RequestProgress] = {}
        """Requests that have arrived and are not answered, by number, in the order of arrival. A request whose
        ``after`` are not all answered is not among them."""
        self.executions = ReadySet()
        """Executions whose weights are resident and whose inputs are there."""
        self.loads = ReadySet()
        """Loads of weights that a request needs, absent and not being loaded: one task per copy and layer."""
        self.memory = MemoryAccounting(networks, maps_weights=maps_weights)
        self._networks = networks
        self._shares_weights, self._maps_weights = shares_weights, maps_weights
        self._copies: dict[str, Weights] = {}
        if shares_weights:
            self._copies = {name: Weights(name, network) for name, network in networks.items()}
        self._resident: dict[tuple[str, int], LayerTask] = {}
        """An unload for all weights that are resident, in the order in which they came in."""
        self._copies_of: dict[str, dict[str, Weights]] = {}
        """The copies that requests have of their own, by network and name."""
        self._came_in: dict[tuple[str, int], int] = {}
        """The number of weights that had come in before these."""
        self._loaded = 0
        self._unwanted: list[tuple[int, str, int]] = []
        """The resident weights that no request wants, after how many others they came in."""
        self._unloads: tuple[LayerTask, ...] | None = None
        """The value of ``unloads``, until anything changes."""

    @property
    def held_bytes(self) -> int:
        """Bytes that are held, or promised to running tasks."""
        return self.memory.held_bytes

    @property
    def free_bytes(self) -> int:
        """Budget less what is held, which may be below zero."""
        return self.budget_bytes - self.memory.held_bytes

    def unloads(self) -> Sequence[LayerTask]:
        """Return an unload for all weights that are resident and not in use, longest resident first.

        The ``request`` of weights that no request wants is -1.
        """
        if self._unloads is None:
            idle = [key for key in self._resident if not self._copies[key[0]].users[key[1]]]
            self._unloads = tuple(self.unload_task(*key) for key in idle)
        return self._unloads

    def unwanted(self) -> LayerTask | None:
        """Return the first of ``unloads()`` that no request wants; cheap."""
        for _, copy, layer in self._unwanted:
            if not self._copies[copy].users[layer]:  # an execution of a failed request may still run
                return self.unload_task(copy, layer)
        return None

    def resident(self, copy: str, layer: int) -> bool:
        """Return whether weights are in memory; a layer without weights counts as resident."""
        weights = self._copies.get(copy)
        return weights is not None and weights.residence[layer] == "resident"

    def wanted_by(self, copy: str, layer: int) -> int:
        """Return the earliest request that still has to execute this layer with these weights; -1 if there is none."""
        weights = self._copies.get(copy)
        return -1 if weights is None else earliest_wanting(weights, layer, self.requests)

    def unload_task(self, copy: str, layer: int) -> LayerTask:
        """Return the unload of weights that are resident."""
        task = self._resident[(copy, layer)]
        shares = self._maps_weights or len(self._copies[copy].network.sharing[layer]) > 1
        if shares or task.request != self.wanted_by(copy, layer):
            task = self._resident[(copy, layer)] = self._new_unload(copy, layer)
        return task

    def _new_unload(self, copy: str, layer: int) -> LayerTask:
        network, freed = self._copies[copy].network.name, self.memory.freed_bytes([(copy, layer)])
        return LayerTask("unload", network, copy, layer, self.wanted_by(copy, layer), freed, 0)


class State(View):
    """The view of a run with the changes that the loop makes to it."""

    def resident_layers(self, copy: str | None = None) -> Sequence[tuple[str, int]]:
        """Return the copies and layers that are resident, of one copy or of all, longest resident first."""
        return [key for key in self._resident if copy is None or key[0] == copy]

    def find(self, task: LayerTask) -> LayerTask | None:
        """Return the task that does what this one does, if it could start now but for workers and memory."""
        if task.kind == "execute":
            return self.executions.find(task.request, task.layer)
        if task.kind == "load":
            found = self.loads.find(task.request, task.layer)
            return found if found is not None and found.copy == task.copy else None
        if (task.copy, task.layer) not in self._resident or self._copies[task.copy].users[task.layer]:
            return None
        return self.unload_task(task.copy, task.layer)

    def arrive(self, request: Request) -> None:
        """Register a request that has arrived."""
        self._unloads = None
        self.came.append(request.number)
        network = self._networks[request.network]
        copy = request.network if self._shares_weights else f"{request.network}#{request.number}"
        if copy not in self._copies:
            self._copies[copy] = Weights(copy, network)
            self._copies_of.setdefault(request.network, {})[copy] = self._copies[copy]
        weights = self._copies[copy]
        progress = RequestProgress(request, weights)
        late = bool(self.requests) and request.number < next(reversed(self.requests))
        self.requests[request.number] = progress
        if late:  # it waited for others, and precedes some that did not
            ordered = sorted(self.requests.items())
            self.requests.clear()
            self.requests.update(ordered)
        for layer in range(progress.left):
            heapq.heappush(weights.wanting[layer], request.number)
            self._offer_load(weights, layer)
            self._review(weights, layer)
        for layer in network.sources:
            self._open(progress, layer)

    def begin(self, task: LayerTask) -> None:
        """Note that a load or an execution that was ready has begun."""
        self._unloads = None
        weights = self._copies[task.copy]
        progress = self.requests[task.request]
        if progress.begun_ns is None:
            progress.begun_ns = self.now_ns
        if task.kind == "load":
            self.loads.remove(weights.loads.pop(task.layer))
            weights.become(task.layer, "loading")
        else:
            self.executions.remove(progress.ready.pop(task.layer))
            del weights.open[task.layer][task.request]
            weights.users[task.layer] += 1
            self._bring_input(progress)
        self.memory.begin(task)
        if task.kind == "load":
            self._note_mapped(weights, task.layer)
        self.running.append(task)
        self.idle_workers -= 1

    def end_load(self, task: LayerTask, *, failed: bool) -> None:
        """Note that a load has ended; weights whose load failed are absent again."""
        self._end(task)
        weights = self._copies[task.copy]
        if failed:
            self.memory.unload(task.copy, task.layer)
            self._note_mapped(weights, task.layer)
            weights.become(task.layer, "absent")
            self._offer_load(weights, task.layer)
            return
        weights.become(task.layer, "resident")
        key = (task.copy, task.layer)
        self._resident[key] = self._new_unload(*key)
        self._came_in[key] = self._loaded
        self._loaded += 1
        self._review(weights, task.layer)
        waiting = weights.open[task.layer].values()
        for progress in waiting:
            progress.ready[task.layer] = progress.execution(task.layer)
        self.executions.add_all([progress.ready[task.layer] for progress in waiting])

    def end_execution(self, task: LayerTask, *, failed: bool) -> None:
        """Note that an execution has ended; if it failed or its request is gone, return its memory only."""
        self._end(task)
        self._copies[task.copy].users[task.layer] -= 1
        self.memory.end(task)
        progress = self.requests.get(task.request)
        if progress is None or failed:
            return
        for layer in progress.note_executed(task.layer):
            self._open(progress, layer)
        self._review(progress.weights, task.layer)

    def unload(self, copy: str, layer: int) -> None:
        """Note that weights which no execution uses have left memory."""
        self._unloads = None
        weights = self._copies[copy]
        del self._resident[(copy, layer)]
        place = (self._came_in.pop((copy, layer)), copy, layer)
        if place in self._unwanted:
            self._unwanted.remove(place)
        self.memory.unload(copy, layer)
        self._note_mapped(weights, layer)
        weights.become(layer, "absent")
        waiting = weights.open[layer].values()
        self.executions.remove_all([progress.ready.pop(layer) for progress in waiting])
        self._offer_load(weights, layer)

    def remove(self, number: int) -> RequestProgress:
        """Remove a request, answered or not; what it holds stays accounted for until ``close``."""
        self._unloads = None
        progress = self.requests.pop(number)
        self.gone.append(number)
        weights = progress.weights
        weights.begun.pop(number, None)
        for task in progress.ready.values():
            self.executions.remove(task)
        if progress.left:
            for opened in weights.open:
                opened.pop(number, None)
            for layer in [layer for layer, task in weights.loads.items() if task.request == number]:
                self.loads.remove(weights.loads.pop(layer))
                self._offer_load(weights, layer)
            for layer in range(len(weights.residence)):
                self._review(weights, layer)
        return progress

    def close(self, progress: RequestProgress) -> None:
        """Return the memory of a request that was removed and of which nothing runs; its own weights are unloaded."""
        self.memory.close(progress.request.number)
        if not self._shares_weights:
            del self._copies[progress.copy]
            del self._copies_of[progress.request.network][progress.copy]

    def _end(self, task: LayerTask) -> None:
        self._unloads = None
        self.running.remove(task)
        self.idle_workers += 1

    def _open(self, progress: RequestProgress, layer: int) -> None:
        """Note that the inputs of a layer are there."""
        progress.weights.open[layer][progress.request.number] = progress
        if progress.weights.residence[layer] == "resident":
            task = progress.ready[layer] = progress.execution(layer)
            self.executions.add(task)

    def _offer_load(self, weights: Weights, layer: int) -> None:
        """Make the load of absent weights ready for the earliest request that wants them, if there is one."""
        if weights.residence[layer] != "absent":
            return
        wanted_by, offered = earliest_wanting(weights, layer, self.requests), weights.loads.get(layer)
        if offered is not None:
            if offered.request == wanted_by:
                return
            self.loads.remove(weights.loads.pop(layer))
        if wanted_by >= 0:
            size_bytes = self.memory.load_bytes(weights.name, weights.network.name, layer)
            task = weights.loads[layer] = weights.load(layer, wanted_by, size_bytes)
            self.loads.add(task)

    def _note_mapped(self, weights: Weights, layer: int) -> None:
        """Change what loads take that share weights which have come or gone: of other layers, and of other copies."""
        network = weights.network
        copies = self._copies_of.get(network.name, {}).values() if self._maps_weights else [weights]
        for other, index in product(copies, network.sharing[layer]):
            offered = other.loads.get(index)
            if offered is None:
                continue
            size_bytes = self.memory.load_bytes(other.name, network.name, index)
            if offered.bytes != size_bytes:
                self.loads.remove(offered)
                task = other.loads[index] = other.load(index, offered.request, size_bytes)
                self.loads.add(task)

    def _review(self, weights: Weights, layer: int) -> None:
        """Update whether resident weights are among those that no request wants."""
        came_in = self._came_in.get((weights.name, layer))
        if came_in is None:
            return
        place = (came_in, weights.name, layer)
        at = bisect_left(self._unwanted, place)
        noted = at < len(self._unwanted) and self._unwanted[at] == place
        if earliest_wanting(weights, layer, self.requests) >= 0:
            if noted:
                del self._unwanted[at]
        elif not noted:
            insort(self._unwanted, place)

    def _bring_input(self, progress: RequestProgress) -> None:
        """Note that the input of a request is there: its other executions that are ready need not bring it."""
        if progress.executing:
            return
        progress.executing = True
        for layer, task in list(progress.ready.items()):
            self.executions.remove(task)
            changed = progress.ready[layer] = progress.execution(layer)
            self.executions.add(changed)
