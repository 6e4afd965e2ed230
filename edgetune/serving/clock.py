"""An event clock: simulated time that advances from event to event.

Time is in integer nanoseconds, so that a simulation is the same on every machine. Events of the same time run in the
order of their registration.

How a caller watches and stops the loop of a run. It imports only the standard library, as ``serving.requests``.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar


def earliest_ns(times_ns: Iterable[int | None]) -> int | None:
    """Return the earliest known time; ``None`` without one."""
    return min((time_ns for time_ns in times_ns if time_ns is not None), default=None)


class EventClock:
    """A heap of events, and the time of the last event.

    Args:
        start_ns: The initial time.
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
        """Return the time of the next event, ns; ``None`` without one."""
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Advance to the next event, if any, and call it."""
        if self._heap:
            self._now_ns, _, happen = heapq.heappop(self._heap)
            happen()

    def advance(self, *times_ns: int | None) -> None:
        """Advance to the earliest of the known times and the next event, and call every event due then."""
        first_ns = earliest_ns((*times_ns, self.next_ns()))
        if first_ns is not None:
            self.run_until(first_ns)

    def run_until(self, time_ns: int) -> None:
        """Call every event up to and including ``time_ns``, and advance to that time."""
        while self._heap and self._heap[0][0] <= time_ns:
            self.step()
        self._now_ns = max(self._now_ns, time_ns)


Recorded = TypeVar("Recorded")


@dataclass(frozen=True, slots=True)
class Supervision(Generic[Recorded]):
    """What a loop asks its caller, and what it reports, while it runs.

    Args:
        stopped: Asked between events; once true, the loop ends early.
        poll_interval_ns: Longest time between two such questions; ``None`` where everything that changes is an event of
            the backend.
        on_record: Called with every record as it is made.
    """

    stopped: Callable[[], bool] = lambda: False
    poll_interval_ns: int | None = None
    on_record: Callable[[Recorded], None] = lambda _: None


UNSUPERVISED: Supervision[Any] = Supervision()
"""The run goes on to its end, and nobody looks on."""
