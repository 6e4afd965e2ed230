"""A schedule made beforehand: the order in which tasks start, and a bound that no schedule is better than.

order   load a0, load b0, execute a0, load a1, execute b0, ...      one list for all workers
bound |-----------------|--- whether a schedule is here is unknown ---| objective
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.requests import Request

Objective = Literal["response", "makespan"]
"""The figure to minimise: the mean time from a request's arrival to its answer, or the time of the last answer."""


@dataclass(frozen=True, slots=True)
class SchedulingProblem:
    """Requests to schedule, and the machine for them.

    Args:
        networks: By name.
        requests: In the order of arrival; all are known beforehand.
        budget_bytes: The memory budget.
        workers: Number of tasks that run at once.
        streams: Number of loads at once; ``None``: the number of workers.
        cores: Number of executions at once; ``None``: the number of workers.
    """

    networks: Mapping[str, LayeredNetwork]
    requests: Sequence[Request]
    budget_bytes: int
    workers: int
    streams: int | None = 1
    cores: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A load or an execution that starts.

    Args:
        start_ns: The latest start, ns on the clock of the run.
        kind: Load or execution.
        network: Name of the network.
        layer: Index in it.
        request: Whose execution; of a load, the first request that uses it.
        uses: Of a load, how many executions use it before the weights leave; of an execution 0.
    """

    start_ns: int
    kind: Literal["load", "execute"]
    network: str
    layer: int
    request: int
    uses: int = 0


@dataclass(frozen=True, slots=True)
class LayerSchedule:
    """A schedule for some requests.

    Args:
        steps: In the order in which they start.
        objective: The figure that it minimises.
        value_ns: That figure, ns.
        bound_ns: No schedule is better than this, ns.
        proved: Whether none is better than this one.
        streams, cores: Most loads, and most executions, that run at once.
        took_s: Duration of the search, s.
    """

    steps: tuple[Step, ...]
    objective: Objective
    value_ns: float
    bound_ns: float
    proved: bool
    streams: int
    cores: int
    took_s: float
