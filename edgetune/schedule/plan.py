"""A schedule that was worked out beforehand: what starts in which order, and how good it is known to be.

order   load a0, load b0, execute a0, load a1, execute b0, ...      one list for all workers
bound |-----------------|--- nobody knows whether anything is here ---| objective
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from edgetune.schedule.network import LayeredNetwork
from edgetune.schedule.requests import Request

Objective = Literal["response", "makespan"]
"""What is to be least: the mean time from a request's arrival to its answer, or the time of the last answer."""


@dataclass(frozen=True, slots=True)
class SchedulingProblem:
    """What is to be scheduled.

    Args:
        networks: By name.
        requests: In the order of arrival; all are known beforehand.
        budget_bytes: What may be held.
        workers: How many tasks run at once.
        streams: How many loads at once; ``None`` for as many as there are workers.
        cores: How many executions at once; ``None`` for as many as there are workers.
    """

    networks: Mapping[str, LayeredNetwork]
    requests: Sequence[Request]
    budget_bytes: int
    workers: int
    streams: int | None = 1
    cores: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Something that starts.

    Args:
        start_ns: When at the latest, ns on the clock of the run.
        kind: What.
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
        objective: What it makes small.
        value_ns: What that comes to, ns: the makespan, or the mean response.
        bound_ns: No schedule is better than this, ns.
        proved: Whether none is better than this one.
        streams, cores: How many loads and how many executions run at once at the most.
        took_s: How long working it out took, s.
    """

    steps: tuple[Step, ...]
    objective: Objective
    value_ns: float
    bound_ns: float
    proved: bool
    streams: int
    cores: int
    took_s: float
