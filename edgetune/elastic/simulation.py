"""One run of tasks on the simulated GPU, from tasks to records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetune.elastic.backend import Residency
from edgetune.elastic.gpu import Gpu
from edgetune.elastic.loop import ElasticLoop
from edgetune.elastic.model import GpuTimingModel
from edgetune.elastic.records import LaunchRecord, Record, RequestRecord
from edgetune.elastic.simulated import SimulatedGpu
from edgetune.elastic.view import ElasticPolicy
from edgetune.elastic.work import GpuTask
from edgetune.serving.clock import EventClock
from edgetune.serving.requests import DecisionOverhead
from edgetune.units import NS


@dataclass(frozen=True, slots=True)
class ElasticSimulation:
    """What a simulated run came to.

    Args:
        launches: Of every launch, in the order in which they ended.
        requests: Of every request, in the order in which they ended.
        residencies: Where blocks were.
        residencies_until_s: Until when that was kept, s; ``None`` where all of it was.
        blocks: Physical blocks that were run.
        overhead: What deciding cost, in real time.
    """

    launches: tuple[LaunchRecord, ...]
    requests: tuple[RequestRecord, ...]
    residencies: tuple[Residency, ...]
    residencies_until_s: float | None
    blocks: int
    overhead: DecisionOverhead


def simulate(
    policy: ElasticPolicy,
    tasks: Sequence[GpuTask],
    gpu: Gpu,
    *,
    duration_s: float,
    seed: int = 0,
    model: GpuTimingModel | None = None,
    most_residencies: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
    on_record: Callable[[Record], None] = lambda _: None,
) -> ElasticSimulation:
    """Run tasks on the event clock.

    Args:
        policy: A new one; it may keep notes.
        tasks: Who asks.
        gpu: On what.
        duration_s: How long requests come, s.
        seed: Of random arrivals.
        model: What no catalogue knows of a GPU.
        most_residencies: After so many, no more is kept of where blocks were; ``None`` keeps all.
        stopped: Asked between events; once true, the run ends as if time were up.
        on_record: Called with every record as it is made.

    Raises:
        InputError: tasks that contradict each other, or a kernel of which nobody knows how long it takes.
        EdgetuneError: the policy decided what it must not.
    """
    backend = SimulatedGpu(EventClock(), gpu, tasks, model=model, most_residencies=most_residencies)
    loop = ElasticLoop(
        policy, backend, tasks, gpu=gpu, duration_s=duration_s, seed=seed, stopped=stopped, on_record=on_record
    )
    loop.run()
    until_ns = backend.residencies_until_ns
    return ElasticSimulation(
        tuple(loop.launches),
        tuple(loop.requests),
        tuple(backend.residencies),
        None if until_ns is None else until_ns / NS,
        backend.blocks,
        loop.overhead,
    )
