"""Whose turn it is: requests grouped by network, because requests for one network need the same weights.

A group is what loading its absent weights and executing all its requests takes, for so many answers: the group that
gives an answer in the least time goes first (Smith's rule, 1956), except for deadlines and for those passed too often.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence

from edgetune.schedule.deadlines import Deadlines
from edgetune.schedule.footprint import Footprint
from edgetune.schedule.group import RequestGroup
from edgetune.schedule.view import RequestState, View

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
        """How much of what the view tells of that was taken in."""
        self._group_of: dict[int, RequestGroup] = {}
        """By the number of a request that is there."""
        self._answered: list[int] = []
        """Numbers of requests that are gone, ascending, from the oldest that waits on."""
        self._turn: tuple[RequestGroup, int] | None = None
        """Who goes first until so many of its requests are gone."""

    def update(self, view: View) -> None:
        """Take in what came and drop what was answered or failed."""
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

    def _group(self, state: RequestState) -> RequestGroup:
        name = state.network.name
        if name not in self.groups:
            self.groups[name] = RequestGroup(Footprint(state.network))
        return self.groups[name]
