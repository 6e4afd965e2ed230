"""Sources of a run's requests: a list of times, clients that wait for answers, or lines of input."""

import os
import select
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from edgetune import limits

_READ_AT_ONCE = 1 << 20

Each = TypeVar("Each")
Each_co = TypeVar("Each_co", covariant=True)


class RequestSource(Protocol[Each_co]):
    """A source of requests during a run; times are on the stage's clock, ns."""

    def next_ns(self) -> int | None:
        """Return the arrival time of the next request; ``None`` if unknown."""
        ...

    def take(self, now_ns: int) -> Sequence[Each_co]:
        """Return the requests that have arrived and are not taken yet, in the order of arrival."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no more requests will arrive."""
        ...


class ArrivalSource(RequestSource[int], Protocol):
    """The source of one tenant's requests, each its arrival time, ns."""

    def answered(self, requests: Sequence[int], now_ns: int) -> None:
        """Note that requests were answered.

        Args:
            requests: Their numbers, in any order; requests are numbered from 0 as they were taken.
            now_ns: When; clients of a closed loop send their next request then.
        """
        ...


class ListedRequests(Generic[Each]):
    """Requests known before the run.

    Args:
        requests: In the order of arrival.
        arrival_ns: Returns when a request arrives.
    """

    def __init__(self, requests: Iterable[Each], arrival_ns: Callable[[Each], int]) -> None:
        self._coming, self._arrival_ns = iter(requests), arrival_ns
        self._next = next(self._coming, None)

    def next_ns(self) -> int | None:
        """Return when the next request arrives."""
        return None if self._next is None else self._arrival_ns(self._next)

    def take(self, now_ns: int) -> Sequence[Each]:
        """Return the requests that have arrived and are not taken yet."""
        taken: list[Each] = []
        while self._next is not None and self._arrival_ns(self._next) <= now_ns:
            taken.append(self._next)
            self._next = next(self._coming, None)
        return taken

    @property
    def ended(self) -> bool:
        """Whether all requests are taken."""
        return self._next is None


class ScheduledArrivals(ListedRequests[int]):
    """Requests of fixed times, ns on the stage's clock, ascending."""

    def __init__(self, times_ns: Iterable[int]) -> None:
        super().__init__(times_ns, int)

    def answered(self, requests: Sequence[int], now_ns: int) -> None:
        """Do nothing, because no client waits for answers."""


class ClosedLoopArrivals:
    """Clients that each send a request when the previous one is answered.

    Args:
        clients: Number of clients.
        begin_ns: Time of their first requests.
        end_ns: Time from which they send no requests.
    """

    def __init__(self, clients: int, begin_ns: int, end_ns: int) -> None:
        self._sent_ns = deque([begin_ns] * clients)
        self._end_ns, self._over = end_ns, False

    def next_ns(self) -> int | None:
        """Return the arrival time of the next request; ``None`` while all clients wait for answers."""
        return self._sent_ns[0] if self._sent_ns else None

    def take(self, now_ns: int) -> Sequence[int]:
        """Return the arrival times of requests that have arrived and are not taken yet."""
        taken: list[int] = []
        while self._sent_ns and self._sent_ns[0] <= now_ns:
            taken.append(self._sent_ns.popleft())
        return taken

    def answered(self, requests: Sequence[int], now_ns: int) -> None:
        """Let the answered clients send their next requests now, unless the run has ended."""
        self._over |= now_ns >= self._end_ns
        if not self._over:
            self._sent_ns.extend([now_ns] * len(requests))

    @property
    def ended(self) -> bool:
        """Whether the run has ended and all requests are taken."""
        return self._over and not self._sent_ns


class LineArrivals:
    """Requests from outside, one per line; a stage may ``select`` on this source until it has ``ended``.

    A request arrives when it is taken, which the loop does as soon as the stage sees readable input. While as many
    requests wait as the limit ``requests`` allows, no lines are taken: the writer waits.

    Args:
        descriptor: Descriptor of the file or pipe to read; 0 is standard input.
        end_ns: Time from which lines are ignored; ``None`` reads to the end of input.
    """

    def __init__(self, descriptor: int = 0, *, end_ns: int | None = None) -> None:
        self._descriptor, self._end_ns, self._unread, self._closed, self.ended = descriptor, end_ns, b"", False, False
        self._texts: dict[int, str] = {}
        self._count = 0
        self.was_full = False
        """Whether lines had to wait until others were answered."""

    @property
    def full(self) -> bool:
        """Whether as many requests wait as the limit allows, so that no lines are taken."""
        return len(self._texts) >= limits.limit("requests")

    def fileno(self) -> int:
        """Return the descriptor to ``select`` on until the source has ended, because an ended input stays readable."""
        return self._descriptor

    def next_ns(self) -> None:
        """Return ``None``, because the time of the next line is unknown."""

    def take(self, now_ns: int) -> Sequence[int]:
        """Read the available input without waiting; each whole line is a request that arrives now."""
        if self.ended:
            return []
        free = max(limits.limit("requests") - len(self._texts), 0)
        unread = free and not self._closed and b"\n" not in self._unread
        if unread and select.select([self._descriptor], [], [], 0)[0]:
            data = os.read(self._descriptor, _READ_AT_ONCE)
            self._unread, self._closed = self._unread + data, not data
        *whole, self._unread = self._unread.split(b"\n", free)
        if self._closed and self._unread and len(whole) < free:
            whole, self._unread = [*whole, self._unread], b""
        self.ended = (self._closed and not self._unread) or (self._end_ns is not None and now_ns >= self._end_ns)
        self.was_full |= b"\n" in self._unread
        for line in whole:
            self._texts[self._count] = line.decode("utf-8", "replace").rstrip("\r")
            self._count += 1
        return [now_ns] * len(whole)

    def text(self, request: int) -> str:
        """Return the line of an unanswered request by its number, from 0."""
        return self._texts[request]

    def answered(self, requests: Sequence[int], now_ns: int) -> None:  # noqa: ARG002
        """Forget the lines of answered requests."""
        for request in requests:
            self._texts.pop(request, None)
