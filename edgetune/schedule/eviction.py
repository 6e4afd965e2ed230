"""Which weights leave memory: those that will be used again last, and of these those that come back fastest.

    agenda    | faces: 3 requests | age: 1 request | nobody waits for: made, scenes
    next use  now ............................... after the queue, by how often they came so far

After Belady (1966), on what is known of the future; and as Cao et al. (SIGMETRICS 1995) have it for prefetching:
nothing leaves for weights that are needed later than itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.schedule.group import RequestGroup
from edgetune.schedule.view import LayerTask, View


class NextUse:
    """When weights will be used next, by an agenda.

    Args:
        order: Groups with requests, as they will be served.
        groups: All groups there are, by name.
        view: What the agenda is of.
    """

    def __init__(self, order: Sequence[RequestGroup], groups: dict[str, RequestGroup], view: View) -> None:
        self._groups, self._begin_ns, self._now_ns = groups, dict[str, float](), view.now_ns
        self._end_ns = 0.0
        for group in order:
            self._begin_ns[group.name] = self._end_ns
            self._end_ns += group.takes_ns(view.cores)

    def after_ns(self, network: str, layer: int) -> float:
        """Return after how long some weights will be used, ns from now."""
        group = self._groups[network]
        footprint, begin_ns = group.footprint, self._begin_ns.get(network)
        before_ns = footprint.before_ns
        if begin_ns is None:  # nobody wants it now
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
        """Return what is to be unloaded, or ``None`` where too little may be.

        Args:
            unloads: Weights that can leave.
            lacking_bytes: How much room there must be more than there is.
            later_than_ns: Only those may leave that are used later than this, ns from now.
        """
        scored = []
        for task in unloads:
            after_ns = self.after_ns(task.network, task.layer)
            if after_ns > later_than_ns and task.bytes:
                load_ns = self._groups[task.network].footprint.load_ns[task.layer]
                scored.append((after_ns * task.bytes / max(load_ns, 1), task))
        scored.sort(key=lambda each: each[0], reverse=True)
        chosen: list[LayerTask] = []
        for _, task in scored:
            if lacking_bytes <= 0:
                break
            chosen.append(task)
            lacking_bytes -= task.bytes
        if lacking_bytes > 0:
            return None
        for task in reversed(chosen[:-1]):  # what is not needed after all, because a larger one was added
            if lacking_bytes + task.bytes <= 0:
                chosen.remove(task)
                lacking_bytes += task.bytes
        return chosen
