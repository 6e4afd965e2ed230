"""What a run writes down: a record of every launch that ended, and of what became of every request. Times are ns."""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.elastic.backend import Launch
from edgetune.elastic.work import GpuTask
from edgetune.serving.requests import Outcome


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """A launch that is over.

    Args:
        launch: Which.
        launched_ns: When the host was done with launching it.
        started_ns: When its first block began; ``None`` where none did, as far as is known.
        ended_ns: When its last block was over.
        failure: Why it ended without a result; ``None`` where it did not fail.
    """

    launch: Launch
    launched_ns: int
    started_ns: int | None
    ended_ns: int
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """What became of a request.

    Args:
        task: Whose.
        number: Which of its requests, from 0.
        arrived_ns: When it came.
        begun_ns: When the first of its launches was made; ``None`` where none was.
        ended_ns: When it was answered, or given up.
        outcome: See ``Outcome``.
        failure: Why it has no answer; ``None`` where it has one.
    """

    task: GpuTask
    number: int
    arrived_ns: int
    begun_ns: int | None
    ended_ns: int
    outcome: Outcome
    failure: str | None = None

    @property
    def due_ns(self) -> int | None:
        """When it was due; ``None`` where it never was."""
        return None if self.task.deadline_s is None else self.arrived_ns + round(self.task.deadline_s * 1e9)

    @property
    def met(self) -> bool | None:
        """Whether it was answered when it was due; ``None`` where it never was."""
        return None if self.due_ns is None else self.outcome == "ok" and self.ended_ns <= self.due_ns


Record = LaunchRecord | RequestRecord
