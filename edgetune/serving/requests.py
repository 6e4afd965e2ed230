"""Outcomes and latencies of requests, and the cost of decisions, for all stages.

This module imports only the standard library, because processes that run networks import it.

How many background minibatches a policy runs between two batches of requests when they may run on while one fills.

    full            full            full             batches fill in one period each
    | answer | step | step |        |
                    |   answer | step | step | ...   the second step delays the next batch, within the latency budget

A step begins while no full batch waits, and a batch ``spare`` after it is full at the latest. With no time to spare a
step has to fit between two batches, and the whole number k of Fulcrum (2025, section 4) comes out; with as much to
spare as a step takes, no time is lost.

Sources of a run's requests: a list of times, clients that wait for answers, or lines of input.
"""

import math
import os
import select
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, Protocol, TypeVar, Union

from edgetune import limits
from edgetune.stats import percentile

if TYPE_CHECKING:
    from edgetune.artifacts.kernel_timeline import KernelTimelineRow
    from edgetune.artifacts.run import RunRow
    from edgetune.artifacts.timeline import TimelineRow

Outcome = Literal["ok", "failed", "abandoned"]
"""Outcome of a request; ``abandoned`` where the run ended, or broke down, before its answer."""


RequestRow = Union["RunRow", "TimelineRow", "KernelTimelineRow"]
"""A row of a request, in a file of any stage: its ``status``, ``reason``, ``arrived_s`` and ``finished_s``."""
Row = TypeVar("Row", "RunRow", "TimelineRow", "KernelTimelineRow")


def group_turns(
    rows: Iterable[Row], name_of: Callable[[Row], str], *, by_turn: bool
) -> Iterator[tuple[str, dict[int, list[Row]]]]:
    """Yield each engine or policy with its rows by turn, in the order of first rows.

    Args:
        rows: Of a run.
        name_of: Returns the engine or policy of a row.
        by_turn: Whether to yield each turn by itself.
    """
    found: dict[str | tuple[str, int], dict[int, list[Row]]] = {}
    for row in rows:
        name = name_of(row)
        found.setdefault((name, row.turn) if by_turn else name, {}).setdefault(row.turn, []).append(row)
    for key, turns in found.items():
        yield key if isinstance(key, str) else key[0], dict(sorted(turns.items()))


class OutcomeCounts(NamedTuple):
    """Numbers of requests by outcome."""

    requests: int
    answered: int
    failed: int
    abandoned: int


def count_outcomes(rows: Sequence[RequestRow]) -> OutcomeCounts:
    """Return the numbers of requests by outcome."""
    statuses = [row.status for row in rows]
    return OutcomeCounts(len(rows), *(statuses.count(status) for status in ("ok", "failed", "abandoned")))


def latencies_s(rows: Iterable[RequestRow]) -> list[float]:
    """Return the latency from arrival to answer of every answered request, s, in the order of the rows."""
    return [row.finished_s - row.arrived_s for row in rows if row.status == "ok" and row.arrived_s is not None]


def percentiles_s(times_s: Sequence[float], *percents: float) -> tuple[float | None, ...]:
    """Return percentiles of latencies, s; each ``None`` without latencies."""
    ordered = sorted(times_s)
    return tuple(percentile(ordered, percent) if ordered else None for percent in percents)


def first_failure(rows: Iterable[RequestRow]) -> str | None:
    """Return the reason of the first failed request; ``None`` without one."""
    return next((row.reason for row in rows if row.status == "failed" and row.reason is not None), None)


@dataclass(slots=True)
class DecisionOverhead:
    """The real-time cost of a policy's decisions.

    Args:
        decisions: Number of decisions.
        decisions_s: Total duration, s.
        longest_s: Longest duration without a pause, s.
    """

    decisions: int = 0
    decisions_s: float = 0.0
    longest_s: float = 0.0

    def add(self, took_s: float, decisions: int = 1) -> None:
        """Add decisions with their total duration, s."""
        self.decisions += decisions
        self.decisions_s += took_s
        self.longest_s = max(self.longest_s, took_s)


_SETTLING, _CYCLES = 16, 128
"""Batches before the mean and over which it is taken: whole steps per batch vary from one to the next."""
_STEPS, _MOST_CYCLES = 32, 4096
"""The mean is taken over the batches that go with so many steps, where that is more, up to a bound."""
_A_WHOLE = 1e-9
"""Rounding error allowed in a whole number of steps."""


def steps_per_batch(period_s: float, answer_s: float, step_s: float, spare_s: float) -> float:
    """Return the mean number of background steps per batch of requests, where none is started that delays one too long.

    Args:
        period_s: Time in which a batch fills, s.
        answer_s: Time that a batch takes, s.
        step_s: Time that a background step takes, s, above zero.
        spare_s: Longest delay of a full batch, s; infinite without a latency budget.
    """
    free_s = max(period_s - answer_s, 0.0)
    if spare_s >= step_s or free_s == 0:
        return free_s / step_s
    cycles = min(max(_CYCLES, math.ceil(_STEPS * step_s / free_s)), _MOST_CYCLES)
    delay_s, steps = 0.0, 0
    for cycle in range(_SETTLING + cycles):
        idle_s = period_s - delay_s - answer_s
        fit = math.floor((idle_s + spare_s) / step_s + _A_WHOLE)
        begin = math.ceil(idle_s / step_s - _A_WHOLE)  # before the next batch is full
        count = max(min(fit, begin), 0)
        delay_s = max(count * step_s - idle_s, 0.0)
        steps += count if cycle >= _SETTLING else 0
    return steps / cycles


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
