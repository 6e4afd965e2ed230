"""The loop that shares a device: it takes requests, asks the policy, starts minibatches and writes down what came.

    requests -> queues -> policy.decide(snapshot) -> stage.start(minibatch) -> stage.wait() -> rows

The same loop runs on a device and on an event clock; only the stage differs. It decides at the ends of minibatches and
when requests arrive, never in the middle of a minibatch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.run import RunRow
from edgetune.interleave.backend import FinishedMinibatch, Minibatch, MinibatchBackend
from edgetune.interleave.snapshot import InferenceQueue, InterleavePolicy, Serve, Snapshot, Train, TrainingJob
from edgetune.interleave.tenant_state import DurationEstimate, TrainingTenant, served_by
from edgetune.interleave.tenants import Inference, Tenant, Training
from edgetune.serving.clock import earliest_ns
from edgetune.serving.requests import Outcome
from edgetune.serving.sources import ArrivalSource
from edgetune.units import NS


class Watcher(Protocol):
    """Looks after a run from time to time: a power sensor, a governor, a planner for changing rates."""

    def due_ns(self) -> int | None:
        """Return when it wants to look next."""
        ...

    def poll(self, now_ns: int, loop: InterleaveLoop) -> None:
        """Look, and change batch sizes, estimates or the mode where that is its task; not called while it looks."""
        ...

    def on_arrival(self, tenant: str, at_ns: int) -> None:
        """Learn of a request as it comes, long before there is a row of it."""
        ...

    def on_row(self, row: RunRow) -> None:
        """Learn of a row that was just written."""
        ...


@dataclass(frozen=True, slots=True)
class SharingOverhead:
    """What sharing cost.

    Args:
        decisions_s: How long each decision took, its snapshot included, s.
        gaps_s: Device time lost while work was ready, from the end of one minibatch to the start of the next, s in all.
        minibatches: How many were started.
    """

    decisions_s: Sequence[float]
    gaps_s: float
    minibatches: int


class InterleaveLoop:
    """One run of tenants on a stage.

    Args:
        engine: What the rows say of how the device was shared.
        backend: Runs minibatches.
        policy: Decides.
        tenants: What shares the device.
        sources: Requests of each inference tenant, by name.
        watchers: Called from time to time.
        end_ns: When the run is over, on the stage's clock; what waits then is answered or abandoned.
        turn: See ``RunRow``.
        stopped: Asked often; once true, what runs is finished and what waits is abandoned.
    """

    def __init__(
        self,
        engine: str,
        backend: MinibatchBackend,
        policy: InterleavePolicy,
        tenants: Sequence[Tenant],
        sources: Mapping[str, ArrivalSource],
        *,
        end_ns: int,
        watchers: Sequence[Watcher] = (),
        turn: int = 0,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.rows: list[RunRow] = []
        self._engine, self._backend, self._policy, self._turn = engine, backend, policy, turn
        self._begin_ns, self._end_ns = backend.now_ns(), end_ns
        self._served = {t.name: served_by(t, sources[t.name]) for t in tenants if isinstance(t, Inference)}
        self._trained = {
            t.name: TrainingTenant(t, DurationEstimate(round(t.minibatch_s * NS)))
            for t in tenants
            if isinstance(t, Training)
        }
        self._watchers, self._stopped = watchers, stopped
        self._looking: list[Watcher] = []
        self._unwritten: deque[tuple[FinishedMinibatch, Tenant, Sequence[tuple[int, int]]]] = deque()
        """What has ended and is not in ``rows`` yet, with its tenant as it was then and its requests."""
        self._paused = False
        self._decisions_s: list[float] = []
        self._gaps_ns = 0
        self._free_since_ns: int | None = None
        """Since when the device has nothing to do; ``None`` where nothing was ready."""
        self._followed: dict[Minibatch, int | None] = {}
        """What was to begin at once or behind what ran, with the time since when the device is free for it."""
        self._ended_ns = self._begin_ns
        """When the last minibatch ended."""

    @property
    def overhead(self) -> SharingOverhead:
        """What sharing cost so far."""
        started = sum(served.next_minibatch for served in self._served.values())
        started += sum(trained.next_minibatch for trained in self._trained.values())
        return SharingOverhead(self._decisions_s, self._gaps_ns / NS, started)

    def run(self) -> None:
        """Run until the end; every request and every training step is in ``rows`` then, also where this raises."""
        try:
            while self._turn_once():
                pass
            self.settle()
        finally:
            self._abandon()

    def advance(self, enough: Callable[[], bool]) -> None:
        """Go on with the run until it is enough, or time is up: how a watcher looks on while real work is done."""
        self._write()
        while not enough() and self._backend.now_ns() < self._end_ns and self._turn_once():
            self._write()

    def _turn_once(self) -> bool:
        """Take in requests, have watchers look, start something or wait; return whether the run goes on."""
        now_ns, over = self._backend.now_ns(), self.over
        self._take_requests(min(now_ns, self._end_ns))
        if not over:
            self._poll_watchers(now_ns)
        if self._stopped() or ((over or self._nothing_will_come()) and not self._waiting()):
            return False
        return self._decide(over=over)

    def _poll_watchers(self, now_ns: int) -> None:
        for watcher in self._watchers:
            due_ns = watcher.due_ns()
            if due_ns is None or due_ns > now_ns or watcher in self._looking:
                continue
            self._write()
            self._looking.append(watcher)
            try:
                watcher.poll(now_ns, self)
            finally:
                self._looking.remove(watcher)

    def tenant(self, name: str) -> Tenant:
        """Return a tenant as it is now."""
        return (self._served.get(name) or self._trained[name]).tenant

    def rebatch(self, name: str, batch_size: int, minibatch_s: float) -> None:
        """Have a tenant run at another batch size from now on, taking this long as far as is known.

        Raises:
            InputError: it cannot run at this batch size; nothing is changed.
        """
        self.settle()
        self._backend.prepare(name, batch_size)
        changed = replace(self.tenant(name), batch_size=batch_size, minibatch_s=minibatch_s)
        estimate = DurationEstimate(round(minibatch_s * NS))
        if isinstance(changed, Inference):
            self._served[name].tenant, self._served[name].estimate = changed, estimate
        else:
            self._trained[name].tenant, self._trained[name].estimate = changed, estimate

    def re_estimate(self, name: str, minibatch_s: float) -> None:
        """Take a tenant's minibatches to last this long from now on: the mode has changed."""
        (self._served.get(name) or self._trained[name]).estimate = DurationEstimate(round(minibatch_s * NS))

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
        lost = [name for name, served in self._served.items() if served.lost]
        return lost + [name for name, trained in self._trained.items() if trained.lost]

    @property
    def over(self) -> bool:
        """Whether time is up or somebody asked to stop: nothing new is to be begun."""
        return self._backend.now_ns() >= self._end_ns or self._stopped()

    def now_ns(self) -> int:
        """Return the time of the stage's clock, ns."""
        return self._backend.now_ns()

    def note(self, row: RunRow) -> None:
        """Write a row down; its times are taken as they are."""
        self.rows.append(row)
        for watcher in self._watchers:
            watcher.on_row(row)

    def row(self, at_ns: int) -> RunRow:
        """Return a row of this run at a time of the stage's clock, to be completed with ``replace``."""
        return RunRow(self._engine, "plan", self._since(at_ns), turn=self._turn)

    def _decide(self, *, over: bool) -> bool:
        """Ask the policy and do it; return whether there is anything left to wait for."""
        begun_s = time.perf_counter()
        now_ns = self._backend.now_ns()
        decision = self._policy.decide(self._snapshot(now_ns, over=over))
        self._decisions_s.append(time.perf_counter() - begun_s)
        if isinstance(decision, Serve):
            self._serve(decision, now_ns)
            return True
        if isinstance(decision, Train):
            self._train(decision, now_ns)
            return True
        self._free_since_ns = None
        self._write()
        times_ns = [decision.until_ns]
        if not over:
            times_ns += [
                self._end_ns,
                *(served.source.next_ns() for served in self._served.values() if not served.lost),
            ]
            times_ns += [watcher.due_ns() for watcher in self._watchers if watcher not in self._looking]
        until_ns = earliest_ns(times_ns)
        if until_ns is None and not self._busy():
            return False
        self._finish(self._backend.wait(until_ns))
        return True

    def _serve(self, decision: Serve, now_ns: int) -> None:
        served = self._served[decision.tenant]
        taken = served.waiting.take(decision.count, decision.passed)
        number = served.next_minibatch
        served.next_minibatch += 1
        requests = tuple(request for request, _ in taken)
        self._start(Minibatch(decision.tenant, "infer", number, requests, decision.begin_by_ns))
        served.since_ns.append(now_ns)
        served.on_device[number] = taken

    def _train(self, decision: Train, now_ns: int) -> None:
        trained = self._trained[decision.tenant]
        self._start(Minibatch(decision.tenant, "train", trained.next_minibatch, begin_by_ns=decision.begin_by_ns))
        trained.since_ns.append(now_ns)
        trained.next_minibatch += 1

    def _start(self, minibatch: Minibatch) -> None:
        if self._free_since_ns is not None or minibatch.begin_by_ns is not None:
            self._followed[minibatch] = self._free_since_ns
        self._free_since_ns = None
        self._backend.start(minibatch)

    def _finish(self, ended: Sequence[FinishedMinibatch]) -> None:
        for done in ended:
            if done.minibatch.task == "infer":
                self._finish_inference(done)
            else:
                self._finish_training(done)
            self._pass_on(done)

    def _pass_on(self, done: FinishedMinibatch) -> None:
        """Count the time between a minibatch and what ran before it; what is lined up behind it begins now."""
        self._ended_ns = max(self._ended_ns, done.end_ns)  # of two that end at once either may be told first
        since_ns = self._followed.pop(done.minibatch, None)
        if since_ns is not None:
            self._gaps_ns += max(done.start_ns - since_ns, 0)
        for behind, since_ns in self._followed.items():
            if since_ns is None:
                self._followed[behind] = self._ended_ns
                standing = self._served.get(behind.tenant) or self._trained[behind.tenant]
                standing.since_ns[-1] = max(standing.since_ns[-1], done.end_ns)
        self._free_since_ns = None if self._busy() else self._ended_ns

    def _finish_inference(self, done: FinishedMinibatch) -> None:
        served = self._served[done.minibatch.tenant]
        taken = served.on_device.pop(done.minibatch.number)
        served.since_ns.pop(0)
        served.lost |= done.lost
        if done.failure is None and not done.failed:  # what failed was run again: no measure of the next
            served.estimate.observe(done.end_ns - done.start_ns, done.end_ns)
        served.source.answered([request for request, _ in taken], done.end_ns)
        self._unwritten.append((done, served.tenant, taken))

    def _finish_training(self, done: FinishedMinibatch) -> None:
        trained = self._trained[done.minibatch.tenant]
        trained.since_ns.pop(0)
        trained.lost |= done.lost
        trained.served_ns += done.end_ns - done.start_ns
        if done.failure is None:
            trained.estimate.observe(done.end_ns - done.start_ns, done.end_ns)
        self._unwritten.append((done, trained.tenant, ()))

    def _write(self) -> None:
        """Make rows of what has ended: while the device runs the next minibatch, not while it waits for it."""
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
            self.note(row)

    def _write_step(self, done: FinishedMinibatch, tenant: Training) -> None:
        row = RunRow(
            self._engine, "train", self._since(done.end_ns), tenant.name, self._turn,
            started_s=self._since(done.start_ns), minibatch=done.minibatch.number, batch_size=tenant.batch_size,
            samples=tenant.batch_size if done.failure is None else 0,
            status="ok" if done.failure is None else "failed", reason=done.failure, loss=done.loss,
        )  # fmt: skip
        self.note(row)

    def _request(
        self, tenant: Inference, arrived_ns: int, finished_ns: int, outcome: Outcome, reason: str | None, **more: Any
    ) -> RunRow:
        due_ns = arrived_ns + round(tenant.latency_budget_s * NS)
        return RunRow(
            self._engine, "request", self._since(finished_ns), tenant.name, self._turn, self._since(arrived_ns),
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
        queues = [
            InferenceQueue(
                name,
                served.tenant.batch_size,
                round(served.tenant.latency_budget_s * NS),
                served.estimate.cautious_ns(now_ns),
                served.waiting,
                served.gap_ns,
                served.since_ns[0] if served.since_ns else None,
                over or served.source.ended,
                served.last_arrival_ns,
                None if served.estimate.observed else 0,
                len(served.since_ns),
            )
            for name, served in self._served.items()
            if not served.lost
        ]
        jobs = [
            TrainingJob(
                name,
                trained.estimate.cautious_ns(now_ns),
                trained.tenant.weight,
                trained.served_ns,
                trained.since_ns[0] if trained.since_ns else None,
                len(trained.since_ns),
                over or self._paused,
            )
            for name, trained in self._trained.items()
            if not trained.lost
        ]
        return Snapshot(now_ns, queues, jobs)

    def _waiting(self) -> bool:
        return self._busy() or any(served.waiting for served in self._served.values() if not served.lost)

    def _nothing_will_come(self) -> bool:
        """Return whether no request will come any more and nothing trains."""
        answers = any(not (served.lost or served.source.ended) for served in self._served.values())
        return not answers and all(trained.lost for trained in self._trained.values())

    def _busy(self) -> bool:
        return any(served.on_device for served in self._served.values()) or any(
            trained.since_ns for trained in self._trained.values()
        )

    def _abandon(self) -> None:
        """Write down the requests that nobody answered."""
        self._write()
        now_ns = self._backend.now_ns()
        for served in self._served.values():
            unanswered = [request for taken in served.on_device.values() for request in taken]
            for _, arrived_ns in (*unanswered, *served.waiting.take_all()):
                reason = "the tenant had failed" if served.lost else "the run ended before it was answered"
                self.note(self._request(served.tenant, arrived_ns, now_ns, "abandoned", reason))
            served.on_device.clear()

    def _since(self, time_ns: int) -> float:
        return (time_ns - self._begin_ns) / NS
