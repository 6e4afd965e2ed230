"""The timeline: every load, execution and unload of networks that shared little memory, and every request answered.

worker 0   [load faces/conv1][execute faces/conv1]    [execute age/fc6]
worker 1        [load age/fc6               ]    [load faces/fc6]
held       ____/-----------------------------\\____/----------         below the budget
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from edgetune.artifacts.columns import NonNegativeFloat, NonNegativeInt
from edgetune.artifacts.events import Events, Needed
from edgetune.artifacts.header import Header

KIND = "timeline"
VERSION = 1

Event = Literal["load", "execute", "unload", "request", "budget", "memory"]
Outcome = Literal["ok", "failed", "abandoned"]


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One thing that happened. All times are seconds since the run of its policy and turn began.

    Args:
        event: ``load``, ``execute`` (tasks on a worker), ``unload`` (takes no time), ``request`` (one that was
            answered, or not), ``budget`` (what may be held has changed), ``memory`` (a reading of the system's count).
        policy: What chose the order.
        finished_s: When it was over; of ``unload``, ``budget`` and ``memory`` when it was.
        turn: How often this policy had run before in this file: policies compared take turns.
        network: Name of the network.
        job: Name of the job that a request belongs to.
        request: Number of the request, unique in a turn; of a task the one it was started for.
        layer: Name of the layer.
        layer_index: Its place in the network, from 0.
        worker: Which worker ran the task, from 0.
        copy: Whose weights: the network's name where requests share them.
        arrived_s: When the request came.
        started_s: When the task, or the first task of the request, began.
        deadline_s: When the request was due.
        met: Whether it was answered by then.
        bytes: Of a task, what it needed beyond what was held; of ``unload``, what it freed.
        held_bytes: What was held or promised to tasks, by the accounts of the runtime, once this had begun.
        budget_bytes: What may be held from then on, in ``budget`` rows.
        resident_bytes: Memory of the process once it was over, as the system counts it; ``None`` where nobody did.
        swap_bytes: Of it, what was swapped out at that time.
        major_faults: Pages that had to come from storage since the turn began.
        limit_hits: How often the limit was run into since the turn began, so that the system had to reclaim memory.
        status: ``failed`` for what raised, ``abandoned`` for a request that was left when the run ended.
        reason: Why it failed, or why the budget was changed.
        peak_bytes: The most that was in memory since the turn began, as the control group or, without one, the process
            was counted.
    """

    event: Event
    policy: str
    finished_s: NonNegativeFloat
    turn: NonNegativeInt = 0
    network: str | None = None
    job: str | None = None
    request: NonNegativeInt | None = None
    layer: str | None = None
    layer_index: NonNegativeInt | None = None
    worker: NonNegativeInt | None = None
    copy: str | None = None
    arrived_s: NonNegativeFloat | None = None
    started_s: NonNegativeFloat | None = None
    deadline_s: NonNegativeFloat | None = None
    met: bool | None = None
    bytes: NonNegativeInt | None = None
    held_bytes: NonNegativeInt | None = None
    budget_bytes: NonNegativeInt | None = None
    resident_bytes: NonNegativeInt | None = None
    swap_bytes: NonNegativeInt | None = None
    major_faults: NonNegativeInt | None = None
    limit_hits: NonNegativeInt | None = None
    status: Outcome = "ok"
    reason: str | None = None
    peak_bytes: NonNegativeInt | None = None


@dataclass(frozen=True, slots=True)
class Timeline(Events):
    """Everything that happened and its header.

    ``header.conditions`` has ``device``, ``simulated``, ``limit_bytes`` (the memory that was asked for: a budget is
    what of it is left for tasks), ``workers``, ``policies`` with what holds for each, and ``enforced_by``
    (``cgroup-v1``, ``cgroup-v2`` or ``accounted``); ``header.inputs["networks"]`` is a list that says of each network
    its name, reference, weight_bytes and service_s (what a request takes alone, s).
    """

    header: Header
    rows: tuple[TimelineRow, ...]

    ROW = TimelineRow
    NEEDED: ClassVar[Needed] = {
        "load": ("network", "layer", "worker", "started_s"),
        "execute": ("network", "layer", "worker", "request", "started_s"),
        "unload": ("network", "layer"),
        "request": ("network", "request", "arrived_s"),
        "budget": ("budget_bytes",),
    }
