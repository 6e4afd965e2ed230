"""The worst-case latency of a critical request beside best-effort work, and which kernels may run for it to hold.

    alone     [a1  ]  [a2 ]  [a3    ]
    beside  h |w1|[a1  ]  |w2|[a2 ]  |w3|[a3    ]         at most alone + h + 3 w

    h   the host ends what it is busy with, the start and end of a kernel, a decision and a launch, before it launches
        the critical chain: by multistream a whole request of every best-effort task, as it launches them at once
    w   blocks that run when a kernel of the chain is ready end: the GPU places none of lower priority before all of the
        kernel's blocks have a place, and never stops one that runs (Amert et al. 2017, as in ``elastic.simulated``)

So ``w`` is the longest time that a physical block of a piece stays on a multiprocessor: the logical blocks that it
goes through, times the time of one beside the other blocks of its piece. Every kernel of the chain may have to wait,
since blocks that found room beside one may be in the way of the next. Not in the bound: what blocks of different
kernels beside each other cost each other in computing, caches and bandwidth, other critical tasks, and requests of the
same task that queue. Ours; the study gives none.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from edgetune.errors import InfeasibleError
from edgetune.stages.elastic.gpu import Call, Gpu, GpuTask
from edgetune.stages.elastic.model import GpuTimingModel, demand_of
from edgetune.stages.elastic.multiprocessors import Multiprocessors
from edgetune.stages.elastic.pieces import PieceShape, alone, block_s
from edgetune.stages.elastic.policies.elastic import BlockTime, Elastic
from edgetune.stages.elastic.policies.simple import MultiStream
from edgetune.stages.elastic.view import ElasticPolicy
from edgetune.units import NS, format_si

BOUNDED = (Elastic.name, MultiStream.name)
"""Policies by which critical work waits for nothing but blocks that run."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """How long a kernel may keep a critical one waiting.

    Args:
        task: Its task.
        kernel: Its name.
        block_s: The longest stay of one of its physical blocks, s.
    """

    task: str
    kernel: str
    block_s: float


@dataclass(frozen=True, slots=True)
class LatencyBound:
    """The worst-case latency of a request that finds no other critical one.

    Args:
        task: The critical task.
        alone_s: Its slowest request alone, s.
        host_s: Time in which the host ends what it is launching, s.
        kernels: Kernels of its network, each of which may wait.
        longest: The kernel that may keep each of them waiting longest; ``None`` where nothing runs beside it.
    """

    task: str
    alone_s: float
    host_s: float
    kernels: int
    longest: Preemption | None

    @property
    def latency_s(self) -> float:
        """The bound, s."""
        return self.alone_s + self.added_s

    @property
    def added_s(self) -> float:
        """What it adds to the slowest request alone, s."""
        return self.host_s + self.kernels * (0.0 if self.longest is None else self.longest.block_s)


@dataclass(frozen=True, slots=True)
class PreemptionCosts:
    """The times that a bound is made of.

    Args:
        block_s: Times of blocks.
        host_s: Time in which the host ends a launch, s.
    """

    block_s: BlockTime
    host_s: float


def simulated_costs(gpu: Gpu, model: GpuTimingModel) -> PreemptionCosts:
    """Return the times on the model of a GPU."""

    def block_s(call: Call, shape: PieceShape) -> float:
        whole = shape.count == shape.blocks == call.logical.blocks and shape.per_thread == 1
        demand = demand_of(call, gpu, model, per_thread=shape.per_thread, original=whole)
        if demand is None:
            return 0.0
        multiprocessors = Multiprocessors(gpu, 0)
        placed = multiprocessors.place(0, demand, shape.blocks, logical=1, now_ns=0)
        multiprocessors.settle(0)
        slower = max(group.stretch for group in placed)
        return math.ceil(shape.count / shape.blocks) * slower * demand.logical_ns / NS

    return PreemptionCosts(block_s, model.host_s + model.decision_s + 2 * model.event_s)


def measured_costs(gpu: Gpu) -> PreemptionCosts:
    """Return the times on a GPU: the measured ones of its kernels, and the reaction of the host."""
    return PreemptionCosts(partial(block_s, gpu), gpu.launch_s)


def preemptions(
    policy: ElasticPolicy, tasks: Sequence[GpuTask], gpu: Gpu, block_s: BlockTime
) -> Sequence[Preemption] | None:
    """Return how long each kernel of best-effort tasks may keep the critical one waiting.

    Args:
        policy: Decides the shapes of pieces.
        tasks: All tasks.
        gpu: As the policy sees it.
        block_s: Times of blocks.

    Returns:
        One for each kernel and task; ``None`` where critical work waits for more than blocks by this policy, or there
        are several critical tasks, which may wait for each other, or none.
    """
    if not isinstance(policy, Elastic | MultiStream) or sum(task.critical for task in tasks) != 1:
        return None
    critical = _critical(tasks)
    found: dict[tuple[str, str], float] = {}
    for task in tasks:
        for call in () if task.critical else task.network.calls:
            longest_s = max(block_s(call, shape) for shape in _shapes(policy, gpu, call, critical))
            key = task.name, call.kernel
            found[key] = max(found.get(key, 0.0), longest_s)
    return [Preemption(*key, longest_s) for key, longest_s in found.items()]


def _shapes(policy: Elastic | MultiStream, gpu: Gpu, call: Call, critical: GpuTask) -> Iterator[PieceShape]:
    """Yield the shapes in which a policy may launch a best-effort kernel, alone or beside those of a critical task."""
    if isinstance(policy, MultiStream):
        yield PieceShape(call.logical.blocks, 1, call.logical.blocks)
        return
    yield alone(gpu, call)
    beside = policy.beside(gpu, call)
    for blocks, threads in {(each.logical.blocks, each.logical.threads) for each in critical.network.calls}:
        shape = beside.choose(blocks % gpu.sm_count, threads)
        if shape is not None:
            yield shape


def latency_bound(
    policy: ElasticPolicy, tasks: Sequence[GpuTask], gpu: Gpu, costs: PreemptionCosts, *, alone_s: float
) -> tuple[LatencyBound, Sequence[Preemption]] | None:
    """Return the bound of the critical task, and what its kernels may wait for.

    Args:
        policy, tasks, gpu: As above.
        costs: The times.
        alone_s: The slowest request of the critical task alone, s.

    Returns:
        ``None`` where ``preemptions`` has none.
    """
    waits = preemptions(policy, tasks, gpu, costs.block_s)
    if waits is None:
        return None
    task, longest = _critical(tasks), max(waits, key=lambda each: each.block_s, default=None)
    whole = [len(each.network.calls) for each in tasks if isinstance(policy, MultiStream) and not each.critical]
    return LatencyBound(task.name, alone_s, max(1, sum(whole)) * costs.host_s, len(task.network.calls), longest), waits


def _critical(tasks: Sequence[GpuTask]) -> GpuTask:
    """Return the only critical task."""
    (found,) = (task for task in tasks if task.critical)
    return found


def admitted(
    policy: ElasticPolicy, tasks: Sequence[GpuTask], gpu: Gpu, costs: PreemptionCosts, *, alone_s: float, within: float
) -> tuple[Sequence[GpuTask], Sequence[str]]:
    """Shorten pieces, and return the tasks none of whose kernels breaks a bound all the same.

    Args:
        policy: Of ``BOUNDED``.
        tasks, gpu, costs, alone_s: As ``latency_bound``.
        within: Share of its slowest request alone that a critical request may take longer.

    Returns:
        The tasks, and for each kernel that may not run, why.

    Raises:
        InfeasibleError: there are best-effort tasks, and none may run.
    """
    kernels = len(_critical(tasks).network.calls)
    if isinstance(policy, Elastic):
        policy.keep_within(costs.block_s, (within * alone_s - costs.host_s) / kernels)
    found = latency_bound(policy, tasks, gpu, costs, alone_s=alone_s)
    assert found is not None  # of a policy without a bound none is asked for
    bound, waits = found
    added_s = {each: replace(bound, longest=each).added_s for each in waits}
    out = {
        each: f"kernel {each.kernel} of {each.task} may keep each of its {bound.kernels} kernels waiting "
        f"{format_si(each.block_s, 's')}, in all {format_si(added_s[each], 's')} of {format_si(alone_s, 's')} alone"
        for each in waits
        if added_s[each] > within * alone_s
    }
    left = [task for task in tasks if task.name not in {each.task for each in out}]
    if out and all(task.critical for task in left):
        worst = max(out, key=lambda each: each.block_s)
        least_s = min(max(added_s[each] for each in waits if each.task == name) for name in {each.task for each in out})
        message = f"no best-effort task may run within {100 * within:.3g}% of the latency of {bound.task} alone"
        hint = f"one may from --admit-within {math.ceil(100 * least_s / alone_s)}% on"
        raise InfeasibleError(f"{message}: {out[worst]}", hint)
    return left, [f"{each.task} is left out: {why}" for each, why in out.items()]


def describe_bound(bound: LatencyBound, measured_s: float | None) -> str:
    """Return a bound with its terms beside what was measured, one line.

    Args:
        bound: The bound.
        measured_s: The slowest request, s; ``None`` where none was answered.
    """
    terms = f"alone {format_si(bound.alone_s, 's')} + host {format_si(bound.host_s, 's')}"
    if bound.longest is not None:
        of = f"block of {bound.longest.kernel} of {bound.longest.task}"
        terms += f" + {bound.kernels} kernels x {format_si(bound.longest.block_s, 's')} ({of})"
    slowest = "none was answered" if measured_s is None else f"the slowest took {format_si(measured_s, 's')}"
    if measured_s is not None and measured_s > bound.latency_s:
        slowest += ", which is more: what the bound leaves out made it longer"
    return f"{bound.task} takes at most {format_si(bound.latency_s, 's')} = {terms}; {slowest}"


NOTE = "a bound leaves out what kernels beside each other cost each other, and critical requests that queue"
"""What to say beside bounds."""
