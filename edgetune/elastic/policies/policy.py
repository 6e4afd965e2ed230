"""What policies share: what a task would launch next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from edgetune.elastic.view import ElasticPolicy, TaskState
from edgetune.elastic.work import Call


class NamedElasticPolicy(ElasticPolicy, Protocol):
    """A policy with a name, made without being told anything."""

    name: ClassVar[str]

    def __init__(self) -> None: ...


def upcoming(state: TaskState) -> tuple[Call, int] | None:
    """Return the kernel whose blocks a task launches next and how many of them are left; ``None``: it has no work."""
    calls = state.task.network.calls
    if state.request is not None:
        return (calls[state.call], state.left) if state.left else None
    return (calls[0], calls[0].logical.blocks) if state.arrived_ns else None


def by_priority(states: Iterable[TaskState]) -> Sequence[TaskState]:
    """Return tasks, the most critical first; in the order of the task file where they are equal."""
    return sorted(states, key=lambda state: -state.task.priority)
