"""What policies share: how a task is found that fits, and what runs where nothing does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol

from edgetune.schedule.network import LayeredNetwork, as_one_layer
from edgetune.schedule.tasks import LayerTask, Ready, RequestState, SchedulePolicy, View


class NamedSchedulePolicy(SchedulePolicy, Protocol):
    """A policy with a name, made without being told anything."""

    name: ClassVar[str]

    def __init__(self) -> None: ...


def first_fitting(tasks: Iterable[LayerTask], free_bytes: int) -> LayerTask | None:
    """Return the first task that needs no more than is free."""
    return next((task for task in tasks if task.bytes <= free_bytes), None)


def any_fits(ready: Ready, free_bytes: int) -> bool:
    """Return whether a task needs no more than is free; takes no longer for more tasks."""
    smallest = ready.smallest
    return smallest is not None and smallest.bytes <= free_bytes


def for_progress(view: View) -> LayerTask | None:
    """Return what to run where nothing runs and nothing fits: the smallest execution, else the smallest load.

    Without it, weights of many networks would fill memory, none of which has all that it needs to go on.
    """
    if view.running:
        return None
    return view.executions.smallest or view.loads.smallest


def in_order(view: View, states: Iterable[RequestState]) -> LayerTask | None:
    """Return the first task that fits: executions before loads, of requests in this order.

    What nobody wants any more is unloaded before that.
    """
    spent = view.unwanted()
    if spent is not None or not view.idle_workers:
        return spent
    states = list(states)
    if any_fits(view.executions, view.free_bytes):
        for state in states:
            task = first_fitting(state.executions(), view.free_bytes)
            if task is not None:
                return task
    if any_fits(view.loads, view.free_bytes):
        for state in states:
            task = first_fitting(state.loads(), view.free_bytes)
            if task is not None:
                return task
    return for_progress(view)


def first_request(view: View) -> RequestState | None:
    """Return the request that came first of those that are not answered."""
    return next(iter(view.requests.values()), None)


def taken_by(policy: SchedulePolicy, networks: Mapping[str, LayeredNetwork]) -> dict[str, LayeredNetwork]:
    """Return networks as a policy takes them: for the loop and for its stage alike."""
    return {name: as_one_layer(network) if policy.whole else network for name, network in networks.items()}
