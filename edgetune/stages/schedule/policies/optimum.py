"""The policy ``optimum``: follows the best schedule of a constraint programme, a measure for the other policies."""

from __future__ import annotations

from collections import deque
from typing import get_args

from edgetune.stages.schedule.optimum import optimum
from edgetune.stages.schedule.plan import LayerSchedule, Objective, SchedulingProblem, Step
from edgetune.stages.schedule.policies.policy import SchedulePolicy, in_order
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.state import View
from edgetune.stages.schedule.tasks import LayerTask

_EFFORT_S = 2.0
"""Without a plan: counted in the solver's own steps, so that the same requests give the same plan."""


class Optimum(SchedulePolicy):
    """Follows a plan: the next step starts as soon as it can, and none before it.

    Then every step starts no later than planned. By induction: those before it started, and so ended, no later than
    planned, so that when it was to start there are a worker and memory for it; weights leave with their last use.

    Without a plan, or once it is done, it makes one for all requests that have come, which knows of none to come.

    Args:
        variant: The figure to minimise in plans of its own.
        plan: For all requests, those that have yet to come included.
    """

    name = "optimum"
    shares_weights = True
    variants = get_args(Objective)
    plans_ahead = True

    def __init__(self, variant: Objective = "response", plan: LayerSchedule | None = None) -> None:
        self.variant = variant
        self._uses: dict[tuple[str, int], int] = {}
        """The number of executions that have still to use resident weights."""
        self._seen: set[int] = set()
        self._lost = False
        """Whether something happened that the plan did not know of."""
        self._follow(plan)

    def choose(self, view: View) -> LayerTask | None:
        """Return the next step of the plan, if it can start; weights that it needs no more leave first."""
        self._seen.update(view.requests)
        self._drop_gone(view)
        if not self._steps and not view.running and view.requests and not self._lost:
            self._follow(self._plan_for(view))
        if self._lost:
            return in_order(view, view.requests.values())
        spent = next((task for task in view.unloads() if not self._uses.get((task.network, task.layer))), None)
        if spent is not None or not self._steps or not view.idle_workers:
            return spent
        task = _find(self._steps[0], view)
        if task is not None and self._has_room(task, view):
            return self._take(task)
        if task is None and not view.running and self._steps[0].request in view.requests:
            self._lost = True
            return in_order(view, view.requests.values())
        return None

    def _follow(self, plan: LayerSchedule | None) -> None:
        self._steps: deque[Step] = deque(plan.steps if plan else ())
        self._streams, self._cores = (plan.streams, plan.cores) if plan else (1, 1)

    def _plan_for(self, view: View) -> LayerSchedule:
        """Return a plan for all requests, as if they had just arrived."""
        requests = [Request(number, state.request.network, 0) for number, state in view.requests.items()]
        networks = {state.network.name: state.network for state in view.requests.values()}
        case = SchedulingProblem(
            networks, requests, view.budget_bytes, view.workers, min(view.streams, view.workers), view.cores
        )
        return optimum(case, self.variant, limit_s=_EFFORT_S, steady=True)

    def _has_room(self, task: LayerTask, view: View) -> bool:
        """Return whether a task fits, and neither storage nor cores would have to be shared."""
        alike = sum(running.kind == task.kind for running in view.running)
        most = self._streams if task.kind == "load" else self._cores
        return not view.running or (task.bytes <= view.free_bytes and alike < most)

    def _take(self, task: LayerTask) -> LayerTask:
        step, key = self._steps.popleft(), (task.network, task.layer)
        if step.kind == "load":
            self._uses[key] = step.uses
        elif key in self._uses:
            self._uses[key] -= 1
        return task

    def _drop_gone(self, view: View) -> None:
        """Skip steps of requests that failed."""
        while self._steps and self._steps[0].request in self._seen and self._steps[0].request not in view.requests:
            step = self._steps.popleft()
            if step.kind == "execute" and self._uses.get((step.network, step.layer)):
                self._uses[step.network, step.layer] -= 1


def _find(step: Step, view: View) -> LayerTask | None:
    """Return the task of a step, if it is ready."""
    if step.kind == "execute":
        state = view.requests.get(step.request)
        ready = state.executions() if state is not None else ()
    else:
        ready = list(view.loads)
    return next((task for task in ready if (task.network, task.layer) == (step.network, step.layer)), None)
