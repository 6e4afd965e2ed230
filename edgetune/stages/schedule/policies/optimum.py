"""The policy ``optimum``: follows the best schedule that was found before the run; a measure for the other policies."""

from collections import deque
from typing import get_args

from edgetune.stages.schedule.plan import LayerSchedule, Objective
from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.policies.reuse import Reuse
from edgetune.stages.schedule.state import View
from edgetune.stages.schedule.tasks import LayerTask


class Optimum(SchedulePolicy):
    """Follows a plan: its order is kept, its times are not.

    The next step starts as soon as it can, early or late; none overtakes it. With the durations of the plan each starts
    no later than planned. By induction: those before it started, and so ended, no later than planned, so that when it
    was to start there are a worker and memory for it; weights leave with their last use.

    ``reuse`` is asked where there is no plan or the best is that of ``reuse``, and once a step is impossible because
    another failed.

    Args:
        variant: The figure that the plan minimises; for who makes it.
        plan: For all requests, those that have yet to come included.
    """

    name = "optimum"
    variants = get_args(Objective)
    plans_ahead = True
    shares_weights = True

    def __init__(self, variant: Objective = "response", plan: LayerSchedule | None = None) -> None:
        self.variant = variant
        self._steps = deque(plan.steps if plan else ())
        self._arrivals_ns = plan.arrivals_ns if plan else {}
        self._most = {"load": plan.streams, "execute": plan.cores} if plan else {}
        self._uses: dict[tuple[str, int], int] = {}
        """The number of executions that have still to use resident weights."""
        self._reuse = Reuse()
        self._lost = not self._steps
        """Whether there is something that the steps do not know of, from when on ``reuse`` is asked."""

    def choose(self, view: View) -> LayerTask | None:
        """Return the next step of the plan, if it can start; weights that it needs no more leave first."""
        if not self._lost:
            task = self._follow(view)
            if task is not None:
                self._reuse.note(task, view)
                return task
            awaits = bool(self._steps) and view.now_ns < self._arrivals_ns[self._steps[0].request]
            self._lost = bool(view.requests) and not view.running and not awaits
        return self._reuse.choose(view) if self._lost else None

    def _follow(self, view: View) -> LayerTask | None:
        spent = next((task for task in view.unloads() if not self._uses.get((task.network, task.layer))), None)
        if spent is not None or not view.idle_workers or not self._steps:
            return spent
        step = self._steps[0]
        key = (step.network, step.layer)
        if step.kind == "execute":
            task = view.executions.find(step.request, step.layer)
        else:
            task = next((task for task in view.loads if (task.network, task.layer) == key), None)
        alike = sum(each.kind == step.kind for each in view.running)
        if task is None or (view.running and (task.bytes > view.free_bytes or alike >= self._most[step.kind])):
            return None
        self._steps.popleft()
        if step.kind == "load":
            self._uses[key] = step.uses
        elif key in self._uses:
            self._uses[key] -= 1
        return task
