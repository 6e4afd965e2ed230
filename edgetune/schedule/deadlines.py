"""Which requests can be in time, and when that has to begin at the latest.

Earliest due first; where one would be late, the longest so far is given up (Moore and Hodgson, 1968: as few as possible
are late).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence

from edgetune.schedule.group import RequestGroup
from edgetune.schedule.request import Request

_STALE = 1 / 16
"""The plan is made anew after changes to this part of the queue: in a short one at every change. Until then what comes
is taken to be in time if it would be alone, so that in a long queue a change costs what it does in one of 16."""


class Deadlines:
    """The plan; each group learns which of its requests are in it.

    Args:
        groups: By network, as the agenda keeps them.
    """

    def __init__(self, groups: dict[str, RequestGroup]) -> None:
        self._groups = groups
        self._due: list[tuple[int, int]] = []
        """When requests are due, and their numbers, ascending."""
        self._known: dict[int, Request] = {}
        """Those of them that are there."""
        self._changed = 0
        """How often anything came or went since the plan was made."""
        self.latest_ns: int | None = None
        """When what can be in time has to begin at the latest."""

    def come(self, request: Request, now_ns: int) -> None:
        """Take in a request that came, if it is due at any time."""
        if request.deadline_ns is None:
            return
        self._known[request.number] = request
        insort(self._due, (request.deadline_ns, request.number))
        latest_ns = request.deadline_ns - self._work_ns(request, first=True)
        if latest_ns >= now_ns:
            insort(self._groups[request.network].in_time, (request.deadline_ns, request.number))
            self.latest_ns = latest_ns if self.latest_ns is None else min(self.latest_ns, latest_ns)

    def leave(self, number: int) -> None:
        """Drop a request that is gone."""
        request = self._known.pop(number, None)
        if request is None:
            return
        place = (request.deadline_ns or 0, number)
        for places in (self._due, self._groups[request.network].in_time):
            at = bisect_left(places, place)
            if at < len(places) and places[at] == place:
                del places[at]

    def plan(self, now_ns: int) -> None:
        """Choose anew what can be in time after a change, if enough has changed by now."""
        self._changed += 1
        if not self._known or self._changed <= len(self._due) * _STALE:
            return
        self._changed = 0
        del self._due[: bisect_left(self._due, (now_ns, 0))]  # late for good
        self.latest_ns = None
        for group in self._groups.values():
            group.in_time = []
        end_ns = 0
        for request in self._in_time(now_ns):
            group, due_ns = self._groups[request.network], request.deadline_ns or 0
            end_ns += self._work_ns(request, first=not group.in_time)
            group.in_time.append((due_ns, request.number))
            self.latest_ns = due_ns - end_ns if self.latest_ns is None else min(self.latest_ns, due_ns - end_ns)

    def _in_time(self, now_ns: int) -> Sequence[Request]:
        """Return what can be in time, in the order in which it is due."""
        end_ns, heap, loaded = now_ns, list[tuple[int, int]](), set[str]()
        for due_ns, number in self._due:
            request = self._known[number]
            work_ns = self._work_ns(request, first=request.network not in loaded)
            loaded.add(request.network)
            heapq.heappush(heap, (-work_ns, number))
            end_ns += work_ns
            if end_ns > due_ns:
                end_ns += heapq.heappop(heap)[0]
        kept = {number for _, number in heap}
        return [self._known[number] for _, number in self._due if number in kept]

    def _work_ns(self, request: Request, *, first: bool) -> int:
        """Return what answering a request still takes; its network's absent weights are loaded for the first one."""
        group = self._groups[request.network]
        return group.left_ns(request.number) + (group.load_ns() if first else 0)
