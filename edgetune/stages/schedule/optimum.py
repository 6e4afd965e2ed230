"""The best schedule there is for a few requests, by constraint programming: how far from it are the policies?

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

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from edgetune.errors import DeviceError, EdgetuneError
from edgetune.stages.schedule.cp_model import ScheduleCpModel
from edgetune.stages.schedule.plan import LayerSchedule, Objective, SchedulingProblem
from edgetune.stages.schedule.tasks import TaskRecord
from edgetune.units import format_bytes

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
    known: Sequence[TaskRecord] = (), relaxed: bool = False,
) -> LayerSchedule | None:  # fmt: skip
    """Return the best schedule that is found in a time, and what none can be better than; ``None`` if none is found.

    Args:
        case: The requests and the machine.
        objective: The figure to minimise.
        limit_s: Time limit of the search, its repetition included, s.
        known: The tasks of a run of the same case by a policy, to start from: what is found is no worse, if that run
            kept within what the programme allows.
        relaxed: Whether durations that lie on no grid of some thousand steps are rounded down instead of up: the bound
            then holds for every schedule, and the plan is one to follow in its order only.

    Raises:
        DeviceError: OR-Tools is missing.
        EdgetuneError: the budget is too small for any schedule.
    """
    cp_model = require_ortools()
    if not case.requests:
        return LayerSchedule((), objective, 0.0, 0.0, True, 1, 1, 0.0, {})
    model = ScheduleCpModel(cp_model.CpModel(), case, relaxed=relaxed)
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
