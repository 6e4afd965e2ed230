"""The protocol of policies that are chosen by name, and the lateness that they allow for.

The policy without management: each tenant keeps the device busy and the driver shares it out.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from edgetune.stages.interleave.state import Decision, InterleavePolicy, Serve, Snapshot, Train, Wait

GUARD_NS = 1_000_000
"""How late a process may be woken, ns: one tick of a kernel that ticks 1000 times a second (CONFIG_HZ, Linux
Kconfig.hz).

Timers add 50 microseconds of slack (prctl(2), PR_SET_TIMERSLACK), messages between processes about as much again.
"""


GUARD_SHARE = 0.05
"""Share of the shortest latency budget kept free on a real device: half of what plans leave free (``HEADROOM`` in
``cycle``), so that a minibatch may be slower than any before it and its requests are still in time."""


def guard_ns(budgets_s: Sequence[float]) -> int:
    """Return how long before its deadline every minibatch is to end on a real device, ns.

    Args:
        budgets_s: Latency budgets of the workloads that answer, s.
    """
    return max(GUARD_NS, round(GUARD_SHARE * min(budgets_s, default=0.0) * 1e9))


class NamedInterleavePolicy(InterleavePolicy, Protocol):
    """A policy with a name, constructed with the lateness of wake-ups to allow for.

    One that ``lines_up`` sends minibatches to begin when others end (``begin_by_ns``), which not every engine can.
    """

    name: ClassVar[str]
    lines_up: ClassVar[bool]

    def __init__(self, *, guard_ns: int = GUARD_NS) -> None: ...


_STEPS_IN_FLIGHT = 2
"""One on the device and one behind it, so that a training process never waits for the loop."""


class Native:
    """Decides for each tenant as if it were alone, as processes do that know nothing of each other.

    Each queue is batched by the rule of ``Managed``: served as soon as a batch is full, or when its oldest
    request would otherwise be late, or when no more will come; one minibatch of a queue at a time, earliest deadline
    first among several. Each job has at most two minibatches on their way, whatever the queues hold.

    Args:
        guard_ns: A batch that is not full is served this long before it must be, ns.
    """

    name: ClassVar[str] = "native"
    lines_up: ClassVar[bool] = False
    _early: ClassVar[bool] = True
    """Whether a batch that is not full is served in time for its oldest request, and not once that is late."""

    def __init__(self, *, guard_ns: int = GUARD_NS) -> None:
        self._guard_ns = guard_ns

    def decide(self, snapshot: Snapshot) -> Decision:
        """Return the minibatch to start now, or until when to wait for a full batch."""
        now_ns, until_ns = snapshot.now_ns, None
        ripe: list[tuple[int, Serve]] = []
        for queue in snapshot.queues:
            if queue.since_ns is not None or not queue.arrivals_ns:
                continue
            due_ns, count = queue.arrivals_ns[0] + queue.budget_ns, min(len(queue.arrivals_ns), queue.batch_size)
            latest_ns = due_ns - queue.minibatch_ns - self._guard_ns if self._early else due_ns
            if count == queue.batch_size or queue.ended or latest_ns <= now_ns:
                ripe.append((due_ns, Serve(queue.name, count)))
            elif until_ns is None or latest_ns < until_ns:
                until_ns = latest_ns
        if ripe:
            return min(ripe, key=lambda batch: batch[0])[1]
        for job in snapshot.jobs:
            if not job.resting and job.in_flight < _STEPS_IN_FLIGHT:
                return Train(job.name)
        return Wait(until_ns)


class NativeFull(Native):
    """``Native`` that waits for full batches: another is served only once its oldest request is late.

    So are those of the processes that Fulcrum (2025, section 3) compares with.
    """

    name: ClassVar[str] = "native-full"
    _early: ClassVar[bool] = False
