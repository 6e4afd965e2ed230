"""The kernel timeline: every launch and request of tasks that shared a GPU, and the residency of blocks.

task detect  [conv1 ][pool1][fc]            [conv1 ]...
task sort        [sort: 16 of 49 blocks]  [16 of 49 ]         an elastic kernel, piece by piece
SM 0         [d d d d | s s   ][s s s s ]
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from edgetune.artifacts.columns import NonNegativeFloat, NonNegativeInt, PositiveInt
from edgetune.artifacts.events import Events, Needed
from edgetune.artifacts.header import Header

KIND = "kernel_timeline"
VERSION = 1


@dataclass(frozen=True, slots=True)
class KernelTimelineRow:
    """One event. All times are seconds since the begin of the run of its policy and turn.

    Args:
        event: ``launch`` (of a kernel or a piece of one), ``request`` (answered or not), ``residency`` (blocks of a
            launch on one multiprocessor, one after another or at once, without a pause).
        policy: The scheduling policy; ``solo`` for a task alone, for comparison.
        finished_s: End of the event.
        turn: Number of earlier runs of this policy in this file; for ``solo``, the index of the task.
        task: Name of the task.
        request: Number of the request in its task, from 0.
        launch: Number of the launch, unique in a turn.
        call: Place of the kernel in the network, from 0.
        kernel: Name of the kernel.
        first: First logical block of the launch.
        count: Number of logical blocks.
        per_thread: Logical threads per physical thread.
        elastic: Whether the elastic form was launched, not the original.
        blocks: Physical blocks of the launch, or of its part on this multiprocessor.
        threads: Physical threads of a block.
        sm: Number of the multiprocessor, from 0.
        arrived_s: Arrival of the request.
        launched_s: End of the launch call on the host.
        started_s: Start of the first block, or the first launch of a request.
        deadline_s: Deadline of the request.
        met: Whether the deadline was met.
        status: ``failed`` for an event that raised, ``abandoned`` for a request open when the run ended.
        reason: Why it failed.
    """

    event: Literal["launch", "request", "residency"]
    policy: str
    finished_s: NonNegativeFloat
    turn: NonNegativeInt = 0
    task: str | None = None
    request: NonNegativeInt | None = None
    launch: NonNegativeInt | None = None
    call: NonNegativeInt | None = None
    kernel: str | None = None
    first: NonNegativeInt | None = None
    count: PositiveInt | None = None
    per_thread: PositiveInt | None = None
    elastic: bool | None = None
    blocks: PositiveInt | None = None
    threads: PositiveInt | None = None
    sm: NonNegativeInt | None = None
    arrived_s: NonNegativeFloat | None = None
    launched_s: NonNegativeFloat | None = None
    started_s: NonNegativeFloat | None = None
    deadline_s: NonNegativeFloat | None = None
    met: bool | None = None
    status: Literal["ok", "failed", "abandoned"] = "ok"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class KernelTimeline(Events):
    """The events and their header.

    ``header.conditions`` has ``simulated``, ``device`` (the GPU's name), ``gpu`` (its limits and speeds with sources),
    ``model`` (the assumptions of a simulation, and a note on effects it neglects), ``duration_s`` (duration of the
    arrivals), ``seed``, ``tasks`` (name, network, priority, arrivals and deadline_s of each) and ``policies`` with the
    cost of decisions in each turn, ``stopped_s`` of an interrupted turn, and ``residencies_until_s`` where residencies
    were not recorded to the end.
    """

    header: Header
    rows: tuple[KernelTimelineRow, ...]

    ROW = KernelTimelineRow
    NEEDED: ClassVar[Needed] = {
        "launch": ("task", "request", "launch", "kernel", "count", "blocks", "started_s"),
        "request": ("task", "request", "arrived_s"),
        "residency": ("launch", "sm", "blocks", "started_s"),
    }
