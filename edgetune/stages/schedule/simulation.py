"""Jobs on an event clock: the same loop and policies as for real, without a network, and faster than time.

storage   load A ----+ B waits +--- A and B at half speed ---+---- B    loads share what storage delivers
cores     execute C ------------------------------------ C              executions share cores where these are fewer
loop                        unload D ---- D                             nothing is decided meanwhile
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgetune.errors import PartialError
from edgetune.serving.clock import EventClock, Supervision
from edgetune.serving.requests import DecisionOverhead
from edgetune.stages.schedule.loop import ScheduleLoop
from edgetune.stages.schedule.memory_accounting import MemoryAccounting
from edgetune.stages.schedule.network import Layer, LayeredNetwork
from edgetune.stages.schedule.policies.policy import SchedulePolicy, taken_by
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.state import Parallelism
from edgetune.stages.schedule.tasks import FinishedTask, LayerTask, Machine, Record, RequestRecord
from edgetune.units import NS, format_bytes

_ROUNDING_NS = 1e-3
"""Work left that is none: a thousandth of a nanosecond is far above the error of adding up times of hours."""


@dataclass(slots=True, eq=False)
class _Running:
    """A running task: the time that it waits, that left of it alone then, and the bytes that it touches."""

    task: LayerTask
    start_ns: int
    wait_ns: float
    left_ns: float
    alone_ns: int
    touched_bytes: int


class SimulatedKillError(PartialError):
    """The kernel would have killed the process: it holds more memory of its own than its limit and swap."""

    at_ns = 0
    """When, in simulated time."""


class SimulatedTaskBackend:
    """A ``TaskBackend`` on an event clock, without workers.

    Args:
        clock: Tells the time and moves on when the loop waits; other things may happen on it too.
        networks: The networks with their real bytes and times, by name; the loop may assume others.
        machine: The resources that tasks share.
        fault: Why a task fails when it ends; ``None`` where it does not.
    """

    def __init__(
        self, clock: EventClock, networks: Mapping[str, LayeredNetwork], *, machine: Machine,
        fault: Callable[[LayerTask], str | None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.memory = MemoryAccounting(networks, maps_weights=None)
        """The bytes that are physically held."""
        self._clock, self._networks, self._machine, self._fault = clock, networks, machine, fault
        self._running: list[_Running] = []
        self._ended: list[FinishedTask] = []
        """Tasks that ended while the loop was busy."""
        self._executed: set[tuple[str, int]] = set()
        self._own_weights_bytes = 0
        """Bytes of weights that are no pages of files."""
        self._loaded_from: dict[tuple[str, int], str] = {}
        """The network of loaded weights, by copy and layer."""
        self._rates: list[float] = []
        """The speed of each running task, until a task begins or ends, or memory is released."""
        self._progress_ns = clock.now_ns()

    def now_ns(self) -> int:
        """Return simulated time, ns."""
        return self._clock.now_ns()

    def start(self, task: LayerTask) -> None:
        """Begin a load or an execution."""
        self._progress()
        network = self._networks[task.network]
        layer, wait_ns = network.layers[task.layer], 0.0
        if task.kind == "execute":
            self.memory.begin(task)
            alone_ns, touched = round(self._execute_s(task, layer) * NS), _touched_bytes(network, task.layer)
        else:
            self._loaded_from[task.copy, task.layer] = task.network
            before_bytes = self.memory.by_kind["weights"]
            self.memory.begin(task)
            new_bytes, mapped = self.memory.by_kind["weights"] - before_bytes, layer.mapped_load_s is not None
            self._own_weights_bytes += 0 if mapped else new_bytes
            there_s, new = layer.mapped_load_s or 0.0, new_bytes / max(layer.weight_bytes, 1)
            alone_ns = round((new * layer.load_s + (1 - new) * there_s) * NS)
            wait_ns = self._still_read_ns(task) if mapped else 0.0
            touched = new_bytes
        self._running.append(_Running(task, self.now_ns(), wait_ns, alone_ns, alone_ns, touched))
        self._kill_above_limit()
        self._share()

    def _kill_above_limit(self) -> None:
        """Stop the run where the kernel would have killed the process.

        Raises:
            SimulatedKillError: it holds more of its own than fits into memory and swap.
        """
        memory_bytes, swap_bytes = self._machine.memory_bytes, self._machine.swap_bytes
        if memory_bytes is None or swap_bytes is None:
            return
        mapped_bytes = self.memory.by_kind["weights"] - self._own_weights_bytes
        own_bytes = self.memory.held_bytes - mapped_bytes
        if own_bytes > memory_bytes + swap_bytes:
            raise SimulatedKillError(
                f"the run would be ended by its memory limit: the kernel kills a process that holds "
                f"{format_bytes(own_bytes)} of its own with {format_bytes(memory_bytes)} of "
                f"memory for it and {format_bytes(swap_bytes)} of swap",
                "give it more memory, or a policy that needs less; rows until then are kept",
            )

    def _still_read_ns(self, load: LayerTask) -> float:
        """Return the time, alone, until another load of the same weights ends, ns."""
        which = ("load", load.network, load.layer)
        same = (each for each in self._running if (each.task.kind, each.task.network, each.task.layer) == which)
        return max((max(each.wait_ns, 0.0) + each.left_ns for each in same), default=0.0)

    def _release(self, copy: str, index: int) -> bool:
        """Release weights; return whether their memory is free now, which another copy or layer may share."""
        layer = self._networks[self._loaded_from.pop((copy, index))].layers[index]
        before_bytes = self.memory.by_kind["weights"]
        self.memory.unload(copy, index)
        freed_bytes = before_bytes - self.memory.by_kind["weights"]
        self._own_weights_bytes -= freed_bytes if layer.mapped_load_s is None else 0
        return bool(freed_bytes)

    def _execute_s(self, task: LayerTask, layer: Layer) -> float:
        """Return the time of an execution alone, s; the first of a layer may take longer."""
        if layer.first_execute_s is None or (task.network, task.layer) in self._executed:
            return layer.execute_s
        self._executed.add((task.network, task.layer))
        return layer.first_execute_s

    def unload(self, copy: str, layer: int) -> None:
        """Release weights; the loop is busy meanwhile, and tasks that end wait for it."""
        self._progress()
        unload_s = self._networks[self._loaded_from[copy, layer]].layers[layer].unload_s
        if self._release(copy, layer):
            self._share()
            until_ns = self.now_ns() + round(unload_s * NS)
            while self.now_ns() < until_ns:
                self._ended += self._advance(until_ns)

    def drop(self, request: Request) -> None:
        """Drop everything that is left of a request."""
        self._progress()
        self.memory.close(request.number)
        self._share()

    def wait(self, until_ns: int | None) -> Sequence[FinishedTask]:
        """Advance the clock until a task ends or to ``until_ns``; return the tasks that ended."""
        ended, self._ended = self._ended, []
        while not ended and (self._running or until_ns is not None):
            ended = self._advance(until_ns)
            if until_ns is not None and self.now_ns() >= until_ns:
                break
        return ended

    def _advance(self, until_ns: int | None) -> list[FinishedTask]:
        """Advance the clock to the next event, ``until_ns`` at the latest; return the tasks that end then."""
        self._clock.advance(until_ns, self._next_ns())
        return self._end()

    def _progress(self) -> None:
        """Subtract the work done since the last call."""
        now_ns = self.now_ns()
        passed_ns, self._progress_ns = now_ns - self._progress_ns, now_ns
        if passed_ns:
            for running, rate in zip(self._running, self._rates, strict=True):
                if running.wait_ns > 0:
                    running.wait_ns -= passed_ns
                    if running.wait_ns <= _ROUNDING_NS:  # the clock, in whole ns, would never come to the rest
                        running.wait_ns = 0.0
                else:
                    running.left_ns -= passed_ns * rate

    def _next_ns(self) -> int | None:
        """Return when the first running task has waited or ends at the present speeds; ``None`` where none runs."""
        if not self._running:
            return None
        least_ns = min(
            running.wait_ns if running.wait_ns > 0 else running.left_ns / rate
            for running, rate in zip(self._running, self._rates, strict=True)
        )
        return self._progress_ns + max(math.ceil(least_ns - _ROUNDING_NS), 0)

    def _end(self) -> list[FinishedTask]:
        self._progress()
        ended = [each for each in self._running if each.wait_ns <= 0 and each.left_ns <= _ROUNDING_NS]
        self._running = [each for each in self._running if each not in ended]
        done = [self._done(running) for running in ended]
        self._share()
        return done

    def _done(self, running: _Running) -> FinishedTask:
        """Return a finished task, and release the memory that only it needed."""
        task, failure = running.task, self._fault(running.task)
        if task.kind == "execute":
            self.memory.end(task)
        elif failure is not None:
            self._release(task.copy, task.layer)
        return FinishedTask(task, running.start_ns, self.now_ns(), failure)

    def _share(self) -> None:
        """Compute the speed of each running task.

        Loads share storage: each of n gets min(1, streams / n) of what it gets alone. Executions share cores: each of n
        gets min(1, cores / n).
        """
        loads = sum(each.task.kind == "load" for each in self._running if each.wait_ns <= 0)
        executions = sum(each.task.kind == "execute" for each in self._running if each.wait_ns <= 0)
        loading = min(1.0, self._machine.streams / loads) if loads else 1.0
        executing = min(1.0, self._machine.cores / executions) if executions else 1.0
        self._rates = [
            (loading if each.task.kind == "load" else executing) * self._unpaged(each) for each in self._running
        ]

    def _unpaged(self, running: _Running) -> float:
        """Return the speed of a task with the memory that is held now, relative to its speed if everything fitted."""
        limit_bytes, held_bytes, paging = self._machine.memory_bytes, self.memory.held_bytes, self._machine.paging
        if limit_bytes is None or held_bytes <= limit_bytes or not running.alone_ns:
            return 1.0
        extra_s = paging.extra_s(running.touched_bytes, held_bytes, limit_bytes)
        layer = self._networks[running.task.network].layers[running.task.layer]
        if layer.mapped_load_s is not None:  # pages of files are what leaves: nothing is written, and read again
            extra_s = min(extra_s, paging.share_gone(held_bytes, limit_bytes) * layer.load_s)
        return running.alone_ns / (running.alone_ns + extra_s * NS)


def _touched_bytes(network: LayeredNetwork, index: int) -> int:
    """Return the bytes that an execution touches: weights, inputs, outputs and scratch."""
    layer = network.layers[index]
    read = (
        sum(network.layers[producer].output_bytes for producer in layer.after) if layer.after else network.input_bytes
    )
    return layer.weight_bytes + read + layer.output_bytes + layer.scratch_bytes


@dataclass(frozen=True, slots=True)
class ScheduleSimulation:
    """The outcome of a simulated run.

    Args:
        records: Of every task, request and budget, in the order in which they ended.
        networks: As the policy took them: records number their layers.
        overhead: The real time of decisions.
        peak_bytes: The most memory held at once.
        killed: Why the kernel would have ended it; ``None`` where it would not.
    """

    records: tuple[Record, ...]
    networks: Mapping[str, LayeredNetwork]
    overhead: DecisionOverhead
    peak_bytes: int
    killed: SimulatedKillError | None = None


@dataclass(frozen=True, slots=True)
class SimulationCase:
    """The networks, requests and machine of a simulation by any policy.

    Args:
        networks: The networks with their real bytes and times, by name.
        requests: In the order of arrival.
        budget_bytes: The memory budget.
        workers: Number of tasks that can run at once.
        machine: The resources that tasks share.
        believed: The networks with the bytes and times that loop and policy assume; ``None`` for the real ones.
    """

    networks: Mapping[str, LayeredNetwork]
    requests: Sequence[Request]
    budget_bytes: int
    workers: int
    machine: Machine
    believed: Mapping[str, LayeredNetwork] | None = None


def simulate(
    policy: SchedulePolicy, case: SimulationCase, stopped: Callable[[], bool] = lambda: False
) -> ScheduleSimulation:
    """Run requests on the event clock.

    Args:
        policy: A new policy; it may keep state.
        case: The networks, requests and machine.
        stopped: Asked between events; once true, running tasks are finished and other requests abandoned.

    Raises:
        InfeasibleError: the budget is too small for a network; the smallest that works is named.
        EdgetuneError: the policy chose what it must not.
    """
    taken = taken_by(policy, case.networks if case.believed is None else case.believed)
    backend = SimulatedTaskBackend(EventClock(), taken_by(policy, case.networks), machine=case.machine)
    records: list[Record] = []
    parallelism = Parallelism(case.workers, case.machine.cores, case.machine.streams)
    loop = ScheduleLoop(
        policy, backend, taken, case.requests, budget_bytes=case.budget_bytes, parallelism=parallelism,
        supervision=Supervision(stopped, on_record=records.append),
    )  # fmt: skip
    killed = None
    try:
        loop.run()
    except SimulatedKillError as kill:  # requests without an answer are not recorded, as by a process that is gone
        killed = kill
        killed.at_ns = backend.now_ns()
        records = [each for each in records if not isinstance(each, RequestRecord) or each.outcome != "abandoned"]
    return ScheduleSimulation(tuple(records), taken, loop.overhead, backend.memory.peak_bytes, killed)
