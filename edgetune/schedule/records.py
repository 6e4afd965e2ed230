"""The records of a run: of every task, of every request's outcome, and of every change of the budget.

Times are ns on the clock of the run. Standard library only, because the process that runs networks writes these, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.schedule.requests import Request
from edgetune.schedule.tasks import TaskKind
from edgetune.serving.requests import Outcome


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A finished task.

    Args:
        kind, network, copy, layer, request, bytes: See ``view.LayerTask``.
        worker: Which ran it, from 0; ``None`` for an unload, which takes none.
        start_ns, end_ns: When.
        held_bytes: What the loop held for tasks and weights just after it began.
        failure: Why it failed; ``None`` where it did not.
        resident_bytes: Memory of the process once it was over, as the kernel counts it; ``None`` where nothing is real.
    """

    kind: TaskKind
    network: str
    copy: str
    layer: int
    request: int
    worker: int | None
    start_ns: int
    end_ns: int
    bytes: int
    held_bytes: int
    failure: str | None = None
    resident_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """The outcome of a request.

    Args:
        request: Which.
        outcome: See ``Outcome``.
        begun_ns: When a task of its own began first; ``None`` where none did.
        end_ns: When it was answered, or given up.
        failure: Why it has no answer; ``None`` where it has one.
    """

    request: Request
    outcome: Outcome
    begun_ns: int | None
    end_ns: int
    failure: str | None = None

    @property
    def response_ns(self) -> int:
        """From its arrival to its end."""
        return self.end_ns - self.request.arrival_ns

    @property
    def met(self) -> bool | None:
        """Whether it was answered when it was due; ``None`` where it was not due at any time."""
        if self.request.deadline_ns is None:
            return None
        return self.outcome == "ok" and self.end_ns <= self.request.deadline_ns


@dataclass(frozen=True, slots=True)
class BudgetRecord:
    """The budget from a time on.

    Args:
        at_ns: From when.
        budget_bytes: What may be held.
        held_bytes: What was held then.
    """

    at_ns: int
    budget_bytes: int
    held_bytes: int


Record = TaskRecord | RequestRecord | BudgetRecord
