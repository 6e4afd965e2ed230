"""The snapshot that a policy sees and the decisions that it can take, in the simulator and on the device.

    requests ->[ queue of an inference tenant ]--\\
    requests ->[ queue of another             ]---> device: one minibatch at a time
    data     ->( a training job               )--/

Times are integer nanoseconds of one monotonic clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


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
