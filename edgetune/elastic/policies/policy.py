"""What policies share: what a task would launch next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from edgetune.elastic.view import Policy, Standing
from edgetune.elastic.work import Call


class NamedPolicy(Policy, Protocol):
    """A policy with a name, made without being told anything."""

    name: ClassVar[str]

    def __init__(self) -> None: ...


def upcoming(standing: Standing) -> tuple[Call, int] | None:
    """Return the kernel whose blocks a task launches next and how many of them are left; ``None``: it has no work."""
    calls = standing.task.network.calls
    if standing.request is not None:
        return (calls[standing.call], standing.left) if standing.left else None
    return (calls[0], calls[0].logical.blocks) if standing.arrived_ns else None


def by_priority(standings: Iterable[Standing]) -> Sequence[Standing]:
    """Return tasks, the most critical first; in the order of the task file where they are equal."""
    return sorted(standings, key=lambda standing: -standing.task.priority)
