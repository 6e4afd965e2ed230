"""A GPU on an event clock: a model of its multiprocessors, for machines without one.

    host      launch a 7 us | launch b 7 us | ...
    stream 1  a waits 15 us  [ a on SMs ]  0.9 us  [ next of the stream ]
    stream 2         b waits 15 us [ b where a leaves room ]

Launches of a stream run in order. Of those at the head of their streams the one of the highest priority goes first,
then the one that came first: only when all of its blocks are placed, those of the next are (Amert et al. 2017, GPU
Scheduling on the NVIDIA TX2: Hidden Details Revealed: one queue for each priority, and only the head of the most urgent
one gets room). Running blocks are never preempted. Tasks that may use a part of the multiprocessors alone have a queue
of their own: they keep no others from theirs.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from edgetune.serving.clock import EventClock, earliest_ns
from edgetune.stages.elastic.gpu import Gpu, GpuTask
from edgetune.stages.elastic.kernel import NO_QUOTA
from edgetune.stages.elastic.model import BlockDemand, GpuTimingModel, demand_of
from edgetune.stages.elastic.multiprocessors import BlockGroup, Multiprocessors, deal
from edgetune.stages.elastic.view import Launch, LaunchEvent, Residency
from edgetune.units import NS

_MOST_RESIDENCIES = 100_000
"""Kept of each run: some fifty megabytes of memory, and more than a figure can show."""


@dataclass(slots=True, eq=False)
class _Queued:
    """A launch that has not ended.

    Args:
        launch: The launch.
        demand: Of one of its blocks.
        visible_ns: When the GPU could begin with it, were its stream idle.
        unplaced: Blocks without a place: their number, and how many logical blocks each takes.
        waits_for: Launches that must have ended before.
        resident: Running blocks.
        reached: Whether it is at the head of its stream.
        ranks: Of the blocks without a place, where it is persistent.
        left: Ranks of those that have left above the quota.
        following: Logical blocks of it that were taken.
    """

    launch: Launch
    demand: BlockDemand
    visible_ns: int
    unplaced: list[tuple[int, int]]
    waits_for: set[int]
    resident: int = 0
    reached: bool = False
    ranks: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    following: int = 0
    residencies: dict[int, Residency] = field(default_factory=dict)
    """The last of each multiprocessor, to which more may join."""

    def take(self, ranks: Iterable[int], quota: int) -> list[int]:
        """Take a logical block for each of these blocks that may go on, as far as there are; return which."""
        able: list[int] = []
        for rank in ranks:
            (able if rank < quota else self.left).append(rank)
        taking = able[: self.launch.count - self.following]
        self.following += len(taking)
        return taking


class SimulatedGpu:
    """A simulated GPU; see ``backend.GpuBackend``.

    Args:
        clock: Its clock, which moves on when the loop waits or launches.
        gpu: Its limits and speeds.
        tasks: Each has a stream.
        model: Numbers that no catalogue has.
        fault: Why a launch fails when it ends; ``None`` where it does not.
        most_residencies: Residencies that are kept; small kernels make millions in a second.
    """

    lost: str | None = None
    """As of a real GPU: why nothing can be launched any more."""

    def __init__(
        self,
        clock: EventClock,
        gpu: Gpu,
        tasks: Sequence[GpuTask],
        *,
        model: GpuTimingModel | None = None,
        fault: Callable[[Launch], str | None] = lambda _: None,
        most_residencies: int = _MOST_RESIDENCIES,
    ) -> None:
        self.residencies: list[Residency] = []
        """Residencies in the order of their ends; two of a launch on a multiprocessor have a pause between them."""
        self.residencies_until_ns: int | None = None
        """The end of the kept residencies; ``None`` where all are kept."""
        self.blocks = 0
        """Physical blocks that have run."""
        self._clock, self._gpu, self._fault, self._most_residencies = clock, gpu, fault, most_residencies
        self._model = model or GpuTimingModel()
        self._tasks = {task.name: task for task in tasks}
        self._streams: dict[str, deque[_Queued]] = {task.name: deque() for task in tasks}
        self._quotas = {task.name: NO_QUOTA for task in tasks}
        self._ended: set[int] = set()
        self._waited_for: dict[int, list[str]] = {}
        """Streams whose head may go on once a launch has ended."""
        self._ready: list[tuple[int, int, int, _Queued]] = []
        """A heap of launches at the head of their stream with blocks to place: the most urgent first."""
        self._running: dict[int, _Queued] = {}
        self._on = Multiprocessors(gpu, clock.now_ns())
        self._happened: list[LaunchEvent] = []
        self._no_room: int | None = None
        """The launch of which a block had no room anywhere when it was last tried."""

    def now_ns(self) -> int:
        """Return simulated time, ns."""
        return self._clock.now_ns()

    def set_quota(self, task: str, blocks: int) -> None:
        """Let so many blocks of a task's persistent launches go on; it takes a launch, and one more to bring blocks."""
        raised = blocks > self._quotas[task] and any(queued.launch.persistent for queued in self._streams[task])
        self._keep_host_busy((1 + raised) * self._model.host_s)
        self._clock.at(self.now_ns() + round(self._gpu.launch_s * NS), partial(self._change_quota, task, blocks))

    def _change_quota(self, task: str, blocks: int) -> None:
        self._quotas[task] = blocks
        for queued in self._streams[task]:
            if queued.left and queued.following < queued.launch.count:
                back, queued.left = queued.left, []
                if not queued.ranks:
                    self._make_ready(queued)
                queued.ranks = sorted(queued.ranks + back)

    def decided(self) -> None:
        """Keep the host busy with a decision."""
        self._keep_host_busy(self._model.decision_s)

    def _keep_host_busy(self, duration_s: float) -> None:
        until_ns = self.now_ns() + round(duration_s * NS)
        while self.now_ns() < until_ns:
            self._advance(until_ns)

    def launch(self, launch: Launch) -> None:
        """Put a launch on its task's stream; the host is busy with it for a while, and the GPU goes on meanwhile."""
        self._keep_host_busy(self._model.host_s + (self._model.stream_wait_s if launch.after else 0.0))
        original = launch.blocks is None
        demand = demand_of(launch.what, self._gpu, self._model, per_thread=launch.per_thread, original=original)
        if demand is None:
            reason = f"not one block of {launch.what.kernel} fits on a multiprocessor of {self._gpu.name}"
            self._happened.append(LaunchEvent(launch.number, "ended", self.now_ns(), reason))
            self._ended.add(launch.number)
            return
        visible_ns = self.now_ns() + round(self._gpu.launch_s * NS)
        waits_for = {number for number in launch.after if number not in self._ended}
        queued = _Queued(launch, demand, visible_ns, [], waits_for)
        if launch.persistent:
            queued.ranks = list(range(launch.physical_blocks))
        else:  # logical blocks are dealt out in turn, so that the first physical blocks may take one more
            blocks = min(launch.physical_blocks, launch.count)
            each, more = divmod(launch.count, blocks)
            queued.unplaced = [(number, took) for number, took in ((more, each + 1), (blocks - more, each)) if number]
        for number in waits_for:
            self._waited_for.setdefault(number, []).append(launch.task)
        stream = self._streams[launch.task]
        stream.append(queued)
        if len(stream) == 1:
            self._reach(launch.task, self.now_ns())

    def wait(self, until_ns: int | None) -> Sequence[LaunchEvent]:
        """Move the clock on until an event, or until ``until_ns``; keep the host busy with the events, return them."""
        while not self._happened and (
            until_ns is not None or earliest_ns((self._on.next_ns(), self._clock.next_ns())) is not None
        ):
            self._advance(until_ns)
            if until_ns is not None and self.now_ns() >= until_ns:
                break
        happened, self._happened = self._happened, []
        self._keep_host_busy(len(happened) * self._model.event_s)
        return happened

    def _advance(self, until_ns: int | None) -> None:
        """Move on to the next event, ``until_ns`` at the latest."""
        self._clock.advance(until_ns, self._on.next_ns())
        now_ns = self.now_ns()
        ended = self._on.take_ended(now_ns)
        going_on = self._take_more(ended)
        for group in ended:
            self._end_group(group, going_on)
        self._place()
        self._on.settle(now_ns)

    def _reach(self, task: str, from_ns: int) -> None:
        """Let the launch at the head of a stream begin as soon as it may, ``from_ns`` at the earliest."""
        stream = self._streams[task]
        if not stream or stream[0].reached or stream[0].waits_for:
            return
        head = stream[0]
        head.reached = True
        self._clock.at(max(from_ns, head.visible_ns, self.now_ns()), partial(self._make_ready, head))

    def _make_ready(self, queued: _Queued) -> None:
        launch = queued.launch
        heapq.heappush(self._ready, (-self._tasks[launch.task].priority, self.now_ns(), launch.number, queued))

    def _place(self) -> None:
        """Place blocks, the most urgent first, until those of one launch have no room."""
        kept: list[tuple[int, int, int, _Queued]] = []  # those without room in their part of the multiprocessors
        while self._ready:
            queued = self._ready[0][-1]
            if queued.launch.persistent:
                self._place_persistent(queued)
            else:
                self._place_some(queued)
            waits = bool(queued.unplaced or queued.ranks)
            if waits and self._tasks[queued.launch.task].sms is None:
                self._no_room = queued.launch.number
                break
            done = heapq.heappop(self._ready)
            kept += [done] if waits else []
        for each in kept:
            heapq.heappush(self._ready, each)

    def _place_some(self, queued: _Queued) -> None:
        while queued.unplaced:
            blocks, logical = queued.unplaced[0]
            placed = self._begin(queued, self._room_for(queued, blocks, logical))
            if placed < blocks:
                queued.unplaced[0] = (blocks - placed, logical)
                break
            del queued.unplaced[0]

    def _room_for(self, queued: _Queued, blocks: int, logical: int) -> list[BlockGroup]:
        """Place as many blocks of a launch as have room."""
        number = queued.launch.number
        return self._on.place(
            number, queued.demand, blocks, logical=logical, now_ns=self.now_ns(), freed_only=number == self._no_room,
            sms=self._tasks[queued.launch.task].sms,
        )  # fmt: skip

    def _begin(self, queued: _Queued, groups: Sequence[BlockGroup]) -> int:
        """Note blocks that have begun; return how many."""
        placed, number = sum(group.blocks for group in groups), queued.launch.number
        if placed and number not in self._running:
            self._running[number] = queued
            self._happened.append(LaunchEvent(number, "started", self.now_ns()))
        queued.resident += placed
        return placed

    def _place_persistent(self, queued: _Queued) -> None:
        """Place the blocks of a persistent launch that may go on; the others leave as they begin."""
        quota = self._quotas[queued.launch.task]
        able = [rank for rank in queued.ranks if rank < quota]
        queued.left += queued.ranks[len(able) :]
        wanted = min(len(able), queued.launch.count - queued.following)
        groups = self._room_for(queued, wanted, 1) if wanted else []
        placed = self._begin(queued, groups)
        deal(queued.take(able[:placed], quota), groups)
        queued.ranks = able[placed:] if placed < wanted else []

    def _take_more(self, ended: Sequence[BlockGroup]) -> dict[int, set[int]]:
        """Return the ranks of ended blocks that take another logical block, by launch.

        Of those that end at one time the lowest ranks come first, which are on different multiprocessors.
        """
        ranks: dict[int, list[int]] = {}
        for group in ended:
            if group.ranks:
                ranks.setdefault(group.launch, []).extend(group.ranks)
        found = {}
        for number, mine in ranks.items():
            queued = self._running[number]
            found[number] = set(queued.take(sorted(mine), self._quotas[queued.launch.task]))
        return found

    def _end_group(self, group: BlockGroup, going_on: Mapping[int, set[int]]) -> None:
        now_ns, queued = self.now_ns(), self._running[group.launch]
        if queued.launch.persistent:
            staying = [rank for rank in group.ranks if rank in going_on[group.launch]]
            if staying:
                self._on.go_on(group, staying, now_ns)
            group.blocks -= len(staying)
            if not group.blocks:
                return
        self.blocks += group.blocks
        queued.resident -= group.blocks
        if self.residencies_until_ns is None:
            self._reside(queued, Residency(group.launch, group.sm, group.start_ns, now_ns, group.blocks))
        over = queued.following == queued.launch.count if queued.launch.persistent else not queued.unplaced
        if queued.resident == 0 and over:
            queued.ranks = []
            self._end(queued)

    def _reside(self, queued: _Queued, new: Residency) -> None:
        """Record a residency, joined with those of the same launch that ended no earlier than it began."""
        last = queued.residencies.get(new.sm)
        if last is not None and new.start_ns <= last.end_ns:
            new = Residency(new.launch, new.sm, min(last.start_ns, new.start_ns), new.end_ns, last.blocks + new.blocks)
        elif last is not None:
            self.residencies.append(last)
        queued.residencies[new.sm] = new

    def _keep(self, queued: _Queued) -> None:
        """Keep the residencies of a launch, unless there are too many."""
        if self.residencies_until_ns is None:
            self.residencies.extend(queued.residencies.values())
            if len(self.residencies) >= self._most_residencies:
                self.residencies_until_ns = self.now_ns()

    def _end(self, queued: _Queued) -> None:
        now_ns, launch = self.now_ns(), queued.launch
        del self._running[launch.number]
        self._ended.add(launch.number)
        self._keep(queued)
        self._happened.append(LaunchEvent(launch.number, "ended", now_ns, self._fault(launch)))
        self._streams[launch.task].popleft()
        from_ns = now_ns + round(self._model.gap_s * NS)
        self._reach(launch.task, from_ns)
        for task in self._waited_for.pop(launch.number, ()):
            for waiting in self._streams[task]:
                waiting.waits_for.discard(launch.number)
            self._reach(task, from_ns)
