"""Where requests come from: evenly spaced, at random, on answers, as a trace tells, or line by line from outside.

Evenly spaced, at random, one batch after the answers to another, and as recorded at another mean rate:

    uniform:60   |    |    |    |    |        poisson:60        | ||     |  |      ||
    closed:2     ||  (answered)  ||           trace:FILE@60/s   |   || |   |||    |
"""

from __future__ import annotations

import math
import os
import select
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

_READ_AT_ONCE = 1 << 20


class ArrivalSource(Protocol):
    """Where the requests of one tenant come from; times are of the stage's clock, ns."""

    def next_ns(self) -> int | None:
        """Return when the next request arrives, as far as that is known."""
        ...

    def take(self, now_ns: int) -> Sequence[int]:
        """Return when the requests arrived that have come up to now and were not taken yet, ascending."""
        ...

    def answered(self, requests: Sequence[int], now_ns: int) -> None:
        """Learn that requests were answered, by their numbers: what waits for answers sends the next ones then.

        They are numbered from 0 as they were taken, and need not be answered in that order.
        """
        ...

    @property
    def ended(self) -> bool:
        """Whether no more will come."""
        ...


class ScheduledArrivals:
    """Requests whose times are known beforehand, whatever becomes of them.

    Args:
        times_ns: When they arrive, ascending, on the stage's clock.
    """

    def __init__(self, times_ns: Iterator[int]) -> None:
        self._times_ns = times_ns
        self._next_ns = next(times_ns, None)

    def next_ns(self) -> int | None:
        """Return when the next request arrives."""
        return self._next_ns

    def take(self, now_ns: int) -> Sequence[int]:
        """Return when the requests arrived that have come up to now and were not taken yet."""
        taken: list[int] = []
        while self._next_ns is not None and self._next_ns <= now_ns:
            taken.append(self._next_ns)
            self._next_ns = next(self._times_ns, None)
        return taken

    def answered(self, requests: Sequence[int], now_ns: int) -> None:
        """Nobody waits for answers."""

    @property
    def ended(self) -> bool:
        """Whether all have been taken."""
        return self._next_ns is None


class ClosedLoopArrivals:
    """Clients that send their next request when the last was answered.

    Args:
        clients: How many there are.
        begin_ns: When they send their first.
        end_ns: From when on they send no more.
    """

    def __init__(self, clients: int, begin_ns: int, end_ns: int) -> None:
        self._sent_ns = deque([begin_ns] * clients)
        self._waiting, self._end_ns, self._over = 0, end_ns, False

    def next_ns(self) -> int | None:
        """Return when the next request arrives; ``None`` while all clients wait for answers."""
        return self._sent_ns[0] if self._sent_ns else None

    def take(self, now_ns: int) -> Sequence[int]:
        """Return when the requests arrived that have come up to now and were not taken yet."""
        taken: list[int] = []
        while self._sent_ns and self._sent_ns[0] <= now_ns:
            taken.append(self._sent_ns.popleft())
        return taken

    def answered(self, requests: Sequence[int], now_ns: int) -> None:
        """Have the clients that were answered send their next requests now, unless time is up."""
        self._over |= now_ns >= self._end_ns
        if not self._over:
            self._sent_ns.extend([now_ns] * len(requests))

    @property
    def ended(self) -> bool:
        """Whether time is up and nothing is left to take."""
        return self._over and not self._sent_ns


class LineArrivals:
    """Requests from outside, one a line; a stage may ``select`` on this until it has ``ended``.

    A request arrives when it is taken: the loop takes it as soon as the stage has seen that there is something to read.

    Args:
        descriptor: Of the file or pipe to read; 0 is standard input.
        end_ns: From when on what is written is no request of this run; ``None`` for as long as lines come.
    """

    def __init__(self, descriptor: int = 0, *, end_ns: int | None = None) -> None:
        self._descriptor, self._end_ns, self._partial, self._ended = descriptor, end_ns, b"", False
        self._texts: dict[int, str] = {}
        self._count = 0

    def fileno(self) -> int:
        """Return what to ``select`` on; only while it has not ended, for an end is readable for ever."""
        return self._descriptor

    def next_ns(self) -> None:
        """Return nothing: nobody knows when someone will write."""

    def take(self, now_ns: int) -> Sequence[int]:
        """Read what is there, without waiting for more; each whole line is a request that arrives now."""
        if self._ended:
            return []
        self._ended = self._end_ns is not None and now_ns >= self._end_ns
        if not select.select([self._descriptor], [], [], 0)[0]:
            return []
        data = os.read(self._descriptor, _READ_AT_ONCE)
        self._ended |= not data
        *whole, self._partial = (self._partial + data).split(b"\n")
        if not data and self._partial:
            whole, self._partial = [self._partial], b""
        for line in whole:
            self._texts[self._count] = line.decode("utf-8", "replace").rstrip("\r")
            self._count += 1
        return [now_ns] * len(whole)

    def text(self, request: int) -> str:
        """Return the line of a request by its number, from 0; it is forgotten once answered."""
        return self._texts[request]

    def answered(self, requests: Sequence[int], now_ns: int) -> None:  # noqa: ARG002
        """Forget the lines that were answered."""
        for request in requests:
            self._texts.pop(request, None)

    @property
    def ended(self) -> bool:
        """Whether the end of the file was read, or it is too late for more."""
        return self._ended


def rates_per_window(arrivals_s: Sequence[float], window_s: float, duration_s: float) -> list[float]:
    """Return how many requests per second arrived in each window; the last may be shorter than ``window_s``."""
    counts = [0] * max(math.ceil(duration_s / window_s), 1)
    for arrived_s in arrivals_s:
        counts[min(int(arrived_s / window_s), len(counts) - 1)] += 1
    last_s = duration_s - window_s * (len(counts) - 1)
    return [count / window_s for count in counts[:-1]] + [counts[-1] / last_s]
