"""An event clock: simulated time, which jumps from each event to the next.

Time is integer nanoseconds, so that a simulation gives the same answer on every machine; events at the same time
happen in the order in which they were requested.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable


def earliest_ns(times_ns: Iterable[int | None]) -> int | None:
    """Return the first of the times that are known; ``None`` where none is."""
    return min((time_ns for time_ns in times_ns if time_ns is not None), default=None)


class EventClock:
    """A heap of events, and the time of the last that happened.

    Args:
        start_ns: The time at first.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def now_ns(self) -> int:
        """Return simulated time, ns."""
        return self._now_ns

    def at(self, time_ns: int, happen: Callable[[], object]) -> None:
        """Call ``happen`` at ``time_ns``.

        Raises:
            ValueError: the time has passed.
        """
        if time_ns < self._now_ns:
            raise ValueError(f"{time_ns} ns has passed: it is {self._now_ns} ns")
        heapq.heappush(self._heap, (time_ns, next(self._numbers), happen))

    def next_ns(self) -> int | None:
        """Return the time of the next event, ns; ``None`` where there is none."""
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Go to the next event, if any, and call it."""
        if self._heap:
            self._now_ns, _, happen = heapq.heappop(self._heap)
            happen()

    def advance(self, *times_ns: int | None) -> None:
        """Move to the first of these times that are known and of the next event, and call every event due then."""
        first_ns = earliest_ns((*times_ns, self.next_ns()))
        if first_ns is not None:
            self.run_until(first_ns)

    def run_until(self, time_ns: int) -> None:
        """Call every event up to and including ``time_ns``; the clock then shows that time."""
        while self._heap and self._heap[0][0] <= time_ns:
            self.step()
        self._now_ns = max(self._now_ns, time_ns)
