"""How each tenant stands in a run: what waits, what is on the device, and what its minibatches take."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, overload

from edgetune.interleave.estimate import Estimate
from edgetune.interleave.tenants import Inference, Training
from edgetune.units import NS

_GAP_WEIGHT = 1 / 16
"""Weight of the newest gap between requests in the running mean that policies see."""


class Source(Protocol):
    """Where the requests of one tenant come from; times are of the stage's clock, ns."""

    def next_ns(self) -> int | None:
        """Return when the next request arrives, as far as that is known."""
        ...

    def take(self, now_ns: int) -> Sequence[int]:
        """Return when the requests arrived that have come up to now and were not taken yet, ascending."""
        ...

    def answered(self, count: int, now_ns: int) -> None:
        """Learn that requests were answered: what waits for answers sends the next ones then."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no more will come."""
        ...


class Arrivals(Sequence[int]):
    """When the requests arrived that wait, as policies see them: a view, for under overload they are many."""

    def __init__(self, waiting: deque[tuple[int, int]]) -> None:
        self._waiting = waiting

    def __len__(self) -> int:
        return len(self._waiting)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [arrived_ns for _, arrived_ns in self._waiting][place]
        return self._waiting[place][1]


@dataclass(slots=True)
class Served:
    """An inference tenant in the loop."""

    tenant: Inference
    source: Source
    estimate: Estimate
    waiting: deque[tuple[int, int]] = field(default_factory=deque)
    """Number and arrival of each request that waits."""
    next_request: int = 0
    next_minibatch: int = 0
    gap_ns: float | None = None
    last_arrival_ns: int | None = None
    since_ns: int | None = None
    on_device: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    lost: bool = False

    def line_up(self, arrived_ns: int) -> None:
        """Have a request wait, and follow the mean gap between them."""
        self.waiting.append((self.next_request, arrived_ns))
        self.next_request += 1
        if self.last_arrival_ns is not None:
            gap_ns = arrived_ns - self.last_arrival_ns
            before_ns = gap_ns if self.gap_ns is None else self.gap_ns
            self.gap_ns = before_ns + _GAP_WEIGHT * (gap_ns - before_ns)
        self.last_arrival_ns = arrived_ns


@dataclass(slots=True)
class Trained:
    """A training tenant in the loop."""

    tenant: Training
    estimate: Estimate
    next_minibatch: int = 0
    served_ns: int = 0
    since_ns: list[int] = field(default_factory=list)
    lost: bool = False


def served_by(tenant: Inference, source: Source) -> Served:
    """Return a tenant that answers as it stands before its first request."""
    gap_ns = None if tenant.rate_per_s is None else NS / tenant.rate_per_s
    return Served(tenant, source, Estimate(round(tenant.minibatch_s * NS)), gap_ns=gap_ns)
