"""The interface of the simulated GPU and the real one, and the records of a run.

launch(a) launch(b)            a and b are on two streams
   |         |                 stream of a  [a runs      ]
   +---------+---> wait() ->   stream of b     [b runs        ]     events: a started, b started, a ended, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from edgetune.serving.requests import Outcome
from edgetune.stages.elastic.work import Call, GpuTask


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: all logical blocks of a call, or a part of them.

    Args:
        number: Unique in a run, ascending in the order of launches.
        task: Its task; launches of one task are on one stream and run one after another.
        request: The number of its request.
        call: Place of the kernel in the network.
        what: The kernel and its logical launch.
        first: First logical block.
        count: Logical blocks from there on.
        per_thread: Logical threads in a physical one.
        blocks: Physical blocks; ``None`` launches the original kernel, which takes all logical blocks of the call.
        after: Launches, of any task, that must have ended before: barriers between streams.
        persistent: Whether its blocks take logical blocks from a counter; it has ended when all of the call are done,
            however many of its blocks the quota of the task has let go on, and more were brought.
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
    persistent: bool = False

    @property
    def physical_blocks(self) -> int:
        """Blocks that the GPU runs."""
        return self.count if self.blocks is None else self.blocks

    @property
    def physical_threads(self) -> int:
        """Threads of each of them."""
        return -(-self.what.logical.threads // self.per_thread)


@dataclass(frozen=True, slots=True)
class LaunchEvent:
    """The start or end of a launch.

    Args:
        launch: Its number.
        kind: Whether its first block began to run, or its last block ended.
        at_ns: The time, on the clock of the backend.
        failure: Why it ended without a result, one line; ``None`` where it did not fail.
    """

    launch: int
    kind: Literal["started", "ended"]
    at_ns: int
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Residency:
    """Blocks of a launch on one multiprocessor, without a pause between them.

    Args:
        launch: Number of the launch.
        sm: The multiprocessor, from 0.
        start_ns: Start of the first block.
        end_ns: End of the last block.
        blocks: Their number.
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

    def decided(self) -> None:
        """Note that the policy has decided: a simulated host was busy with it."""
        ...

    def launch(self, launch: Launch) -> None:
        """Put a launch on its task's stream and return at once."""
        ...

    def set_quota(self, task: str, blocks: int) -> None:
        """Let so many blocks of each persistent launch of a task go on: the others leave, or come back."""
        ...

    def wait(self, until_ns: int | None) -> Sequence[LaunchEvent]:
        """Wait for an event, or until ``until_ns``; return the events in order. ``None``: no limit."""
        ...


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """A launch that has ended.

    Args:
        launch: The launch.
        launched_ns: When the host had launched it.
        started_ns: When its first block began; ``None`` where that is unknown, or no block began.
        ended_ns: When its last block ended.
        failure: Why it ended without a result; ``None`` where it did not fail.
    """

    launch: Launch
    launched_ns: int
    started_ns: int | None
    ended_ns: int
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """The outcome of a request.

    Args:
        task: Its task.
        number: Its number among those of the task, from 0.
        arrived_ns: When it arrived.
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
        """Its deadline; ``None`` where it has none."""
        return None if self.task.deadline_s is None else self.arrived_ns + round(self.task.deadline_s * 1e9)

    @property
    def met(self) -> bool | None:
        """Whether it was answered by its deadline; ``None`` where it has none."""
        return None if self.due_ns is None else self.outcome == "ok" and self.ended_ns <= self.due_ns


Record = LaunchRecord | RequestRecord
