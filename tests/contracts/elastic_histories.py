"""Random histories for policies of ``elastic``: random work on a GPU with every event order that streams allow.

    case = made_case(random.Random(7))          GPU, tasks, arrivals
    history = play(Elastic(), case)             launches in order; AssertionError for an illegal one

Times are arbitrary: a kernel begins at once or much later, takes no time or long, and sometimes fails, so that all
possible orders of kernels on streams occur. The minimal coordinator queries the policy as the loop does and checks
every decision before it executes it.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from edgetune.stages.elastic.gpu import Call, Gpu, GpuTask, KernelSequence, Logical, Resources
from edgetune.stages.elastic.view import (
    Decision,
    ElasticPolicy,
    Launch,
    LaunchChain,
    LaunchEvent,
    LaunchPiece,
    SetQuota,
    TaskState,
    View,
)

Item = TypeVar("Item")

_DELAYS_NS = (0, 0, 1, 3, 10, 50)
"""Few and small delays, so that many events coincide."""
_FAILS = 0.05
"""Share of launches that fail."""


def _gpu(sm_count: int, threads_per_sm: int, blocks_per_sm: int) -> Gpu:
    limits = (threads_per_sm, blocks_per_sm, 1024, 65536, 102400, 101376)
    return Gpu(f"made-{sm_count}", sm_count, "8.7", *limits, 1e12, 1e11, 5e-6, source="made for tests")


GPUS = (_gpu(1, 1024, 16), _gpu(3, 1536, 16), _gpu(8, 2048, 32), _gpu(16, 1536, 16))

_FORMS: tuple[Mapping[int, Resources], ...] = (
    {},
    {1: Resources(32)},
    {1: Resources(32), 2: Resources(40), 4: Resources(64), 8: Resources(128)},
    {1: Resources(128, 8192), 2: Resources(200, 8192)},
)
_FLOP = (0.0, 1e4, 1e7)
"""FLOP of a block: unknown, or far below or above the cost of a launch."""
CALLS = tuple(
    Call(
        f"kernel{number}",
        Logical(grid, (threads, 1, 1)),
        flop_per_block=_FLOP[number % 3],
        waits_per_block=(0, 0, 12)[number // 3 % 3],
        resources=forms,
        elastic=number % 7 != 6,
    )
    for number, (grid, threads, forms) in enumerate(
        (grid, threads, _FORMS[(place + threads // 32) % len(_FORMS)])
        for place, grid in enumerate([(1, 1, 1), (2, 1, 1), (7, 7, 1), (16, 1, 1), (5, 3, 2), (196, 1, 1)])
        for threads in (32, 96, 256, 1024)
    )
)
"""Kernels of one block and of many, with a large odd factor and without, short and long, some of them not elastic."""


@dataclass(frozen=True, slots=True)
class ElasticCase:
    """A random case."""

    gpu: Gpu
    tasks: tuple[GpuTask, ...]
    arrivals_ns: Mapping[str, Sequence[int]]
    closed: Mapping[str, int]
    seed: int


def made_case(rng: Random) -> ElasticCase:
    """Return one to four tasks of up to four priorities, each with a network of up to three kernels."""
    tasks = []
    for name in ("a", "b", "c", "d")[: rng.randint(1, 4)]:
        calls = tuple(rng.choice(CALLS) for _ in range(rng.randint(1, 3)))
        tasks.append(GpuTask(name, KernelSequence(name, calls), priority=rng.choice((0, 0, 0, 1, 2, 5))))
    arrivals = {task.name: sorted(rng.randint(0, 100) for _ in range(rng.randint(0, 3))) for task in tasks}
    closed = {task.name: rng.choice((0, 0, 2)) if arrivals[task.name] else 0 for task in tasks}
    return ElasticCase(rng.choice(GPUS), tuple(tasks), arrivals, closed, rng.randrange(2**32))


class AnyOrder:
    """A backend (``elastic.backend.GpuBackend``) with random start times and durations of kernels."""

    def __init__(self, rng: Random) -> None:
        self.launches: list[Launch] = []
        self._rng = rng
        self._now_ns = 0
        self._streams: defaultdict[str, deque[Launch]] = defaultdict(deque)
        self._armed: set[int] = set()
        self._ended: set[int] = set()
        self._due: list[tuple[int, int, bool]] = []
        """Time, launch and whether the event is its end."""

    def now_ns(self) -> int:
        """Return the time, which only ``wait`` advances."""
        return self._now_ns

    def decided(self) -> None:
        """Do nothing: decisions take no time."""

    def launch(self, launch: Launch) -> None:
        """Put a launch on its task's stream."""
        self.launches.append(launch)
        self._streams[launch.task].append(launch)

    def set_quota(self, task: str, blocks: int) -> None:
        """Change nothing: how long a persistent launch takes is random anyway."""

    def wait(self, until_ns: int | None) -> Sequence[LaunchEvent]:
        """Return the next event before ``until_ns``, if any."""
        for stream in self._streams.values():
            if stream and stream[0].number not in self._armed and self._ended.issuperset(stream[0].after):
                self._armed.add(stream[0].number)
                self._later(stream[0].number, end=False)
        if not self._due or (until_ns is not None and self._due[0][0] > until_ns):
            self._now_ns = self._now_ns if until_ns is None else until_ns
            return ()
        self._now_ns, number, end = heapq.heappop(self._due)
        if not end:
            self._later(number, end=True)
            return (LaunchEvent(number, "started", self._now_ns),)
        next(stream for stream in self._streams.values() if stream and stream[0].number == number).popleft()
        self._ended.add(number)
        return (LaunchEvent(number, "ended", self._now_ns, "it failed" if self._rng.random() < _FAILS else None),)

    def _later(self, number: int, *, end: bool) -> None:
        heapq.heappush(self._due, (self._now_ns + self._rng.choice(_DELAYS_NS), number, end))


Watch = Callable[[View, Sequence[Decision]], None]
"""Receives a view and the decisions on it; raises AssertionError for an illegal decision."""


@dataclass(slots=True)
class _Progress:
    """Progress of a task, in addition to the policy's view of it."""

    closed: int
    requests: int = 0
    last: dict[int, int] = field(default_factory=dict)
    """Fully launched requests, by the number of their last launch."""


def play(policy: ElasticPolicy, case: ElasticCase, watch: Watch | None = None) -> Sequence[Launch]:
    """Run a case to its end and return the launches in order."""
    return _Coordinator(policy, case, watch).run()


class _Coordinator:
    def __init__(self, policy: ElasticPolicy, case: ElasticCase, watch: Watch | None) -> None:
        self._policy, self._watch = policy, watch
        self._backend = AnyOrder(Random(case.seed))
        self._standings = {task.name: TaskState(task, deque(), in_flight=deque()) for task in case.tasks}
        self._progress = {task.name: _Progress(case.closed[task.name]) for task in case.tasks}
        self._view = View(0, case.gpu, list(self._standings.values()), [])
        self._coming = [(at_ns, name) for name, times in case.arrivals_ns.items() for at_ns in times]
        heapq.heapify(self._coming)
        self._in_flight: dict[int, Launch] = {}
        self._since_ns: dict[int, int] = {}

    def run(self) -> Sequence[Launch]:
        while True:
            self._ask()
            if not self._in_flight and not self._coming:
                break
            moments = self._backend.wait(self._coming[0][0] if self._coming else None)
            self._view.now_ns = self._backend.now_ns()
            while self._coming and self._coming[0][0] <= self._view.now_ns:
                at_ns, name = heapq.heappop(self._coming)
                _queue(self._standings[name].arrived_ns).append(at_ns)
            for moment in moments:
                self._note(moment)
        for standing in self._standings.values():
            assert not standing.arrived_ns, f"a request of {standing.task.name} is never launched"
            assert standing.request is None, f"blocks of {standing.task.name} are never launched"
        return self._backend.launches

    def _ask(self) -> None:
        while True:
            decisions = self._policy.decide(self._view)
            if self._watch is not None:
                self._watch(self._view, decisions)
            if not decisions:
                return
            for decision in decisions:
                if isinstance(decision, SetQuota):
                    self._standings[decision.task].quota = decision.blocks
                elif isinstance(decision, LaunchChain):
                    self._chain(self._standings[decision.task])
                else:
                    self._piece(self._standings[decision.task], decision)

    def _chain(self, standing: TaskState) -> None:
        assert standing.request is None, "a chain is for a request of which nothing was launched"
        request = self._begin(standing)
        for place, call in enumerate(standing.task.network.calls):
            standing.left = call.logical.blocks
            self._launch(standing, request, place, LaunchPiece(standing.task.name, standing.left))
        self._end(standing, request)

    def _piece(self, standing: TaskState, piece: LaunchPiece) -> None:
        calls = standing.task.network.calls
        if standing.request is None:
            standing.request, standing.call, standing.left = self._begin(standing), 0, calls[0].logical.blocks
        self._launch(standing, standing.request, standing.call, piece)
        if not standing.left and standing.call + 1 < len(calls):
            standing.call += 1
            standing.left = calls[standing.call].logical.blocks
        if not standing.left:
            self._end(standing, standing.request)

    def _begin(self, standing: TaskState) -> int:
        assert standing.arrived_ns, f"{standing.task.name} has no request that waits"
        _queue(standing.arrived_ns).popleft()
        progress = self._progress[standing.task.name]
        progress.requests += 1
        return progress.requests - 1

    def _end(self, standing: TaskState, request: int) -> None:
        """Record that all blocks of a request were launched; the request ends with its last launch."""
        standing.request, standing.left = None, 0
        self._progress[standing.task.name].last[self._backend.launches[-1].number] = request

    def _launch(self, standing: TaskState, request: int, place: int, piece: LaunchPiece) -> None:
        name, number, call = standing.task.name, len(self._backend.launches), standing.task.network.calls[place]
        assert 1 <= piece.count <= standing.left
        first = call.logical.blocks - standing.left
        standing.left -= piece.count
        shape = (first, piece.count, piece.per_thread, piece.blocks, piece.after, piece.persistent)
        launch = Launch(number, name, request, place, call, *shape)
        self._in_flight[number] = launch
        _queue(standing.in_flight).append(launch)
        self._backend.launch(launch)

    def _note(self, moment: LaunchEvent) -> None:
        launch = self._in_flight[moment.launch]
        if moment.kind == "started":
            self._since_ns[moment.launch] = moment.at_ns
            self._view.resident = [*self._view.resident, launch]
            return
        del self._in_flight[moment.launch]
        standing, progress = self._standings[launch.task], self._progress[launch.task]
        self._view.resident = [other for other in self._view.resident if other is not launch]
        _queue(standing.in_flight).remove(launch)
        standing.served_s += (moment.at_ns - self._since_ns[moment.launch]) / 1e9
        if progress.last.pop(moment.launch, None) is not None and progress.closed:
            progress.closed -= 1
            heapq.heappush(self._coming, (moment.at_ns, launch.task))


def _queue(seen: Sequence[Item]) -> deque[Item]:
    """Return the deque behind a sequence in the policy's view."""
    assert isinstance(seen, deque)
    return seen
