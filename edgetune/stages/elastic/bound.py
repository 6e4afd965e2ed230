"""The worst-case latency of a critical request beside best-effort work, and which kernels may run for it to hold.

    alone     [a1  ]  [a2 ]  [a3    ]
    beside  h |w1|[a1  ]  |w2|[a2 ]  |w3|[a3    ]         at most alone + h + 3 w

    h   the host ends the launch that it is busy with, before it launches the critical chain
    w   blocks that run when a kernel of the chain is ready end: the GPU places none of lower priority before all of the
        kernel's blocks have a place, and never stops one that runs (Amert et al. 2017, as in ``elastic.simulated``)

So ``w`` is the longest time that a physical block of a piece stays on a multiprocessor: the logical blocks that it goes
through, times the time of one. Every kernel of the chain may have to wait, since blocks that found room beside one kernel
may be in the way of the next. Not in the bound: what blocks beside each other cost each other in caches and bandwidth,
other critical tasks, and requests of the same task that queue. Ours; the study gives none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from edgetune.stages.elastic.backend import Launch
from edgetune.stages.elastic.gpu import Gpu
from edgetune.stages.elastic.model import GpuTimingModel, demand_of
from edgetune.stages.elastic.pieces import PieceShape, about_s
from edgetune.stages.elastic.policies.elastic import Elastic
from edgetune.stages.elastic.policies.multistream import MultiStream
from edgetune.stages.elastic.view import ElasticPolicy
from edgetune.stages.elastic.work import Call, GpuTask
from edgetune.units import NS

BlockTime = Callable[[Call, PieceShape], float]
"""Returns how long a physical block of a piece stays on a multiprocessor that it has for itself, s."""


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
        host_s: Time in which the host ends a launch, s.
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


def simulated_blocks(gpu: Gpu, model: GpuTimingModel) -> BlockTime:
    """Return the times of blocks on the model of a GPU."""

    def block_s(call: Call, shape: PieceShape) -> float:
        whole = shape.count == shape.blocks == call.logical.blocks and shape.per_thread == 1
        launch = Launch(0, "", 0, 0, call, 0, shape.count, shape.per_thread, None if whole else shape.blocks)
        demand = demand_of(launch, gpu, model)
        return 0.0 if demand is None else math.ceil(shape.count / shape.blocks) * demand.logical_ns / NS

    return block_s


def measured_blocks(gpu: Gpu) -> BlockTime:
    """Return the times of blocks on a GPU by the measured times of its kernels."""

    def block_s(call: Call, shape: PieceShape) -> float:
        turns = math.ceil(shape.count / shape.blocks)
        took_s = about_s(gpu, call, PieceShape(turns, shape.per_thread, 1))
        return gpu.launch_s if took_s is None else took_s

    return block_s


def preemptions(
    policy: ElasticPolicy, tasks: Iterable[GpuTask], gpu: Gpu, block_s: BlockTime
) -> Sequence[Preemption] | None:
    """Return how long each kernel of best-effort tasks may keep a critical one waiting.

    Args:
        policy: Decides the shapes of pieces.
        tasks: All tasks.
        gpu: As the policy sees it.
        block_s: Times of blocks.

    Returns:
        One for each kernel and task; ``None`` where critical work waits for more than blocks by this policy.
    """
    if not isinstance(policy, Elastic | MultiStream):
        return None
    found: dict[tuple[str, str], float] = {}
    for task in tasks:
        for call in () if task.critical else task.network.calls:
            longest_s = max(block_s(call, shape) for shape in _shapes(policy, gpu, call))
            key = task.name, call.kernel
            found[key] = max(found.get(key, 0.0), longest_s)
    return [Preemption(*key, longest_s) for key, longest_s in found.items()]


def _shapes(policy: Elastic | MultiStream, gpu: Gpu, call: Call) -> Iterator[PieceShape]:
    """Yield the shapes in which a policy may launch a best-effort kernel."""
    if isinstance(policy, MultiStream):
        yield PieceShape(call.logical.blocks, 1, call.logical.blocks)
        return
    yield policy.alone(gpu, call)
    yield from dict.fromkeys(shape for row in policy.beside(gpu, call).shapes for shape in row)


def latency_bound(
    task: GpuTask, waits: Iterable[Preemption], *, alone_s: float, host_s: float
) -> LatencyBound:
    """Return the bound of a critical task.

    Args:
        task: The only one of its priority, and none has a higher one.
        waits: Of the kernels that run beside it.
        alone_s: Its slowest request alone, s.
        host_s: Time in which the host ends a launch, s.
    """
    longest = max(waits, key=lambda each: each.block_s, default=None)
    return LatencyBound(task.name, alone_s, host_s, len(task.network.calls), longest)


def most_critical(tasks: Sequence[GpuTask]) -> GpuTask | None:
    """Return the only critical task; ``None`` where there are several, which may wait for each other, or none."""
    critical = [task for task in tasks if task.critical]
    return critical[0] if len(critical) == 1 else None


def refused(bound: LatencyBound, waits: Iterable[Preemption], within: float) -> list[Preemption]:
    """Return the kernels whose pieces would add more than a share of its latency alone to that of a critical request.

    Args:
        bound: Of the critical task.
        waits: Of the kernels that would run beside it.
        within: The share.
    """
    allowed_s = within * bound.alone_s
    return [each for each in waits if bound.host_s + bound.kernels * each.block_s > allowed_s]
