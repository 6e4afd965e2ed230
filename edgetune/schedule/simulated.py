"""A stage on an event clock: the same loop and policies, without a network, and faster than time.

storage   load A ----+--- A and B at half speed ---+---- B      loads share what storage delivers
cores     execute C ----------------------------- C             executions share cores where these are fewer
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgetune.schedule.ledger import Ledger
from edgetune.schedule.network import Network
from edgetune.schedule.paging import FITS, Paging
from edgetune.schedule.request import Request
from edgetune.schedule.stage import Done
from edgetune.schedule.view import Task
from edgetune.sim.clock import EventClock
from edgetune.units import NS

_ROUNDING_NS = 1e-3
"""Work left that is none: a thousandth of a nanosecond is far above the error of adding up times of hours."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What tasks share.

    Args:
        cores: How many executions run at full speed at once.
        streams: How many loads run at full speed at once; more share what storage delivers.
        load_cpu: Share of a load's time alone that a core is busy with it, 0 to 1; the rest waits for storage.
        dispatch_s: From the start of a task until it is under way, in which it shares nothing, s.
        memory_bytes: What can really be in memory; ``None`` where that is without end.
        paging: What it costs to hold more.
    """

    cores: int
    streams: float = 1.0
    load_cpu: float = 0.0
    dispatch_s: float = 0.0
    memory_bytes: int | None = None
    paging: Paging = FITS


@dataclass(slots=True, eq=False)
class _Running:
    """A task under way: what is left of its time alone, of which the part before dispatch is over shares nothing."""

    task: Task
    worker: int
    start_ns: int
    dispatch_ns: float
    left_ns: float
    alone_ns: int
    touched_bytes: int


class SimulatedStage:
    """A stage without workers; see ``stage.Stage``.

    Args:
        clock: Tells the time and moves on when the loop waits; other things may happen on it too.
        networks: What is really there and really takes its time, by name: the loop may believe something else.
        budget_bytes: What may be held at first.
        machine: What tasks share.
        fault: Why a task fails when it ends; ``None`` where it does not.
    """

    def __init__(
        self,
        clock: EventClock,
        networks: Mapping[str, Network],
        *,
        budget_bytes: int,
        machine: Machine,
        fault: Callable[[Task], str | None] = lambda _: None,
    ) -> None:
        self.ledger = Ledger(networks)
        """What is physically held."""
        self._clock, self._networks, self._machine, self._fault = clock, networks, machine, fault
        self._budget_bytes = budget_bytes
        self._running: list[_Running] = []
        self._rates: list[float] = []
        """How fast each of those that run comes on, until anything begins, ends or is released."""
        self._progress_ns = clock.now_ns()

    def now_ns(self) -> int:
        """Return simulated time, ns."""
        return self._clock.now_ns()

    def budget_bytes(self) -> int:
        """Return what may be held now."""
        return self._budget_bytes

    def set_budget(self, budget_bytes: int) -> None:
        """Have another budget from now on: others on the machine need memory, or need it no more."""
        self._budget_bytes = budget_bytes

    def start(self, task: Task, worker: int) -> None:
        """Begin a load or an execution."""
        self._progress()
        self.ledger.begin(task)
        network = self._networks[task.network]
        layer = network.layers[task.layer]
        alone_ns = round((layer.load_s if task.kind == "load" else layer.execute_s) * NS)
        dispatch_ns = self._machine.dispatch_s * NS
        touched = layer.weight_bytes if task.kind == "load" else _touched_bytes(network, task.layer)
        self._running.append(_Running(task, worker, self.now_ns(), dispatch_ns, alone_ns, alone_ns, touched))
        self._share()

    def unload(self, copy: str, layer: int) -> None:
        """Release weights."""
        self._progress()
        self.ledger.unload(copy, layer)
        self._share()

    def finish(self, request: Request) -> None:
        """Hand over an answer, and drop what is left of its request."""
        self.abandon(request)

    def abandon(self, request: Request) -> None:
        """Drop everything a request has computed so far."""
        self._progress()
        self.ledger.close(request.number)
        self._share()

    def wait(self, until_ns: int | None) -> Sequence[Done]:
        """Move the clock on until anything is over or it is ``until_ns``; return what is over."""
        while until_ns is not None or self._running:
            known = [at_ns for at_ns in (until_ns, self._next_ns(), self._clock.next_ns()) if at_ns is not None]
            self._clock.run_until(min(known))
            ended = self._end()
            if ended or (until_ns is not None and self.now_ns() >= until_ns):
                return ended
        return []

    def _progress(self) -> None:
        """Take off what was done since the last time."""
        now_ns = self.now_ns()
        passed_ns, self._progress_ns = now_ns - self._progress_ns, now_ns
        if passed_ns:
            for running, rate in zip(self._running, self._rates, strict=True):
                if running.dispatch_ns > 0:
                    running.dispatch_ns -= passed_ns
                else:
                    running.left_ns -= passed_ns * rate

    def _next_ns(self) -> int | None:
        """Return when the first of those that run is under way or over, as they share now."""
        if not self._running:
            return None
        least_ns = min(
            running.dispatch_ns if running.dispatch_ns > 0 else running.left_ns / rate
            for running, rate in zip(self._running, self._rates, strict=True)
        )
        return self._progress_ns + max(math.ceil(least_ns - _ROUNDING_NS), 0)

    def _end(self) -> list[Done]:
        self._progress()
        ended = [each for each in self._running if each.dispatch_ns <= 0 and each.left_ns <= _ROUNDING_NS]
        self._running = [each for each in self._running if each not in ended]
        done = [self._done(running) for running in ended]
        self._share()
        return done

    def _done(self, running: _Running) -> Done:
        """Return how a task ended, with what only it needed returned."""
        task, failure = running.task, self._fault(running.task)
        if task.kind == "execute":
            self.ledger.end(task)
        elif failure is not None:
            self.ledger.unload(task.copy, task.layer)
        return Done(task, running.worker, running.start_ns, self.now_ns(), failure)

    def _share(self) -> None:
        """Work out how fast each of those that run comes on.

        Loads share storage: each of n gets min(1, streams / n) of what it gets alone. Cores are shared by executions
        and by the part of loads that keeps them busy: each gets min(1, cores / wanted). A load that waits for storage
        a part of its time, and computes in the other, takes the sum of both at these speeds.
        """
        machine = self._machine
        loads = sum(each.task.kind == "load" for each in self._running if each.dispatch_ns <= 0)
        executions = sum(each.task.kind == "execute" for each in self._running if each.dispatch_ns <= 0)
        wanted = executions + loads * machine.load_cpu
        computing = min(1.0, machine.cores / wanted) if wanted else 1.0
        storage = min(1.0, machine.streams / loads) if loads else 1.0
        loading = 1 / ((1 - machine.load_cpu) / storage + machine.load_cpu / computing)
        self._rates = [
            (loading if each.task.kind == "load" else computing) * self._unpaged(each) for each in self._running
        ]

    def _unpaged(self, running: _Running) -> float:
        """Return how fast a task comes on with what is held now, where it came on at 1 if everything fitted."""
        limit_bytes, held_bytes = self._machine.memory_bytes, self.ledger.held_bytes
        if limit_bytes is None or held_bytes <= limit_bytes or not running.alone_ns:
            return 1.0
        extra_ns = self._machine.paging.extra_s(running.touched_bytes, held_bytes, limit_bytes) * NS
        return running.alone_ns / (running.alone_ns + extra_ns)


def _touched_bytes(network: Network, index: int) -> int:
    """Return what an execution goes through: weights, inputs, outputs and scratch."""
    layer = network.layers[index]
    read = (
        sum(network.layers[producer].output_bytes for producer in layer.after) if layer.after else network.input_bytes
    )
    return layer.weight_bytes + read + layer.output_bytes + layer.scratch_bytes
