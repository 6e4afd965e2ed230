"""One run of jobs on the event clock, from networks and requests to records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from edgetune.schedule.loop import ScheduleLoop
from edgetune.schedule.network import LayeredNetwork
from edgetune.schedule.records import Record
from edgetune.schedule.request import Request
from edgetune.schedule.simulated import Machine, SimulatedTaskBackend
from edgetune.schedule.view import SchedulePolicy
from edgetune.schedule.whole import taken_by
from edgetune.serving.clock import EventClock
from edgetune.serving.requests import DecisionOverhead


@dataclass(frozen=True, slots=True)
class ScheduleSimulation:
    """What a simulated run came to.

    Args:
        records: Of every task, request and budget, in the order in which they ended.
        networks: As the policy took them: records number their layers.
        overhead: What deciding cost, in real time.
        peak_bytes: The most that was really held.
    """

    records: tuple[Record, ...]
    networks: Mapping[str, LayeredNetwork]
    overhead: DecisionOverhead
    peak_bytes: int


def simulate(
    policy: SchedulePolicy,
    networks: Mapping[str, LayeredNetwork],
    requests: Sequence[Request],
    *,
    budget_bytes: int,
    workers: int,
    machine: Machine,
    believed: Mapping[str, LayeredNetwork] | None = None,
    wholes: Mapping[str, LayeredNetwork] = MappingProxyType({}),
    stopped: Callable[[], bool] = lambda: False,
) -> ScheduleSimulation:
    """Run requests on the event clock.

    Args:
        policy: A new one; it may keep notes.
        networks: What is really there and really takes its time.
        requests: In the order of arrival.
        budget_bytes: What may be held.
        workers: How many tasks can run at once.
        machine: What tasks share.
        believed: What loop and policy take the networks for; ``None`` where they know them.
        wholes: Networks as one layer that were measured so, for a policy that takes them whole; others are put together
            from their layers.
        stopped: Asked between events; once true, what runs is finished and what is left is abandoned.

    Raises:
        InfeasibleError: the budget is too small for a network; the smallest that works is named.
        EdgetuneError: the policy chose what it must not.
    """
    taken = taken_by(policy, networks if believed is None else believed)
    real = {**taken_by(policy, networks), **(wholes if policy.whole else {})}
    backend = SimulatedTaskBackend(EventClock(), real, budget_bytes=budget_bytes, machine=machine)
    records: list[Record] = []
    loop = ScheduleLoop(
        policy, backend, taken, requests, workers=workers, cores=machine.cores, streams=round(machine.streams),
        stopped=stopped, on_record=records.append,
    )  # fmt: skip
    loop.run()
    return ScheduleSimulation(tuple(records), taken, loop.overhead, backend.peak_bytes)
