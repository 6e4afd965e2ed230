"""Tasks, and where they run: the same in the simulator and in the process that runs networks.

    arrivals -> requests -> tasks that are ready:  load  -> (weights resident) -> execute -> ... -> answered
                                                   unload <- (weights that no execution uses now)

Times are integer nanoseconds of one clock; memory is bytes. Tasks become ready and are chosen one at a time: the loop
asks the policy again until it chooses nothing, and then waits for something to end or to arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from edgetune.schedule.requests import Request

TaskKind = Literal["load", "execute", "unload"]


@dataclass(frozen=True, slots=True)
class LayerTask:
    """A load, an execution or an unload of one layer.

    Args:
        kind: ``load`` its weights, ``execute`` it, ``unload`` its weights (takes no worker and no time).
        network: Name of the network.
        copy: Whose weights: the network's name where the policy shares them between requests, else unique to a request.
        layer: Index in the network.
        request: Whose execution, or the earliest request that wants these weights; -1 for an unload of weights that no
            request wants.
        bytes: What must be free for it to begin: weights, or outputs and scratch (and the network's input, if it is
            the first execution of a request); of an unload, what it frees.
        duration_ns: What it is expected to take alone, ns.
    """

    kind: TaskKind
    network: str
    copy: str
    layer: int
    request: int
    bytes: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """A load or an execution that has ended.

    Args:
        task: Which.
        start_ns, end_ns: When, on the backend's clock.
        failure: Why it failed, one line; ``None`` where it did not. The request ends then, and its memory is returned;
            of shared weights that could not be loaded, every request that wants them.
    """

    task: LayerTask
    start_ns: int
    end_ns: int
    failure: str | None = None


class TaskBackend(Protocol):
    """Runs tasks on workers."""

    def now_ns(self) -> int:
        """Return the time since the run began, ns."""
        ...

    def start(self, task: LayerTask) -> None:
        """Begin a load or an execution; a worker is idle. Returns at once."""
        ...

    def unload(self, copy: str, layer: int) -> None:
        """Release weights; returns when their memory is free."""
        ...

    def drop(self, request: Request) -> None:
        """Drop everything that is left of a request, answered or given up; none of its tasks runs."""
        ...

    def wait(self, until_ns: int | None) -> Sequence[FinishedTask]:
        """Return the tasks that have ended, as soon as one has, or none at ``until_ns``.

        With ``None`` there is no such time; where nothing runs either, it returns at once.
        """
        ...

    def budget_bytes(self) -> int:
        """Return what may be held now: the budget, or less while others on the machine need memory."""
        ...
