"""How each tenant stands in a run: what waits, what is on the device, and what its minibatches take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

from edgetune.interleave.estimate import DurationEstimate
from edgetune.interleave.tenants import Inference, Training
from edgetune.serving.sources import ArrivalSource
from edgetune.units import NS

_GAP_WEIGHT = 1 / 16
"""Weight of the newest gap between requests in the running mean that policies see."""


class WaitingRequests(Sequence[int]):
    """The requests of a tenant that wait, the oldest first; to policies, when they arrived.

    Under overload they are many, and taken from the middle, where those are that can still be in time: every one is
    found at once by its place, and taking some moves only those that came after them.
    """

    def __init__(self) -> None:
        self._requests: list[tuple[int, int]] = []
        """Number and arrival of each, after as many as ``_gone`` that wait no more."""
        self._gone = 0

    def __len__(self) -> int:
        return len(self._requests) - self._gone

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [arrived_ns for _, arrived_ns in self._requests[self._gone :][place]]
        if place < -len(self):
            raise IndexError(place)
        return self._requests[place if place < 0 else place + self._gone][1]

    def append(self, number: int, arrived_ns: int) -> None:
        """Have a request wait behind the others."""
        self._requests.append((number, arrived_ns))

    def take(self, count: int, passed: int = 0) -> tuple[tuple[int, int], ...]:
        """Take the number and arrival of ``count`` requests, the oldest first; see ``Serve``."""
        begin = self._gone + passed
        later = self._requests[begin : begin + count] if passed else []
        del self._requests[begin : begin + len(later)]
        older = self._requests[self._gone : self._gone + count - len(later)]
        self._gone += len(older)
        if self._gone > len(self):
            del self._requests[: self._gone]
            self._gone = 0
        return (*older, *later)

    def take_all(self) -> tuple[tuple[int, int], ...]:
        """Take the number and arrival of all of them."""
        return self.take(len(self))


@dataclass(slots=True)
class InferenceTenant:
    """An inference tenant in the loop."""

    tenant: Inference
    source: ArrivalSource
    estimate: DurationEstimate
    waiting: WaitingRequests = field(default_factory=WaitingRequests)
    next_request: int = 0
    next_minibatch: int = 0
    gap_ns: float | None = None
    last_arrival_ns: int | None = None
    since_ns: list[int] = field(default_factory=list)
    on_device: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    lost: bool = False

    def line_up(self, arrived_ns: int) -> None:
        """Have a request wait, and follow the mean gap between them."""
        self.waiting.append(self.next_request, arrived_ns)
        self.next_request += 1
        if self.last_arrival_ns is not None:
            gap_ns = arrived_ns - self.last_arrival_ns
            before_ns = gap_ns if self.gap_ns is None else self.gap_ns
            self.gap_ns = before_ns + _GAP_WEIGHT * (gap_ns - before_ns)
        self.last_arrival_ns = arrived_ns


@dataclass(slots=True)
class TrainingTenant:
    """A training tenant in the loop."""

    tenant: Training
    estimate: DurationEstimate
    next_minibatch: int = 0
    served_ns: int = 0
    since_ns: list[int] = field(default_factory=list)
    lost: bool = False


def served_by(tenant: Inference, source: ArrivalSource) -> InferenceTenant:
    """Return a tenant that answers as it stands before its first request."""
    gap_ns = None if tenant.rate_per_s is None else NS / tenant.rate_per_s
    return InferenceTenant(tenant, source, DurationEstimate(round(tenant.minibatch_s * NS)), gap_ns=gap_ns)
