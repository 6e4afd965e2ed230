"""The requests for one network: what they still need, and in which order they are to be answered.

    waiting   7 9 12 30 31 ...     passed too often | in time, due first | the rest
    begun     3: 1 1 1 0 0         which of its layers each has executed

What a request changes takes no longer where thousands wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from edgetune.schedule.footprint import Footprint
from edgetune.schedule.view import LayerTask, View


@dataclass(slots=True)
class RequestGroup:
    """The requests for one network.

    Args:
        footprint: Of the network.
        absent: Layers whose weights are neither resident nor on their way.
        absent_ns: What loading all of them takes.
        begun: Layers executed, or being executed, of each request that has begun, by number.
        waiting: Requests that have not begun, ascending.
        in_time: When those are due that can be in time, and their numbers, ascending; begun or not.
        execute_ns: What executing all that is left of its requests takes, one after another.
        arrivals: How many requests for it have come so far.
        answered: How many of them are gone.
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
        """Return what loading the weights takes that its requests still need."""
        if self.waiting or not self.absent:
            return self.absent_ns
        all_executed = self.footprint.all_executed
        left = 0
        for done in self.begun.values():
            left |= all_executed & ~done
        return sum(self.footprint.load_ns[layer] for layer in self.absent if left >> layer & 1)

    def takes_ns(self, cores: int) -> float:
        """Return what its weights and its requests take together; a request is on one core at a time."""
        return self.load_ns() + self.execute_ns / min(len(self), cores)

    def left_ns(self, number: int) -> int:
        """Return what executing all that is left of a request takes."""
        done, footprint = self.begun.get(number, 0), self.footprint
        if not done:
            return footprint.before_ns[-1]
        return sum(took_ns for layer, took_ns in enumerate(footprint.execute_ns) if not done >> layer & 1)

    def come(self, number: int) -> None:
        """Take in a request that came."""
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
        """See anew which weights are absent: a load may have failed since."""
        loading = {task.layer for task in view.running if task.kind == "load" and task.copy == self.name}
        layers = range(len(self.footprint.load_ns))
        self.absent = {layer for layer in layers if layer not in loading and not view.resident(self.name, layer)}
        self.absent_ns = sum(self.footprint.load_ns[layer] for layer in self.absent)

    def note(self, task: LayerTask) -> None:
        """Take in that a task begins."""
        if task.kind == "load":
            self.absent.discard(task.layer)
            self.absent_ns -= self.footprint.load_ns[task.layer]
        elif task.kind == "unload":
            self.absent.add(task.layer)
            self.absent_ns += self.footprint.load_ns[task.layer]
        else:
            if task.request not in self.begun:
                del self.waiting[bisect_left(self.waiting, task.request)]
            self.begun[task.request] = self.begun.get(task.request, 0) | 1 << task.layer
            self.execute_ns -= self.footprint.execute_ns[task.layer]
