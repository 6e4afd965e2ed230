"""The best schedule that is found before a run: the policies' own, and what constraint programming makes of them.

    policies --simulated--> the best within the budget --hint--> CP-SAT (of few tasks) --simulated--> the best

All are compared on one simulated machine, where tasks slow each other down as measured: the programme knows nothing of
that, so that its best need not be the best there. The search takes as long as it may, and always has an answer.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from dataclasses import replace

from edgetune.errors import EdgetuneError, InfeasibleError
from edgetune.stages.schedule.machine import Machine
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.optimum import DEFAULT_LIMIT_S, optimum
from edgetune.stages.schedule.plan import LayerSchedule, Objective, SchedulingProblem, steps_of
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.policies.optimum import Optimum
from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.simulation import SimulationCase, simulate
from edgetune.stages.schedule.tasks import RequestRecord, TaskRecord

CANDIDATES = ("reuse", "masa", "fcfs", "sjf", "snf", "partial", "deepeye", "linear")
"""The policies whose schedules are tried first."""
MOST_TASKS = 400
"""With more loads and executions constraint programming does not begin: some dozens are proved in seconds, hundreds
come out as they went in, from the run of a policy, and the programme grows with the square of the requests."""


def best_schedule(
    case: SchedulingProblem, objective: Objective, machine: Machine, *, limit_s: float = DEFAULT_LIMIT_S
) -> LayerSchedule:
    """Return the best schedule that is found in a time, and a bound that none is better than.

    Args:
        case: The requests and the machine, as the constraint programme takes it.
        objective: The figure to minimise.
        machine: What schedules are compared on: how tasks slow each other down there.
        limit_s: Time limit, s: no policy is tried after it but the first, and no search goes on.

    Raises:
        DeviceError: OR-Tools is missing.
        EdgetuneError: the budget is too small for any schedule.
    """
    begun_s, bound_ns = time.perf_counter(), lower_bound_ns(case, objective)
    found, known = _best_of_policies(case, objective, machine, bound_ns, until_s=begun_s + limit_s)
    if case.requests and (found is None or case.tasks <= MOST_TASKS):
        left_s = max(begun_s + limit_s - time.perf_counter(), 0.0)
        solved = optimum(case, objective, limit_s=left_s, known=known)
        followed = _figure_ns(_run(Optimum(plan=solved), case, machine), objective)
        bound_ns = max(bound_ns, solved.bound_ns)
        if found is None or followed < found.value_ns:
            found = replace(solved, value_ns=followed)
    if found is None:
        raise EdgetuneError("there is no schedule to follow: no request is known", "name another policy, e.g. reuse")
    took_s, bound_ns = time.perf_counter() - begun_s, min(bound_ns, found.value_ns)
    return replace(found, bound_ns=bound_ns, proved=found.value_ns <= bound_ns, took_s=took_s)


def _best_of_policies(
    case: SchedulingProblem, objective: Objective, machine: Machine, bound_ns: float, *, until_s: float
) -> tuple[LayerSchedule | None, Sequence[TaskRecord]]:
    """Return the best schedule that a policy makes within the budget, followed as a plan, and that policy's tasks."""
    best: LayerSchedule | None = None
    known: Sequence[TaskRecord] = ()
    streams, cores = case.streams or case.workers, case.cores or case.workers
    for name in CANDIDATES:
        if best is not None and time.perf_counter() > until_s:
            break
        try:
            records = _run(make_policy(name), case, machine)
        except InfeasibleError:
            continue
        tasks = [record for record in records if isinstance(record, TaskRecord)]
        if max((task.held_bytes for task in tasks), default=0) > case.budget_bytes:
            continue
        plan = LayerSchedule(steps_of(tasks), objective, 0.0, bound_ns, False, streams, cores, 0.0, case.arrivals_ns)
        value_ns = _figure_ns(_run(Optimum(plan=plan), case, machine), objective)
        if best is None or value_ns < best.value_ns:
            best, known = replace(plan, value_ns=value_ns), tasks
    return best, known


def _run(policy: SchedulePolicy, case: SchedulingProblem, machine: Machine) -> Sequence[object]:
    return simulate(
        policy, SimulationCase(case.networks, case.requests, case.budget_bytes, case.workers, machine)
    ).records


def _figure_ns(records: Sequence[object], objective: Objective) -> float:
    answers = [record for record in records if isinstance(record, RequestRecord)]
    if objective == "makespan":
        return max((answer.end_ns for answer in answers), default=0)
    return sum(answer.response_ns for answer in answers) / max(len(answers), 1)


def lower_bound_ns(case: SchedulingProblem, objective: Objective) -> float:
    """Return a bound from the work alone, ns, that no schedule is better than, however many tasks there are.

    No answer comes before its network's longest path of executions. Executions take the machine's cores at least the
    time of their work; were these one core as fast as all, which may interrupt, the least sum of responses is that of
    the shortest remaining time first (Schrage, 1968). Every network's weights are loaded at least once.
    """
    if not case.requests:
        return 0.0
    cores = min(case.cores or case.workers, case.workers)
    path_ns = {name: _longest_path_ns(network) for name, network in case.networks.items()}
    first_ns = min(request.arrival_ns for request in case.requests)
    if objective == "makespan":
        asked = {request.network for request in case.requests}
        executing_ns = sum(sum(case.networks[request.network].execute_ns) for request in case.requests) / cores
        loading_ns = sum(sum(case.networks[name].load_ns) for name in asked) / case.workers
        last_ns = max(request.arrival_ns + path_ns[request.network] for request in case.requests)
        return max(last_ns, first_ns + executing_ns, first_ns + loading_ns)
    paths_ns = sum(path_ns[request.network] for request in case.requests)
    work = [(request.arrival_ns, sum(case.networks[request.network].execute_ns) / cores) for request in case.requests]
    return max(float(paths_ns), _shortest_remaining_ns(sorted(work))) / len(case.requests)


def _longest_path_ns(network: LayeredNetwork) -> int:
    ends: list[int] = []
    for layer, execute_ns in zip(network.layers, network.execute_ns, strict=True):
        ends.append(execute_ns + max((ends[before] for before in layer.after), default=0))
    return max(ends)


def _shortest_remaining_ns(work: Sequence[tuple[int, float]]) -> float:
    """Return the sum of response times of one preemptive processor, shortest remaining time first.

    Args:
        work: Arrival and work of each request, ns, ascending.
    """
    heap: list[tuple[float, int]] = []
    now_ns, total_ns, coming = 0.0, 0.0, 0
    while heap or coming < len(work):
        if not heap:
            now_ns = max(now_ns, work[coming][0])
        while coming < len(work) and work[coming][0] <= now_ns:
            arrival_ns, left_ns = work[coming]
            heapq.heappush(heap, (left_ns, arrival_ns))
            coming += 1
        left_ns, arrival_ns = heapq.heappop(heap)
        until_ns = work[coming][0] if coming < len(work) else float("inf")
        if now_ns + left_ns > until_ns:
            heapq.heappush(heap, (left_ns - (until_ns - now_ns), arrival_ns))
            now_ns = until_ns
        else:
            now_ns += left_ns
            total_ns += now_ns - arrival_ns
    return total_ns
