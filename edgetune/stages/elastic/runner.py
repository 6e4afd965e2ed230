"""Runs of tasks by a policy, each on a backend of its own: what the benchmark compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from edgetune.errors import EdgetuneError
from edgetune.serving.clock import EventClock
from edgetune.serving.requests import Outcome
from edgetune.stages.elastic.backend import GpuBackend, RequestRecord
from edgetune.stages.elastic.gpu import Gpu
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.model import GpuTimingModel
from edgetune.stages.elastic.policies.multistream import SOLO, Solo
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stages.elastic.view import ElasticPolicy
from edgetune.stages.elastic.work import GpuTask
from edgetune.units import NS


@dataclass(frozen=True, slots=True)
class RequestLatencies:
    """The latencies of one run.

    Args:
        latencies_s: Of the answered requests, from arrival to answer, by task.
        unanswered_s: How long the others had waited at the end of the run, by task.
        duration_s: Of the run.
    """

    latencies_s: Mapping[str, Sequence[float]]
    unanswered_s: Mapping[str, Sequence[float]]
    duration_s: float

    def rate_per_s(self, *tasks: str) -> float:
        """Return how many requests of these tasks were answered in a second."""
        return sum(len(self.latencies_s[task]) for task in tasks) / self.duration_s


Runner = Callable[[Sequence[GpuTask], str, int], RequestLatencies]
"""Runs tasks by a policy in a turn; arrivals depend on tasks and turn alone. The policy ``solo`` is for one task."""


_TURNS = 10_000
"""More than there are turns, so that seeds of different runs differ."""

BackendFactory = Callable[[Sequence[GpuTask]], AbstractContextManager[GpuBackend]]
"""Opens a backend for tasks, and closes it."""


def simulated(gpu: Gpu, model: GpuTimingModel | None = None) -> BackendFactory:
    """Return a factory of simulated backends of a GPU."""
    return lambda tasks: nullcontext(SimulatedGpu(EventClock(), gpu, tasks, model=model))


def runner(
    backend: BackendFactory, policies: Mapping[str, ElasticPolicy], gpu: Gpu, *, duration_s: float, seed: int = 0
) -> Runner:
    """Return a function that runs tasks, each time on a new backend.

    Args:
        backend: Opens backends.
        policies: By name; each is used for all of its runs, so that its tables are computed once.
        gpu: Limits of the backend.
        duration_s: Of a run, s.
        seed: Of random arrivals, together with the turn.
    """
    known: Mapping[str, ElasticPolicy] = {SOLO: Solo(), **policies}

    def run(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
        with backend(tasks) as given:
            turn_seed = seed * _TURNS + turn
            loop = ElasticLoop(known[policy], given, tasks, gpu=gpu, duration_s=duration_s, seed=turn_seed)
            begin_ns = given.now_ns()
            loop.run()
            return answers_of(loop.requests, tasks, (given.now_ns() - begin_ns) / NS)

    return run


def answers_of(requests: Sequence[RequestRecord], tasks: Sequence[GpuTask], duration_s: float) -> RequestLatencies:
    """Return the latencies of a run.

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
