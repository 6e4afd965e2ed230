"""The best schedule that is found before a run: that of a policy, or one of constraint programming.

    policies, orders of networks, CP-SAT (of few tasks) --simulated--> the best within the budget

All are compared on one simulated machine, where tasks slow each other down as measured: the programme knows nothing of
that, so that its best need not be the best there. It is asked twice: with one load at a time, and with as many as there
are workers, none of which slows another down; only the bound of the latter holds for all schedules. A policy meets
durations that turn out otherwise with other choices, a plan hardly: each is simulated with durations that scatter, too.
The search takes as long as it may, and always has an answer.
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from edgetune.errors import EdgetuneError, InfeasibleError
from edgetune.stages.schedule.machine import Machine
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.optimum import DEFAULT_LIMIT_S, optimum
from edgetune.stages.schedule.plan import LayerSchedule, Objective, SchedulingProblem
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.policies.optimum import Optimum
from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.policies.reuse import Reuse
from edgetune.stages.schedule.simulation import SimulationCase, simulate
from edgetune.stages.schedule.tasks import Record, RequestRecord, TaskRecord
from edgetune.stages.schedule.time_grid import exact_grid_ns, grid_ns

CANDIDATES = ("reuse", "masa", "fcfs", "sjf", "snf", "partial", "deepeye", "linear")
"""The policies whose schedules are tried first."""
MOST_TASKS = 400
"""With more loads and executions constraint programming does not begin: some dozens are proved in seconds, hundreds
come out as they went in, from the run of a policy, and the programme grows with the square of the requests."""
_DRAWS = 5
_SCATTER = 0.25
"""Durations are multiplied by up to 1 plus this, and divided by as much."""


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of one case on one simulated machine.

    Args:
        case: The requests.
        objective: The figure.
        machine: What they run on.
    """

    case: SchedulingProblem
    objective: Objective
    machine: Machine

    def records(self, policy: SchedulePolicy, draw: int = 0) -> Sequence[Record]:
        """Return the records of a run; with a draw, of one whose durations are not those of the case."""
        case, real = self.case, {name: _scattered(each, draw) for name, each in self.case.networks.items()}
        simulated = SimulationCase(
            real, case.requests, case.budget_bytes, case.workers, self.machine, believed=case.networks
        )
        return simulate(policy, simulated).records

    def figure_ns(self, records: Sequence[Record]) -> float:
        """Return the figure of a run, ns."""
        answers = [record for record in records if isinstance(record, RequestRecord)]
        if self.objective == "makespan":
            return max((answer.end_ns for answer in answers), default=0)
        return sum(answer.response_ns for answer in answers) / max(len(answers), 1)

    def fits(self, records: Sequence[Record]) -> bool:
        """Return whether a run has kept the budget."""
        return all(each.held_bytes <= self.case.budget_bytes for each in records if isinstance(each, TaskRecord))

    def scattered_ns(self, make: Callable[[], SchedulePolicy]) -> float:
        """Return the mean figure over runs whose durations scatter, ns."""
        return sum(self.figure_ns(self.records(make(), draw)) for draw in range(1, _DRAWS + 1)) / _DRAWS


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
        EdgetuneError: the budget is too small for any schedule, or there is no request.
    """
    if not case.requests:
        raise EdgetuneError("there is no schedule to look for: no request is known", "name another policy, e.g. reuse")
    begun_s, bound_ns, runs = time.perf_counter(), lower_bound_ns(case, objective), _Runs(case, objective, machine)
    until_s = begun_s + limit_s
    found, tasks = _best_of_policies(runs, until_s=until_s)
    found = _ordered(found, tasks, runs, until_s=begun_s + limit_s / 2)
    if found is None or (case.tasks <= MOST_TASKS and not _follows(case)):
        once = case.streams in (None, case.workers) and exact_grid_ns(case) == grid_ns(case)
        for left, streams in (1, None), *([] if once else [(0, case.streams)]):
            left_s = max(until_s - time.perf_counter(), 0.0) / (1 + left)
            solved = _solved(replace(case, streams=streams), objective, left_s, relaxed=bool(left))
            if left:
                bound_ns = max(bound_ns, solved.bound_ns)
            solved = replace(solved, value_ns=runs.figure_ns(runs.records(Optimum(plan=solved))))
            found = solved if found is None else _better(found, solved, runs)
    assert found is not None
    took_s, bound_ns = time.perf_counter() - begun_s, min(bound_ns, found.value_ns)
    return replace(found, bound_ns=bound_ns, proved=found.value_ns <= bound_ns, took_s=took_s)


def _ordered(
    found: LayerSchedule | None, tasks: Sequence[TaskRecord], runs: _Runs, *, until_s: float
) -> LayerSchedule | None:
    """Return ``reuse`` with the best order of networks that is found by moving one at a time, if that is better.

    Args:
        found: The best schedule so far.
        tasks: Its tasks: the search begins with the order in which networks execute there.
        runs: What orders are compared on.
        until_s: When the search ends, s on the clock of ``time.perf_counter``.
    """
    executions = sorted((task.start_ns, task.network) for task in tasks if task.kind == "execute")
    order = list(dict.fromkeys(network for _, network in executions))
    best, moved = found, True
    while moved:
        moved = False
        for name, place in product(tuple(order), range(len(order))):
            if time.perf_counter() > until_s:
                return best
            left = [each for each in order if each != name]
            tried = [*left[:place], name, *left[place:]]
            records = runs.records(Reuse(tried)) if tried != order else ()
            if records and (best is None or runs.figure_ns(records) < best.value_ns) and runs.fits(records):
                best = replace(_asked(Reuse.name, runs, runs.figure_ns(records)), order=tuple(tried))
                order, moved = tried, True
    return best


def _solved(case: SchedulingProblem, objective: Objective, limit_s: float, *, relaxed: bool) -> LayerSchedule:
    """Return what the constraint programme finds, from the best policy where no task slows another down."""
    case = replace(case, networks={name: _plain(each) for name, each in case.networks.items()})
    machine = Machine(cores=case.cores or case.workers, streams=case.streams or case.workers)
    _, known = _best_of_policies(_Runs(case, objective, machine), until_s=float("inf"))
    return optimum(case, objective, limit_s=limit_s, known=known, relaxed=relaxed)


def _plain(network: LayeredNetwork) -> LayeredNetwork:
    """Return a network whose layers take the same at each execution, the least of both, and nothing to unload."""
    layers = (
        replace(
            each, execute_s=min(each.execute_s, each.first_execute_s or each.execute_s), first_execute_s=None,
            unload_s=0.0,
        )
        for each in network.layers
    )  # fmt: skip
    return replace(network, layers=tuple(layers))


def _better(found: LayerSchedule, solved: LayerSchedule, runs: _Runs) -> LayerSchedule:
    """Return the plan of the constraint programme where it is better, with durations that scatter as well."""
    if solved.value_ns >= found.value_ns:
        return found
    by_plan, by_policy = (runs.scattered_ns(partial(Optimum, plan=plan)) for plan in (solved, found))
    return solved if by_plan < by_policy else found


def _best_of_policies(runs: _Runs, *, until_s: float) -> tuple[LayerSchedule | None, Sequence[TaskRecord]]:
    """Return the best schedule that a policy makes within the budget, and its tasks."""
    best: LayerSchedule | None = None
    known: Sequence[TaskRecord] = ()
    for name in CANDIDATES:
        if best is not None and time.perf_counter() > until_s:
            break
        try:
            records = runs.records(make_policy(name))
        except InfeasibleError:
            continue
        value_ns = runs.figure_ns(records)
        if (best is None or value_ns < best.value_ns) and runs.fits(records):
            best = _asked(name, runs, value_ns)
            known = [record for record in records if isinstance(record, TaskRecord)]
    return best, known


def _asked(policy: str, runs: _Runs, value_ns: float) -> LayerSchedule:
    case = runs.case
    return LayerSchedule(
        (), runs.objective, value_ns, 0.0, False, case.streams or case.workers, case.cores or case.workers, 0.0,
        case.arrivals_ns, policy,
    )  # fmt: skip


def _scattered(network: LayeredNetwork, draw: int) -> LayeredNetwork:
    """Return a network with other durations; with its own for draw 0."""
    if not draw:
        return network
    rng = random.Random(f"{network.name} {draw}")

    def factor() -> float:
        return float((1 + _SCATTER) ** rng.uniform(-1, 1))

    layers = (
        replace(each, load_s=each.load_s * factor(), execute_s=each.execute_s * factor()) for each in network.layers
    )
    return replace(network, layers=tuple(layers))


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
    if _follows(case):
        return paths_ns / len(case.requests)
    work = [(request.arrival_ns, sum(case.networks[request.network].execute_ns) / cores) for request in case.requests]
    return max(float(paths_ns), _shortest_remaining_ns(sorted(work))) / len(case.requests)


def _follows(case: SchedulingProblem) -> bool:
    """Return whether requests arrive when others are answered, so that their arrivals are unknown beforehand."""
    return any(request.follows for request in case.requests)


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
