"""A schedule made beforehand: the order in which tasks start, and a bound that no schedule is better than.

order   load a0, load b0, execute a0, load a1, execute b0, ...      one list for all workers
bound |-----------------|--- whether a schedule is here is unknown ---| objective

The grid of whole numbers on which a constraint programme counts time.
"""

import math
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

    @property
    def tasks(self) -> int:
        """The number of loads and executions, where nothing is shared."""
        return sum(2 * len(self.networks[request.network].layers) for request in self.requests)

    @property
    def arrivals_ns(self) -> dict[int, int]:
        """The arrival of each request, ns, by number."""
        return {request.number: request.arrival_ns for request in self.requests}


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
        steps: In the order in which they start; none where it is that of the policy ``reuse``.
        objective: The figure that it minimises.
        value_ns: That figure, ns.
        bound_ns: No schedule is better than this, ns.
        proved: Whether none is better than this one.
        streams, cores: Most loads, and most executions, that run at once.
        took_s: Duration of the search, s.
        arrivals_ns: Arrival of every request that it is for, ns on the clock of the run, by number.
    """

    steps: tuple[Step, ...]
    objective: Objective
    value_ns: float
    bound_ns: float
    proved: bool
    streams: int
    cores: int
    took_s: float
    arrivals_ns: Mapping[int, int]


_FINEST_NS, _MOST_STEPS = 1000, 2000
"""Durations whose common divisor is less than a microsecond, or goes into all of them together more often than this,
are rounded to a grid of so many steps. Of 16 tasks off the grid, with durations in whole microseconds (150,000 steps),
none was proved in 5 s, and one search came out at twice the optimum; with 1,500 steps all were in 0.1 to 0.9 s."""


def grid_ns(case: SchedulingProblem) -> int:
    """Return the coarsest grid on which all durations and arrivals lie, or one that is not too fine, ns."""
    times = [request.arrival_ns for request in case.requests]
    for network in case.networks.values():
        times += [*network.load_ns, *network.execute_ns]
    networks = [case.networks[request.network] for request in case.requests]
    work_ns = sum(sum(network.load_ns) + sum(network.execute_ns) for network in networks)
    return max(_FINEST_NS, math.gcd(*times), -(-work_ns // _MOST_STEPS))
