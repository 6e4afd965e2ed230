"""Tests before a run whether tenants can share a device, from rates, batch sizes, times and budgets.

    requests   |  |  |  |              a batch of b, g = 1 / rate apart: full (b - 1) g after its first,
    batch               |=====|        due its latency budget after that
               |<- budget ------>|

A queue is a task of real-time scheduling: every ``b g`` a batch is released that takes ``t_inf`` and must be over
``budget - (b - 1) g`` after. The test for the policy ``Managed`` has three parts:

1. *Utilisation.* The sum of ``t_inf / (b g)`` is below 1 (Liu and Layland 1973, J. ACM 20).
2. *Demand.* Earliest deadline first without preemption meets every deadline when, for every time L, all batches due
   by L that are released together, and before them the longest minibatch that is due later, fit into L (Jeffay, Stanat
   and Martel 1991, "On non-preemptive scheduling of periodic and sporadic tasks", RTSS; for deadlines other than the
   period: George, Rivierre and Spuri 1996, INRIA report 2966).
3. *Progress.* Training steps do not appear in 2, because ``Managed`` starts one only where it fits into this very
   demand: the longest step blocks no batch, but it might never fit. So each job must fit into some gap: that after one
   batch of every queue was full at once and all were served, for every time L again.

Differences from the theory: a batch that cannot be full in good time counts as the smaller and more frequent batch as
which it is served (``demand.counts``). Part 3 is exact for one queue; batches of several are full at nearly the same
time sooner or later, unless their rates are in a simple ratio. Minibatches are as long and requests as far apart as
given: where they come at random, nothing is guaranteed. A queue without a rate counts as one batch.

Computes how much device time is due by when, for the policy and the admission test.

    now                 first            second           third       due times of one tenant's minibatches
     |--------------------|----------------|----------------|------>
                          work             work             work     each takes this long on the device

All work that is due by a time L, and the work put in front of it, has to fit into the time from now to L.
Sources: processor demand, Baruah, Rosier and Howell 1990 (Real-Time Systems 2); checked downwards from the longest
interval that can matter, skipping those that cannot fail, as in Zhang and Burns 2009 (IEEE Trans. Computers 58,
"QPA").
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgetune.stages.interleave.backend import Inference, Tenant, Training
from edgetune.stages.interleave.policies.policy import GUARD_NS
from edgetune.units import NS

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


_MS = 1_000_000
_TRIES = 100_000
"""Most intervals checked: a utilisation close to 1 takes many, and there is time before a run."""
_COARSE, _LEAST_SCALE = 0.9, 0.001
"""Feasible rates are searched downwards in steps of a tenth, to a thousandth; then by bisection."""
_HALVINGS = 10
"""Of a tenth: to one in ten thousand."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether tenants can share the device, and at which rates they could.

    Args:
        admitted: Whether they can.
        reason: Why not, one line with its numbers; empty where they can.
        tenant: The tenant that fails the test.
        rates_per_s: The highest rates, all scaled alike, at which they could; empty where no such rates help.
        own_rate_per_s: The highest rate of ``tenant`` at which they could, the others as they are; ``None`` where none
            helps.
    """

    admitted: bool
    reason: str = ""
    tenant: str | None = None
    rates_per_s: Mapping[str, float] = field(default_factory=dict)
    own_rate_per_s: float | None = None

    @property
    def hint(self) -> str:
        """The nearest feasible rates, one line."""
        nearest = []
        if self.rates_per_s:
            nearest.append(", ".join(f"{name} at {rate:.4g}/s" for name, rate in self.rates_per_s.items()))
        if self.own_rate_per_s is not None and len(self.rates_per_s) > 1:
            nearest.append(f"{self.tenant} alone at {self.own_rate_per_s:.4g}/s")
        if not nearest:
            return "no lower rates help: take a longer latency budget, other batch sizes or a faster mode"
        return f"nearest feasible: {'; or '.join(nearest)}"


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why tenants cannot share, and which tenant fails the test."""

    tenant: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Task:
    """A queue as a task: batches of ``fill`` requests, ``gap_ns`` apart, each answered within ``room_ns``."""

    tenant: Inference
    work_ns: int
    room_ns: int
    gap_ns: float | None
    fill: int

    @property
    def period_ns(self) -> int:
        """From one batch to the next."""
        return NEVER_NS if self.gap_ns is None else max(int(self.fill * self.gap_ns), 1)

    @property
    def share(self) -> float:
        """Of the device."""
        return self.work_ns / self.period_ns

    def released(self) -> QueueDemand:
        """Return its batches from the time on when one is full."""
        due_ns = self.room_ns - (0 if self.gap_ns is None else int((self.fill - 1) * self.gap_ns))
        return QueueDemand(due_ns, min(due_ns + self.period_ns, NEVER_NS), self.period_ns, self.work_ns)

    def just_served(self, ago_ns: int) -> QueueDemand:
        """Return its batches from this long after one was full and then served; the next has begun or does now."""
        age_ns = 0 if self.gap_ns is None else max(ago_ns - int(self.gap_ns), 0)
        due_ns = self.room_ns - age_ns
        return QueueDemand(due_ns, min(due_ns + self.period_ns, NEVER_NS), self.period_ns, self.work_ns)


def admit(tenants: Sequence[Tenant], *, guard_ns: int = GUARD_NS) -> Admission:
    """Return whether tenants can share a device under ``Managed`` with no request late and no job starved.

    Args:
        tenants: With the rates, batch sizes, times and budgets that they are to run at.
        guard_ns: As the policy is given it.
    """
    refused = _refusal(tenants, guard_ns)
    if refused is None:
        return Admission(True)

    def scaled(scale: float, only: str | None = None) -> list[Tenant]:
        return [_at(tenant, scale) if only in (None, tenant.name) else tenant for tenant in tenants]

    common = _highest(lambda scale: _refusal(scaled(scale), guard_ns) is None)
    own = _highest(lambda scale: _refusal(scaled(scale, refused.tenant), guard_ns) is None)
    rates_per_s = {
        tenant.name: tenant.rate_per_s * common
        for tenant in tenants
        if common is not None and isinstance(tenant, Inference) and tenant.rate_per_s is not None
    }
    culprit = next(tenant for tenant in tenants if tenant.name == refused.tenant)
    rate_per_s = culprit.rate_per_s if isinstance(culprit, Inference) else None
    own_rate_per_s = None if rate_per_s is None or own is None else rate_per_s * own
    return Admission(False, refused.reason, refused.tenant, rates_per_s, own_rate_per_s)


def _at(tenant: Tenant, scale: float) -> Tenant:
    if isinstance(tenant, Training) or tenant.rate_per_s is None:
        return tenant
    return replace(tenant, rate_per_s=tenant.rate_per_s * scale)


def _highest(feasible: Callable[[float], bool]) -> float | None:
    """Return the highest scale below 1 found feasible, or ``None``."""
    low = _COARSE
    while not feasible(low):
        low *= _COARSE
        if low < _LEAST_SCALE:
            return None
    high = low / _COARSE
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if feasible(middle) else (low, middle)
    return low


def _refusal(tenants: Iterable[Tenant], guard_ns: int) -> _Refusal | None:
    tenants = list(tenants)
    tasks = _tasks([tenant for tenant in tenants if isinstance(tenant, Inference)], guard_ns)
    for task in tasks:
        if task.work_ns > task.room_ns:
            budget = f"latency budget of {_ms(task.room_ns + guard_ns)} less {_ms(guard_ns)} to be woken in"
            return _Refusal(task.tenant.name, f"{task.tenant.name} takes {_ms(task.work_ns)}, longer than its {budget}")
    if sum(task.share for task in tasks) >= 1:
        return _overloaded(tasks)
    late = _late(tasks)
    if late is not None:
        return late
    jobs = (_starved(tasks, tenant) for tenant in tenants if isinstance(tenant, Training))
    return next((refused for refused in jobs if refused is not None), None)


def _tasks(queues: Sequence[Inference], guard_ns: int) -> list[_Task]:
    """Return queues as tasks whose batches have as many requests as the policy waits for."""
    fillings = [
        BatchFilling(
            queue.batch_size,
            round(queue.latency_budget_s * NS) - guard_ns,
            round(queue.minibatch_s * NS),
            NS / queue.rate_per_s if queue.rate_per_s else None,
        )
        for queue in queues
    ]
    return [
        _Task(queue, filling.work_ns, filling.room_ns, filling.gap_ns, fill)
        for queue, filling, fill in zip(queues, fillings, counts(fillings), strict=True)
    ]


def _overloaded(tasks: Sequence[_Task]) -> _Refusal:
    most, total = max(tasks, key=lambda task: task.share), sum(task.share for task in tasks)
    shares = ", ".join(f"{task.tenant.name} {task.share:.1%}{_why_small(task)}" for task in tasks)
    return _Refusal(
        most.tenant.name, f"requests take {total:.1%} of the device, and the sum must be below 100%: {shares}"
    )


def _why_small(task: _Task) -> str:
    if task.fill == task.tenant.batch_size:
        return ""
    return f" in batches of {task.fill}, for no more come before one must be served"


def _late(tasks: Sequence[_Task]) -> _Refusal | None:
    """Return which task is late when earliest deadline first runs, and how; ``None`` where none is."""
    demands = [task.released() for task in tasks]
    blockers: list[_Task | None] = [None, *tasks]
    for blocker, demand in zip(blockers, [None, *demands], strict=True):
        blocking_ns = 0 if blocker is None else blocker.work_ns - 1  # it began just before the others were released
        before_ns = None if demand is None else demand.first_ns
        by_ns = first_miss(demands, blocking_ns, before_ns=before_ns, tries=_TRIES)
        if by_ns is not None:
            ends_ns = [_last_due_ns(released, by_ns) for released in demands]
            name = tasks[ends_ns.index(max(ends_ns))].tenant.name
            need_ns = blocking_ns + demanded_ns(demands, max(ends_ns))
            within = f"within {_ms(max(ends_ns))}" + (f", behind one of {blocker.tenant.name}" if blocker else "")
            reason = f"{name} would be late: minibatches of {_ms(need_ns)} can be due {within}"
            return _Refusal(name, reason)
    return None


def _last_due_ns(demand: QueueDemand, by_ns: int) -> int:
    """Return when the last minibatch is due that is due by then; -1 where none is."""
    return -1 if by_ns < demand.first_ns else by_ns - (by_ns - demand.first_ns) % demand.period_ns


def _starved(tasks: Sequence[_Task], job: Training) -> _Refusal | None:
    """Return that a job fits into no gap; ``None`` where it does."""
    busy_ns = sum(task.work_ns for task in tasks)
    demands, step_ns = [task.just_served(busy_ns) for task in tasks], round(job.minibatch_s * NS)
    if first_miss(demands, step_ns, tries=_TRIES) is None:
        return None
    fits_ns, longer_ns = 0, step_ns
    while longer_ns - fits_ns > _MS // 1000:
        middle_ns = (fits_ns + longer_ns) // 2
        fits = first_miss(demands, middle_ns, tries=_TRIES) is None
        fits_ns, longer_ns = (middle_ns, longer_ns) if fits else (fits_ns, middle_ns)
    reason = (
        f"{job.name} would never run: its minibatch takes {_ms(step_ns)}, and no gap holds more than {_ms(fits_ns)}"
    )
    return _Refusal(job.name, reason)


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / _MS:.4g} ms"
