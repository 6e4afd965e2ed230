"""The loop that shares a device: it takes requests, asks the policy, starts minibatches and records rows.

    requests -> queues -> policy.decide(snapshot) -> backend.start(minibatch) -> backend.wait() -> rows

The same loop runs on a device and on an event clock; only the backend differs. It decides at the ends of minibatches
and when requests arrive, never in the middle of a minibatch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.run import RunRow
from edgetune.serving.clock import earliest_ns
from edgetune.serving.requests import ArrivalSource, LineArrivals, Outcome
from edgetune.stages.interleave.backend import (
    FinishedMinibatch,
    Inference,
    Minibatch,
    MinibatchBackend,
    Tenant,
    Training,
)
from edgetune.stages.interleave.state import (
    DurationEstimate,
    InferenceTenant,
    InterleavePolicy,
    Serve,
    Snapshot,
    Train,
    TrainingTenant,
    Wait,
)
from edgetune.units import NS


class Watcher:
    """Called from time to time during a run: a power sensor, a planner for changing rates.

    This one does nothing.
    """

    def due_ns(self) -> int | None:
        """Return when to call ``poll`` next; ``None`` for never."""
        return None

    def poll(self, now_ns: int, loop: InterleaveLoop) -> None:
        """Observe the run, and change batch sizes, estimates or the mode."""

    def on_arrival(self, tenant: str, at_ns: int) -> None:
        """Note a request when it arrives, long before it has a row."""

    def on_row(self, row: RunRow) -> None:
        """Note a row that was just recorded."""


@dataclass(frozen=True, slots=True)
class SharingOverhead:
    """The cost of sharing.

    Args:
        decisions_s: Duration of each decision, its snapshot included, s.
        gaps_s: Device time lost while work was ready, from the end of one minibatch to the start of the next, s in all.
        minibatches: How many were started.
    """

    decisions_s: Sequence[float]
    gaps_s: float
    minibatches: int


@dataclass(frozen=True, slots=True)
class EngineTurn:
    """One turn of an engine.

    Args:
        engine: Name of the engine, for the rows.
        end_ns: End of the turn, on the backend's clock; requests that wait then are answered, those from standard
            input abandoned.
        number: Turns of this engine before, see ``RunRow``.
        stopped: Called often; once true, running minibatches are finished and waiting requests are abandoned.
        begin_ns: Begin of the turn, from which the times of rows count; ``None`` is the time when the loop is made.
    """

    engine: str
    end_ns: int
    number: int = 0
    stopped: Callable[[], bool] = lambda: False
    begin_ns: int | None = None


class InterleaveLoop:
    """Runs tenants on a backend for one turn.

    Args:
        turn: Its engine and its end.
        backend: Runs minibatches.
        policy: Decides.
        tenants: Workloads that share the device.
        sources: Requests of each inference tenant, by name.
        watchers: Called from time to time.
    """

    def __init__(
        self,
        turn: EngineTurn,
        backend: MinibatchBackend,
        policy: InterleavePolicy,
        tenants: Sequence[Tenant],
        sources: Mapping[str, ArrivalSource],
        *,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        self.rows: list[RunRow] = []
        self._turn, self._backend, self._policy, self._watchers = turn, backend, policy, watchers
        self._begin_ns = backend.now_ns() if turn.begin_ns is None else turn.begin_ns
        self._served = {t.name: InferenceTenant(t, sources[t.name]) for t in tenants if isinstance(t, Inference)}
        self._trained = {t.name: TrainingTenant(t) for t in tenants if isinstance(t, Training)}
        self._tenants: dict[str, InferenceTenant | TrainingTenant] = {**self._served, **self._trained}
        self._unwritten: deque[tuple[FinishedMinibatch, Tenant, Sequence[tuple[int, int]]]] = deque()
        """Minibatches that have ended and are not in ``rows`` yet, each with its tenant as it was, and requests."""
        self._paused = False
        self._decisions_s: list[float] = []
        self._gaps_ns = 0
        self._free_since_ns: int | None = None
        """Since when the device is idle; ``None`` while it is busy or no work was ready."""
        self._followed: dict[Minibatch, int | None] = {}
        """Minibatches sent to begin at once or behind another, with the time since when the device is free for them."""
        self._ended_ns = self._begin_ns
        """When the last minibatch ended."""

    @property
    def overhead(self) -> SharingOverhead:
        """The cost of sharing up to now."""
        started = sum(state.next_minibatch for state in self._tenants.values())
        return SharingOverhead(self._decisions_s, self._gaps_ns / NS, started)

    def run(self) -> None:
        """Run until the end; every request and every training step has a row afterwards, also where this raises."""
        try:
            while self._step():
                pass
            self.settle()
        finally:
            self._write()
            for served in self._served.values():
                running = [request for taken in served.on_device.values() for request in taken]
                served.on_device.clear()
                self._abandon(served, (*running, *served.waiting.take_all()))

    def _step(self) -> bool:
        """Take requests, call watchers, start a minibatch or wait; return whether the run goes on."""
        now_ns, over = self._backend.now_ns(), self.over
        self._take_requests(min(now_ns, self._turn.end_ns))
        for watcher in () if over else self._watchers:
            due_ns = watcher.due_ns()
            if due_ns is not None and due_ns <= now_ns:
                self._write()
                watcher.poll(now_ns, self)
        for served in self._served.values():
            if over and isinstance(served.source, LineArrivals):
                self._abandon(served, served.waiting.take_all())
        answers = any(not (served.lost or served.source.ended) for served in self._served.values())
        ends = over or (not answers and all(trained.lost for trained in self._trained.values()))
        return not (self._turn.stopped() or (ends and not self._waiting())) and self._decide(over=over)

    def tenant(self, name: str) -> Tenant:
        """Return a tenant as it is now."""
        return self._tenants[name].tenant

    def rebatch(self, name: str, batch_size: int, minibatch_s: float) -> None:
        """Run a tenant at a batch size from now on, and expect its minibatches to take this long, s.

        Raises:
            InputError: the tenant cannot run at this batch size; nothing is changed.
        """
        state: Any = self._tenants[name]
        if batch_size != state.tenant.batch_size:
            self.settle()
            self._backend.prepare(name, batch_size)
            state.tenant = replace(state.tenant, batch_size=batch_size, minibatch_s=minibatch_s)
        self.re_estimate(name, minibatch_s)

    def re_estimate(self, name: str, minibatch_s: float) -> None:
        """Expect a tenant's minibatches to take this long from now on, s, because the mode has changed."""
        state = self._tenants[name]
        state.estimate = DurationEstimate(round(minibatch_s * NS))
        if isinstance(state, TrainingTenant):
            state.idle_ns = 0

    def pause_training(self, *, paused: bool) -> None:
        """Start no training minibatch from now on, or start them again."""
        self._paused = paused

    def apply(self, mode: Mode) -> Mode:
        """Set a power mode between minibatches and return it as read back.

        Raises:
            DeviceError: see ``MinibatchBackend.apply``.
        """
        self.settle()
        return self._backend.apply(mode)

    def settle(self) -> None:
        """Wait until nothing runs."""
        while self._busy():
            self._finish(self._backend.wait(None))
        self._write()

    @property
    def lost(self) -> list[str]:
        """Tenants that could not go on."""
        return [name for name, state in self._tenants.items() if state.lost]

    @property
    def probed(self) -> dict[str, list[float]]:
        """Durations of the training minibatches that ran to learn how long they take, s."""
        return {name: [*state.probes.values()] for name, state in self._trained.items() if state.probes}

    @property
    def over(self) -> bool:
        """Whether time is up or a stop was requested."""
        return self._backend.now_ns() >= self._turn.end_ns or self._turn.stopped()

    def now_ns(self) -> int:
        """Return the time of the backend's clock, ns."""
        return self._backend.now_ns()

    def record(self, row: RunRow) -> None:
        """Record a row as it is."""
        self.rows.append(row)
        for watcher in self._watchers:
            watcher.on_row(row)

    def row(self, at_ns: int) -> RunRow:
        """Return a row of this run at a time of the backend's clock, to be completed with ``replace``."""
        return RunRow(self._turn.engine, "plan", self._since(at_ns), turn=self._turn.number)

    def _decide(self, *, over: bool) -> bool:
        """Do what the policy decides; return whether anything is left to wait for."""
        begun_s = time.perf_counter()
        now_ns = self._backend.now_ns()
        decision = self._policy.decide(self._snapshot(now_ns, over=over))
        self._decisions_s.append(time.perf_counter() - begun_s)
        if not isinstance(decision, Wait):
            self._start(decision, now_ns)
            return True
        self._free_since_ns = None
        self._write()
        times_ns = [decision.until_ns]
        if not over:
            times_ns.append(self._turn.end_ns)
            times_ns += [served.source.next_ns() for served in self._served.values() if not served.lost]
            times_ns += [watcher.due_ns() for watcher in self._watchers]
        until_ns = earliest_ns(times_ns)
        if until_ns is None and not self._busy():
            return False
        self._wait(until_ns, resting=over or self._paused)
        return True

    def _wait(self, until_ns: int | None, *, resting: bool) -> None:
        """Wait, and count the time in which the device is idle and might train."""
        idle, since_ns = not (resting or self._busy()), self._backend.now_ns()
        ended = self._backend.wait(until_ns)
        if idle:
            for trained in self._trained.values():
                trained.idle_ns += self._backend.now_ns() - since_ns
        self._finish(ended)

    def _start(self, decision: Serve | Train, now_ns: int) -> None:
        state = self._tenants[decision.tenant]
        number = state.next_minibatch
        taken: tuple[tuple[int, int], ...] = ()
        state.next_minibatch += 1
        task = state.tenant.task if isinstance(state.tenant, Training) else "infer"
        minibatch = Minibatch(decision.tenant, task, number, begin_by_ns=decision.begin_by_ns)
        if isinstance(state, InferenceTenant) and isinstance(decision, Serve):
            taken = state.waiting.take(decision.count, decision.passed)
            minibatch = replace(minibatch, requests=tuple(request for request, _ in taken))
        elif isinstance(state, TrainingTenant) and isinstance(decision, Train) and decision.probe:
            state.probes[number] = 0.0
        if self._free_since_ns is not None or minibatch.begin_by_ns is not None:
            self._followed[minibatch] = self._free_since_ns
        self._free_since_ns = None
        self._backend.start(minibatch)
        state.since_ns.append(now_ns)
        if isinstance(state, InferenceTenant):
            state.on_device[number] = taken

    def _finish(self, ended: Sequence[FinishedMinibatch]) -> None:
        for done in ended:
            state = self._tenants[done.minibatch.tenant]
            taken: tuple[tuple[int, int], ...] = ()
            state.since_ns.pop(0)
            state.lost |= done.lost
            if done.failure is None and not done.failed:  # what failed was run again: no measure of the next
                state.estimate.observe(done.end_ns - done.start_ns, done.end_ns)
            if isinstance(state, InferenceTenant):
                taken = state.on_device.pop(done.minibatch.number)
                if not state.answered(taken, done.end_ns):
                    for trained in self._trained.values():
                        trained.harmless = 0
            else:
                state.ended(done.minibatch.number, done.start_ns, done.end_ns)
            self._unwritten.append((done, state.tenant, taken))
            self._pass_on(done)

    def _pass_on(self, done: FinishedMinibatch) -> None:
        """Count the idle time before a minibatch; the one lined up behind it begins now."""
        self._ended_ns = max(self._ended_ns, done.end_ns)  # of two that end at once either may come first
        since_ns = self._followed.pop(done.minibatch, None)
        if since_ns is not None:
            self._gaps_ns += max(done.start_ns - since_ns, 0)
        for behind, since_ns in self._followed.items():
            if since_ns is None:
                self._followed[behind] = self._ended_ns
                since = self._tenants[behind.tenant].since_ns
                since[-1] = max(since[-1], done.end_ns)
        self._free_since_ns = None if self._busy() else self._ended_ns

    def _write(self) -> None:
        """Record the minibatches that have ended, while the device runs the next one."""
        while self._unwritten:
            done, tenant, taken = self._unwritten.popleft()
            if isinstance(tenant, Inference):
                self._write_requests(done, tenant, taken)
            else:
                self._write_step(done, tenant)

    def _write_requests(self, done: FinishedMinibatch, tenant: Inference, taken: Sequence[tuple[int, int]]) -> None:
        failures = dict(done.failed)
        if done.failure is not None:
            failures = {request: failures.get(request, done.failure) for request, _ in taken}
        started_s = self._since(done.start_ns)
        for request, arrived_ns in taken:
            outcome: Outcome = "failed" if request in failures else "ok"
            row = self._request(
                tenant, arrived_ns, done.end_ns, outcome, failures.get(request),
                started_s=started_s, minibatch=done.minibatch.number, samples=len(taken),
            )  # fmt: skip
            self.record(row)

    def _write_step(self, done: FinishedMinibatch, tenant: Training) -> None:
        row = RunRow(
            self._turn.engine, "train", self._since(done.end_ns), tenant.name, self._turn.number,
            started_s=self._since(done.start_ns), minibatch=done.minibatch.number, batch_size=tenant.batch_size,
            samples=tenant.batch_size if done.failure is None else 0,
            status="ok" if done.failure is None else "failed", loss=done.loss,
            reason=done.failure or self._trained[tenant.name].reason(done.minibatch.number),
        )  # fmt: skip
        self.record(row)

    def _request(
        self, tenant: Inference, arrived_ns: int, finished_ns: int, outcome: Outcome, reason: str | None, **more: Any
    ) -> RunRow:
        due_ns = arrived_ns + round(tenant.latency_budget_s * NS)
        return RunRow(
            self._turn.engine, "request", self._since(finished_ns), tenant.name, self._turn.number,
            arrived_s=self._since(arrived_ns),
            deadline_s=self._since(due_ns), met=outcome == "ok" and finished_ns <= due_ns,
            batch_size=tenant.batch_size, status=outcome, reason=reason, **more,
        )  # fmt: skip

    def _take_requests(self, now_ns: int) -> None:
        for name, served in self._served.items():
            for arrived_ns in served.source.take(now_ns):
                for watcher in self._watchers:
                    watcher.on_arrival(name, arrived_ns)
                served.line_up(arrived_ns)

    def _snapshot(self, now_ns: int, *, over: bool) -> Snapshot:
        queues = [served.queue(now_ns, over=over) for served in self._served.values() if not served.lost]
        resting = over or self._paused
        jobs = [trained.job(now_ns, resting=resting) for trained in self._trained.values() if not trained.lost]
        return Snapshot(now_ns, queues, jobs)

    def _waiting(self) -> bool:
        return self._busy() or any(served.waiting for served in self._served.values() if not served.lost)

    def _busy(self) -> bool:
        return any(state.since_ns for state in self._tenants.values())

    def _abandon(self, served: InferenceTenant, requests: Iterable[tuple[int, int]]) -> None:
        """Record requests that are not answered."""
        now_ns = self._backend.now_ns()
        reason = "the tenant had failed" if served.lost else "the run ended before it was answered"
        for _, arrived_ns in requests:
            self.record(self._request(served.tenant, arrived_ns, now_ns, "abandoned", reason))

    def _since(self, time_ns: int) -> float:
        return (time_ns - self._begin_ns) / NS
