"""The timeline: loads, executions and unloads of networks that shared limited memory, and their requests.

worker 0   [load faces/conv1][execute faces/conv1]    [execute age/fc6]
worker 1        [load age/fc6               ]    [load faces/fc6]
held       ____/-----------------------------\\____/----------         below the budget
"""

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
    """One event. All times are seconds since the begin of the run of its policy and turn.

    Args:
        event: ``load``, ``execute`` (tasks on a worker), ``unload`` (takes no time), ``request`` (answered or not),
            ``budget`` (a change of the budget), ``memory`` (a reading of the system's count).
        policy: The policy that ordered the tasks.
        finished_s: End of the event; the time of ``unload``, ``budget`` and ``memory``.
        turn: Number of earlier runs of this policy in this file, because compared policies take turns.
        network: Name of the network.
        job: Name of the job that a request belongs to.
        request: Number of the request, unique in a turn; of a task the one it was started for.
        layer: Name of the layer.
        layer_index: Index of the layer in the network, from 0.
        worker: Number of the worker that ran the task, from 0.
        copy: Owner of the weights: the network's name if requests share them.
        arrived_s: Arrival of the request.
        started_s: Start of the task, or of the first task of the request.
        deadline_s: Deadline of the request.
        met: Whether the deadline was met.
        bytes: Additional memory of a task; of ``unload``, the freed memory.
        held_bytes: Memory held by or reserved for tasks after the start of the event, by the runtime's accounts.
        budget_bytes: The new budget, in ``budget`` rows.
        resident_bytes: Memory of the process after the event, by the system's count; ``None`` if not counted.
        swap_bytes: The swapped-out part of it.
        major_faults: Pages read from storage since the begin of the turn.
        limit_hits: Number of times the limit was hit since the begin of the turn, so that memory was reclaimed.
        status: ``failed`` for an event that raised, ``abandoned`` for a request open when the run ended.
        reason: Why it failed, or why the budget changed.
        peak_bytes: Peak memory since the begin of the turn, of the control group or, without one, of the process.
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
    """The events and their header.

    ``header.conditions`` has ``device``, ``simulated``, ``limit_bytes`` (the memory that was asked for: a budget is
    what of it is left for tasks), ``workers``, ``policies`` with what holds for each turn (``killed``: when the kernel
    ended it, ``at_s``, and the most that it held, ``bytes``), and ``enforced_by``
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
