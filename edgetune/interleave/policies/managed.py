"""This project's policy: one minibatch on the device at a time, and training only where no answer is late for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from edgetune.interleave.demand import NEVER_NS, Demand, Filling, counts, demanded_ns, first_miss
from edgetune.interleave.policies.policy import GUARD_NS
from edgetune.interleave.snapshot import Decision, Job, Queue, Serve, Snapshot, Train, Wait

_RETRY_NS = 100_000_000
"""Cautious estimates fade by themselves (half-life 2 s, see ``Estimate``): what does not fit is tried again, ns."""
_LEAD_STEPS = 2
"""A job may be passed until it is this many of its own minibatches behind; then it has windows of its own."""
_WINDOW_PERIODS = 2
"""A window holds this many batches of the slowest queue after the delay by a step from before has been made up for."""
_LEAST_IDLE = 0.01
"""Share of the device that is taken to be idle at least when the time is estimated in which a delay is made up for."""
_SHORT_NS = 30_000_000
"""A step is short where starting it, some 250 microseconds between processes with cold caches, is a percent."""
_WINDOWS = 4
"""One window in so many is kept for the job that is most behind: what others lose to it is at most this share."""


@dataclass(slots=True)
class _Batch:
    """The oldest requests of a queue. Times are ns from now.

    Args:
        queue: Where they wait.
        due_ns: When the oldest is due.
        whole: Whether waiting for more makes no sense: it is full, no more come in time, or it is late as it is.
        spare_ns: How long it can wait until what is due by then, and expected to be, does not fit any more.
    """

    queue: Queue
    due_ns: int
    whole: bool
    spare_ns: int


class Managed:
    """Earliest deadline first among batches, training steps in the gaps.

    *Batches.* A batch is served as soon as it is full, or when its oldest request would otherwise be late, or when no
    more requests will come; earliest deadline first, requests that are late already among them. Full is a batch with
    as many requests as come in good time at the mean gap (``demand.counts``), at most the batch size. Waiting for more
    ends, too, when the time left until the oldest is due is filled by all that must run until then: the batch, other
    batches due before, and those to be expected (one may begin in an empty queue at any moment). A full batch waits for
    one that is due earlier and not full only where that would be late behind it; then the latter is served at once.

    *Training.* A step starts when no batch is to be served and, for every time L from now on, the step and all batches
    due by L fit into the time until L: those waiting and, spaced by the mean gap, those expected. With one queue and
    one batch this is ``t + t_train + t_inf <= earliest deadline``; with an empty queue, ``t_train + t_inf <= budget``.

    *What that guarantees.* For requests no closer than the gap and minibatches no longer than estimated: where earliest
    deadline first meets every deadline without training (``admission``), it does so with it, because a step takes part
    in the demand as any batch would. For every other arrival process training cannot make a stable queue grow without
    bound: steps start only while no full batch waits, so each busy period is delayed by one step at most, or by two
    short ones.

    *Sharing.* Jobs are asked in the order of device time had by weight, least first; a shorter job may pass one that
    does not fit. A job passed until it lags by more than two of its steps has one window in four in which nobody passes
    it, long enough that the last delay is made up for and batches are served on time: the gap in which it fits comes as
    if it were alone. Thus it is not starved where it fits into some gap, and others lose a quarter at most.

    *Short steps.* Of a step that takes no more than 30 ms, the next is sent to its process while it runs, where both
    together may begin: the device then does not wait for messages. A batch is answered a step later for it, in time.

    *Overrun.* Should a step be on the device for longer than estimated when a batch must start, that is served beside
    it.

    Args:
        guard_ns: Everything is to be over this long before it is due, ns: processes are woken late.
    """

    name: ClassVar[str] = "managed"

    def __init__(self, *, guard_ns: int = GUARD_NS) -> None:
        self._guard_ns = guard_ns

    def decide(self, snapshot: Snapshot) -> Decision:
        """Return what to start now, or until when nothing can be."""
        now_ns, queues = snapshot.now_ns, snapshot.queues
        if any(queue.since_ns is not None for queue in queues):
            return Wait(None)
        guard_ns = self._guard_ns
        fillings = [Filling(q.batch_size, q.budget_ns - guard_ns, q.minibatch_ns, q.gap_ns) for q in queues]
        counted = list(zip(queues, counts(fillings), strict=True))
        demands = [_demand(q, count, now_ns, guard_ns) for q, count in counted if q.arrivals_ns or not q.ended]
        batches = [_batch(q, count, now_ns, guard_ns, demands) for q, count in counted if q.arrivals_ns]
        batches.sort(key=lambda batch: batch.due_ns)
        spare_ns = min((batch.spare_ns for batch in batches), default=None)
        running = [job for job in snapshot.jobs if job.in_flight]
        ripe = _ripe(batches)
        if running:
            if ripe is None and _may_line_up(running, snapshot.jobs, demands, now_ns):
                return Train(running[0].name)
            if spare_ns is None:
                return Wait(None)
            until_ns = max(now_ns + spare_ns, *(_end_ns(job, now_ns) for job in running))
            return Wait(until_ns) if until_ns > now_ns else _serve(batches[0])
        if ripe is not None:
            return _serve(ripe)
        latest_ns = None if spare_ns is None else now_ns + spare_ns
        return self._train(snapshot.jobs, demands, now_ns, latest_ns)

    def _train(self, jobs: Sequence[Job], demands: Sequence[Demand], now_ns: int, latest_ns: int | None) -> Decision:
        """Return the step of a job that fits, or until when none may."""
        behind: Job | None = None
        until_ns = [] if latest_ns is None else [latest_ns]
        for job in sorted(jobs, key=lambda job: job.served_ns / job.weight):
            if behind is not None and _lags(behind, job):
                kept_ns = _kept_until_ns(demands, job.minibatch_ns, now_ns)
                if kept_ns > now_ns:
                    until_ns.append(kept_ns)
                    continue
            if first_miss(demands, job.minibatch_ns) is None:
                return Train(job.name)
            behind = behind or job
        if behind is not None:
            until_ns.append(now_ns + _RETRY_NS)
        return Wait(min(until_ns, default=None))


def _end_ns(job: Job, now_ns: int) -> int:
    """Return when the steps of a job that are on their way are expected to be over."""
    return (now_ns if job.since_ns is None else job.since_ns) + job.in_flight * job.minibatch_ns


def _may_line_up(running: Sequence[Job], jobs: Sequence[Job], demands: Sequence[Demand], now_ns: int) -> bool:
    """Return whether another short step of the job that runs may be sent behind the one that does.

    It may where both together could begin now, and where it is that job's turn after this step all the same.
    """
    job = running[0]
    left_ns = _end_ns(job, now_ns) - now_ns
    if len(running) > 1 or job.in_flight > 1 or job.minibatch_ns > _SHORT_NS or left_ns <= 0:
        return False
    had = (job.served_ns + job.minibatch_ns) / job.weight
    if any(other.served_ns / other.weight < had for other in jobs if other is not job):
        return False
    return first_miss(demands, left_ns + job.minibatch_ns) is None


def _serve(batch: _Batch) -> Serve:
    return Serve(batch.queue.name, min(batch.queue.batch_size, len(batch.queue.arrivals_ns)))


def _demand(queue: Queue, count: int, now_ns: int, guard_ns: int) -> Demand:
    """Return when batches of a queue are due from now on, the guard taken off; where none waits, one may begin now."""
    arrivals_ns, waiting, room_ns = queue.arrivals_ns, len(queue.arrivals_ns), queue.budget_ns - guard_ns
    first_ns = (arrivals_ns[0] if waiting else now_ns) + room_ns - now_ns
    if not queue.gap_ns or queue.ended:
        return Demand(first_ns, NEVER_NS, NEVER_NS, queue.minibatch_ns)
    if waiting > count:
        second_ns = arrivals_ns[count] + room_ns - now_ns
    else:
        last_ns = arrivals_ns[-1] - now_ns + room_ns if waiting else first_ns
        second_ns = last_ns + int((count + 1 - max(waiting, 1)) * queue.gap_ns)
    return Demand(first_ns, second_ns, max(int(count * queue.gap_ns), 1), queue.minibatch_ns)


def _batch(queue: Queue, count: int, now_ns: int, guard_ns: int, demands: Sequence[Demand]) -> _Batch:
    due_ns = queue.arrivals_ns[0] + queue.budget_ns - guard_ns - now_ns
    whole = queue.ended or len(queue.arrivals_ns) >= count or due_ns <= queue.minibatch_ns
    return _Batch(queue, due_ns, whole, due_ns - demanded_ns(demands, due_ns))


def _ripe(batches: Sequence[_Batch]) -> _Batch | None:
    """Return the batch to serve now, of those in the order of their deadlines."""
    for place, batch in enumerate(batches):
        if batch.whole:
            kept = all(earlier.spare_ns >= batch.queue.minibatch_ns for earlier in batches[:place])
            return batch if kept else batches[0]
    return batches[0] if any(batch.spare_ns <= 0 for batch in batches) else None


def _lags(behind: Job, job: Job) -> bool:
    """Return whether a job is so far behind another that it must not be passed without bound."""
    lead_ns = job.served_ns / job.weight - behind.served_ns / behind.weight
    return lead_ns > _LEAD_STEPS * behind.minibatch_ns / behind.weight


def _kept_until_ns(demands: Sequence[Demand], step_ns: int, now_ns: int) -> int:
    """Return until when the window lasts that is kept for the job most behind; now, where it is open to all.

    Windows are powers of two long, so that small changes of the mean gap do not move them.
    """
    rated = [demand for demand in demands if demand.period_ns < NEVER_NS]
    if not rated:
        return now_ns
    idle = max(1 - sum(demand.work_ns / demand.period_ns for demand in rated), _LEAST_IDLE)
    made_up_ns = int(step_ns / idle)
    window_ns = 1 << (made_up_ns + _WINDOW_PERIODS * max(demand.period_ns for demand in rated)).bit_length()
    number, into_ns = divmod(now_ns, window_ns)
    return now_ns - into_ns + window_ns if number % _WINDOWS == _WINDOWS - 1 else now_ns
