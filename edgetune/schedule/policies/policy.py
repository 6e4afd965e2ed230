"""What policies share: how a task is found that fits, and what runs where nothing does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Protocol

from edgetune.schedule.view import Policy, Ready, Standing, Task, View


class NamedPolicy(Policy, Protocol):
    """A policy with a name, made without being told anything."""

    name: ClassVar[str]

    def __init__(self) -> None: ...


def first_fitting(tasks: Iterable[Task], free_bytes: int) -> Task | None:
    """Return the first task that needs no more than is free."""
    return next((task for task in tasks if task.bytes <= free_bytes), None)


def any_fits(ready: Ready, free_bytes: int) -> bool:
    """Return whether a task needs no more than is free; takes no longer for more tasks."""
    smallest = ready.smallest
    return smallest is not None and smallest.bytes <= free_bytes


def for_progress(view: View) -> Task | None:
    """Return what to run where nothing runs and nothing fits: the smallest execution, else the smallest load.

    Without it, weights of many networks would fill memory, none of which has all that it needs to go on.
    """
    if view.running:
        return None
    return view.executions.smallest or view.loads.smallest


def in_order(view: View, standings: Iterable[Standing]) -> Task | None:
    """Return the first task that fits: executions before loads, of requests in this order.

    What nobody wants any more is unloaded before that.
    """
    spent = view.unwanted()
    if spent is not None or not view.idle_workers:
        return spent
    standings = list(standings)
    if any_fits(view.executions, view.free_bytes):
        for standing in standings:
            task = first_fitting(standing.executions(), view.free_bytes)
            if task is not None:
                return task
    if any_fits(view.loads, view.free_bytes):
        for standing in standings:
            task = first_fitting(standing.loads(), view.free_bytes)
            if task is not None:
                return task
    return for_progress(view)


def first_request(view: View) -> Standing | None:
    """Return the request that came first of those that are not answered."""
    return next(iter(view.requests.values()), None)
