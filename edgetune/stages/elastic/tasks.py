"""Makes tasks of a document of kernel tasks, and estimates how many launches they come to.

The requests of one task, and which blocks of their kernels were launched.

    arrived -> waiting ... | begun: blocks of call 0, of call 1, ... | all launched | answered, once all launches ended

    begin                 [0 .. 12) left
    take(4)               [0 .. 4) launched, [4 .. 12) left
    take(6)               [0 .. 4) and [4 .. 10) launched

No logical block is launched twice, and a request is answered only when all blocks of all its calls have ended. These
are the leaves of the dynamic shaded binary tree of Miriam (Zhao et al., SenSys 2023): parts are taken from the front,
so that nothing of the tree above them is needed. A part is cut only when it is taken, so that each may have the shape
that fits at its time. A part whose launch failed counts as launched, for its blocks may have run, and running them
twice may be wrong (a kernel that adds to its output).
"""

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune import limits
from edgetune.artifacts.files import read_source
from edgetune.artifacts.kernel_tasks import MDTB, VALUES, KernelCall, KernelNetwork, KernelTasks
from edgetune.errors import InputError, blaming
from edgetune.serving.arrivals import parse_arrivals
from edgetune.serving.requests import ArrivalSource
from edgetune.stages.elastic.gpu import (
    Argument,
    Call,
    Gpu,
    GpuTask,
    KernelSequence,
    Logical,
    Pointer,
    Resources,
    Scalar,
)
from edgetune.stages.elastic.kernel import dim
from edgetune.stages.elastic.mdtb.networks import network as mdtb_network
from edgetune.stages.elastic.model import ASSUMED, GpuTimingModel
from edgetune.stages.elastic.pieces import PieceShape, about_s
from edgetune.stages.elastic.view import Launch, TaskState
from edgetune.units import format_duration


def tasks_of(document: KernelTasks, *, folder: Path = Path()) -> tuple[GpuTask, ...]:
    """Return the tasks of a document.

    Args:
        document: The document.
        folder: The folder of its source files.

    Raises:
        InputError: the benchmark has no such network, a source cannot be read, or a value does not fit its type.
    """
    own = {}
    for each in document.networks:
        with blaming(f"network {each.name}"):
            own[each.name] = _network(each, folder)
    found = []
    for task in document.tasks:
        asked = own.get(task.network)
        with blaming(f"task {task.name}"):
            network = mdtb_network(task.network.removeprefix(MDTB)) if asked is None else asked
        found.append(GpuTask(task.name, network, task.priority, task.arrivals, task.deadline_s, task.sms))
    return tuple(found)


def _network(said: KernelNetwork, folder: Path) -> KernelSequence:
    if said.mdtb is not None:
        return mdtb_network(said.mdtb.removeprefix(MDTB), **said.sizes)
    source = b"" if said.source is None else read_source(folder / said.source)
    text = source.decode("utf-8-sig", "surrogateescape")
    return KernelSequence(said.name, [_call(each) for each in said.calls], text, said.buffers)


def _call(said: KernelCall) -> Call:
    registers = ASSUMED.registers_per_thread if said.registers is None else said.registers
    resources = {1: Resources(registers, said.static_shared_bytes)}
    with blaming(f"kernel {said.kernel}"):
        logical = Logical(dim(said.grid), dim(said.block), said.shared_bytes)
        arguments = tuple(map(_argument, said.arguments))
    return Call(
        said.kernel,
        logical,
        arguments,
        said.flop_per_block,
        said.bytes_per_block,
        said.waits_per_block,
        said.efficiency,
        said.block_time_s,
        resources=resources,
    )


def _argument(said: str | Mapping[str, float]) -> Argument:
    if isinstance(said, str):
        return Pointer(said)
    ((kind, value),) = said.items()
    try:
        exact = value == int(value) and abs(value) <= 2**53  # above, it was rounded when it was read
        number = int(value) if "int" in kind and exact else value
        return Scalar(struct.pack(VALUES[kind], number))
    except (struct.error, OverflowError, ValueError):
        raise InputError(f"{value:g} is no value of type {kind}", "e.g. {int: 5}, {float: 0.5}") from None


def check_count(tasks: Sequence[GpuTask], runs: int, gpu: Gpu | None, *, duration_s: float) -> None:
    """Check that the launches of a run can be kept.

    Args:
        tasks: Critical ones run once more: alone.
        runs: Their number.
        gpu: The simulated GPU; ``None`` for a real one.
        duration_s: How long requests come, s.

    Raises:
        InputError: there are too many.
    """
    launches = sum((runs + task.critical) * about_launches(task, gpu, duration_s=duration_s) for task in tasks)
    name, asked = "launches" if gpu is None else "simulated_launches", "" if runs == 1 else f" by {runs} policies"
    limits.check(name, launches, f"a run of {format_duration(duration_s)}{asked}")


def about_launches(task: GpuTask, gpu: Gpu | None, *, duration_s: float) -> float:
    """Return about how many launches a task comes to in a run, where none is cut into pieces.

    Requests of a closed loop follow each other as soon as all kernels of the one before could end on an idle GPU.

    Args:
        task: The task.
        gpu: The simulated GPU; ``None`` for a real one, on which closed loops, whose rate is unknown, do not count.
        duration_s: How long requests come, s.
    """
    calls, arrivals = task.network.calls, parse_arrivals(task.arrivals)
    rate_per_s, requests = arrivals.rate_per_s, float(len(arrivals.times_s) or arrivals.clients or 1)
    if rate_per_s is not None:
        requests = rate_per_s * duration_s
    elif arrivals.kind == "closed" and gpu is not None:
        whole = ((call, PieceShape(call.logical.blocks, 1, call.logical.blocks)) for call in calls)
        requests += duration_s / sum(GpuTimingModel().host_s + (about_s(gpu, *each) or 0.0) for each in whole)
    return len(calls) * requests


@dataclass(slots=True, eq=False)
class Open:
    """A request with launches.

    Args:
        number: Its number among those of the task, from 0.
        arrived_ns: Its arrival.
        begun_ns: Its first launch.
        in_flight: Parts that were taken and have not ended.
        launched: Whether all of its calls were launched to the end.
        failure: Why it will have no answer; ``None`` so far.
        failed_ns: When that became known.
    """

    number: int
    arrived_ns: int
    begun_ns: int
    in_flight: int = 0
    launched: bool = False
    failure: str | None = None
    failed_ns: int = 0

    @property
    def over(self) -> bool:
        """Whether nothing of it runs, and nothing more of it will."""
        return not self.in_flight and (self.launched or self.failure is not None)


class TaskProgress(TaskState):
    """The progress of a task: the part that policies see, and the part that only the loop needs.

    Args:
        task: The task.
        source: Of its requests.
    """

    def __init__(self, task: GpuTask, source: ArrivalSource) -> None:
        self.arrived_ns: deque[int] = deque()
        self.in_flight: deque[Launch] = deque()
        super().__init__(task, self.arrived_ns, left=task.network.calls[0].logical.blocks, in_flight=self.in_flight)
        self.source = source
        self.open: dict[int, Open] = {}
        """Requests that have begun and are not answered, by number."""
        self.idle_since_ns = 0
        """When the task last became idle."""
        self._begun = 0
        self._current: Open | None = None

    @property
    def idle(self) -> bool:
        """Whether no request waits and none is open."""
        return not (self.arrived_ns or self.open)

    def drop(self) -> tuple[int, int]:
        """Give up the oldest waiting request; return its number and arrival."""
        self._begun += 1
        return self._begun - 1, self.arrived_ns.popleft()

    def take(self, count: int, now_ns: int) -> tuple[Open, int]:
        """Take the next logical blocks of the call that is being launched; return its request and the first block.

        Where no request is being launched, the oldest waiting one begins.

        Args:
            count: From one to all that are left of the call.
            now_ns: The time.
        """
        calls, request = self.task.network.calls, self._current
        if request is None:
            request = self._current = self.open[self._begun] = Open(self._begun, self.arrived_ns.popleft(), now_ns)
            self.request = self._begun
            self._begun += 1
        first = calls[self.call].logical.blocks - self.left
        request.in_flight += 1
        self.left -= count
        if not self.left and self.call + 1 < len(calls):
            self.call += 1
            self.left = calls[self.call].logical.blocks
        elif not self.left:
            request.launched = True
            self._leave()
        return request, first

    def end(self, launch: Launch, failure: str | None, now_ns: int) -> Open:
        """Mark a launch as ended and return its request; of a request with a failure, no more is launched."""
        request = self.open[launch.request]
        request.in_flight -= 1
        if self.in_flight[0].number == launch.number:  # nearly always: a stream is in order
            self.in_flight.popleft()
        else:
            del self.in_flight[next(at for at, each in enumerate(self.in_flight) if each.number == launch.number)]
        if failure is not None and request.failure is None:
            request.failure, request.failed_ns = failure, now_ns
            if request is self._current:
                self._leave()
        return request

    def _leave(self) -> None:
        """Stop launching the current request."""
        self._current = self.request = None
        self.call, self.left = 0, self.task.network.calls[0].logical.blocks
