"""One run of the benchmark on a stage, simulated or real: from tasks to what became of critical and normal requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from edgetune.elastic.backend import GpuBackend
from edgetune.elastic.bench import RequestLatencies, Runner
from edgetune.elastic.gpu import Gpu
from edgetune.elastic.loop import ElasticLoop
from edgetune.elastic.records import RequestRecord
from edgetune.elastic.simulated import SimulatedGpu
from edgetune.elastic.solo import SOLO, Solo
from edgetune.elastic.view import ElasticPolicy
from edgetune.elastic.work import GpuTask
from edgetune.errors import EdgetuneError
from edgetune.serving.clock import EventClock
from edgetune.serving.requests import Outcome
from edgetune.units import NS

_TURNS = 10_000
"""More than there are turns: seeds of different runs are different."""

StageFactory = Callable[[Sequence[GpuTask]], AbstractContextManager[GpuBackend]]
"""Gives a stage for tasks, and takes it back."""


def simulated(gpu: Gpu) -> StageFactory:
    """Return what gives simulated stages of a GPU."""
    return lambda tasks: nullcontext(SimulatedGpu(EventClock(), gpu, tasks))


def runner(
    backend: StageFactory,
    policies: Mapping[str, ElasticPolicy],
    gpu: Gpu,
    *,
    duration_s: float,
    seed: int = 0,
    poll_interval_ns: int | None = None,
) -> Runner:
    """Return what runs tasks, each time on a new stage.

    Args:
        backend: Gives stages.
        policies: By name; each is used for all of its runs, so that what it worked out is worked out once.
        gpu: Limits of the stage.
        duration_s: Of a run, s.
        seed: Of random arrivals, together with the turn.
        poll_interval_ns: As for the loop.
    """
    known: Mapping[str, ElasticPolicy] = {SOLO: Solo(), **policies}

    def run(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
        with backend(tasks) as given:
            begin_ns = given.now_ns()
            loop = ElasticLoop(
                known[policy],
                given,
                tasks,
                gpu=gpu,
                duration_s=duration_s,
                seed=seed * _TURNS + turn,
                poll_interval_ns=poll_interval_ns,
            )
            loop.run()
            return answers_of(loop.requests, tasks, (given.now_ns() - begin_ns) / NS)

    return run


def answers_of(requests: Sequence[RequestRecord], tasks: Sequence[GpuTask], duration_s: float) -> RequestLatencies:
    """Return what a run gave.

    Raises:
        EdgetuneError: a request failed: figures without it would flatter.
    """
    failed = next((each for each in requests if each.outcome == "failed"), None)
    if failed is not None:
        message = f"request {failed.number} of {failed.task.name} failed: {failed.failure}"
        raise EdgetuneError(message, "a benchmark needs all answers; choose another GPU or smaller networks")
    waits_s: dict[str, dict[Outcome, list[float]]] = {task.name: {"ok": [], "abandoned": []} for task in tasks}
    for each in requests:
        waits_s[each.task.name][each.outcome].append((each.ended_ns - each.arrived_ns) / NS)
    return RequestLatencies(
        {name: waits["ok"] for name, waits in waits_s.items()},
        {name: waits["abandoned"] for name, waits in waits_s.items()},
        duration_s,
    )
