"""The requests for one network: what each holds and needs, and in which order they are to be answered.

    executed  1 1 1 0 0 0      held     outputs that are still to be read
                    ^          needed   the most, weights included, held at once from here to the answer,
                                        a layer at a time in the order of layers

    waiting   7 9 12 30 31 ...     passed too often | in time, due first | the rest
    begun     3: 1 1 1 0 0         the layers that each has executed

A change to one request costs the same where thousands wait.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.state import View
from edgetune.stages.schedule.tasks import LayerTask


class Footprint:
    """The memory of a request for one network. Executed layers are the bits of an integer: bit 0 is the first.

    Args:
        network: The network.
    """

    def __init__(self, network: LayeredNetwork) -> None:
        self.network = network
        self.all_executed = (1 << len(network.layers)) - 1
        self.before_ns = tuple(accumulate(network.execute_ns, initial=0))
        """The time to execute the layers before each, and at the end that of all layers, ns."""
        self._readers = [sum(1 << reader for reader in readers) for readers in network.readers]
        self._sources = sum(1 << index for index in network.sources)
        self._known: dict[int, tuple[int, int, int]] = {}

    def held(self, executed: int) -> int:
        """Return the bytes that a request holds between executions."""
        return self._of(executed)[0]

    def needed(self, executed: int) -> int:
        """Return the most bytes that it holds at once from here on, weights included."""
        return self._of(executed)[1]

    def growth(self, executed: int) -> int:
        """Return by how many bytes it grows at the most from here on, weights left out."""
        return self._of(executed)[2]

    def growth_until(self, executed: int, layer: int) -> int:
        """Return by how many bytes it grows at the most until a layer has executed, weights left out."""
        begin = self.held(executed)
        most, now = 0, executed
        for index in range(self.first_left(executed), layer + 1):
            if not now >> index & 1:
                each = self.network.layers[index]
                input_bytes = 0 if now else self.network.input_bytes
                most = max(most, self.held(now) + input_bytes + each.output_bytes + each.scratch_bytes - begin)
                now |= 1 << index
        return most

    def first_left(self, executed: int) -> int:
        """Return the first layer that has not been executed; the number of layers if all have."""
        return (~executed & (executed + 1)).bit_length() - 1

    def _of(self, executed: int) -> tuple[int, int, int]:
        known = self._known.get(executed)
        if known is None:
            known = self._known[executed] = self._walk(executed)
        return known

    def _walk(self, executed: int) -> tuple[int, int, int]:
        layers, now = self.network.layers, executed
        begin = held = sum(layer.output_bytes for index, layer in enumerate(layers) if self._is_held(index, now))
        begin_input = input_bytes = self.network.input_bytes if now and self._sources & ~now else 0
        most = most_active = held + input_bytes
        for index, layer in enumerate(layers):
            if now >> index & 1:
                continue
            input_bytes = self.network.input_bytes if self._sources & ~now else 0
            active = held + input_bytes + layer.output_bytes + layer.scratch_bytes
            most_active, most = max(most_active, active), max(most, active + layer.weight_bytes)
            now |= 1 << index
            held += layer.output_bytes
            held -= sum(layers[read].output_bytes for read in layer.after if not self._is_held(read, now))
        return begin + begin_input, most, most_active - begin - begin_input

    def _is_held(self, index: int, executed: int) -> bool:
        """Return whether the outputs of a layer are there and still to be read, or an answer."""
        readers = self._readers[index]
        return bool(executed >> index & 1) and (not readers or bool(readers & ~executed))


def can_all_finish(holds: Iterable[tuple[int, int]], budget_bytes: int) -> bool:
    """Return whether requests can finish one after another, whichever weights are resident now.

    Weights can be unloaded and loaded again; what has been computed cannot. This is the banker's algorithm (Dijkstra,
    EWD 623) for one resource: the request that needs the least beyond what it holds goes first, and returns everything.

    Args:
        holds: For each request what it holds and what it needs at the most, bytes.
        budget_bytes: The memory budget.
    """
    holds = list(holds)
    free = budget_bytes - sum(held for held, _ in holds)
    for held, needed in sorted(holds, key=lambda each: each[1] - each[0]):
        if needed - held > free:
            return False
        free += held
    return True


@dataclass(slots=True)
class RequestGroup:
    """The requests for one network.

    Args:
        footprint: Of the network.
        absent: Layers whose weights are neither resident nor on their way.
        absent_ns: Time to load all of them.
        begun: Layers executed, or being executed, of each request that has begun, by number.
        waiting: Requests that have not begun, ascending.
        in_time: Deadlines and numbers of the requests that can be in time, ascending, begun or not.
        execute_ns: Time to execute the rest of all its requests, one after another.
        arrivals: Number of its requests that have arrived.
        answered: Number of them that are gone.
    """

    footprint: Footprint
    absent: set[int] = field(default_factory=set)
    absent_ns: int = 0
    begun: dict[int, int] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    in_time: list[tuple[int, int]] = field(default_factory=list)
    execute_ns: int = 0
    arrivals: int = 0
    answered: int = 0

    @property
    def name(self) -> str:
        """The network's name."""
        return self.footprint.network.name

    @property
    def oldest(self) -> int:
        """The first of its requests to have come; there must be one."""
        return min([*self.begun, *self.waiting[:1]])

    @property
    def due_ns(self) -> int | None:
        """When the first of its requests is due that can be in time; ``None`` if there is none."""
        return self.in_time[0][0] if self.in_time else None

    def __len__(self) -> int:
        return len(self.begun) + len(self.waiting)

    def queue(self, overdue_before: int) -> Iterator[int]:
        """Iterate over requests that have not begun, in the order in which they are to.

        Args:
            overdue_before: Requests with lower numbers were passed too often.
        """
        overdue = bisect_left(self.waiting, overdue_before)
        for at in range(overdue):
            yield self.waiting[at]
        for _, number in self.in_time:
            if number >= overdue_before and number not in self.begun:
                yield number
        in_time = {number for _, number in self.in_time}
        for at in range(overdue, len(self.waiting)):
            if self.waiting[at] not in in_time:
                yield self.waiting[at]

    def load_ns(self) -> int:
        """Return the time to load the absent weights that its requests still need."""
        if self.waiting or not self.absent:
            return self.absent_ns
        all_executed = self.footprint.all_executed
        left = 0
        for done in self.begun.values():
            left |= all_executed & ~done
        return sum(self.footprint.network.load_ns[layer] for layer in self.absent if left >> layer & 1)

    def takes_ns(self, cores: int) -> float:
        """Return the time of its loads and executions together; a request is on one core at a time."""
        return self.load_ns() + self.execute_ns / min(len(self), cores)

    def left_ns(self, number: int) -> int:
        """Return the time to execute all layers that are left of a request."""
        done, footprint = self.begun.get(number, 0), self.footprint
        if not done:
            return footprint.before_ns[-1]
        return sum(took_ns for layer, took_ns in enumerate(footprint.network.execute_ns) if not done >> layer & 1)

    def come(self, number: int) -> None:
        """Add a request that came."""
        insort(self.waiting, number)
        self.execute_ns += self.left_ns(number)
        self.arrivals += 1

    def leave(self, number: int) -> None:
        """Drop a request that was answered or failed."""
        self.execute_ns -= self.left_ns(number)
        if self.begun.pop(number, None) is None:
            del self.waiting[bisect_left(self.waiting, number)]
        self.answered += 1

    def update(self, view: View) -> None:
        """Read again which weights are absent: a load may have failed since."""
        loading = {task.layer for task in view.running if task.kind == "load" and task.copy == self.name}
        layers = range(len(self.footprint.network.load_ns))
        self.absent = {layer for layer in layers if layer not in loading and not view.resident(self.name, layer)}
        self.absent_ns = sum(self.footprint.network.load_ns[layer] for layer in self.absent)

    def note(self, task: LayerTask) -> None:
        """Note that a task begins."""
        if task.kind == "load":
            self.absent.discard(task.layer)
            self.absent_ns -= self.footprint.network.load_ns[task.layer]
        elif task.kind == "unload":
            self.absent.add(task.layer)
            self.absent_ns += self.footprint.network.load_ns[task.layer]
        else:
            if task.request not in self.begun:
                del self.waiting[bisect_left(self.waiting, task.request)]
            self.begun[task.request] = self.begun.get(task.request, 0) | 1 << task.layer
            self.execute_ns -= self.footprint.network.execute_ns[task.layer]
