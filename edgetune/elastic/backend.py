"""Where kernels are launched: the interface shared by the simulated GPU and the real one.

launch(a) launch(b)            a and b are on two streams
   |         |                 stream of a  [a runs      ]
   +---------+---> wait() ->   stream of b     [b runs        ]     moments: a started, b started, a ended, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from edgetune.elastic.work import Call, GpuTask
from edgetune.serving.requests import Outcome


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: a part of the logical blocks of a call, or all of them.

    Args:
        number: Unique in a run, ascending in the order of launches.
        task: Whose; launches of one task are on one stream and run one after another.
        request: Which of its requests.
        call: Place of the kernel in the network.
        what: The kernel and its logical launch.
        first: Logical block to begin with.
        count: How many from there on.
        per_thread: Logical threads in a physical one.
        blocks: Physical blocks; ``None`` launches the original kernel, which takes all logical blocks of the call.
        after: Launches, of whatever task, that must have ended before: barriers between streams.
    """

    number: int
    task: str
    request: int
    call: int
    what: Call
    first: int
    count: int
    per_thread: int = 1
    blocks: int | None = None
    after: tuple[int, ...] = ()

    @property
    def physical_blocks(self) -> int:
        """How many blocks the GPU sees."""
        return self.count if self.blocks is None else self.blocks

    @property
    def physical_threads(self) -> int:
        """How many threads each of them has."""
        return -(-self.what.logical.threads // self.per_thread)


@dataclass(frozen=True, slots=True)
class LaunchEvent:
    """Something happened to a launch.

    Args:
        launch: Its number.
        kind: Whether its first block began to run, or all of it is over.
        at_ns: When, on the stage's clock.
        failure: Why it ended without a result, one line; ``None`` where it did not fail.
    """

    launch: int
    kind: Literal["started", "ended"]
    at_ns: int
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Residency:
    """Blocks of a launch that were on one multiprocessor.

    Args:
        launch: Number of the launch.
        sm: Which multiprocessor, from 0.
        start_ns: When the first of them began there.
        end_ns: When the last of them was over.
        blocks: How many; without a pause in which there was none.
    """

    launch: int
    sm: int
    start_ns: int
    end_ns: int
    blocks: int = 1


class GpuBackend(Protocol):
    """A GPU, real or simulated."""

    def now_ns(self) -> int:
        """Return the time of its clock, ns."""
        ...

    def launch(self, launch: Launch) -> None:
        """Put a launch on its task's stream and return at once."""
        ...

    def wait(self, until_ns: int | None) -> Sequence[LaunchEvent]:
        """Wait until something happens or it is ``until_ns``; return what happened, in order. ``None``: no limit."""
        ...


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
