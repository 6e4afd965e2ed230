"""The loop that runs networks in little memory: it takes requests, asks the policy, starts tasks and records them.

    requests -> state -> policy.choose(state) -> backend.start(task) -> backend.wait() -> records

The same loop runs in the process that executes networks and on an event clock; only the backend differs. It asks the
policy until it chooses nothing, and then waits for something to end or to arrive.
"""

import heapq
import time
from collections.abc import Mapping, Sequence
from operator import attrgetter

from edgetune.errors import EdgetuneError, InputError
from edgetune.serving.clock import UNSUPERVISED, Supervision, earliest_ns
from edgetune.serving.requests import DecisionOverhead, ListedRequests, Outcome
from edgetune.stages.schedule.budget import check_budget
from edgetune.stages.schedule.network import LayeredNetwork, least_budget_bytes
from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.request_state import RequestProgress
from edgetune.stages.schedule.requests import DependentRequests, Request, arrived_at, check_requests
from edgetune.stages.schedule.state import Parallelism, State
from edgetune.stages.schedule.tasks import (
    BudgetRecord,
    FinishedTask,
    LayerTask,
    Record,
    RequestRecord,
    TaskBackend,
    TaskRecord,
)
from edgetune.units import format_bytes


class ScheduleLoop:
    """One run of requests on a backend.

    A request that fails gives its memory back and the others go on; those that come after it fail, too. Weights that
    are no request's own stay until the policy unloads them, and all are unloaded at the end. Layers without weights
    need no load: they are resident always.

    Args:
        policy: Chooses what starts next.
        backend: Runs tasks.
        networks: As the policy takes them (see ``policies.policy.taken_by``), by name.
        requests: Known before the run, in the order of arrival.
        budget_bytes: Memory of tasks.
        parallelism: Numbers of tasks that can run at once, and of those at full speed.
        supervision: Once stopped, running tasks are finished and requests left are abandoned.

    Raises:
        InputError: no workers, or requests that contradict each other.
        InfeasibleError: the budget is too small for a network; the smallest that works is named.
    """

    def __init__(
        self, policy: SchedulePolicy, backend: TaskBackend, networks: Mapping[str, LayeredNetwork],
        requests: Sequence[Request], *, budget_bytes: int, parallelism: Parallelism,
        supervision: Supervision[Record] = UNSUPERVISED,
    ) -> None:  # fmt: skip
        workers = parallelism.workers
        if workers < 1:
            raise InputError(f"there must be at least one worker, not {workers}", "e.g. 2")
        check_requests(requests, networks.keys())
        self.tasks: list[TaskRecord] = []
        self.requests: list[RequestRecord] = []
        self.state = State(
            networks,
            parallelism=parallelism,
            shares_weights=policy.shares_weights,
            budget_bytes=budget_bytes,
            maps_weights=policy.maps_weights,
        )
        self._policy, self._backend, self._networks = policy, backend, networks
        self._coming = ListedRequests(requests, attrgetter("arrival_ns"))
        self._stopped, self._poll_interval_ns = supervision.stopped, supervision.poll_interval_ns
        self._on_record = supervision.on_record
        self._idle = list(range(workers))
        self._started: dict[tuple[str, str, int, int], tuple[LayerTask, int, int]] = {}
        """Running tasks, each with its worker and the bytes that were held once it had begun."""
        self._waiting = DependentRequests()
        self._leaving: dict[int, tuple[RequestProgress, Outcome, str]] = {}
        """Requests without an answer of which a task still runs, with the reason."""
        self.overhead = DecisionOverhead()
        if not policy.whole:  # whole networks are what is run where memory is not looked at
            asked = {each.network for each in requests}
            check_budget(budget_bytes, {name: least_budget_bytes(networks[name]) for name in asked})

    def run(self) -> None:
        """Run until every request is answered, has failed or was abandoned; all records are there then.

        Raises:
            EdgetuneError: the policy chose what it must not, or nothing although nothing runs and requests wait.
        """
        self._on_record(BudgetRecord(self._backend.now_ns(), self.state.budget_bytes, 0))
        try:
            while self._turn():
                pass
            while self._started:
                self._end_all(self._backend.wait(None))
            self._abandon()
            self._unload_all(None)
        except BaseException:
            self._write_down_left()
            raise
        if not self.state.memory.settled:
            raise RuntimeError(f"memory is still held after the run: {self.state.memory.by_kind}")

    def _turn(self) -> bool:
        """Take in requests, start what can start, wait; return whether the run goes on."""
        now_ns = self.state.now_ns = self._backend.now_ns()
        for request in self._coming.take(now_ns):
            self._take(request, now_ns)
        if self._stopped():
            return False
        self._choose()
        running = bool(self._started)
        if not running and self._coming.ended:
            if self.state.requests:
                raise stuck(self._policy, self.state)
            return False
        polled_ns = None if self._poll_interval_ns is None else self._backend.now_ns() + self._poll_interval_ns
        until_ns = earliest_ns([self._coming.next_ns(), polled_ns])
        self._end_all(self._backend.wait(until_ns))
        return True

    def _choose(self) -> None:
        """Start what the policy chooses until it chooses nothing."""
        begun_s, decisions = time.perf_counter(), 0
        while True:
            self.state.now_ns = self._backend.now_ns()
            decisions += 1
            choice = self._policy.choose(self.state)
            if choice is None:
                break
            task = self._checked(choice)
            if task.kind == "unload":
                self._unload(task)
            else:
                self._start(task)
        self.overhead.add(time.perf_counter() - begun_s, decisions)

    def _checked(self, choice: LayerTask) -> LayerTask:
        """Return the task chosen, as the state knows it.

        Raises:
            EdgetuneError: the task cannot start now.
        """
        task = self.state.find(choice)
        if task is None:
            raise illegal(self._policy, choice, "which is not ready")
        if task.kind == "unload":
            return task
        if not self._idle:
            raise illegal(self._policy, choice, f"while all {self.state.workers} workers are busy")
        unchecked = self._policy.overcommits
        if task.bytes > self.state.free_bytes and self._started and not unchecked:
            needed, free = format_bytes(task.bytes), format_bytes(self.state.free_bytes)
            raise illegal(self._policy, choice, f"which needs {needed} of {free} free while others run")
        return task

    def _start(self, task: LayerTask) -> None:
        worker = heapq.heappop(self._idle)
        self.state.begin(task)
        self._started[_key(task)] = (task, worker, self.state.held_bytes)
        self._backend.start(task)

    def _unload(self, task: LayerTask) -> None:
        start_ns = self._backend.now_ns()
        self._backend.unload(task.copy, task.layer)
        self.state.unload(task.copy, task.layer)
        self._write_task(FinishedTask(task, start_ns, self._backend.now_ns()), None, self.state.held_bytes)

    def _end_all(self, ended: Sequence[FinishedTask]) -> None:
        for done in ended:
            task, worker, held_bytes = self._started.pop(_key(done.task))
            heapq.heappush(self._idle, worker)
            self._write_task(done, worker, held_bytes)
            if task.kind == "load":
                self._end_load(task, done)
            else:
                self._end_execution(task, done)

    def _end_load(self, task: LayerTask, done: FinishedTask) -> None:
        self.state.end_load(task, failed=done.failure is not None)
        if done.failure is not None:
            reason = f"loading layer {self._name(task)} failed: {done.failure}"
            for progress in list(self.state.requests.values()):
                if progress.copy == task.copy and not progress.executed(task.layer):
                    self._fail(progress.request.number, reason, done.end_ns)
        self._release_if_still(task.request, done.end_ns)

    def _end_execution(self, task: LayerTask, done: FinishedTask) -> None:
        self.state.end_execution(task, failed=done.failure is not None)
        progress = self.state.requests.get(task.request)
        if progress is None:
            self._release_if_still(task.request, done.end_ns)
        elif done.failure is not None:
            self._fail(task.request, f"executing layer {self._name(task)} failed: {done.failure}", done.end_ns)
        elif progress.left == 0:
            self._finish(progress)

    def _finish(self, progress: RequestProgress) -> None:
        number = progress.request.number
        self._backend.drop(progress.request)
        self.state.remove(number)
        self._return_memory(progress)
        self._write_request(progress.request, "ok", progress.begun_ns, self._backend.now_ns())
        for request in self._waiting.answered(number):
            self.state.arrive(arrived_at(request, self._backend.now_ns()))

    def _fail(self, number: int, reason: str, at_ns: int, outcome: Outcome = "failed") -> None:
        """Remove a request; its memory is returned once none of its tasks runs any more."""
        progress = self.state.remove(number)
        self._leaving[number] = (progress, outcome, reason)
        self._release_if_still(number, at_ns)

    def _release_if_still(self, number: int, at_ns: int) -> None:
        """Return the memory of a request that was removed, if no task of it runs."""
        if number not in self._leaving:
            return
        progress, outcome, reason = self._leaving[number]
        if any(self._is_of(task, progress) for task in self.state.running):
            return
        del self._leaving[number]
        if progress.executing:
            self._backend.drop(progress.request)
        self._return_memory(progress)
        self._write_request(progress.request, outcome, progress.begun_ns, at_ns, reason)
        self._fail_followers(number, at_ns)

    def _is_of(self, task: LayerTask, progress: RequestProgress) -> bool:
        """Return whether a task is a request's own: its execution, or the load of weights of its own."""
        if task.kind == "execute":
            return task.request == progress.request.number
        return task.copy == progress.copy and not self._policy.shares_weights

    def _return_memory(self, progress: RequestProgress) -> None:
        """Return the memory of a request, weights of its own included: no other request can use those."""
        if not self._policy.shares_weights:
            self._unload_all(progress.copy)
        self.state.close(progress)

    def _fail_followers(self, number: int, at_ns: int) -> None:
        """Fail the requests that come after one without an answer, and those that come after these."""
        failed = [number]
        while failed:
            before = failed.pop()
            for request in self._waiting.failed(before):
                self._write_request(
                    request, "failed", None, at_ns, f"request {before}, which it comes after, was not answered"
                )
                failed.append(request.number)

    def _take(self, request: Request, now_ns: int) -> None:
        failed = self._waiting.admit(request)
        if failed is not None:
            reason = f"request {failed}, which it comes after, was not answered"
            self._write_request(request, "failed", None, now_ns, reason)
            self._fail_followers(request.number, now_ns)
        elif not self._waiting.waits(request.number):
            self.state.arrive(request)

    def _abandon(self) -> None:
        """Give up every request that is left; nothing runs."""
        now_ns, reason = self._backend.now_ns(), "the run was stopped"
        for request in self._waiting.give_up():
            self._write_request(request, "abandoned", None, now_ns, reason)
        for progress in list(self.state.requests.values()):
            self._fail(progress.request.number, reason, now_ns, "abandoned")

    def _write_down_left(self) -> None:
        """Record every request that is left, and change nothing: the run broke down."""
        now_ns, reason = self._backend.now_ns(), "the run broke down"
        left = [*self.state.requests.values(), *(progress for progress, _, _ in self._leaving.values())]
        for progress in left:
            self._write_request(progress.request, "abandoned", progress.begun_ns, now_ns, reason)
        for request in self._waiting.give_up():
            self._write_request(request, "abandoned", None, now_ns, reason)

    def _unload_all(self, copy: str | None) -> None:
        for key in self.state.resident_layers(copy):
            self._unload(self.state.unload_task(*key))

    def _name(self, task: LayerTask) -> str:
        return f"{self._networks[task.network].layers[task.layer].name} of {task.network}"

    def _write_task(self, done: FinishedTask, worker: int | None, held_bytes: int) -> None:
        task = done.task
        record = TaskRecord(
            task.kind, task.network, task.copy, task.layer, task.request, worker,
            done.start_ns, done.end_ns, task.bytes, held_bytes, done.failure,
        )  # fmt: skip
        self.tasks.append(record)
        self._on_record(record)

    def _write_request(
        self, request: Request, outcome: Outcome, begun_ns: int | None, end_ns: int, failure: str | None = None
    ) -> None:
        record = RequestRecord(request, outcome, begun_ns, end_ns, failure)
        self.requests.append(record)
        self._on_record(record)


def _key(task: LayerTask) -> tuple[str, str, int, int]:
    return (task.kind, task.copy, task.layer, task.request)


def illegal(policy: SchedulePolicy, choice: LayerTask, why: str) -> EdgetuneError:
    """Return the error of a policy that chose what cannot start now."""
    what = f"{choice.kind} layer {choice.layer} of {choice.copy} for request {choice.request}"
    return EdgetuneError(f"policy {policy.name} chose to {what}, {why}", "the policy is at fault: choose another")


def stuck(policy: SchedulePolicy, state: State) -> EdgetuneError:
    """Return the error of a policy that starts nothing although nothing else will happen."""
    waits = f"{len(state.requests)} requests wait, the first of them {next(iter(state.requests))}"
    free = f"{format_bytes(max(state.free_bytes, 0))} of {format_bytes(state.budget_bytes)} free"
    return EdgetuneError(
        f"policy {policy.name} starts nothing although nothing runs and {waits}; {free}",
        "the policy is at fault: choose another, or give it more memory",
    )
