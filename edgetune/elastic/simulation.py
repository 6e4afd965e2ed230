"""One run of tasks on the simulated GPU, from tasks to records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetune.elastic.gpu import Gpu
from edgetune.elastic.loop import Loop, Overhead
from edgetune.elastic.model import Model
from edgetune.elastic.records import LaunchRecord, Record, RequestRecord
from edgetune.elastic.simulated import SimulatedGpu
from edgetune.elastic.stage import Residency
from edgetune.elastic.view import Policy
from edgetune.elastic.work import Task
from edgetune.sim.clock import EventClock


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulated run came to.

    Args:
        launches: Of every launch, in the order in which they ended.
        requests: Of every request, in the order in which they ended.
        residencies: Where blocks were.
        blocks: Physical blocks that were run.
        overhead: What deciding cost, in real time.
    """

    launches: tuple[LaunchRecord, ...]
    requests: tuple[RequestRecord, ...]
    residencies: tuple[Residency, ...]
    blocks: int
    overhead: Overhead


def simulate(
    policy: Policy,
    tasks: Sequence[Task],
    gpu: Gpu,
    *,
    duration_s: float,
    seed: int = 0,
    model: Model | None = None,
    stopped: Callable[[], bool] = lambda: False,
    note: Callable[[Record], None] = lambda _: None,
) -> Simulation:
    """Run tasks on the event clock.

    Args:
        policy: A new one; it may keep notes.
        tasks: Who asks.
        gpu: On what.
        duration_s: How long requests come, s.
        seed: Of random arrivals.
        model: What no catalogue knows of a GPU.
        stopped: Asked between events; once true, the run ends as if time were up.
        note: Called with every record as it is made.

    Raises:
        InputError: tasks that contradict each other, or a kernel of which nobody knows how long it takes.
        EdgetuneError: the policy decided what it must not.
    """
    stage = SimulatedGpu(EventClock(), gpu, tasks, model=model)
    loop = Loop(policy, stage, tasks, gpu=gpu, duration_s=duration_s, seed=seed, stopped=stopped, note=note)
    loop.run()
    return Simulation(tuple(loop.launches), tuple(loop.requests), tuple(stage.residencies), stage.blocks, loop.overhead)
