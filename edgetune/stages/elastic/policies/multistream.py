"""The policy ``multistream``, which is what CUDA offers by itself, and ``solo``, a task alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from edgetune.stages.elastic.view import Decision, LaunchChain, View, by_priority


class MultiStream:
    """Every request at once, on its task's stream.

        critical  [a1 a2   a3]     [a1 a2 a3]
        normal    [b1   b2     b3  b4   b5 b6]

    The GPU prefers blocks of a stream of higher priority when one becomes free, but takes none away: a critical kernel
    waits for blocks that are there, and shares multiprocessors, caches and memory with whatever is beside it.
    """

    name: ClassVar[str] = "multistream"

    def decide(self, view: View) -> Sequence[Decision]:
        """Return all requests that have come."""
        waiting = by_priority(state for state in view.tasks if state.arrived_ns)
        return [LaunchChain(state.task.name) for state in waiting for _ in state.arrived_ns]


SOLO = "solo"
"""Its name in timelines; it is no policy to choose from, but the yardstick of latencies."""


class Solo:
    """Launches every request as it comes."""

    name: ClassVar[str] = SOLO

    def decide(self, view: View) -> Sequence[Decision]:
        """Return a chain for every request that waits."""
        return [LaunchChain(each.task.name) for each in view.tasks for _ in each.arrived_ns]
