"""Print how many tasks a second are simulated: python tests/benchmarks/schedule_simulator.py [--requests 150] ...

All requests for all networks are there from the beginning, as in the study's batches: the queue is at its longest. The
first line is of a policy that is as simple as can be, so that what is timed is the loop, its state and the simulator.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import ClassVar

from edgetune.serving.clock import EventClock
from edgetune.stages.schedule.loop import ScheduleLoop
from edgetune.stages.schedule.machine import Machine
from edgetune.stages.schedule.network import Layer, LayeredNetwork
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.policies.policy import SchedulePolicy, taken_by
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.simulation import SimulatedTaskBackend
from edgetune.stages.schedule.state import Parallelism, View
from edgetune.stages.schedule.tasks import LayerTask


class Simplest:
    """First come, first served, every request with weights of its own, which leave once they were used."""

    name: ClassVar[str] = "(simplest)"
    shares_weights: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    maps_weights: bool = False
    overcommits: bool = False
    again_ns: int | None = None

    def choose(self, view: View) -> LayerTask | None:
        """Return the first task that fits, else any where nothing runs."""
        unwanted = view.unwanted()
        if unwanted is not None:
            return unwanted
        if not view.idle_workers:
            return None
        tasks = [task for task in (view.executions.first, view.loads.first) if task is not None]
        fitting = [task for task in tasks if task.bytes <= view.free_bytes]
        return fitting[0] if fitting else (tasks[0] if tasks and not view.running else None)


def made(name: str, layers: int) -> LayeredNetwork:
    """Return a chain of layers, the last of which is as large as all others together."""
    sizes = [10**6] * (layers - 1) + [(layers - 1) * 10**6]
    chain = [
        Layer(f"{index}", "fc", size, 10**5, 10**5, size / 1e9, size / 2e9, (index - 1,) if index else ())
        for index, size in enumerate(sizes)
    ]
    return LayeredNetwork(name, tuple(chain), 10**5)


def measure(policy: SchedulePolicy, networks: Sequence[LayeredNetwork], requests: int, budget_bytes: int) -> str:
    """Return one line of a run in which all requests are there from the beginning."""
    known = taken_by(policy, {network.name: network for network in networks})
    names = [name for _ in range(requests) for name in known]
    backend = SimulatedTaskBackend(EventClock(), known, budget_bytes=budget_bytes, machine=Machine(cores=2))
    begun_s = time.perf_counter()
    queue = [Request(number, name, 0) for number, name in enumerate(names)]
    loop = ScheduleLoop(policy, backend, known, queue, parallelism=Parallelism(2))
    loop.run()
    took_s = time.perf_counter() - begun_s
    answered = sum(record.outcome == "ok" for record in loop.requests)
    share = f"{loop.overhead.decisions_s / took_s:.0%} of it the policy, checks and starts"
    return (
        f"{policy.name:12} {answered} answered, {len(loop.tasks):6} tasks in {took_s:.2f} s: "
        f"{len(loop.tasks) / took_s:,.0f} tasks/s, {share}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=150, help="for each network")
    parser.add_argument("--networks", type=int, default=5)
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--budget-mb", type=float, default=60)
    parser.add_argument("--policies", default="bulk,deepeye,masa,reuse", help="which, besides the simplest")
    asked = parser.parse_args()
    networks = [made(f"network{number}", asked.layers) for number in range(asked.networks)]
    for policy in [Simplest(), *map(make_policy, asked.policies.split(","))]:
        print(measure(policy, networks, asked.requests, round(asked.budget_mb * 1e6)))


if __name__ == "__main__":
    main()
