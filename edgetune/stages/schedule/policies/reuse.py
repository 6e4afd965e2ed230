"""The policy ``reuse``: weights are shared, stay while they will be needed, and are loaded before they are."""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.policies.request_groups import RequestGroup, can_all_finish
from edgetune.stages.schedule.policies.request_order import NextUse, RequestOrder
from edgetune.stages.schedule.state import View
from edgetune.stages.schedule.tasks import LayerTask

_BEGUN = 64
"""So many requests may have begun at once: what they have computed holds memory, and all are looked at."""
_WORTH = 4
"""Storage that is busy has a load more where that takes at most this part of the execution that it is for."""


class Reuse(SchedulePolicy):
    """Shares weights, loads ahead and keeps weights, where networks come again and loading can hide behind executing.

    *Sharing.* All requests for a network use the same weights. The network that gives an answer in the least time goes
    first (``RequestOrder``). A request that ``request_order.PASSES`` later ones have passed goes before all others of
    its network, which is then next: at most that many for each network pass it, besides those that have begun by then.

    *Deadlines.* Of the requests that can be in time, the one due first begins before it would be late, with everything
    else that can be in time and is due before; until then shorter ones go first. A request that will be late delays no
    other until it was passed too often.

    *Look-ahead.* For the first network in that order: executions, then the load that is needed next; then the same for
    the second, and so on, as long as there are workers, cores and storage that would be idle.

    *Residency.* Weights stay until others that will be used sooner need their memory (``NextUse``). Where a network's
    weights cannot all stay, several of its requests go through each layer together, as many as it takes for executing
    them to last as long as loading: more would only wait for each other.

    *Safety.* An execution begins only if all requests that have begun can still finish one after another
    (``can_all_finish``), and a task of another network only if the one in service keeps the memory that it needs to go
    on. So there is no deadlock, and no need to exceed the budget.
    """

    name = "reuse"
    shares_weights = True

    def __init__(self) -> None:
        self._request_order = RequestOrder()
        self._planned: deque[LayerTask] = deque()
        """The tasks to choose next: unloads, and the task that they make room for."""

    def choose(self, view: View) -> LayerTask | None:
        """Return the next task."""
        task = self._next_planned(view) or self._choose(view)
        if task is not None:
            self._request_order.groups[task.network].note(task)
        return task

    def note(self, task: LayerTask, view: View) -> None:
        """Take notice of a task that another policy chose, and that this one may have to go on after."""
        self._request_order.update(view)
        self._request_order.groups[task.network].note(task)

    def _choose(self, view: View) -> LayerTask | None:
        self._request_order.update(view)
        if not view.idle_workers or not view.requests:
            return None
        order = self._request_order.order(view)
        executing = sum(task.kind == "execute" for task in view.running)
        execute, load = executing < view.cores, len(view.running) - executing < view.streams
        for group in order:
            if execute:
                for task in self._executions(group, view):
                    if self._leaves_room(task, order[0], view) and self._make_room(task, order, view):
                        return self._planned.popleft()
            target = self._load(group, view) if load else None
            if target is not None:
                if self._leaves_room(target, order[0], view) and self._make_room(target, order, view):
                    return self._planned.popleft()
                load = False  # what is needed sooner has the first claim on memory
            if not execute and not load:
                break
        if not view.running:
            return self._force(order, view)
        return self._extra_load(order, view)

    def _extra_load(self, order: Sequence[RequestGroup], view: View) -> LayerTask | None:
        """Return a load for a worker that has nothing else to do, though storage is busy already.

        It delays what is being loaded by at most what it takes: that is worth it where its execution takes much longer.
        """
        for group in order:
            task = self._load(group, view)
            if task is None:
                continue
            worth = _WORTH * task.duration_ns < group.footprint.network.execute_ns[task.layer]
            if worth and self._leaves_room(task, order[0], view) and self._make_room(task, order, view):
                return self._planned.popleft()
        return None

    def _next_planned(self, view: View) -> LayerTask | None:
        """Return the next of what was planned, if that is still possible."""
        if not self._planned:
            return None
        task = self._planned.popleft()
        if task.kind == "unload" or task.bytes <= view.free_bytes:
            return task
        self._planned.clear()
        return None

    def _members(self, group: RequestGroup, view: View) -> Iterator[int]:
        """Iterate over a group's requests that may go on: all begun, and as many more as may run side by side."""
        held = self._held()
        limit = self._convoy(group, view)
        begun = group.begun
        first_left = group.footprint.first_left
        for number in sorted(begun, key=lambda number: (-first_left(begun[number]), number)):
            done = begun[number]
            if done != group.footprint.all_executed and self._can_finish(group, done, held, view):
                yield number
        if self._can_finish(group, 0, held, view):
            room = min(limit - len(begun), _BEGUN - self._begun())
            yield from islice(self._request_order.queue(group), max(room, 0))

    def _can_finish(self, group: RequestGroup, done: int, held: int, view: View) -> bool:
        """Return whether a request that has executed so much could go on to its answer beside what others hold."""
        footprint = group.footprint
        return held - footprint.held(done) + footprint.needed(done) <= view.budget_bytes

    def _executions(self, group: RequestGroup, view: View) -> Iterator[LayerTask]:
        for number in self._members(group, view):
            for task in view.requests[number].executions():
                if self._is_safe(task, view):
                    yield task

    def _load(self, group: RequestGroup, view: View) -> LayerTask | None:
        """Return the load that a group needs first."""
        if not group.absent:
            return None
        for number in self._members(group, view):
            loads = view.requests[number].loads()
            if loads:
                return loads[0]
        if group.waiting and self._can_finish(group, 0, self._held(), view):
            loads = view.requests[next(self._request_order.queue(group))].loads()
            if loads:
                return loads[0]
        return None

    def _reserve(self, task: LayerTask, view: View) -> int:
        """Return what executions need that come before the one that weights are for: else these would have to leave."""
        if task.kind != "load":
            return 0
        group = self._request_order.groups[task.network]
        done = group.begun.get(task.request, 0)
        executing = sum(each.bytes for each in view.running if each.request == task.request and each.kind == "execute")
        return max(group.footprint.growth_until(done, task.layer) - executing, 0)

    def _leaves_room(self, task: LayerTask, first: RequestGroup, view: View) -> bool:
        """Return whether the group in service has the memory left that it needs to go on, beside a task of another.

        Weights that nothing uses can leave at once; what runs, and what has been computed, cannot.
        """
        if task.network == first.name:
            return True
        taken = self._held() - sum(first.footprint.held(done) for done in first.begun.values())
        for each in [*view.running, task]:
            if each.network != first.name:
                taken += each.bytes
                if each.kind == "execute":
                    taken += self._request_order.groups[each.network].footprint.network.layers[each.layer].weight_bytes
        needed = max(map(first.footprint.needed, first.begun.values() or [0]))
        return taken + needed <= view.budget_bytes

    def _make_room(self, task: LayerTask, order: Sequence[RequestGroup], view: View) -> bool:
        """Plan a task and what has to leave for it; return whether that is possible."""
        lacking = task.bytes + self._reserve(task, view) - view.free_bytes
        leaving: Sequence[LayerTask] | None = []
        if lacking > 0:
            uses = NextUse(order, self._request_order.groups, view)
            leaving = uses.leaving(view.unloads(), lacking, uses.after_ns(task.network, task.layer))
        if leaving is None:
            return False
        self._planned.extend([*leaving, task])
        return True

    def _force(self, order: Sequence[RequestGroup], view: View) -> LayerTask | None:
        """Return what to do where nothing runs and nothing fits: the first that does once all others have left."""
        tasks = [task for group in order for task in self._executions(group, view)]
        tasks += [task for group in order if (task := self._load(group, view)) is not None]
        uses = NextUse(order, self._request_order.groups, view)
        for task in tasks:
            others = [each for each in view.unloads() if (each.copy, each.layer) != (task.copy, task.layer)]
            leaving = uses.leaving(others, task.bytes - view.free_bytes, -1.0)
            if leaving is not None:
                self._planned.extend([*leaving, task])
                return self._planned.popleft()
        return view.executions.smallest or view.loads.smallest

    def _is_safe(self, task: LayerTask, view: View) -> bool:
        """Return whether all that have begun can still finish after an execution, one after another."""
        holds: list[tuple[int, int]] = []
        for group in self._request_order.groups.values():
            footprint = group.footprint
            for number, done in group.begun.items():
                after = done | 1 << task.layer if number == task.request else done
                holds.append((footprint.held(after), footprint.needed(after)))
        group = self._request_order.groups[task.network]
        if task.request not in group.begun:
            holds.append((group.footprint.held(1 << task.layer), group.footprint.needed(1 << task.layer)))
        return can_all_finish(holds, view.budget_bytes)

    def _convoy(self, group: RequestGroup, view: View) -> int:
        """Return how many requests of a group go on together, layer by layer.

        Where weights cannot all stay, as many as it takes for executing them to last as long as loading.
        """
        network, footprint = group.footprint.network, group.footprint
        room = view.budget_bytes - footprint.growth(0)
        excess = max(network.weight_bytes - room, 0) / max(network.weight_bytes, 1)
        reload_ns = sum(footprint.network.load_ns) * excess
        return view.cores + math.ceil(reload_ns * view.cores / max(footprint.before_ns[-1], 1))

    def _held(self) -> int:
        return sum(g.footprint.held(done) for g in self._request_order.groups.values() for done in g.begun.values())

    def _begun(self) -> int:
        return sum(len(group.begun) for group in self._request_order.groups.values())
