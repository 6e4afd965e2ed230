"""The order in which requests are served, which of them can be in time, and which weights leave memory.

Requests are grouped by network, because requests for one network need the same weights. A group takes the time to load
its absent weights and to execute all its requests: the group that gives an answer in the least time goes first (Smith's
rule, 1956), except for deadlines and for requests that were passed too often.
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence

from edgetune.stages.schedule.policies.request_groups import Footprint, RequestGroup
from edgetune.stages.schedule.request_state import RequestProgress
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.state import View
from edgetune.stages.schedule.tasks import LayerTask

_STALE = 1 / 16
"""The plan is made anew after changes to this share of the queue: in a short queue at every change. Until then a
request that comes counts as in time if it alone would be, so that in a long queue a change costs as in one of 16."""


class Deadlines:
    """The requests that can be in time, and when they have to begin; written to the ``in_time`` of their groups.

    Earliest due first; where one would be late, the longest so far is given up (Moore and Hodgson, 1968: as few as
    possible are late).

    Args:
        groups: By network, as ``RequestOrder`` keeps them.
    """

    def __init__(self, groups: dict[str, RequestGroup]) -> None:
        self._groups = groups
        self._due: list[tuple[int, int]] = []
        """When requests are due, and their numbers, ascending."""
        self._known: dict[int, Request] = {}
        """The requests that are due and not gone, by number."""
        self._changed = 0
        """The number of changes since the plan was made."""
        self.latest_ns: int | None = None
        """When the requests that can be in time have to begin at the latest."""

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
        """Choose anew which requests can be in time, if enough has changed by now."""
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
        """Return the requests that can be in time, earliest due first."""
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
        """Return the time that answering a request still takes; the first of its network loads the absent weights."""
        group = self._groups[request.network]
        return group.left_ns(request.number) + (group.load_ns() if first else 0)


class NextUse:
    """When weights will be used next, in the order of service.

    Weights leave memory that will be used again last, and of these those that come back fastest (after Belady, 1966).
    Nothing leaves for weights that are needed later than itself (Cao et al., SIGMETRICS 1995).

    Args:
        order: Groups with requests, as they will be served.
        groups: All groups there are, by name.
        view: Of the run.
    """

    def __init__(self, order: Sequence[RequestGroup], groups: dict[str, RequestGroup], view: View) -> None:
        self._groups, self._begin_ns, self._now_ns = groups, dict[str, float](), view.now_ns
        self._freed_bytes = view.memory.freed_bytes
        self._end_ns = 0.0
        for group in order:
            self._begin_ns[group.name] = self._end_ns
            self._end_ns += group.takes_ns(view.cores)

    def after_ns(self, network: str, layer: int) -> float:
        """Return the time until some weights will be used, ns."""
        group = self._groups[network]
        footprint, begin_ns = group.footprint, self._begin_ns.get(network)
        before_ns = footprint.before_ns
        if begin_ns is None:  # no request wants it now
            return self._end_ns + self._now_ns / max(group.arrivals, 1) + before_ns[layer]
        soonest = [
            max(before_ns[layer] - before_ns[footprint.first_left(done)], 0)
            for done in group.begun.values()
            if not done >> layer & 1
        ]
        if soonest:
            return begin_ns + min(soonest)
        left = sum(before_ns[-1] - before_ns[footprint.first_left(done)] for done in group.begun.values())
        again = before_ns[layer] if group.waiting else self._end_ns + self._now_ns / group.arrivals + before_ns[layer]
        return begin_ns + left + again

    def leaving(
        self, unloads: Sequence[LayerTask], lacking_bytes: int, later_than_ns: float
    ) -> Sequence[LayerTask] | None:
        """Return the weights to unload; ``None`` where too few may be unloaded.

        Args:
            unloads: Weights that can leave.
            lacking_bytes: The memory to make free.
            later_than_ns: Only those may leave that are used later than this, ns from now.
        """
        scored = []
        for task in unloads:
            after_ns, network = self.after_ns(task.network, task.layer), self._groups[task.network].footprint.network
            if after_ns > later_than_ns:
                weight_bytes, load_ns = network.layers[task.layer].weight_bytes, network.load_ns[task.layer]
                scored.append((after_ns * weight_bytes / max(load_ns, 1), task))
        scored.sort(key=lambda each: each[0], reverse=True)
        chosen: list[LayerTask] = []
        free_bytes = 0
        for _, task in scored:
            if free_bytes >= lacking_bytes:
                break
            chosen.append(task)
            free_bytes = self._free(chosen)
        if free_bytes < lacking_bytes:
            return None
        for task in reversed(chosen[:-1]):  # what is not needed after all, because a larger one was added
            fewer = [each for each in chosen if each is not task]
            if self._free(fewer) >= lacking_bytes:
                chosen = fewer
        return chosen

    def _free(self, unloads: Sequence[LayerTask]) -> int:
        """Return the bytes that some unloads free together: weights that layers share leave with the last of these."""
        return self._freed_bytes((task.copy, task.layer) for task in unloads)


PASSES = 100
"""After so many requests that came later have been answered before it, a request goes first, and its network has a turn
of so many answers; then the next network has one of which a request was passed too often.

So no more go before a request than this many for each network. Fewer, or turns of one answer, would have networks
change all the time in an overload, with their weights loaded anew for each: the overload would never end. More would be
felt as starvation. A run of the study has 150 arrivals.
"""


class RequestOrder:
    """Groups, kept up to date as requests come and are answered."""

    def __init__(self) -> None:
        self.groups: dict[str, RequestGroup] = {}
        self._deadlines = Deadlines(self.groups)
        self._came = self._gone = 0
        """The number of entries of the view's lists that were read."""
        self._group_of: dict[int, RequestGroup] = {}
        """By the number of a request that is there."""
        self._answered: list[int] = []
        """Numbers of requests that are gone, ascending, from the oldest that waits on."""
        self._turn: tuple[RequestGroup, int] | None = None
        """The group that goes first, until so many of its requests are gone."""

    def update(self, view: View) -> None:
        """Add requests that came and drop those that were answered or failed."""
        came, gone = view.came[self._came :], view.gone[self._gone :]
        if not came and not gone:
            return
        self._came += len(came)
        self._gone += len(gone)
        self._drop(gone, view)
        self._add(came, view)
        oldest = min((group.oldest for group in self.groups.values() if len(group)), default=None)
        kept = len(self._answered) if oldest is None else bisect_right(self._answered, oldest)
        del self._answered[:kept]
        self._deadlines.plan(view.now_ns)
        self._give_turn()

    def queue(self, group: RequestGroup) -> Iterator[int]:
        """Iterate over a group's requests that have not begun, in the order in which they are to."""
        return group.queue(self._overdue_before)

    def order(self, view: View) -> Sequence[RequestGroup]:
        """Return the groups with requests, in the order in which they are to be served."""
        groups = [group for group in self.groups.values() if len(group)]
        if len(groups) < 2:
            return groups
        groups.sort(key=lambda group: group.takes_ns(view.cores) / len(group))
        latest_ns = self._deadlines.latest_ns
        if latest_ns is not None:
            first = groups[0]
            one_ns = first.load_ns() + first.footprint.before_ns[-1]
            if first.due_ns is None and view.now_ns + one_ns > latest_ns:
                groups.sort(key=lambda group: (group.due_ns is None, group.due_ns))
        if self._turn is not None:
            before, turn = self._overdue_before, self._turn[0]
            groups.sort(key=lambda group: (group is not turn, min(group.oldest, before)))
        return groups

    @property
    def _overdue_before(self) -> int:
        """Requests with lower numbers were passed too often."""
        return self._answered[-PASSES] if len(self._answered) >= PASSES else -1

    def _give_turn(self) -> None:
        """End a turn that is over; give one to the network whose request has been overdue the longest."""
        if self._turn is not None:
            group, until = self._turn
            if len(group) and group.answered < until:
                return
        waiting = [group for group in self.groups.values() if len(group)]
        first = min(waiting, key=lambda group: group.oldest, default=None)
        overdue = first is not None and first.oldest < self._overdue_before
        self._turn = (first, first.answered + PASSES) if first is not None and overdue else None

    def _drop(self, gone: Sequence[int], view: View) -> None:
        for number in gone:
            group = self._group_of.pop(number, None)
            if group is None:  # it came and failed since
                continue
            if group.begun.get(number) != group.footprint.all_executed:
                group.update(view)
            group.leave(number)
            self._deadlines.leave(number)
            insort(self._answered, number)

    def _add(self, came: Sequence[int], view: View) -> None:
        states = [view.requests[number] for number in came if number in view.requests]
        groups = {state.network.name: self._group(state) for state in states}
        for group in groups.values():
            group.update(view)
        for state in states:
            number, group = state.request.number, groups[state.network.name]
            self._group_of[number] = group
            group.come(number)
            self._deadlines.come(state.request, view.now_ns)

    def _group(self, state: RequestProgress) -> RequestGroup:
        name = state.network.name
        if name not in self.groups:
            self.groups[name] = RequestGroup(Footprint(state.network))
        return self.groups[name]
