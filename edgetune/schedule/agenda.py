"""Whose turn it is: requests grouped by network, because requests for one network need the same weights.

A group is what loading its absent weights and executing all its requests takes, for so many answers: the group that
gives an answer in the least time goes first (Smith's rule, 1956), except for deadlines and for those passed too often.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgetune.schedule.footprint import Footprint
from edgetune.schedule.request import Request
from edgetune.schedule.view import Standing, Task, View

PASSES = 100
"""After so many requests that came later have been answered before it, a request's network is next.

Fewer would have networks take turns in an overload, with their weights loaded anew for each; more would be felt as
starvation. A run of the study has 150 arrivals.
"""


@dataclass(slots=True)
class Group:
    """The requests for one network.

    Args:
        footprint: Of the network.
        absent: Layers whose weights are neither resident nor on their way.
        absent_ns: What loading all of them takes.
        begun: Layers executed, or being executed, of each request that has begun, by number.
        waiting: Requests that have not begun, in the order in which they are to.
        execute_ns: What executing all that is left of its requests takes, one after another.
        oldest: The first of its requests to have come.
        arrivals: How many requests for it have come so far.
        due_ns: When the first of its requests is due that can be in time; ``None`` if there is none.
    """

    footprint: Footprint
    absent: set[int] = field(default_factory=set)
    absent_ns: int = 0
    begun: dict[int, int] = field(default_factory=dict)
    waiting: deque[int] = field(default_factory=deque)
    execute_ns: int = 0
    oldest: int = 0
    arrivals: int = 0
    due_ns: int | None = None

    @property
    def name(self) -> str:
        """The network's name."""
        return self.footprint.network.name

    def __len__(self) -> int:
        return len(self.begun) + len(self.waiting)

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
        done, execute_ns = self.begun.get(number, 0), self.footprint.execute_ns
        return sum(took_ns for layer, took_ns in enumerate(execute_ns) if not done >> layer & 1)

    def note(self, task: Task) -> None:
        """Take in that a task begins."""
        if task.kind == "load":
            self.absent.discard(task.layer)
            self.absent_ns -= self.footprint.load_ns[task.layer]
        elif task.kind == "unload":
            self.absent.add(task.layer)
            self.absent_ns += self.footprint.load_ns[task.layer]
        else:
            if task.request not in self.begun:
                self.waiting.remove(task.request)
            self.begun[task.request] = self.begun.get(task.request, 0) | 1 << task.layer
            self.execute_ns -= self.footprint.execute_ns[task.layer]


class Agenda:
    """Groups, kept up to date as requests come and are answered."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self._seen = (0, 0)
        self._known: set[int] = set()
        self._answered: list[int] = []
        """Numbers of requests that are gone, ascending, from the oldest that waits on."""
        self._latest_ns: int | None = None
        """When what is due has to begin at the latest."""

    def update(self, view: View) -> None:
        """Take in what came and drop what was answered or failed."""
        seen = (view.arrived, len(view.requests))
        if seen == self._seen:
            return
        self._seen = seen
        self._note_answered(view.requests)
        for group in self.groups.values():
            group.waiting.clear()
            group.begun = {number: done for number, done in group.begun.items() if number in view.requests}
        for number, standing in view.requests.items():
            group = self._group_of(standing)
            if number not in group.begun:
                group.waiting.append(number)
            if number not in self._known:
                group.arrivals += 1
        self._known = set(view.requests)
        running = {(task.copy, task.layer) for task in view.running if task.kind == "load"}
        for name, group in self.groups.items():
            layers = range(len(group.footprint.load_ns))
            group.absent = {i for i in layers if not view.resident(name, i) and (name, i) not in running}
            group.oldest = min([*group.begun, *group.waiting], default=0)
            group.absent_ns = sum(group.footprint.load_ns[layer] for layer in group.absent)
            group.execute_ns = sum(map(group.left_ns, group.begun))
            group.execute_ns += group.footprint.before_ns[-1] * len(group.waiting)
        self._plan_deadlines(view)

    def order(self, view: View) -> Sequence[Group]:
        """Return the groups with requests, in the order in which they are to be served."""
        groups = [group for group in self.groups.values() if len(group)]
        if len(groups) < 2:
            return groups
        pace = {group.name: group.takes_ns(view.cores) / len(group) for group in groups}
        groups.sort(key=lambda group: pace[group.name])
        if self._latest_ns is not None:
            first = groups[0]
            one_ns = first.load_ns() + first.footprint.before_ns[-1]
            if first.due_ns is None and view.now_ns + one_ns > self._latest_ns:
                groups.sort(key=lambda group: (group.due_ns is None, group.due_ns))
        passed = {group.name: oldest for group in groups if (oldest := self._passed(group)) is not None}
        if passed:
            groups.sort(key=lambda group: passed.get(group.name, self._seen[0] + max(self._known)))
        return groups

    def _passed(self, group: Group) -> int | None:
        """Return a group's oldest request if it was passed too often."""
        passed = len(self._answered) - bisect_right(self._answered, group.oldest)
        return group.oldest if passed >= PASSES else None

    def _group_of(self, standing: Standing) -> Group:
        name = standing.network.name
        if name not in self.groups:
            self.groups[name] = Group(Footprint(standing.network))
        return self.groups[name]

    def _note_answered(self, requests: Mapping[int, Standing]) -> None:
        for number in self._known:
            if number not in requests:
                insort(self._answered, number)
        oldest = next(iter(requests), None)
        kept = len(self._answered) if oldest is None else bisect_right(self._answered, oldest)
        del self._answered[:kept]

    def _plan_deadlines(self, view: View) -> None:
        """Choose what can be in time, and note when it has to begin at the latest.

        Earliest due first; where one would be late, the longest so far is given up (Moore and Hodgson, 1968: as few as
        possible are late).
        """
        due = [standing.request for standing in view.requests.values() if standing.request.deadline_ns is not None]
        self._latest_ns = None
        for group in self.groups.values():
            group.due_ns = None
        if not due:
            return
        kept = self._in_time(due, view)
        end_ns = 0
        for request in kept:
            group = self.groups[request.network]
            end_ns += self._work_ns(request, first=group.due_ns is None)
            deadline_ns = request.deadline_ns or 0
            group.due_ns = deadline_ns if group.due_ns is None else group.due_ns
            latest_ns = deadline_ns - end_ns
            self._latest_ns = latest_ns if self._latest_ns is None else min(self._latest_ns, latest_ns)
        place = {request.number: index for index, request in enumerate(kept)}
        for group in self.groups.values():
            group.waiting = deque(sorted(group.waiting, key=lambda number: place.get(number, len(place) + number)))

    def _in_time(self, due: Sequence[Request], view: View) -> Sequence[Request]:
        end_ns, heap, loaded = view.now_ns, list[tuple[int, int, Request]](), set[str]()
        for request in sorted(due, key=lambda request: (request.deadline_ns, request.number)):
            work_ns = self._work_ns(request, first=request.network not in loaded)
            loaded.add(request.network)
            heapq.heappush(heap, (-work_ns, request.number, request))
            end_ns += work_ns
            if end_ns > (request.deadline_ns or 0):
                end_ns += heapq.heappop(heap)[0]
        return sorted((request for _, _, request in heap), key=lambda r: (r.deadline_ns, r.number))

    def _work_ns(self, request: Request, *, first: bool) -> int:
        """Return what answering a request still takes; its network's absent weights are loaded for the first one."""
        group = self.groups[request.network]
        return group.left_ns(request.number) + (group.load_ns() if first else 0)
