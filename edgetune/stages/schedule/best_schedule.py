"""The best schedule that is found before a run: that of the policy ``reuse``, or one of constraint programming.

    reuse --hint--> CP-SAT (of few tasks) --simulated--> the better of both within the budget, and a bound

Both are compared on one simulated machine, where tasks share storage and cores: the programme knows nothing of
that, so that its best need not be the best there. It is asked twice: with one load at a time, and with as many as there
are workers, none of which slows another down; only the bound of the latter holds for all schedules.

The best schedule there is for a few requests, by constraint programming: how far from it are the policies?

    case -> constraint programme -> CP-SAT, for a time -> plan, and a bound that no schedule is better than

The programme (see ``model``) can do what any policy does that

- stays within the budget (policies may exceed it where nothing else runs and nothing fits), and
- runs no more loads at once than storage serves at full speed, and no more executions than there are cores.

The last is a restriction where there are more workers than that: the simulator lets them share, as storage and cores
do. The bound holds for all policies where nothing has to be shared, i.e. with as many streams and cores as workers.

An optimum counts as proved once a second search, with another seed and without presolving, finds none better: OR-Tools
9.14.6206 and 9.15.6755 have called schedules optimal that were not, in up to 5 of 100 searches of one programme with
different seeds (tests/benchmarks/schedule_optimum.py, seed 63 with --streams 1).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from edgetune.errors import DeviceError, EdgetuneError
from edgetune.stages.schedule.cp_model import ScheduleCpModel
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.plan import LayerSchedule, Objective, SchedulingProblem
from edgetune.stages.schedule.policies.optimum import Optimum
from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.policies.reuse import Reuse
from edgetune.stages.schedule.simulation import SimulationCase, simulate
from edgetune.stages.schedule.tasks import Machine, Record, RequestRecord, TaskRecord
from edgetune.units import NS, format_bytes

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpSolver

DEFAULT_LIMIT_S = 10.0
"""In which most cases of two to three networks of three to five layers are proved."""
_WORKERS, _FEW_TASKS = 8, 32
"""Searches of the solver side by side, on as many cores as there are: with one, 90 tasks came out of 15 s as they went
in; with eight at a third less. Few tasks are proved by one before eight have begun."""
_LEAST_S = 0.1
"""For a proof to be doubted, where little of the time is left."""


def optimum(
    case: SchedulingProblem, objective: Objective = "response", *, limit_s: float = DEFAULT_LIMIT_S,
    known: Sequence[TaskRecord] = (),
) -> LayerSchedule | None:  # fmt: skip
    """Return the best schedule that is found in a time, and what none can be better than; ``None`` if none is found.

    Args:
        case: The requests and the machine.
        objective: The figure to minimise.
        limit_s: Time limit of the search, its repetition included, s.
        known: The tasks of a run of the same case by a policy, to start from: what is found is no worse, if that run
            kept within what the programme allows.

    Raises:
        DeviceError: OR-Tools is missing.
        EdgetuneError: the budget is too small for any schedule.
    """
    cp_model = require_ortools()
    if not case.requests:
        return LayerSchedule((), objective, 0.0, 0.0, True, 1, 1, 0.0, {})
    model = ScheduleCpModel(cp_model.CpModel(), case)
    model.build(objective)
    model.start_from(known)
    workers = 1 if case.tasks <= _FEW_TASKS else _WORKERS
    solver = _solver(cp_model, limit_s, workers)
    status = solver.solve(model.model)
    bound, took_s = solver.best_objective_bound, solver.wall_time
    if status == cp_model.UNKNOWN:
        return None
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise EdgetuneError(
            f"there is no schedule within {format_bytes(case.budget_bytes)} ({solver.status_name(status)})",
            "give it what the hungriest layer needs: edgetune schedule run says how much that is",
        )
    if status != cp_model.OPTIMAL:
        return model.plan(solver, objective, bound, proved=False, took_s=took_s)
    model.ask_for_better(solver.objective_value)
    doubter = _solver(cp_model, max(limit_s - took_s, _LEAST_S), workers)
    doubter.parameters.random_seed, doubter.parameters.cp_model_presolve = 1, False
    doubt = doubter.solve(model.model)
    took_s += doubter.wall_time
    if doubt == cp_model.INFEASIBLE:
        return model.plan(solver, objective, bound, proved=True, took_s=took_s)
    better = doubter if doubt in (cp_model.OPTIMAL, cp_model.FEASIBLE) else solver
    return model.plan(better, objective, min(bound, doubter.best_objective_bound), proved=False, took_s=took_s)


def _solver(cp_model: Any, limit_s: float, workers: int) -> CpSolver:
    solver = cp_model.CpSolver()
    settings = solver.parameters
    settings.random_seed, settings.num_workers = 0, workers
    settings.max_time_in_seconds = limit_s
    return cast("CpSolver", solver)


def require_ortools() -> Any:
    """Return OR-Tools' module of constraint programming.

    Raises:
        DeviceError: OR-Tools is missing.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        message = "the optimum needs OR-Tools, which is not installed"
        raise DeviceError(message, "pip install 'edgetune[optimum]'") from None
    return cp_model


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
        machine: What schedules are compared on, with its storage and cores that tasks share.
        limit_s: Time limit of the constraint programme, s.

    Raises:
        DeviceError: OR-Tools is missing.
        EdgetuneError: the budget is too small for any schedule, or there is no request.
    """
    if not case.requests:
        raise EdgetuneError("there is no schedule to look for: no request is known", "name another policy, e.g. reuse")
    begun_s, bound_ns = time.perf_counter(), lower_bound_ns(case, objective)
    value_ns = _figure_ns(_records(Reuse(), case, machine), objective)
    found = LayerSchedule(
        (), objective, value_ns, 0.0, False, case.streams or case.workers, case.cores or case.workers, 0.0,
        case.arrivals_ns,
    )  # fmt: skip
    if case.tasks <= MOST_TASKS and not _follows(case):
        again = case.streams not in (None, case.workers)
        for left, streams in (again, None), *([(False, case.streams)] if again else []):
            left_s = max(begun_s + limit_s - time.perf_counter(), 0.0) / (1 + left)
            solved = _solved(replace(case, streams=streams), objective, left_s)
            if solved is None:
                continue
            if streams is None and not any(layer.shared for each in case.networks.values() for layer in each.layers):
                bound_ns = max(bound_ns, solved.bound_ns)
            value_ns = _figure_ns(_records(Optimum(plan=solved), case, machine), objective)
            if value_ns < found.value_ns:
                found = replace(solved, value_ns=value_ns)
    took_s, bound_ns = time.perf_counter() - begun_s, min(bound_ns, found.value_ns)
    return replace(found, bound_ns=bound_ns, proved=found.value_ns <= bound_ns, took_s=took_s)


def _solved(case: SchedulingProblem, objective: Objective, limit_s: float) -> LayerSchedule | None:
    """Return what the constraint programme finds, from what ``reuse`` does where no task slows another down."""
    case = replace(case, networks={name: _plain(each) for name, each in case.networks.items()})
    machine = Machine(cores=case.cores or case.workers, streams=case.streams or case.workers)
    known = [record for record in _records(Reuse(), case, machine) if isinstance(record, TaskRecord)]
    return optimum(case, objective, limit_s=limit_s, known=known)


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


def _records(policy: SchedulePolicy, case: SchedulingProblem, machine: Machine) -> Sequence[Record]:
    """Return the records of a simulated run."""
    simulated = SimulationCase(case.networks, case.requests, case.budget_bytes, case.workers, machine)
    return simulate(policy, simulated).records


def _figure_ns(records: Sequence[Record], objective: Objective) -> float:
    """Return the figure of a run, ns."""
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
        loading_ns = sum(case.networks[name].loading_s for name in asked) * NS / case.workers
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
