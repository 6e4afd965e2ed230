"""The grid of whole numbers on which a constraint programme counts time."""

from __future__ import annotations

import math

from edgetune.stages.schedule.plan import SchedulingProblem

_FINEST_NS, _MOST_STEPS = 1000, 2000
"""Durations whose common divisor is less than a microsecond, or goes into all of them together more often than this,
are rounded to a grid of so many steps. Of 16 tasks off the grid, with durations in whole microseconds (150,000 steps),
none was proved in 5 s, and one search came out at twice the optimum; with 1,500 steps all were in 0.1 to 0.9 s."""


def grid_ns(case: SchedulingProblem) -> int:
    """Return the coarsest grid on which all durations and arrivals lie, or one that is not too fine, ns."""
    return max(_FINEST_NS, exact_grid_ns(case), -(-_work_ns(case) // _MOST_STEPS))


def exact_grid_ns(case: SchedulingProblem) -> int:
    """Return the coarsest grid on which all durations and arrivals lie, ns."""
    times = [request.arrival_ns for request in case.requests]
    for network in case.networks.values():
        times += [*network.load_ns, *network.execute_ns]
    return math.gcd(*times)


def _work_ns(case: SchedulingProblem) -> int:
    """Return the time of all tasks, one after another, nothing shared, ns."""
    networks = [case.networks[request.network] for request in case.requests]
    return sum(sum(network.load_ns) + sum(network.execute_ns) for network in networks)
