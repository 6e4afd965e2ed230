"""The loop that shares a GPU among tasks: it takes requests, asks the policy, launches kernels and records them.

    arrivals -> states -> policy.decide(view) -> Launch -> backend -> events -> records

The same loop and policies run on the simulated GPU and on a real one; only the backend differs. The loop asks the
policy until it decides nothing more, then waits for a start, an end or an arrival.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.errors import EdgetuneError, InputError, blaming
from edgetune.serving.arrivals import parse_arrivals
from edgetune.serving.clock import UNSUPERVISED, Supervision, earliest_ns
from edgetune.serving.requests import DecisionOverhead, Outcome
from edgetune.stages.elastic.gpu import Gpu, GpuTask
from edgetune.stages.elastic.kernel import NO_QUOTA, PER_THREAD
from edgetune.stages.elastic.tasks import TaskProgress
from edgetune.stages.elastic.view import (
    Decision,
    ElasticPolicy,
    GpuBackend,
    Launch,
    LaunchEvent,
    LaunchPiece,
    LaunchRecord,
    Record,
    RequestRecord,
    SetQuota,
    View,
)
from edgetune.units import NS

_SLICE_NS = 10_000_000
"""Of the backend's time between two checks whether the run was stopped: a simulation takes about as long."""


@dataclass(slots=True)
class _InFlight:
    launch: Launch
    launched_ns: int
    started_ns: int | None = None


class ElasticLoop:
    """One run of tasks on a backend.

    When time is up, the loop waits for the launches in flight and abandons requests without an answer; of a stopped
    simulation it waits for nothing. A launch that fails ends its request, which gets no more launches; the task goes on
    with the next one.

    Args:
        policy: Decides what is launched.
        backend: Launches it.
        tasks: Their names are unique.
        gpu: Limits of the backend, for policies.
        duration_s: How long requests come, s.
        seed: Of random arrivals.
        supervision: Once stopped, the run ends as if time were up.

    Raises:
        InputError: arrivals are unknown or come from standard input.
    """

    def __init__(
        self,
        policy: ElasticPolicy,
        backend: GpuBackend,
        tasks: Sequence[GpuTask],
        *,
        gpu: Gpu,
        duration_s: float,
        seed: int = 0,
        supervision: Supervision[Record] = UNSUPERVISED,
    ) -> None:
        check_tasks(tasks)
        self.launches: list[LaunchRecord] = []
        self.requests: list[RequestRecord] = []
        begin_ns = backend.now_ns()
        self._policy, self._backend, self._gpu = policy, backend, gpu
        self._end_ns = begin_ns + round(duration_s * NS)
        self._stopped, self._poll_interval_ns = supervision.stopped, supervision.poll_interval_ns
        self._on_record = supervision.on_record
        self._progress = {
            task.name: TaskProgress(
                task, parse_arrivals(task.arrivals).source(begin_ns, self._end_ns, seed=(seed, place))
            )
            for place, task in enumerate(tasks)
        }
        self._in_flight: dict[int, _InFlight] = {}
        self._resident: dict[int, Launch] = {}
        self._number = 0
        self.overhead = DecisionOverhead()

    def run(self) -> None:
        """Run until time is up and every launch has ended; all records are there then.

        Raises:
            EdgetuneError: the policy decided something illegal, or nothing although nothing runs and requests wait.
        """
        reason = "the run broke down"
        try:
            while self._turn():
                pass
            for each in self._progress.values():
                if each.quota != NO_QUOTA:  # or persistent launches might wait for blocks for ever
                    self._backend.set_quota(each.task.name, NO_QUOTA)
            while self._in_flight and not (self._poll_interval_ns is None and self._stopped()):
                self._take_events(self._backend.wait(self._backend.now_ns() + _SLICE_NS))
            self._take_requests()
            reason = "the run ended before it was answered"
        finally:
            self._abandon(reason)

    def _turn(self) -> bool:
        """Take in requests, launch what the policy decides, wait; return whether the run goes on."""
        now_ns = self._take_requests()
        if self._stopped() or now_ns >= self._end_ns:
            return False
        self._decide()
        coming_ns = earliest_ns(each.source.next_ns() for each in self._progress.values() if not each.source.ended)
        if not self._in_flight and coming_ns is None:
            waiting = sum(len(each.arrived_ns) + len(each.open) for each in self._progress.values())
            if waiting and not self._stopped():
                message = f"policy {self._policy.name} launches nothing while nothing runs and {waiting} requests wait"
                raise EdgetuneError(message, "the policy is at fault: choose another")
            return False
        until_ns = self._end_ns if coming_ns is None else min(coming_ns, self._end_ns)
        if self._poll_interval_ns is not None:
            until_ns = min(until_ns, self._backend.now_ns() + self._poll_interval_ns)
        self._take_events(self._wait(until_ns))
        return True

    def _wait(self, until_ns: int) -> Sequence[LaunchEvent]:
        """Wait for the next event; a kernel of millions of blocks takes long to simulate."""
        while True:
            events = self._backend.wait(min(until_ns, self._backend.now_ns() + _SLICE_NS))
            if events or self._backend.now_ns() >= until_ns or self._stopped():
                return events

    def _take_requests(self) -> int:
        """Take in the requests that have arrived; return the time."""
        now_ns = self._backend.now_ns()
        for each in self._progress.values():
            if not each.source.ended:
                idle = each.idle
                each.arrived_ns.extend(each.source.take(now_ns))
                if idle and each.arrived_ns and each.arrived_ns[0] > each.idle_since_ns:
                    self._join(each)
        return now_ns

    def _join(self, progress: TaskProgress) -> None:
        """Let a task that was idle begin at the service of its busy equals: it has no claim on the time before.

        As in start-time fair queueing (Goyal, Vin and Cheng 1997, IEEE/ACM Trans. Networking 5).
        """
        equals = [each for each in self._progress.values() if each.task.priority == progress.task.priority]
        busy_s = [each.served_s for each in equals if each is not progress and not each.idle]
        if busy_s:
            progress.served_s = max(progress.served_s, min(busy_s))

    def _decide(self) -> None:
        """Launch what the policy decides until it decides nothing, or the run is stopped.

        Requests are taken in between, so that a critical one waits for one decision at most.
        """
        states = list(self._progress.values())
        while True:
            view = View(self._backend.now_ns(), self._gpu, states, list(self._resident.values()))
            begun_s = time.perf_counter()
            decisions = self._policy.decide(view)
            self.overhead.add(time.perf_counter() - begun_s)
            self._backend.decided()
            if not decisions:
                return
            for decision in decisions:
                if self._stopped():
                    return
                self._execute(decision)
            self._take_requests()

    def _execute(self, decision: Decision) -> None:
        progress = self._progress.get(decision.task)
        if progress is None:
            raise self._illegal(decision, "which is no task of this run")
        if isinstance(decision, SetQuota):
            progress.quota = decision.blocks
            self._backend.set_quota(decision.task, decision.blocks)
            return
        if progress.request is None and not progress.arrived_ns:
            raise self._illegal(decision, "of which no request waits")
        if isinstance(decision, LaunchPiece):
            self._check_piece(decision, progress)
            self._launch(progress, decision)
            return
        if progress.request is not None:
            raise self._illegal(decision, "of which a request is being launched piece by piece")
        for call in progress.task.network.calls:
            self._launch(progress, LaunchPiece(decision.task, call.logical.blocks))

    def _check_piece(self, piece: LaunchPiece, progress: TaskProgress) -> None:
        """Refuse a piece with blocks that are launched already, no blocks, or an impossible shape."""
        call = progress.task.network.calls[progress.call]
        blocks = call.logical.blocks
        if not 1 <= piece.count <= progress.left:
            raise self._illegal(piece, f"which has {progress.left} logical blocks left")
        if piece.per_thread not in PER_THREAD or (piece.blocks is not None and piece.blocks < 1):
            raise self._illegal(piece, "a shape that does not exist")
        if piece.persistent and not (call.persistent and piece.blocks and piece.per_thread == 1):
            raise self._illegal(piece, "as a persistent form that does not exist")
        if piece.persistent and piece.count != progress.left:
            raise self._illegal(piece, f"as a persistent form, which takes all of its {progress.left} blocks")
        if piece.blocks is None and (piece.count != blocks or piece.per_thread != 1):
            raise self._illegal(piece, f"as the original kernel, which takes all of its {blocks} blocks as they are")

    def _launch(self, progress: TaskProgress, piece: LaunchPiece) -> None:
        now_ns, number, place = self._backend.now_ns(), self._number, progress.call
        request, first = progress.take(piece.count, now_ns)
        launch = Launch(
            number, piece.task, request.number, place, progress.task.network.calls[place], first, piece.count,
            piece.per_thread, piece.blocks, piece.after, piece.persistent,
        )  # fmt: skip
        self._number += 1
        progress.in_flight.append(launch)
        self._in_flight[number] = in_flight = _InFlight(launch, now_ns)
        self._backend.launch(launch)
        in_flight.launched_ns = self._backend.now_ns()

    def _take_events(self, events: Sequence[LaunchEvent]) -> None:
        for event in events:
            in_flight = self._in_flight[event.launch]
            if event.kind == "started":
                in_flight.started_ns = event.at_ns
                self._resident[event.launch] = in_flight.launch
            else:
                self._end(in_flight, event)

    def _end(self, in_flight: _InFlight, event: LaunchEvent) -> None:
        launch, started_ns = in_flight.launch, in_flight.started_ns
        del self._in_flight[launch.number]
        self._resident.pop(launch.number, None)
        self._write(LaunchRecord(launch, in_flight.launched_ns, started_ns, event.at_ns, event.failure))
        progress = self._progress[launch.task]
        if started_ns is not None:
            progress.served_s += (event.at_ns - started_ns) / NS
        failure = None if event.failure is None else f"kernel {launch.what.kernel}: {event.failure}"
        request = progress.end(launch, failure, event.at_ns)
        if request.over:  # nothing of it runs any more
            del progress.open[request.number]
            ended_ns = event.at_ns if request.failure is None else request.failed_ns
            outcome: Outcome = "ok" if request.failure is None else "failed"
            times_ns = request.arrived_ns, request.begun_ns, ended_ns
            self._write(RequestRecord(progress.task, request.number, *times_ns, outcome, request.failure))
            progress.source.answered([request.number], event.at_ns)
            if progress.idle:
                progress.idle_since_ns = event.at_ns

    def _abandon(self, reason: str) -> None:
        """Record every request that is left."""
        now_ns = self._backend.now_ns()
        for progress in self._progress.values():
            for request in progress.open.values():
                times_ns, why = (request.arrived_ns, request.begun_ns, now_ns), request.failure or reason
                self._write(RequestRecord(progress.task, request.number, *times_ns, "abandoned", why))
            progress.open.clear()
            while progress.arrived_ns:
                number, arrived_ns = progress.drop()
                self._write(RequestRecord(progress.task, number, arrived_ns, None, now_ns, "abandoned", reason))

    def _write(self, record: Record) -> None:
        if isinstance(record, LaunchRecord):
            self.launches.append(record)
        else:
            self.requests.append(record)
        self._on_record(record)

    def _illegal(self, decision: Decision, why: str) -> EdgetuneError:
        what = f"{decision.count} logical blocks" if isinstance(decision, LaunchPiece) else "all kernels"
        message = f"policy {self._policy.name} decided to launch {what} of {decision.task}, {why}"
        return EdgetuneError(message, "the policy is at fault: choose another")


def check_tasks(tasks: Sequence[GpuTask]) -> None:
    """Check that tasks can run together.

    Raises:
        InputError: a critical one may not use all multiprocessors, or arrivals are unknown or come from standard input.
    """
    for task in tasks:
        if task.critical and task.sms is not None:
            message = f"task {task.name} is critical, and sms: {task.sms} leaves it a part of the multiprocessors"
            raise InputError(message, "sms is for best-effort tasks")
        with blaming(f"task {task.name}"):
            if parse_arrivals(task.arrivals).kind == "live":
                hint = "write closed, uniform:10/s, poisson:10/s or trace:FILE"
                raise InputError("arrivals cannot come from standard input", hint)
