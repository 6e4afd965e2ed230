"""Tasks that could start now, kept in two orders at once: as they came, and by the memory that they need."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from edgetune.schedule.view import LayerTask

_Place = tuple[int, int]
"""Request and layer: unique among the executions, and among the loads, each of which has one earliest request."""


class ReadySet:
    """Tasks of one kind; see ``view.Ready``.

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
        """Have a task be ready; its place must be free."""
        place = (task.request, task.layer)
        self._tasks[place] = task
        insort(self._by_arrival, place)
        insort(self._by_bytes, (task.bytes, *place))

    def remove(self, task: LayerTask) -> None:
        """Have a task be ready no longer."""
        place = (task.request, task.layer)
        del self._tasks[place]
        del self._by_arrival[bisect_left(self._by_arrival, place)]
        del self._by_bytes[bisect_left(self._by_bytes, (task.bytes, *place))]

    def add_all(self, tasks: Sequence[LayerTask]) -> None:
        """Have many be ready at once: weights came in that a whole queue waited for."""
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
        """Have many be ready no longer: the weights went that they all need."""
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
