"""The snapshot that a policy sees and the decisions that it can take, in the simulator and on the device.

    requests ->[ queue of an inference tenant ]--\\
    requests ->[ queue of another             ]---> device: one minibatch at a time
    data     ->( a training job               )--/

Times are integer nanoseconds of one monotonic clock.

The state of each tenant in a run: requests that wait, minibatches on the device, and how long the next one takes.

An estimate of durations is cautious and corrected by every minibatch that runs. A slow minibatch raises it at once, so
that the next is not started on a stale estimate; the surcharge then fades with time, not with minibatches, because a
job that is not started any more would never be tried again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, overload

from edgetune.serving.requests import ArrivalSource
from edgetune.stages.interleave.backend import Inference, Tenant, Training
from edgetune.units import NS


@dataclass(slots=True)
class InferenceQueue:
    """An inference tenant now.

    Args:
        name: Of the tenant.
        batch_size: Requests that make a full minibatch.
        budget_ns: Every request is due this long after it arrived.
        minibatch_ns: Cautious duration of a minibatch.
        arrivals_ns: When those that wait arrived, ascending.
        gap_ns: Mean time between requests as observed or planned; ``None`` where unknown.
        since_ns: Since when one of its minibatches is on the device, or was sent there; ``None`` while none is.
        ended: Whether no more requests will come: those that wait are then served without waiting for a full batch.
        last_ns: When the latest request arrived, whether it still waits or not; ``None`` before the first.
        least_ns: Least duration of a minibatch, where ``minibatch_ns`` is planned and not observed yet; ``None`` once
            it was.
        in_flight: How many of its minibatches are on the device or on their way.
        served_ns: When its last minibatch ended; ``None`` before the first.
    """

    name: str
    batch_size: int
    budget_ns: int
    minibatch_ns: int
    arrivals_ns: Sequence[int]
    gap_ns: float | None = None
    since_ns: int | None = None
    ended: bool = False
    last_ns: int | None = None
    least_ns: int | None = None
    in_flight: int = 0
    served_ns: int | None = None


@dataclass(slots=True)
class TrainingJob:
    """A training tenant now.

    Args:
        name: Of the tenant.
        minibatch_ns: Cautious duration of a training minibatch.
        weight: Its share of the time left for training, relative to the other jobs.
        served_ns: Device time it has had so far.
        since_ns: Since when one of its minibatches is on the device, or was sent there; ``None`` while none is.
        in_flight: How many are there or on their way.
        resting: Whether no further one is to begin: training is paused, or time is up.
        idle_ns: How long the device was idle in all, although a minibatch might have begun, since the last one ended or
            their expected duration was set.
        observed: Whether ``minibatch_ns`` was observed, and is not only planned.
        harmless: How many probes (see ``Train``) have run since an answer was late last.
    """

    name: str
    minibatch_ns: int
    weight: float = 1.0
    served_ns: int = 0
    since_ns: int | None = None
    in_flight: int = 0
    resting: bool = False
    idle_ns: int = 0
    observed: bool = False
    harmless: int = 0


@dataclass(slots=True)
class Snapshot:
    """All that a decision depends on."""

    now_ns: int
    queues: Sequence[InferenceQueue]
    jobs: Sequence[TrainingJob]


@dataclass(frozen=True, slots=True)
class Serve:
    """Answer ``count`` requests of a tenant in one minibatch.

    Args:
        tenant: Its name.
        count: Number of requests.
        passed: So many of the oldest are passed over: those after them come first, and of the oldest only as many as
            there are places left.
        begin_by_ns: When to begin at the latest, beside the running minibatch: it begins when that ends; ``None`` is
            now.
    """

    tenant: str
    count: int
    passed: int = 0
    begin_by_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Train:
    """Run one training minibatch of a job.

    Args:
        tenant: Name of the job's tenant.
        begin_by_ns: As of ``Serve``.
        probe: Whether it runs to learn how long it takes, although answers may be late for it.
    """

    tenant: str
    begin_by_ns: int | None = None
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Start nothing before ``until_ns``, unless something arrives or ends; ``None`` waits for that alone."""

    until_ns: int | None


Decision = Serve | Train | Wait


class InterleavePolicy(Protocol):
    """Decides what a device runs next; the same object in the simulator and on the device."""

    def decide(self, snapshot: Snapshot) -> Decision:
        """Return the next decision, from the snapshot alone; asked again after every start, arrival and end."""
        ...


_NEWEST = 1 / 8
"""Weight of the newest in the running mean; as TCP smooths round-trip times (RFC 6298)."""
_HALF_LIFE_NS = 2_000_000_000
"""A surcharge halves in this time: long against a minibatch, short against a change of mode or of heat."""


class DurationEstimate:
    """The expected duration of one tenant's minibatches, ns.

    Args:
        minibatch_ns: As planned.
    """

    def __init__(self, minibatch_ns: int) -> None:
        self.mean_ns = float(minibatch_ns)
        """Mean duration, ns."""
        self._surcharge_ns = 0.0
        self._at_ns = 0
        self.observed = False
        """Whether a minibatch was observed; before that the duration is the planned one."""

    def observe(self, duration_ns: int, now_ns: int) -> None:
        """Correct the estimate by a minibatch that ended at ``now_ns``."""
        surcharge_ns = self._faded(now_ns)
        over_ns = duration_ns - self.mean_ns
        self.mean_ns = float(duration_ns) if not self.observed else self.mean_ns + _NEWEST * over_ns
        self._surcharge_ns = max(surcharge_ns, duration_ns - self.mean_ns)
        self._at_ns, self.observed = now_ns, True

    def cautious_ns(self, now_ns: int) -> int:
        """Return a cautious duration of the next one, ns."""
        return round(self.mean_ns + self._faded(now_ns))

    def _faded(self, now_ns: int) -> float:
        return float(self._surcharge_ns * 0.5 ** ((now_ns - self._at_ns) / _HALF_LIFE_NS))


_GAP_WEIGHT = 1 / 16
"""Weight of the newest gap between requests in the running mean that policies see."""


class WaitingRequests(Sequence[int]):
    """The requests of a tenant that wait, the oldest first; policies see when each arrived.

    Under overload they are many, and are taken from the middle, where those are that can still be in time: each is
    found at once by its place, and taking some moves only those that came after them.
    """

    def __init__(self) -> None:
        self._requests: list[tuple[int, int]] = []
        """Number and arrival of each; the first ``_gone`` do not wait any more."""
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
        """Add the newest request."""
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


AnyTenant = TypeVar("AnyTenant", bound=Tenant)


class TenantState(Generic[AnyTenant]):
    """A tenant in the loop."""

    def __init__(self, tenant: AnyTenant) -> None:
        self.tenant = tenant
        self.estimate = DurationEstimate(round(tenant.minibatch_s * NS))
        self.since_ns: list[int] = []
        """Since when each of its minibatches is on the device, or was sent there, ns."""
        self.next_minibatch, self.lost = 0, False


class InferenceTenant(TenantState[Inference]):
    """An inference tenant in the loop; ``source`` yields its requests."""

    def __init__(self, tenant: Inference, source: ArrivalSource) -> None:
        super().__init__(tenant)
        self.source, self.waiting = source, WaitingRequests()
        self.on_device: dict[int, tuple[tuple[int, int], ...]] = {}
        """Number and arrival of the requests in each minibatch on the device."""
        self._gap_ns = None if tenant.rate_per_s is None else NS / tenant.rate_per_s
        self._last_arrival_ns: int | None = None
        self._next_request = 0
        self._served_ns: int | None = None

    def answered(self, taken: Sequence[tuple[int, int]], end_ns: int) -> bool:
        """Note that a minibatch of these requests has ended; return whether they were answered in time."""
        self._served_ns = end_ns
        self.source.answered([request for request, _ in taken], end_ns)
        due_ns = end_ns - round(self.tenant.latency_budget_s * NS)
        return all(arrived_ns >= due_ns for _, arrived_ns in taken)

    def line_up(self, arrived_ns: int) -> None:
        """Add a request that arrived, and update the mean gap between requests."""
        self.waiting.append(self._next_request, arrived_ns)
        self._next_request += 1
        if self._last_arrival_ns is not None:
            gap_ns = arrived_ns - self._last_arrival_ns
            before_ns = gap_ns if self._gap_ns is None else self._gap_ns
            self._gap_ns = before_ns + _GAP_WEIGHT * (gap_ns - before_ns)
        self._last_arrival_ns = arrived_ns

    def queue(self, now_ns: int, *, over: bool) -> InferenceQueue:
        """Return its queue for the snapshot; ``over`` where no more requests will come."""
        tenant = self.tenant
        return InferenceQueue(
            tenant.name, tenant.batch_size, round(tenant.latency_budget_s * NS), self.estimate.cautious_ns(now_ns),
            self.waiting, self._gap_ns, self.since_ns[0] if self.since_ns else None, over or self.source.ended,
            self._last_arrival_ns, None if self.estimate.observed else 0, len(self.since_ns),
            self._served_ns,
        )  # fmt: skip


class TrainingTenant(TenantState[Training]):
    """A training tenant in the loop."""

    def __init__(self, tenant: Training) -> None:
        super().__init__(tenant)
        self.served_ns, self.idle_ns, self.harmless = 0, 0, 0
        self.probes: dict[int, float] = {}
        """Durations of the minibatches that ran to learn how long they take, s, by number."""

    def job(self, now_ns: int, *, resting: bool) -> TrainingJob:
        """Return its job for the snapshot; ``resting`` where no further step is to begin."""
        return TrainingJob(
            self.tenant.name, self.estimate.cautious_ns(now_ns), self.tenant.weight, self.served_ns,
            self.since_ns[0] if self.since_ns else None, len(self.since_ns), resting, self.idle_ns,
            self.estimate.observed, self.harmless,
        )  # fmt: skip

    def ended(self, number: int, start_ns: int, end_ns: int) -> None:
        """Note that a minibatch has ended; what a probe took replaces the estimate, which is of another time."""
        self.served_ns += end_ns - start_ns
        self.idle_ns = 0
        if number in self.probes:
            self.harmless += 1
            self.probes[number] = (end_ns - start_ns) / NS
            self.estimate = DurationEstimate(end_ns - start_ns)
            self.estimate.observe(end_ns - start_ns, end_ns)

    def reason(self, number: int) -> str | None:
        """Return why a minibatch ran although it fitted into no gap; ``None`` where it did not."""
        return "fits into no gap; ran to learn how long it takes" if number in self.probes else None
