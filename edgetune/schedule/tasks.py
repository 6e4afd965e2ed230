"""Tasks, what a policy sees and can choose, and where tasks run: the same in the simulator and for real.

    arrivals -> requests -> tasks that are ready:  load  -> (weights resident) -> execute -> ... -> answered
                                                   unload <- (weights that no execution uses now)

Times are integer nanoseconds of one clock; memory is bytes. Tasks become ready and are chosen one at a time: the loop
asks the policy again until it chooses nothing, and then waits for something to end or to arrive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from edgetune.schedule.network import LayeredNetwork
from edgetune.schedule.requests import Request

TaskKind = Literal["load", "execute", "unload"]


@dataclass(frozen=True, slots=True)
class LayerTask:
    """Something to do with one layer.

    Args:
        kind: ``load`` its weights, ``execute`` it, ``unload`` its weights (takes no worker and no time).
        network: Name of the network.
        copy: Whose weights: the network's name where the policy shares them between requests, else unique to a request.
        layer: Index in the network.
        request: Whose execution, or the earliest request that wants these weights; -1 for an unload that nobody wants.
        bytes: What must be free for it to begin: weights, or outputs and scratch (and the network's input, if it is
            the first execution of a request); of an unload, what it frees.
        duration_ns: What it is expected to take alone, ns.
    """

    kind: TaskKind
    network: str
    copy: str
    layer: int
    request: int
    bytes: int
    duration_ns: int


class Ready(Protocol):
    """Tasks of one kind that could start now if there were a worker and memory, kept in two orders."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[LayerTask]:
        """Iterate in the order of the requests' arrival, and of layers within a request."""
        ...

    @property
    def first(self) -> LayerTask | None:
        """The first in order of arrival, and of layers."""
        ...

    @property
    def smallest(self) -> LayerTask | None:
        """The one that needs the least memory; the earliest of several."""
        ...


class RequestState(Protocol):
    """A request that has arrived and is not answered yet."""

    request: Request
    network: LayeredNetwork
    copy: str
    left: int
    """How many of its layers have not been executed."""
    begun_ns: int | None
    """When a task of its own began first."""

    @property
    def left_ns(self) -> int:
        """Expected time of the loads and executions that it still needs, alone, ns; what runs counts until it ends."""
        ...

    def executed(self, layer: int) -> bool:
        """Return whether a layer has been executed."""
        ...

    def executions(self) -> Sequence[LayerTask]:
        """Return its executions that are ready, in the order of layers."""
        ...

    def loads(self) -> Sequence[LayerTask]:
        """Return the loads that it needs, still absent and not on their way, in the order of layers."""
        ...


class View(Protocol):
    """Everything a choice depends on. Kept up to date by the loop; policies only read it."""

    now_ns: int
    budget_bytes: int
    """What may be held; it can shrink while others on the machine need memory."""
    workers: int
    idle_workers: int
    cores: int
    """How many executions at once run at full speed."""
    streams: int
    """How many loads at once run at full speed: storage serves more than these more slowly."""
    came: Sequence[int]
    """Numbers of all requests that ``requests`` has gained so far, in the order in which it did."""
    gone: Sequence[int]
    """Numbers of all that it has lost, answered or failed."""
    running: Sequence[LayerTask]
    requests: Mapping[int, RequestState]
    """Requests that have arrived and are not answered, by number, in the order of arrival. One whose ``after`` are not
    answered yet is not among them."""
    executions: Ready
    """Weights are resident, inputs are there."""
    loads: Ready
    """Weights that a request needs, absent and not being loaded: one task per copy and layer."""

    @property
    def held_bytes(self) -> int:
        """What is held or promised to tasks that run."""
        ...

    @property
    def free_bytes(self) -> int:
        """Budget less what is held, which may be below zero."""
        ...

    def unloads(self) -> Sequence[LayerTask]:
        """Return an unload for all weights that are resident and that no execution uses now, longest resident first.

        One whose ``request`` is -1 is wanted by nobody that has arrived.
        """
        ...

    def unwanted(self) -> LayerTask | None:
        """Return the first of ``unloads()`` that nobody wants that has arrived; cheap."""
        ...

    def resident(self, copy: str, layer: int) -> bool:
        """Return whether weights are in memory."""
        ...

    def wanted_by(self, copy: str, layer: int) -> int:
        """Return the earliest request that still has to execute this layer with these weights; -1 if there is none."""
        ...

    def least(self, network: str) -> int:
        """Return how many bytes a network needs at the least, see ``network.least_budget_bytes``."""
        ...


class SchedulePolicy(Protocol):
    """Chooses what starts next. It may keep notes of its own, but must depend on nothing but the views it was shown."""

    name: ClassVar[str]
    shares_weights: ClassVar[bool]
    """Whether requests for the same network use the same weights; else each loads a copy of its own."""
    whole: ClassVar[bool]
    """Whether it takes networks as one layer, loaded and executed as a whole (``bulk``)."""
    overcommits: bool
    """Whether executions may begin that do not fit what is free, as nobody looks (``masa:code``)."""

    def choose(self, view: View) -> LayerTask | None:
        """Return the next task: an unload, or a load or an execution while a worker is idle; ``None`` to wait.

        The task is one of ``view.executions``, ``view.loads`` (also through a request's own) or ``view.unloads()``. It
        may need more than is free only where nothing runs: then there would be no progress otherwise.
        """
        ...


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """A load or an execution that is over.

    Args:
        task: Which.
        worker: Which worker ran it, from 0.
        start_ns, end_ns: When, on the stage's clock.
        failure: Why it failed, one line; ``None`` where it did not. The request ends then, and its memory is returned;
            of shared weights that could not be loaded, every request that wants them.
    """

    task: LayerTask
    worker: int
    start_ns: int
    end_ns: int
    failure: str | None = None


class TaskBackend(Protocol):
    """Runs tasks on workers."""

    def now_ns(self) -> int:
        """Return the time since the run began, ns."""
        ...

    def start(self, task: LayerTask, worker: int) -> None:
        """Begin a load or an execution on an idle worker; returns at once."""
        ...

    def unload(self, copy: str, layer: int) -> None:
        """Release weights; returns when their memory is free."""
        ...

    def finish(self, request: Request) -> None:
        """Hand over the answer of a request whose layers have all been executed, and drop what is left of it."""
        ...

    def abandon(self, request: Request) -> None:
        """Drop everything a request has computed so far; none of its tasks runs."""
        ...

    def wait(self, until_ns: int | None) -> Sequence[FinishedTask]:
        """Return what is over, as soon as anything is, or nothing at ``until_ns``.

        With ``None`` there is no such time; where nothing runs either, it returns at once.
        """
        ...

    def budget_bytes(self) -> int:
        """Return what may be held now: the budget, or less while others on the machine need memory."""
        ...
