"""The kernel timeline: every launch of tasks that shared a GPU, every request, and where blocks were.

task detect  [conv1 ][pool1][fc]            [conv1 ]...
task sort        [sort: 16 of 49 blocks]  [16 of 49 ]         an elastic kernel, piece by piece
SM 0         [d d d d | s s   ][s s s s ]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from edgetune.artifacts.columns import NonNegativeFloat, NonNegativeInt, PositiveInt
from edgetune.artifacts.events import Events, Needed
from edgetune.artifacts.header import Header

KIND = "kernel_timeline"
VERSION = 1

KernelEvent = Literal["launch", "request", "residency"]
KernelOutcome = Literal["ok", "failed", "abandoned"]


@dataclass(frozen=True, slots=True)
class KernelTimelineRow:
    """One thing that happened. All times are seconds since the run of its policy and turn began.

    Args:
        event: ``launch`` (of a kernel or a piece of one), ``request`` (one that was answered, or not), ``residency``
            (blocks of a launch that were on one multiprocessor, one after another or at once, without a pause).
        policy: What decided; ``solo`` where a task ran alone, for comparison.
        finished_s: When it was over.
        turn: How often this policy had run before in this file; of ``solo``, the place of the task.
        task: Whose.
        request: Which of its requests, from 0.
        launch: Number of the launch, unique in a turn.
        call: Place of the kernel in the network, from 0.
        kernel: Its name.
        first: Logical block that the launch began with.
        count: How many logical blocks it took.
        per_thread: How many logical threads a physical one ran.
        elastic: Whether the elastic form was launched; else the original.
        blocks: Physical blocks: of the launch, or of it on this multiprocessor.
        threads: Physical threads of a block.
        sm: Which multiprocessor, from 0.
        arrived_s: When the request came.
        launched_s: When the host was done with launching it.
        started_s: When its first block began, or the first launch of a request was made.
        deadline_s: When the request was due.
        met: Whether it was answered by then.
        status: ``failed`` for what raised, ``abandoned`` for a request that was left when the run ended.
        reason: Why it failed.
    """

    event: KernelEvent
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
    status: KernelOutcome = "ok"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class KernelTimeline(Events):
    """Everything that happened and its header.

    ``header.conditions`` has ``simulated``, ``device`` (the GPU's name), ``gpu`` (its limits and speeds and where they
    are from), ``model`` (what a simulation believes, and a note on what it does not know), ``duration_s`` (how long
    requests came), ``seed``, ``tasks`` (of each its name, network, priority, arrivals and deadline_s) and ``policies``
    with what deciding cost in each turn, ``stopped_s`` where somebody stopped one before its time, and
    ``residencies_until_s`` where it was not kept to the end where blocks were.
    """

    header: Header
    rows: tuple[KernelTimelineRow, ...]

    ROW = KernelTimelineRow
    NEEDED: ClassVar[Needed] = {
        "launch": ("task", "request", "launch", "kernel", "count", "blocks", "started_s"),
        "request": ("task", "request", "arrived_s"),
        "residency": ("launch", "sm", "blocks", "started_s"),
    }
