"""The base of all policies, and what they share: which task fits, and which runs where none does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from edgetune.stages.schedule.network import LayeredNetwork, as_one_layer
from edgetune.stages.schedule.request_state import ReadySet, RequestProgress
from edgetune.stages.schedule.state import View
from edgetune.stages.schedule.tasks import LayerTask


class SchedulePolicy:
    """Chooses what starts next. It may keep notes, but depends on nothing else than the views that it was shown."""

    name: ClassVar[str]
    shares_weights: bool = False
    """Whether requests for the same network use the same weights; else each loads a copy of its own."""
    maps_weights: bool = False
    """Whether copies of the same weights count once, as they do in a real run, which maps one file for all of them;
    else each counts, as where a request reads weights into memory of its own (EdgeCaffe)."""
    whole: ClassVar[bool] = False
    """Whether it takes networks as one layer, loaded and executed as a whole (``bulk``)."""
    variants: ClassVar[Sequence[str]] = ()
    """The values of its argument ``variant``, the default first; none where it has no such argument."""
    plans_ahead: ClassVar[bool] = False
    """Whether its argument ``plan`` can be a plan that knows requests to come, which there is on a clock only."""
    again_ns: int | None = None
    """When it is to be asked again though nothing has happened, ns; ``None``: only once something has."""
    overcommits: bool = False
    """Whether tasks may begin that do not fit into free memory (``masa:code``, ``deepeye:greedy``)."""

    def choose(self, view: View) -> LayerTask | None:
        """Return the next task: an unload, or a load or an execution while a worker is idle; ``None`` to wait.

        The task is one of ``view.executions``, ``view.loads`` (also through a request's own) or ``view.unloads()``. It
        may need more than is free only where nothing runs: then there would be no progress otherwise.
        """
        raise NotImplementedError


def taken_by(policy: SchedulePolicy, networks: Mapping[str, LayeredNetwork]) -> dict[str, LayeredNetwork]:
    """Return networks as a policy takes them, whole or layer by layer: for the loop and for its backend alike."""
    return {name: as_one_layer(network) if policy.whole else network for name, network in networks.items()}


def first_fitting(tasks: Iterable[LayerTask], free_bytes: int) -> LayerTask | None:
    """Return the first task that needs no more than is free."""
    return next((task for task in tasks if task.bytes <= free_bytes), None)


def any_fits(ready: ReadySet, free_bytes: int) -> bool:
    """Return whether a task needs no more than is free; takes no longer for more tasks."""
    smallest = ready.smallest
    return smallest is not None and smallest.bytes <= free_bytes


def for_progress(view: View) -> LayerTask | None:
    """Return the task to run where nothing runs and nothing fits: the smallest execution, else the smallest load.

    Without it, weights of many networks would fill memory, none of which has all that it needs to go on.
    """
    return None if view.running else view.executions.smallest or view.loads.smallest


def in_order(view: View, states: Iterable[RequestProgress]) -> LayerTask | None:
    """Return the first task that fits: unloads of unwanted weights, then executions, then loads, by these requests."""
    unwanted = view.unwanted()
    if unwanted is not None or not view.idle_workers:
        return unwanted
    states = list(states)
    for ready, tasks_of in ((view.executions, RequestProgress.executions), (view.loads, RequestProgress.loads)):
        if any_fits(ready, view.free_bytes):
            for state in states:
                task = first_fitting(tasks_of(state), view.free_bytes)
                if task is not None:
                    return task
    return for_progress(view)


def first_request(view: View) -> RequestProgress | None:
    """Return the earliest request that is not answered."""
    return next(iter(view.requests.values()), None)
