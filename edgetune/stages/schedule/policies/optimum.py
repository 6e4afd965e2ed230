"""The policy ``optimum``: follows the best schedule that was found before the run; a measure for the other policies."""

from itertools import islice
from typing import get_args

from edgetune.stages.schedule.plan import LayerSchedule, Objective, Step
from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.policies.reuse import Reuse
from edgetune.stages.schedule.state import View
from edgetune.stages.schedule.tasks import LayerTask

_AHEAD = 64
"""So many steps are looked through for one that may overtake: each look costs a decision of the run."""


class Optimum(SchedulePolicy):
    """Follows a plan: its order is kept, its times are not.

        planned    load a0 | execute a0 | load b0 | execute b0
        live       load a0 ........ (late)| execute a0
                                  load b0 | execute b0        may overtake: it is due, and delays nothing before it

    The next step starts as soon as it can, early or late. While it waits, a later step overtakes it once its own time
    has come (by as much later as the last step in order was), if that leaves memory and a place for all that it
    overtakes. With the durations of the plan no step is ever overtaken, and each starts no later than planned. By
    induction: those before it started, and so ended, no later than planned, so that when it was to start there are a
    worker and memory for it; weights leave with their last use.

    ``reuse`` is asked for what no plan knows of: all requests where there is no plan or the best is that of ``reuse``,
    and all that are left once a request came that the plan does not know, or a step is impossible because another
    failed.

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
        self._steps: list[Step] = list(plan.steps) if plan else []
        self._arrivals_ns = plan.arrivals_ns if plan else {}
        self._streams, self._cores = (plan.streams, plan.cores) if plan else (1, 1)
        self._uses: dict[tuple[str, int], int] = {}
        """The number of executions that have still to use resident weights."""
        self._late_ns = 0
        """By how much the last step in order started later than planned."""
        self._reuse = Reuse()
        self._lost = not self._steps
        """Whether there is something that the steps do not know of, from when on ``reuse`` is asked."""

    def choose(self, view: View) -> LayerTask | None:
        """Return the next step of the plan, if it can start; weights that it needs no more leave first."""
        self.again_ns = None
        if not self._lost:
            unplanned = not self._arrivals_ns.keys() >= view.requests.keys()
            task = None if unplanned else self._follow(view)
            if task is not None:
                self._reuse.note(task, view)
                return task
            self._lost = unplanned or (bool(view.requests) and not view.running and not self._awaits(view))
        return self._reuse.choose(view) if self._lost else None

    def _awaits(self, view: View) -> bool:
        """Return whether the next step is for a request that is still to arrive."""
        return bool(self._steps) and view.now_ns < self._arrivals_ns[self._steps[0].request]

    def _follow(self, view: View) -> LayerTask | None:
        spent = next((task for task in view.unloads() if not self._uses.get((task.network, task.layer))), None)
        if spent is not None or not view.idle_workers:
            return spent
        overtaken: list[Step] = []
        for place, step in enumerate(islice(self._steps, _AHEAD)):
            if overtaken and view.now_ns < step.start_ns + self._late_ns:
                self.again_ns = step.start_ns + self._late_ns
                return None
            task = _find(step, view)
            if task is not None and self._has_room(task, overtaken, view):
                if not overtaken:
                    self._late_ns = max(view.now_ns - step.start_ns, 0)
                del self._steps[place]
                return self._begin(step, task)
            if step.request not in view.requests:
                return None
            overtaken.append(step)
        return None

    def _has_room(self, task: LayerTask, overtaken: list[Step], view: View) -> bool:
        """Return whether a task fits, no resource would have to be shared, and nothing that it overtakes is delayed."""
        if not view.running and not overtaken:
            return True
        if any(each.kind == "load" and (each.network, each.layer) == (task.network, task.layer) for each in overtaken):
            return False  # an execution belongs to the load that is planned for it
        alike = sum(each.kind == task.kind for some in (view.running, overtaken) for each in some)
        needed = task.bytes + sum(_bytes(step, view) for step in overtaken)
        return needed <= view.free_bytes and alike < (self._streams if task.kind == "load" else self._cores)

    def _begin(self, step: Step, task: LayerTask) -> LayerTask:
        key = (task.network, task.layer)
        if step.kind == "load":
            self._uses[key] = step.uses
        elif key in self._uses:
            self._uses[key] -= 1
        return task


def _find(step: Step, view: View) -> LayerTask | None:
    """Return the task of a step, if it is ready."""
    if step.kind == "execute":
        return view.executions.find(step.request, step.layer)
    return next((task for task in view.loads if (task.network, task.layer) == (step.network, step.layer)), None)


def _bytes(step: Step, view: View) -> int:
    """Return the memory that a step of a request that has arrived will take, its network's input included, bytes."""
    network = view.requests[step.request].network
    if step.kind == "load":
        return network.layers[step.layer].weight_bytes
    return network.execution_bytes[step.layer] + network.input_bytes
