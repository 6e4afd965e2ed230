"""The managed policy: one minibatch on the device at a time, and training only where no answer is late for it."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from edgetune.stages.interleave.admission import NEVER_NS, BatchFilling, QueueDemand, counts, demanded_ns, first_miss
from edgetune.stages.interleave.policies.policy import GUARD_NS
from edgetune.stages.interleave.state import Decision, InferenceQueue, Serve, Snapshot, Train, TrainingJob, Wait

_RETRY_NS = 100_000_000
"""Work that does not fit is tried again after this time, ns: cautious estimates fade by themselves (half-life 2 s, see
``DurationEstimate``)."""
_SILENCE = 16
"""So many mean gaps without a request tell that requests do not come at that rate any more: as many as the mean needs
to follow (``tenant_state``); of gaps at random one in e^16 is as long."""
_LEAD_STEPS = 2
"""A job may be passed until it is this many of its own minibatches behind; then it has windows of its own."""
_WINDOW_PERIODS = 2
"""A window holds this many batches of the slowest queue after the delay by a step from before has been made up for."""
_LEAST_IDLE = 0.01
"""Share of the device that is taken to be idle at least when the time is estimated in which a delay is made up for."""
_SHORT_NS = 30_000_000
"""A step is short where starting it, some 300 microseconds between processes with cold caches, is a percent."""
_PROBE_SHARE = 0.02
"""Share of the idle time in which steps run that fit into no gap, to learn how long they take: as much as Fulcrum
(2025) explores for changing rates. It doubles with every one for which no answer is late."""
_JUST_NS = 5_000_000
"""Time from the end of a batch to the decision after it at most, ns."""
_PROBE_DOUBLINGS = 6
"""After so many the share is 1."""
_PROBE_AFTER_NS, _PROBE_WINDOWS = 1_000_000_000, 2
"""A step that never ran is a probe after this idle time, ns, and so many windows: it would have fitted into a gap."""
_WINDOWS = 4
"""One window in so many is kept for the job that is most behind, so that others lose at most this share."""


@dataclass(slots=True)
class _Line:
    """A queue in its two parts.

    Args:
        queue: The queue.
        count: Number of requests to wait for.
        late: Number of the oldest requests that cannot be in time any more.
        timely: Number of the others.
    """

    queue: InferenceQueue
    count: int
    late: int
    timely: int


@dataclass(slots=True)
class _Batch:
    """The oldest requests of a queue that can be in time. Times are ns from now.

    Args:
        line: Their queue.
        due_ns: Deadline of the oldest.
        whole: Whether to wait for no more: the batch is full, no more come in time, or it is due.
        spare_ns: How long it can wait until the work due by then, expected work included, does not fit any more.
    """

    line: _Line
    due_ns: int
    whole: bool
    spare_ns: int


class Managed:
    """Earliest deadline first among batches, late answers in the gaps, and training in the time that is left.

    *Batches.* A batch is served as soon as it is full, or when its oldest request would otherwise be late, or when no
    more requests will come; earliest deadline first. A batch is full with as many requests as come in good time at the
    mean gap (``demand.counts``), at most the batch size. Waiting for more also ends when the time left until the oldest
    is due is filled by all the work that must run until then: the batch, other batches due before, and expected ones
    (one may begin in an empty queue at any moment). A full batch waits for one that is due earlier and not full only
    where that one would be late behind it; then the latter is served at once. Where only one of two batches can be in
    time, it is that of the queue that asks for less of the device: it is not at fault for the other's overload.

    *Late requests.* A request that would be late even if served at once delays no other that can be in time: it makes
    no batch full and none due. Otherwise all later requests would be late in turn after an overload. It takes a free
    place in a batch of its queue, which takes no longer for it; or, before any training, has a minibatch of its own,
    the longest overdue first, where all waiting and expected batches still fit behind it. Here the next request is
    expected a gap after the last, or at any moment where it is overdue; after a long silence the silence is expected to
    last, since a request that may come at any moment would never let a minibatch run that takes more than half its
    latency budget. No request is dropped.

    *Training.* A step starts when no batch is to be served, no late one fits and, for every time L from now on, the
    step and all batches due by L fit into the time until L: waiting batches and, spaced by the mean gap, expected ones.
    With one queue and one batch this is ``t + t_train + t_inf <= earliest deadline``; with an empty queue, ``t_train +
    t_inf <= budget``.

    *Guarantees.* For requests no closer than the gap and minibatches no longer than estimated: where earliest deadline
    first meets every deadline without training (``admission``), it does so with training, because a step takes part in
    the demand as any batch does. For every other arrival process training cannot make a stable queue grow without
    bound: steps start only while no full batch waits, so each busy period is delayed by one step at most, or by two
    short ones.

    *Sharing.* Jobs are asked in the order of device time by weight, least first; a shorter job may pass one that does
    not fit. A job that lags by more than two of its steps has one window in four in which no other passes it, long
    enough to make up for the last delay and serve batches on time: the gap in which it fits comes as if it were alone.
    Thus a job that fits into some gap is not starved, and others lose a quarter at most.

    *Probes.* A step that fits into no gap, because it takes too long or was planned to, would never be observed again.
    It runs all the same in 2 % of the idle time, so that its duration is known: just after a batch, and where no late
    request waits. The share doubles with every one until an answer is late: requests that come evenly may leave gaps
    that no rule promises.

    *Lining up.* A minibatch that is certain to be next is sent while another runs, and begins when that ends: the
    device does not wait for messages and decisions. Certain are a full batch, where a request that comes meanwhile is
    in time behind it, and the next step, where it takes no more than 30 ms and may begin behind the running minibatch.
    A batch is answered a step later for that, in time.

    *Overrun.* If a step takes longer than estimated and a batch must start, the batch is served beside it, lined up or
    not.

    Args:
        guard_ns: Every minibatch is to end this long before it is due, ns: processes are woken late.
    """

    name: ClassVar[str] = "managed"
    lines_up: ClassVar[bool] = True

    def __init__(self, *, guard_ns: int = GUARD_NS) -> None:
        self._guard_ns = guard_ns

    def decide(self, snapshot: Snapshot) -> Decision:
        """Return the minibatch to start now, or until when to wait."""
        now_ns, queues = snapshot.now_ns, snapshot.queues
        running: list[InferenceQueue | TrainingJob] = [queue for queue in queues if queue.in_flight]
        running += [job for job in snapshot.jobs if job.in_flight]
        if sum(each.in_flight for each in running) > 1 and isinstance(running[0], InferenceQueue):
            return Wait(None)
        lines = _lines(queues, now_ns, self._guard_ns)
        demands = [_demand(line, now_ns, self._guard_ns) for line in lines if line.timely or not line.queue.ended]
        batches = [_batch(line, now_ns, self._guard_ns, demands) for line in lines if line.timely]
        batches.sort(key=lambda batch: batch.due_ns)
        if running:
            behind = self._behind(snapshot, running, lines, batches, demands)
            return behind or _beside(running, batches, now_ns)
        ripe = _ripe(batches)
        return self._fill_gap(snapshot, lines, batches, demands) if ripe is None else _serve(ripe.line)

    def _behind(
        self,
        snapshot: Snapshot,
        running: Sequence[InferenceQueue | TrainingJob],
        lines: Sequence[_Line],
        batches: Sequence[_Batch],
        demands: Sequence[QueueDemand],
    ) -> Decision | None:
        """Return the minibatch to send now that begins when the running one ends, where it is certain to be next."""
        now_ns, ahead = snapshot.now_ns, running[0]
        left_ns = _end_ns(ahead, now_ns) - now_ns
        if len(running) > 1 or ahead.in_flight > 1 or left_ns <= 0:
            return None
        ripe = _ripe(batches)
        if ripe is None:
            return None if any(line.late for line in lines) else _step_behind(ahead, snapshot.jobs, demands, left_ns)
        if ripe.line.timely < ripe.line.queue.batch_size and not ripe.line.queue.ended:
            return None  # more may come while it waits
        if ripe.due_ns < left_ns + ripe.line.queue.minibatch_ns:
            return None  # its oldest will be late by then, and passed over
        if len(lines) > 1:
            others = [_demand(line, now_ns, self._guard_ns) for line in lines if line is not ripe.line]
            after = _demand(ripe.line, now_ns, self._guard_ns)
            others.append(replace(after, first_ns=after.second_ns, second_ns=after.second_ns + after.period_ns))
            if first_miss(others, left_ns + after.work_ns) is not None:
                return None
        latest_ns = max(now_ns + min(batch.spare_ns for batch in batches), now_ns + left_ns)
        return replace(_serve(ripe.line), begin_by_ns=NEVER_NS if isinstance(ahead, InferenceQueue) else latest_ns)

    def _fill_gap(
        self, snapshot: Snapshot, lines: Sequence[_Line], batches: Sequence[_Batch], demands: Sequence[QueueDemand]
    ) -> Decision:
        """Return the decision while no batch is to be served: answer late requests, else train."""
        now_ns = snapshot.now_ns
        until_ns = [now_ns + batch.spare_ns for batch in batches]
        late = sorted(
            (line for line in lines if line.late), key=lambda line: line.queue.arrivals_ns[0] + line.queue.budget_ns
        )
        for line in late:
            short_ns = self._short_ns(line, lines, now_ns)
            if short_ns <= 0:
                return _serve(line)
            silent_ns = now_ns - (line.queue.last_ns or now_ns)
            until_ns.append(now_ns + max(short_ns, _RETRY_NS, silent_ns // _SILENCE))
        jobs = [job for job in snapshot.jobs if not job.resting]
        if late and jobs:
            kept_ns = _kept_until_ns(demands, late[0].queue.minibatch_ns, now_ns)
            if kept_ns > now_ns:
                return Wait(min(*until_ns, kept_ns))
        decision = _train(jobs, demands, now_ns, until_ns)
        if isinstance(decision, Train) or late or not any(_leaves_most(queue, now_ns) for queue in snapshot.queues):
            return decision
        return _probe(jobs, demands) or decision

    def _short_ns(self, late: _Line, lines: Sequence[_Line], now_ns: int) -> int:
        """Return how much time lacks for a minibatch of late requests, so that no other is late for it; 0 for none.

        It takes with it what waits in its queue and can be in time: that is no full batch, or it would be served.
        """
        work_ns, guard_ns = late.queue.minibatch_ns, self._guard_ns
        demands = [_demand(line, now_ns, guard_ns) for line in lines if line is not late and line.timely]
        demands += [
            _expected(line, now_ns, guard_ns) for line in lines if (line is late or not line.timely) and _comes(line)
        ]
        missed_ns = first_miss(demands, work_ns)
        return 0 if missed_ns is None else max(work_ns + demanded_ns(demands, missed_ns) - missed_ns, 1)


def _beside(running: Sequence[InferenceQueue | TrainingJob], batches: Sequence[_Batch], now_ns: int) -> Decision:
    """Return the decision while a minibatch runs: wait, or serve the first batch where a step overruns."""
    if not batches or any(isinstance(each, InferenceQueue) for each in running):
        return Wait(None)
    spare_ns = min(batch.spare_ns for batch in batches)
    until_ns = max(now_ns + spare_ns, *(_end_ns(each, now_ns) for each in running))
    return Wait(until_ns) if until_ns > now_ns else _serve(batches[0].line)


def _train(jobs: Sequence[TrainingJob], demands: Sequence[QueueDemand], now_ns: int, until_ns: list[int]) -> Decision:
    """Return the step of a job that fits, or until when none may."""
    behind: TrainingJob | None = None
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


def _leaves_most(queue: InferenceQueue, now_ns: int) -> bool:
    """Return whether its next batch is as far away as ever: one was just answered, or no request is to be expected."""
    if queue.served_ns is not None and now_ns - queue.served_ns <= _JUST_NS:
        return True
    return queue.last_ns is None or (not queue.arrivals_ns and now_ns - queue.last_ns > _SILENCE * (queue.gap_ns or 0))


def _probe(jobs: Sequence[TrainingJob], demands: Sequence[QueueDemand]) -> Train | None:
    """Return a step whose duration is to be learned, as none ran while the device was idle; the most behind first."""
    for job in sorted(jobs, key=lambda job: job.served_ns / job.weight):
        share = _PROBE_SHARE * 2 ** min(job.harmless, _PROBE_DOUBLINGS)
        idle_ns = job.minibatch_ns * (1 / share - 1) if job.observed else 0
        if not job.harmless:
            idle_ns = max(idle_ns, _PROBE_WINDOWS * _window_ns(demands, job.minibatch_ns), _PROBE_AFTER_NS)
        if job.idle_ns >= idle_ns:
            return Train(job.name, probe=True)
    return None


def _lines(queues: Sequence[InferenceQueue], now_ns: int, guard_ns: int) -> list[_Line]:
    fillings = [BatchFilling(q.batch_size, q.budget_ns - guard_ns, q.minibatch_ns, q.gap_ns) for q in queues]
    lines = []
    for queue, count in zip(queues, counts(fillings), strict=True):
        late = _late(queue, now_ns, guard_ns)
        lines.append(_Line(queue, count, late, len(queue.arrivals_ns) - late))
    return lines


def _late(queue: InferenceQueue, now_ns: int, guard_ns: int) -> int:
    """Return how many requests cannot be in time any more.

    With half of the guard left: a batch that begins at the last moment, and a little late, is not given up for that.
    """
    work_ns = queue.minibatch_ns if queue.least_ns is None else queue.least_ns
    arrivals_ns, from_ns = queue.arrivals_ns, now_ns + work_ns + guard_ns // 2 - queue.budget_ns
    return bisect_left(arrivals_ns, from_ns) if arrivals_ns and arrivals_ns[0] < from_ns else 0


def _end_ns(running: InferenceQueue | TrainingJob, now_ns: int) -> int:
    """Return when the minibatches of a tenant that are on their way are expected to be over."""
    return (now_ns if running.since_ns is None else running.since_ns) + running.in_flight * running.minibatch_ns


def _step_behind(
    ahead: InferenceQueue | TrainingJob, jobs: Sequence[TrainingJob], demands: Sequence[QueueDemand], left_ns: int
) -> Train | None:
    """Return the step that is next after the running minibatch, where it is short and both could begin now."""
    jobs = [job for job in jobs if not job.resting]
    if not jobs:
        return None
    job = min(jobs, key=lambda job: (job.served_ns + (job.minibatch_ns if job is ahead else 0)) / job.weight)
    if job.minibatch_ns > _SHORT_NS or first_miss(demands, left_ns + job.minibatch_ns) is not None:
        return None
    return Train(job.name, NEVER_NS)


def _serve(line: _Line) -> Serve:
    count = min(line.queue.batch_size, line.late + line.timely)
    return Serve(line.queue.name, count, line.late if line.timely else 0)


def _demand(line: _Line, now_ns: int, guard_ns: int) -> QueueDemand:
    """Return when batches of a queue are due from now on, the guard taken off; where none waits, one may begin now."""
    queue, count, waiting = line.queue, line.count, line.timely
    arrivals_ns, room_ns = queue.arrivals_ns, queue.budget_ns - guard_ns
    first_ns = (arrivals_ns[line.late] if waiting else now_ns) + room_ns - now_ns
    if not queue.gap_ns or queue.ended:
        return QueueDemand(first_ns, NEVER_NS, NEVER_NS, queue.minibatch_ns)
    if waiting > count:
        second_ns = arrivals_ns[line.late + count] + room_ns - now_ns
    else:
        last_ns = arrivals_ns[-1] - now_ns + room_ns if waiting else first_ns
        second_ns = last_ns + int((count + 1 - max(waiting, 1)) * queue.gap_ns)
    return QueueDemand(first_ns, second_ns, max(int(count * queue.gap_ns), 1), queue.minibatch_ns)


def _comes(line: _Line) -> bool:
    """Return whether requests are to be expected that can be in time."""
    queue = line.queue
    known = bool(queue.gap_ns) and queue.last_ns is not None
    return known and not queue.ended and queue.minibatch_ns <= queue.budget_ns


def _expected(line: _Line, now_ns: int, guard_ns: int) -> QueueDemand:
    """Return when batches of a queue in which none waits are to be expected."""
    queue = line.queue
    assert queue.gap_ns is not None
    assert queue.last_ns is not None
    gap_ns, silent_ns = queue.gap_ns, now_ns - queue.last_ns
    first_ns = int(max(gap_ns - silent_ns, silent_ns - _SILENCE * gap_ns, 0)) + queue.budget_ns - guard_ns
    period_ns = max(int(line.count * (gap_ns if silent_ns <= _SILENCE * gap_ns else silent_ns)), 1)
    return QueueDemand(first_ns, first_ns + period_ns, period_ns, queue.minibatch_ns)


def _batch(line: _Line, now_ns: int, guard_ns: int, demands: Sequence[QueueDemand]) -> _Batch:
    queue = line.queue
    due_ns = queue.arrivals_ns[line.late] + queue.budget_ns - guard_ns - now_ns
    whole = queue.ended or line.timely >= line.count or due_ns <= queue.minibatch_ns
    return _Batch(line, due_ns, whole, due_ns - demanded_ns(demands, due_ns))


def _ripe(batches: Sequence[_Batch]) -> _Batch | None:
    """Return the batch to serve now, of those in the order of their deadlines."""
    for place, batch in enumerate(batches):
        if batch.whole:
            kept = all(earlier.spare_ns >= batch.line.queue.minibatch_ns for earlier in batches[:place])
            return _spared(batch if kept else batches[0], batches)
    return _spared(batches[0], batches) if any(batch.spare_ns <= 0 for batch in batches) else None


def _spared(batch: _Batch, batches: Sequence[_Batch]) -> _Batch:
    """Return that batch, or one that would be late behind it and whose queue asks for less of the device."""
    if len(batches) == 1:
        return batch
    work_ns = batch.line.queue.minibatch_ns
    hurt = [other for other in batches if other is not batch and other.due_ns < work_ns + other.line.queue.minibatch_ns]
    return min([batch, *hurt], key=_share)


def _share(batch: _Batch) -> float:
    """Return how much of the device a queue asks for; 0 where its rate is not known."""
    queue = batch.line.queue
    return queue.minibatch_ns / (batch.line.count * queue.gap_ns) if queue.gap_ns else 0.0


def _lags(behind: TrainingJob, job: TrainingJob) -> bool:
    """Return whether a job is so far behind another that it must not be passed without bound."""
    lead_ns = job.served_ns / job.weight - behind.served_ns / behind.weight
    return lead_ns > _LEAD_STEPS * behind.minibatch_ns / behind.weight


def _kept_until_ns(demands: Sequence[QueueDemand], step_ns: int, now_ns: int) -> int:
    """Return until when the window lasts that is kept for the job most behind; now, where it is open to all."""
    window_ns = _window_ns(demands, step_ns)
    if not window_ns:
        return now_ns
    number, into_ns = divmod(now_ns, window_ns)
    return now_ns - into_ns + window_ns if number % _WINDOWS == _WINDOWS - 1 else now_ns


def _window_ns(demands: Sequence[QueueDemand], step_ns: int) -> int:
    """Return the length of the windows that are kept for a job, ns; 0 where no rate is known.

    Windows are powers of two long, so that small changes of the mean gap do not move them.
    """
    rated = [demand for demand in demands if demand.period_ns < NEVER_NS]
    if not rated:
        return 0
    idle = max(1 - sum(demand.work_ns / demand.period_ns for demand in rated), _LEAST_IDLE)
    made_up_ns = int(step_ns / idle)
    return 1 << (made_up_ns + _WINDOW_PERIODS * max(demand.period_ns for demand in rated)).bit_length()
