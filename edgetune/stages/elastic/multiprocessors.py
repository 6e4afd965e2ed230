"""The multiprocessors of the simulated GPU: which blocks are on which, and how fast they progress.

    SM 0  [ a a a a | b ]      groups: equal blocks of one launch that began on one multiprocessor together
    SM 1  [ a a a a     ]      they progress alike, and end together

Blocks go where most of them have room (the scheduler chooses "based on the SM's local resource availability": Gilman et
al. 2020, Demystifying the Placement Policies of the NVIDIA GPU Thread Block Scheduler, for Pascal, Volta and Turing);
among equals to the lowest number. A thousand equal blocks cost as much as one. A start or end on one multiprocessor is
no work on the others, unless it changes the bandwidth that all share.
"""

import heapq
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from edgetune.stages.elastic.gpu import Gpu
from edgetune.stages.elastic.model import BlockDemand
from edgetune.units import NS

_ROUNDING_NS = 1e-3
"""Remaining work that counts as none: far above the rounding error, far below any visible time."""
_NOTICED = 0.005
"""Relative change of the load on the bandwidth from which on the speeds of blocks are computed anew."""


@dataclass(slots=True, eq=False)
class BlockGroup:
    """Equal blocks of one launch that began on one multiprocessor together.

    Args:
        launch: Number of their launch.
        sm: Their multiprocessor.
        blocks: Their number.
        start_ns: Their start.
        demand: Of one of them.
        left_ns: Remaining time if it were alone, ns.
        stretch: Factor by which it is slower than alone.
        ranks: Of its blocks, where these are of a persistent kernel.
    """

    launch: int
    sm: int
    blocks: int
    start_ns: int
    demand: BlockDemand
    left_ns: float
    stretch: float = 1.0
    ranks: Sequence[int] = ()


@dataclass(slots=True, eq=False)
class _Multiprocessor:
    """The free resources of a multiprocessor and its blocks; ``left_ns`` of its groups is as of ``since_ns``."""

    number: int
    threads: int
    registers: int
    shared_bytes: int
    blocks: int
    since_ns: int
    groups: list[BlockGroup] = field(default_factory=list)
    drawn: float = 0.0
    """Bytes a ns that its groups draw where the bandwidth is enough."""
    version: int = 0
    """Of what is known of its next end."""

    def room(self, demand: BlockDemand) -> int:
        """Return how many of such blocks still fit."""
        room = min(self.blocks, self.threads // demand.threads)
        if demand.registers:
            room = min(room, self.registers // demand.registers)
        if demand.shared_bytes:
            room = min(room, self.shared_bytes // demand.shared_bytes)
        return room

    def hold(self, demand: BlockDemand, blocks: int) -> None:
        """Allocate the needs of so many blocks; release them where the number is negative."""
        self.threads -= blocks * demand.threads
        self.registers -= blocks * demand.registers
        self.shared_bytes -= blocks * demand.shared_bytes
        self.blocks -= blocks

    def progress(self, now_ns: int) -> None:
        """Subtract the work done since the last time."""
        passed_ns = now_ns - self.since_ns
        if passed_ns:
            self.since_ns = now_ns
            for group in self.groups:
                group.left_ns -= passed_ns / group.stretch

    def share(self, over: float) -> int | None:
        """Compute the speed of all groups; return when the first of them ends, ns.

        Computing and bandwidth of a multiprocessor are shared in proportion to what blocks would use alone; so is the
        bandwidth of the device among those that draw. A block takes as long as the slowest of the three.

        Args:
            over: The load on the bandwidth of the device, relative to it; 1 where it is enough.
        """
        compute = memory = drawn = 0.0
        for group in self.groups:
            compute += group.blocks * group.demand.compute
            memory += group.blocks * group.demand.memory
        first_ns = math.inf
        for group in self.groups:
            demand = group.demand
            drawing = demand.drawing * memory if memory > 1 else demand.drawing
            computing = demand.computing * compute if compute > 1 else demand.computing
            stretch = max(computing, drawing, 1.0)
            drawn += group.blocks * demand.bytes_per_ns / stretch
            group.stretch = max(stretch, drawing * over)
            first_ns = min(first_ns, group.left_ns * group.stretch)
        self.drawn = drawn
        return self.since_ns + max(math.ceil(first_ns - _ROUNDING_NS), 0) if self.groups else None


class Multiprocessors:
    """The resident blocks and the free resources.

    Args:
        gpu: The number of multiprocessors, and their limits.
        now_ns: The time.
    """

    def __init__(self, gpu: Gpu, now_ns: int) -> None:
        limits = (gpu.threads_per_sm, gpu.registers_per_sm, gpu.shared_bytes_per_sm, gpu.blocks_per_sm)
        self._all = [_Multiprocessor(number, *limits, now_ns) for number in range(gpu.sm_count)]
        self._bytes_per_ns = gpu.bandwidth_bytes_per_s / NS
        self._drawn, self._over = 0.0, 1.0
        self._ends: list[tuple[int, int, int]] = []
        """A heap: the end of the first group of a multiprocessor, its number and the version of that estimate."""
        self._changed: dict[int, _Multiprocessor] = {}
        self._freed: list[_Multiprocessor] = []

    def next_ns(self) -> int | None:
        """Return when the first group ends at the current speeds; ``None`` where nothing is resident."""
        while self._ends and self._ends[0][2] != self._all[self._ends[0][1]].version:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def take_ended(self, now_ns: int) -> list[BlockGroup]:
        """Return the groups that have ended, and release their resources."""
        ended: list[BlockGroup] = []
        self._freed = []
        while (at_ns := self.next_ns()) is not None and at_ns <= now_ns:
            multiprocessor = self._all[heapq.heappop(self._ends)[1]]
            self._change(multiprocessor, now_ns)
            multiprocessor.groups, groups = [], multiprocessor.groups
            for group in groups:
                if group.left_ns > _ROUNDING_NS:
                    multiprocessor.groups.append(group)
                else:
                    multiprocessor.hold(group.demand, -group.blocks)
                    ended.append(group)
            self._freed.append(multiprocessor)
        return ended

    def place(
        self, launch: int, demand: BlockDemand, blocks: int, *, logical: int, now_ns: int, freed_only: bool = False,
        sms: int | None = None,
    ) -> list[BlockGroup]:  # fmt: skip
        """Place as many blocks as have room; return their groups.

        Args:
            launch: Number of their launch.
            demand: Of one of them.
            blocks: Their number.
            logical: Logical blocks of each.
            now_ns: Their start.
            freed_only: Whether they had no room before the last call of ``take_ended``.
            sms: Only on so many multiprocessors, the first ones.
        """
        where = self._all[:sms] if sms is not None else self._freed if freed_only else self._all
        rooms = [(multiprocessor, room) for multiprocessor in where if (room := multiprocessor.room(demand)) > 0]
        placed = [
            BlockGroup(launch, multiprocessor.number, count, now_ns, demand, logical * demand.logical_ns)
            for multiprocessor, count in distribute(rooms, blocks)
        ]
        for group in placed:
            self._add(group, now_ns)
        return placed

    def go_on(self, group: BlockGroup, ranks: Sequence[int], now_ns: int) -> None:
        """Let blocks of a group that has just ended take one more logical block each, where they are."""
        left_ns = group.demand.logical_ns
        self._add(replace(group, blocks=len(ranks), left_ns=left_ns, stretch=1.0, ranks=ranks), now_ns)

    def _add(self, group: BlockGroup, now_ns: int) -> None:
        multiprocessor = self._all[group.sm]
        multiprocessor.hold(group.demand, group.blocks)
        self._change(multiprocessor, now_ns)
        multiprocessor.groups.append(group)

    def settle(self, now_ns: int) -> None:
        """Compute all speeds after blocks were placed or ended."""
        if not self._changed:
            return
        for multiprocessor in self._changed.values():
            self._share(multiprocessor)
        self._changed.clear()
        over = max(1.0, self._drawn / self._bytes_per_ns)
        if abs(over - self._over) > _NOTICED * self._over:
            self._over = over
            for multiprocessor in self._all:
                if multiprocessor.drawn:
                    multiprocessor.progress(now_ns)
                    self._share(multiprocessor)

    def _change(self, multiprocessor: _Multiprocessor, now_ns: int) -> None:
        """Bring a multiprocessor up to now, before something changes on it."""
        if multiprocessor.number not in self._changed:
            multiprocessor.progress(now_ns)
            multiprocessor.version += 1
            self._changed[multiprocessor.number] = multiprocessor

    def _share(self, multiprocessor: _Multiprocessor) -> None:
        self._drawn -= multiprocessor.drawn
        next_ns = multiprocessor.share(self._over)
        self._drawn += multiprocessor.drawn
        multiprocessor.version += 1
        if next_ns is not None:
            heapq.heappush(self._ends, (next_ns, multiprocessor.number, multiprocessor.version))


def distribute(rooms: Sequence[tuple[_Multiprocessor, int]], blocks: int) -> list[tuple[_Multiprocessor, int]]:
    """Return how many blocks go where: one after another to where most room is left.

    Args:
        rooms: Multiprocessors by number, each with how many blocks fit.
        blocks: Their number.
    """
    if sum(room for _, room in rooms) <= blocks:
        return list(rooms)
    levels = range(max(room for _, room in rooms))  # the highest down to which there are places enough
    level = bisect_right(levels, -blocks, key=lambda level: -sum(max(room - level, 0) for _, room in rooms)) - 1
    placed = [(multiprocessor, room - level) for multiprocessor, room in rooms if room > level]
    too_many = sum(count for _, count in placed) - blocks
    kept = len(placed) - too_many  # of those that would come down to the level, the last ones stay one above
    placed = [*placed[:kept], *((multiprocessor, count - 1) for multiprocessor, count in placed[kept:])]
    return [(multiprocessor, count) for multiprocessor, count in placed if count]


def deal(ranks: Sequence[int], groups: Sequence[BlockGroup]) -> None:
    """Give the blocks of groups their ranks: one to each multiprocessor in turn, as blocks of a launch are placed."""
    rounds = range(max((group.blocks for group in groups), default=0))
    places = (group for taken in rounds for group in groups if taken < group.blocks)
    for rank, group in zip(ranks, places, strict=False):
        group.ranks = (*group.ranks, rank)
