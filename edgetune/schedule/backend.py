"""Where tasks run: worker threads on mapped weights, or an event clock. The loop knows no more of it than this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgetune.schedule.request import Request
from edgetune.schedule.view import LayerTask


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """A load or an execution that is over.

    Args:
        task: Which.
        worker: Which worker ran it, from 0.
        start_ns, end_ns: When, on the stage's clock.
        failure: Why it failed, one line; ``None`` where it did not. The request ends then, and its memory is returned;
            of shared weights that could not be loaded, every request that wants them.
    """

    task: LayerTask
    worker: int
    start_ns: int
    end_ns: int
    failure: str | None = None


class TaskBackend(Protocol):
    """Runs tasks on workers."""

    def now_ns(self) -> int:
        """Return the time since the run began, ns."""
        ...

    def start(self, task: LayerTask, worker: int) -> None:
        """Begin a load or an execution on an idle worker; returns at once."""
        ...

    def unload(self, copy: str, layer: int) -> None:
        """Release weights; returns when their memory is free."""
        ...

    def finish(self, request: Request) -> None:
        """Hand over the answer of a request whose layers have all been executed, and drop what is left of it."""
        ...

    def abandon(self, request: Request) -> None:
        """Drop everything a request has computed so far; none of its tasks runs."""
        ...

    def wait(self, until_ns: int | None) -> Sequence[FinishedTask]:
        """Return what is over, as soon as anything is, or nothing at ``until_ns``.

        With ``None`` there is no such time; where nothing runs either, it returns at once.
        """
        ...

    def budget_bytes(self) -> int:
        """Return what may be held now: the budget, or less while others on the machine need memory."""
        ...
