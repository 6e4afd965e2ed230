"""Computes how much device time is due by when, for the policy and the admission test.

    now                 first            second           third       due times of one tenant's minibatches
     |--------------------|----------------|----------------|------>
                          work             work             work     each takes this long on the device

All work that is due by a time L, and the work put in front of it, has to fit into the time from now to L.
Sources: processor demand, Baruah, Rosier and Howell 1990 (Real-Time Systems 2); checked downwards from the longest
interval that can matter, skipping those that cannot fail, as in Zhang and Burns 2009 (IEEE Trans. Computers 58,
"QPA").
"""

from collections.abc import Sequence
from dataclasses import dataclass

NEVER_NS = 1 << 60
"""Beyond every run: 36 years, ns."""


@dataclass(slots=True)
class QueueDemand:
    """Minibatches of one tenant that are due, or are to be expected. Times are ns from now.

    Args:
        first_ns: When the first is due.
        second_ns: When the second is.
        period_ns: From one to the next after that.
        work_ns: Device time of each.
    """

    first_ns: int
    second_ns: int
    period_ns: int
    work_ns: int


def demanded_ns(demands: Sequence[QueueDemand], by_ns: int) -> int:
    """Return the device time of all minibatches that are due by then, ns."""
    total_ns = 0
    for demand in demands:
        if by_ns >= demand.second_ns:
            total_ns += demand.work_ns * (2 + (by_ns - demand.second_ns) // demand.period_ns)
        elif by_ns >= demand.first_ns:
            total_ns += demand.work_ns
    return total_ns


@dataclass(slots=True)
class BatchFilling:
    """How a queue fills, which decides how many of its requests to wait for.

    Args:
        batch_size: Requests that make a full minibatch.
        room_ns: From the arrival of a request until its answer is due.
        work_ns: Device time of a minibatch.
        gap_ns: Between requests; ``None`` where nothing is known of it.
    """

    batch_size: int
    room_ns: int
    work_ns: int
    gap_ns: float | None


def counts(queues: Sequence[BatchFilling]) -> list[int]:
    """Return how many requests of each queue to wait for: a full batch, or as many as come in good time.

    In good time is early enough for a minibatch of every other queue to run before. Where that leaves no time to wait
    at all, or where batches that small are more than the device can serve, it is just early enough for the batch.
    """
    all_ns = sum(queue.work_ns for queue in queues)
    waited = [_count(queue, all_ns - queue.work_ns) for queue in queues]
    busy = sum(q.work_ns / (n * q.gap_ns) for q, n in zip(queues, waited, strict=True) if q.gap_ns)
    return waited if busy < 1 else [_count(queue, 0) for queue in queues]


def _count(queue: BatchFilling, others_ns: int) -> int:
    if not queue.gap_ns:
        return queue.batch_size
    spare_ns = queue.room_ns - queue.work_ns
    spare_ns -= others_ns if spare_ns >= others_ns else 0
    return int(min(queue.batch_size, 1 + max(spare_ns, 0) / queue.gap_ns))


def first_miss(
    demands: Sequence[QueueDemand], step_ns: int, *, before_ns: int | None = None, tries: int = 32
) -> int | None:
    """Return a time by which more is due than fits when ``step_ns`` runs first; ``None`` where all fits.

    Where the tenants ask for the whole device or more, no horizon is long enough; then only work due soon counts: up
    to when the first minibatch of each is due, put off by the step.

    Args:
        demands: Work that is due.
        step_ns: Duration of the step that runs first, without a break.
        before_ns: Only work due before this time counts.
        tries: So many intervals are looked at (8 were enough in 21,000 random sets up to a utilisation of 0.995);
            undecided by then counts as a miss.
    """
    if not demands:
        return None
    soonest_ns = min(demand.first_ns for demand in demands)
    by_ns = _horizon_ns(demands, step_ns)
    if before_ns is not None:
        by_ns = min(by_ns, before_ns - 1)
    for _ in range(tries):
        if by_ns < soonest_ns:
            return None
        needed_ns = step_ns + demanded_ns(demands, by_ns)
        if needed_ns > by_ns:
            return by_ns
        by_ns = min(needed_ns, by_ns - 1)  # nothing due in between can fail: it needs no more than needed_ns
    return by_ns


def _horizon_ns(demands: Sequence[QueueDemand], step_ns: int) -> int:
    """Return the time beyond which nothing can be late: the line above all steps of the demand has fallen below it.

    Each demand stays below ``work (1 + (L - start) / period)`` for every L from ``start`` on; the lines meet L where
    ``L (1 - utilisation) = step + sum of work (1 - start / period)``.
    """
    busy, offset_ns, latest_ns = 0.0, float(step_ns), 0
    for demand in demands:
        start_ns = min(demand.first_ns, demand.second_ns - demand.period_ns)
        share = demand.work_ns / demand.period_ns
        busy += share
        offset_ns += demand.work_ns - start_ns * share
        latest_ns = max(latest_ns, demand.first_ns, start_ns)
    if busy >= 1:
        return step_ns + max(demand.first_ns for demand in demands)
    return max(latest_ns, int(offset_ns / (1 - busy)) + 1)
