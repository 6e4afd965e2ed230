"""The schedule that a policy follows which plans ahead, made before a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from edgetune.stages.schedule.best_schedule import best_schedule
from edgetune.stages.schedule.costs import with_times_of
from edgetune.stages.schedule.plan import LayerSchedule, Objective, SchedulingProblem
from edgetune.stages.schedule.policies import PolicyChoice
from edgetune.stages.schedule.requests import Request
from edgetune.units import NS
from edgetune.workflows.schedule.plan import SchedulePlan


def planned(plan: SchedulePlan, policy: PolicyChoice, requests: Sequence[Request], budget_bytes: int) -> LayerSchedule:
    """Return the best schedule of requests that is found in time.

    It keeps to the bytes that the runtime accounts for, safety included, and takes layers for as long as they were
    measured to take.

    Args:
        plan: The plan of the command.
        policy: The policy that follows it.
        requests: All requests of the turn.
        budget_bytes: Memory for tasks.

    Raises:
        DeviceError: OR-Tools is missing.
    """
    networks = {name: with_times_of(each, plan.networks[name]) for name, each in plan.believed.items()}
    case = SchedulingProblem(networks, requests, budget_bytes, plan.workers, cores=plan.scenario.cores)
    objective = cast("Objective", policy.options.get("variant", "response"))
    return best_schedule(case, objective, plan.host.machine, limit_s=plan.plan_within_s)


def plan_figures(found: LayerSchedule) -> Mapping[str, Any]:
    """Return the figures of a schedule for the header of the timeline."""
    return {
        "objective": found.objective, "value_s": found.value_ns / NS, "bound_s": found.bound_ns / NS,
        "proved": found.proved, "took_s": found.took_s,
    }  # fmt: skip
