"""What a policy sees and what it can decide: the same for the simulated GPU and the real one.

requests -> [ task, priority 1 ] -> LaunchChain: all kernels of a request, as they are, on its stream
requests -> [ task, priority 0 ] -> LaunchPiece: so many logical blocks of its next kernel, in this shape
                                    SetQuota: so many blocks of its persistent launches go on
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from edgetune.stages.elastic.abi import NO_QUOTA
from edgetune.stages.elastic.backend import Launch
from edgetune.stages.elastic.gpu import Gpu
from edgetune.stages.elastic.work import Call, GpuTask


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
    """Decides what is launched next; the same object on the simulated GPU and on the real one."""

    name: ClassVar[str]

    def decide(self, view: View) -> Sequence[Decision]:
        """Return what to launch now, in order; the decision depends on the view alone.

        The loop asks after every arrival, start and end, until the policy returns nothing.
        """
        ...


class NamedElasticPolicy(ElasticPolicy, Protocol):
    """A policy of the table: it has a name and is made without arguments."""

    name: ClassVar[str]

    def __init__(self) -> None: ...


def upcoming(state: TaskState) -> tuple[Call, int] | None:
    """Return the kernel whose blocks a task launches next and how many are left; ``None`` for a task without work."""
    calls = state.task.network.calls
    if state.request is not None:
        return (calls[state.call], state.left) if state.left else None
    return (calls[0], calls[0].logical.blocks) if state.arrived_ns else None


def by_priority(states: Iterable[TaskState]) -> Sequence[TaskState]:
    """Return tasks, the most critical first; equals in the order of the task file."""
    return sorted(states, key=lambda state: -state.task.priority)


@runtime_checkable
class PieceLauncher(Protocol):
    """A policy that looks up the pieces that it launches."""

    def prepare(self, tasks: Iterable[GpuTask], gpu: Gpu) -> None:
        """Compute the look-ups for a run."""
        ...
