"""Tasks, where they run, and the records of a run: the same in the simulator and in the process that runs networks.

    arrivals -> requests -> tasks that are ready:  load  -> (weights resident) -> execute -> ... -> answered
                                                   unload <- (weights that no execution uses now)

Times are integer nanoseconds of one clock; memory is bytes. Tasks become ready and are chosen one at a time: the loop
asks the policy again until it chooses nothing, and then waits for something to end or to arrive. Standard library only.

The resources that tasks share on a machine: cores, storage and memory, and the cost of holding more than fits.

held:  [======== in memory, up to the limit ========|== excess, on storage ==]
a task touches some of it, and waits for the part that is not there
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from edgetune.serving.requests import Outcome
from edgetune.stages.schedule.requests import Request

TaskKind = Literal["load", "execute", "unload"]


@dataclass(frozen=True, slots=True)
class LayerTask:
    """A load, an execution or an unload of one layer.

    Args:
        kind: ``load`` its weights, ``execute`` it, ``unload`` its weights (takes no worker and no time).
        network: Name of the network.
        copy: Name of the weights: the network's where the policy shares them between requests, else unique to one.
        layer: Index in the network.
        request: The request, or the earliest one that wants these weights; -1 for an unload of weights that no
            request wants.
        bytes: Memory that it needs to begin: weights, or outputs and scratch (and the network's input, if it is
            the first execution of a request); of an unload, what it frees.
        duration_ns: Its expected duration alone, ns.
    """

    kind: TaskKind
    network: str
    copy: str
    layer: int
    request: int
    bytes: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """A load or an execution that has ended.

    Args:
        task: The task.
        start_ns, end_ns: Its start and end, on the backend's clock.
        failure: Why it failed, one line; ``None`` where it did not. The request ends then, and its memory is returned;
            of shared weights that could not be loaded, every request that wants them.
    """

    task: LayerTask
    start_ns: int
    end_ns: int
    failure: str | None = None


class TaskBackend(Protocol):
    """Runs tasks on workers."""

    def now_ns(self) -> int:
        """Return the time since the run began, ns."""
        ...

    def start(self, task: LayerTask) -> None:
        """Begin a load or an execution; a worker is idle. Returns at once."""
        ...

    def unload(self, copy: str, layer: int) -> None:
        """Release weights; returns when their memory is free."""
        ...

    def drop(self, request: Request) -> None:
        """Drop everything that is left of a request, answered or given up; none of its tasks runs."""
        ...

    def wait(self, until_ns: int | None) -> Sequence[FinishedTask]:
        """Return the tasks that have ended, as soon as one has, or none at ``until_ns``.

        With ``None`` there is no such time; where nothing runs either, it returns at once.
        """
        ...


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A finished task.

    Args:
        kind, network, copy, layer, request, bytes: See ``view.LayerTask``.
        worker: Number of its worker, from 0; ``None`` for an unload, which takes none.
        start_ns, end_ns: Its start and end.
        held_bytes: Memory held for tasks and weights just after it began.
        failure: Why it failed; ``None`` where it did not.
        resident_bytes: Memory of the process once it was over, as the kernel counts it; ``None`` where nothing is real.
    """

    kind: TaskKind
    network: str
    copy: str
    layer: int
    request: int
    worker: int | None
    start_ns: int
    end_ns: int
    bytes: int
    held_bytes: int
    failure: str | None = None
    resident_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """The outcome of a request.

    Args:
        request: The request.
        outcome: See ``Outcome``.
        begun_ns: Start of its first task; ``None`` where none began.
        end_ns: Its answer, or the time when it was given up.
        failure: Why it has no answer; ``None`` where it has one.
    """

    request: Request
    outcome: Outcome
    begun_ns: int | None
    end_ns: int
    failure: str | None = None

    @property
    def response_ns(self) -> int:
        """From its arrival to its end."""
        return self.end_ns - self.request.arrival_ns

    @property
    def met(self) -> bool | None:
        """Whether it was answered when it was due; ``None`` where it was not due at any time."""
        if self.request.deadline_ns is None:
            return None
        return self.outcome == "ok" and self.end_ns <= self.request.deadline_ns


@dataclass(frozen=True, slots=True)
class BudgetRecord:
    """The budget from a time on.

    Args:
        at_ns: The time.
        budget_bytes: The memory budget.
        held_bytes: The memory held then.
    """

    at_ns: int
    budget_bytes: int
    held_bytes: int


Record = TaskRecord | RequestRecord | BudgetRecord


@dataclass(frozen=True, slots=True)
class Paging:
    """A model of the time that paging adds to a task while more is held than fits.

    Of the bytes that a task touches, the share ``thrash * excess / held``, at most all, is not there. A ``thrash`` of 1
    stands for pages that leave at random. The kernel lets the pages leave first that were used longest ago, which are
    those that networks, going through their weights in a circle, need next: then it is more.

    Args:
        s_per_byte: Time to bring a byte back, s, including the time to write another one out where that is needed.
        thrash: Factor by which a needed page is likelier to have left than any other page.
    """

    s_per_byte: float = 15.7e-9
    """64 MB/s to write a byte out and read it back. This and the thrash are a least-squares fit to whole networks of
    217 to 377 MiB that were loaded under 90 to 60 % of the memory that takes (a virtual x86 machine, Linux 6.18, a swap
    file on a disk that reads 4 GB/s). Loads took 0.4 to 1.3 of what the model says, the least where a tenth was
    missing; executions right after a load paid less."""
    thrash: float = 1.0

    def extra_s(self, touched_bytes: int, held_bytes: int, limit_bytes: int) -> float:
        """Return the additional time of a task that touches so many bytes, s; 0 while everything fits."""
        return self.s_per_byte * touched_bytes * self.share_gone(held_bytes, limit_bytes)

    def share_gone(self, held_bytes: int, limit_bytes: int) -> float:
        """Return the share of the touched bytes that is not in memory, 0 to 1."""
        return min(1.0, self.thrash * (held_bytes - limit_bytes) / held_bytes) if held_bytes > limit_bytes else 0.0


FITS = Paging(s_per_byte=0.0)
"""Memory without end: nothing leaves."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The resources that tasks share.

    Args:
        cores: Number of executions that run at full speed at once.
        streams: Number of loads that run at full speed at once; more loads share the bandwidth of storage.
        memory_bytes: The physical memory; ``None``: without a limit.
        paging: The cost of holding more than that.
        swap_bytes: Swap beside that memory: the kernel kills a process that holds more of its own than both, pages of
            files left out, which leave instead. ``None``: without a limit.
    """

    cores: int
    streams: int = 1
    memory_bytes: int | None = None
    paging: Paging = FITS
    swap_bytes: int | None = None
