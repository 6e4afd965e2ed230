"""An event clock: what happens next happens now, however long it would have taken.

Time is integer nanoseconds, so that a simulation gives the same answer on every machine; events at the same time
happen in the order in which they were asked for.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class EventClock:
    """A heap of things to happen, and the time of the last that did.

    Args:
        start_ns: What the clock shows at first.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def now_ns(self) -> int:
        """Return simulated time, ns."""
        return self._now_ns

    def at(self, time_ns: int, happen: Callable[[], object]) -> None:
        """Have ``happen`` called at ``time_ns``.

        Raises:
            ValueError: that time has passed.
        """
        if time_ns < self._now_ns:
            raise ValueError(f"{time_ns} ns has passed: it is {self._now_ns} ns")
        heapq.heappush(self._heap, (time_ns, next(self._numbers), happen))

    def next_ns(self) -> int | None:
        """Return when something happens next, ns; ``None`` when nothing will."""
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Go to the next event and let it happen; nothing, where there is none."""
        if self._heap:
            self._now_ns, _, happen = heapq.heappop(self._heap)
            happen()

    def run_until(self, time_ns: int) -> None:
        """Let everything up to and including ``time_ns`` happen; the clock then shows that time."""
        while self._heap and self._heap[0][0] <= time_ns:
            self.step()
        self._now_ns = max(self._now_ns, time_ns)
