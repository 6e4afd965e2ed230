"""What a policy sees and what it can decide: the same for the simulated GPU and the real one.

requests -> [ task, priority 1 ] -> LaunchChain: all kernels of a request, as they are, on its stream
requests -> [ task, priority 0 ] -> LaunchPiece: so many logical blocks of its next kernel, in this shape
                                    SetQuota: so many blocks of its persistent launches go on

The interface of the simulated GPU and the real one, and the records of a run.

launch(a) launch(b)            a and b are on two streams
   |         |                 stream of a  [a runs      ]
   +---------+---> wait() ->   stream of b     [b runs        ]     events: a started, b started, a ended, ...
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from edgetune.serving.requests import Outcome
from edgetune.stages.elastic.gpu import Call, Gpu, GpuTask
from edgetune.stages.elastic.kernel import NO_QUOTA


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


@dataclass(slots=True)
class TaskState:
    """The state of a task.

    Args:
        task: The task.
        arrived_ns: Arrivals of its waiting requests, the oldest first.
        request: Number of the request that is being launched piece by piece; ``None`` where none is.
        call: Place in the network of the kernel whose blocks are launched next.
        left: Logical blocks of that kernel that are not launched yet.
        in_flight: Its launches that have not ended, the oldest first.
        served_s: Device time of its launches so far, s: the measure of fair sharing between equals.
        quota: Physical blocks of its persistent launches that may go on.
    """

    task: GpuTask
    arrived_ns: Sequence[int]
    request: int | None = None
    call: int = 0
    left: int = 0
    in_flight: Sequence[Launch] = ()
    served_s: float = 0.0
    quota: int = NO_QUOTA


@dataclass(slots=True)
class View:
    """Everything that a decision depends on.

    Args:
        now_ns: The time.
        gpu: Its limits.
        tasks: All tasks, in the order of the task file.
        resident: Launches that have started and not ended, as far as is known.
    """

    now_ns: int
    gpu: Gpu
    tasks: Sequence[TaskState]
    resident: Sequence[Launch]


@dataclass(frozen=True, slots=True)
class LaunchChain:
    """Launch all kernels of a task's oldest waiting request, unchanged, one behind another on its stream."""

    task: str


@dataclass(frozen=True, slots=True)
class LaunchPiece:
    """Launch the next logical blocks of a task, of its oldest waiting request where none is being launched.

    Args:
        task: The task.
        count: Logical blocks; at most those left of the kernel.
        per_thread: Logical threads in a physical one.
        blocks: Physical blocks; ``None``: the original kernel, where ``count`` is all of its blocks.
        after: Launches that must have ended before.
        persistent: Whether it is the persistent form, which takes all that are left.
    """

    task: str
    count: int
    per_thread: int = 1
    blocks: int | None = None
    after: tuple[int, ...] = ()
    persistent: bool = False


@dataclass(frozen=True, slots=True)
class SetQuota:
    """Change how many blocks of a task's persistent launches go on, of those in flight and of later ones.

    Args:
        task: The task.
        blocks: Physical blocks of each launch; ``abi.NO_QUOTA`` for all.
    """

    task: str
    blocks: int


Decision = LaunchChain | LaunchPiece | SetQuota


class ElasticPolicy(Protocol):
    """Decides what is launched next; the same object on the simulated GPU and on the real one.

    One with a method ``prepare(tasks, gpu)`` computes look-ups there before a run.
    """

    name: ClassVar[str]

    def decide(self, view: View) -> Sequence[Decision]:
        """Return what to launch now, in order; the decision depends on the view alone.

        The loop asks after every arrival, start and end, until the policy returns nothing.
        """
        ...


def upcoming(state: TaskState) -> tuple[Call, int] | None:
    """Return the kernel whose blocks a task launches next and how many are left; ``None`` for a task without work."""
    calls = state.task.network.calls
    if state.request is not None:
        return (calls[state.call], state.left) if state.left else None
    return (calls[0], calls[0].logical.blocks) if state.arrived_ns else None


def by_priority(states: Iterable[TaskState]) -> Sequence[TaskState]:
    """Return tasks, the most critical first; equals in the order of the task file."""
    return sorted(states, key=lambda state: -state.task.priority)
