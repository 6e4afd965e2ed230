"""The best schedule there is for a few requests: how far from it are the policies?

    case -> constraint programme -> CP-SAT, for a time -> plan, and a bound that no schedule is better than

The programme (see ``programme``) can do what any policy does that

- stays within the budget (policies may exceed it where nothing else runs and nothing fits), and
- runs no more loads at once than storage serves at full speed, and no more executions than there are cores.

The last is a restriction where there are more workers than that: the simulator lets them share, as storage and cores
do. The bound holds for all policies where nothing has to be shared, i.e. with as many streams and cores as workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.schedule.plan import Case, Objective, Plan
from edgetune.schedule.programme import Programme
from edgetune.schedule.records import TaskRecord

MOST_TASKS = 400
"""More are refused: some dozens are proved in seconds, hundreds come out as they went in, from the run of a policy."""
DEFAULT_LIMIT_S = 10.0
"""In which most cases of two to three networks of three to five layers are proved."""


def optimum(
    case: Case,
    objective: Objective = "response",
    *,
    limit_s: float = DEFAULT_LIMIT_S,
    known: Sequence[TaskRecord] = (),
    steady: bool = False,
    threads: int = 1,
) -> Plan:
    """Return the best schedule that is found in a time, and what none can be better than.

    Args:
        case: What is to be scheduled.
        objective: What is to be least.
        limit_s: When to stop looking, s.
        known: The tasks of a run of the same case by a policy, to start from: what is found is no worse, if that run
            kept within what the programme allows.
        steady: Whether to count the solver's steps instead of seconds (``limit_s`` of them, each about as long as one
            on a usual core), so that the same case gives the same schedule on every machine.
        threads: Of the solver.

    Raises:
        DeviceError: OR-Tools is missing.
        InputError: there are more tasks than can be dealt with.
        EdgetuneError: no schedule was found in time.
    """
    cp_model = _ortools()
    tasks = sum(2 * len(case.networks[request.network].layers) for request in case.requests)
    if tasks > MOST_TASKS:
        raise InputError(
            f"the optimum of {tasks} loads and executions is out of reach: it is for at most {MOST_TASKS}",
            "take fewer requests or smaller networks, or a policy that does not look for the best, e.g. reuse",
        )
    if not case.requests:
        return Plan((), objective, 0.0, 0.0, True, 1, 1, 0.0)
    programme = Programme(cp_model.CpModel(), case)
    programme.build(objective)
    programme.start_from(known or programme.one_by_one())
    solver = cp_model.CpSolver()
    settings = solver.parameters
    settings.random_seed, settings.num_workers = 0, threads
    if steady:
        settings.max_deterministic_time = limit_s
    else:
        settings.max_time_in_seconds = limit_s
    status = solver.solve(programme.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise EdgetuneError(
            f"no schedule was found in {limit_s:g} s ({solver.status_name(status)})",
            "give it longer, fewer requests, or a budget above what the hungriest layer needs",
        )
    return programme.plan(solver, objective, proved=status == cp_model.OPTIMAL)


def _ortools() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        message = "the optimum needs OR-Tools, which is not installed"
        raise DeviceError(message, "pip install 'edgetune[optimum]'") from None
    return cp_model
