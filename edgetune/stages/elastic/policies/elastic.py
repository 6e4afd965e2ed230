"""The policy ``elastic``: critical work at once, best-effort work in pieces that fit beside it (Miriam, 2023).

The policy ``persistent``: as ``elastic``, but a kernel of several waves is launched once and follows a quota.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import ClassVar

from edgetune.stages.elastic.gpu import Call, Gpu, GpuTask, KernelSequence
from edgetune.stages.elastic.kernel import NO_QUOTA
from edgetune.stages.elastic.pieces import LeftoverTable, PieceShape, alone, lasting, took_s, wave, whole_beside
from edgetune.stages.elastic.shrink import kept_pieces
from edgetune.stages.elastic.view import Decision, Launch, LaunchChain, LaunchPiece, SetQuota, TaskState, View, upcoming

BlockTime = Callable[[Call, PieceShape], float]
"""Returns how long a physical block of a piece stays on a multiprocessor that it has for itself, s."""
DEPTH = 2
"""Pieces in flight without a critical kernel, at least: the running one, and one behind it, so that the GPU is busy."""
MOST = 32
"""Pieces in flight at most, however short their estimates are."""


class Elastic:
    """Critical chains never wait for a decision; normal kernels are cut as they are launched.

        critical              [a1  ][a2 ][a3    ]
        normal    [wave][wave]      [piece][piece][wave][wave]      beside a1 nothing fits; a2 and a3 leave room

    Without a critical kernel, the normal task with the least service so far launches as many blocks as the GPU holds at
    once, or several such waves where one is shorter than launching it; the pieces that wait behind the running one
    together last as long as launching one, so that the GPU does not wait for the host. Beside critical kernels it
    launches the best kept piece that fits what they leave, and more of the same task's, which run one after another,
    only while those in flight take less than launching one; where none of its pieces fits, the next task may.
    """

    name: ClassVar[str] = "elastic"

    def __init__(self) -> None:
        self._within: tuple[BlockTime, float] | None = None
        self._beside: dict[tuple[Gpu, Call], LeftoverTable] = {}

    def prepare(self, tasks: Iterable[GpuTask], gpu: Gpu) -> None:
        """Compute the tables of all best-effort kernels before a run."""
        for task in tasks:
            for call in () if task.critical else task.network.calls:
                self.beside(gpu, call)

    def keep_within(self, block_s: BlockTime, most_s: float) -> None:
        """Shorten pieces beside critical kernels so that their blocks leave in time, where they go through several.

        Args:
            block_s: Returns how long a physical block of a piece stays, s.
            most_s: The longest stay, s.
        """
        self._within = block_s, most_s
        self._beside.clear()

    def beside(self, gpu: Gpu, call: Call) -> LeftoverTable:
        """Return the best pieces of a kernel beside critical ones, each as long as launching it takes.

        Of a kernel without elastic forms, that is all of its blocks where they fit.
        """
        found = self._beside.get((gpu, call))
        if found is None and call.elastic:
            kept = kept_pieces(call, gpu).rows
            rows = ([(most, self._lasting(gpu, call, shape)) for most, shape in row] for row in kept)
            found = self._beside[gpu, call] = LeftoverTable(tuple(map(tuple, rows)))
        elif found is None:
            found = self._beside[gpu, call] = whole_beside(call, gpu)
        return found

    def decide(self, view: View) -> Sequence[Decision]:
        """Return the most critical chain that waits; else a piece of normal work, where there is room for one."""
        urgent = [state for state in view.tasks if state.task.critical and state.arrived_ns]
        if urgent:
            return (LaunchChain(max(urgent, key=lambda state: state.task.priority).task.name),)
        normal = [state for state in view.tasks if not state.task.critical]
        critical = critical_launches(view)
        there = [state for state in normal if state.in_flight]
        if there and _enough(view.gpu, [launch for state in there for launch in state.in_flight], beside=critical):
            return ()
        if critical and len(there) > 1:
            return ()
        able = there if critical and there else normal  # pieces of one task run one after another
        if len(able) > 1:
            able = sorted(able, key=lambda state: (state.served_s, len(state.in_flight)))
        for state in able:
            found = upcoming(state)
            if found is None:
                continue
            call, left = found
            shape = self.fitting(view.gpu, call, critical) if critical else alone(view.gpu, call)
            if shape is not None:
                return (_piece(state.task.name, call, left, shape),)
        return ()

    def _lasting(self, gpu: Gpu, call: Call, shape: PieceShape) -> PieceShape:
        """Return a shape that lasts as long as launching it, unless its blocks would stay too long."""
        longer = lasting(gpu, call, shape)
        if self._within is None:
            return longer
        block_s, most_s = self._within
        turns = max(1, int(most_s / block_s(call, replace(longer, count=longer.blocks))))
        return replace(longer, count=min(longer.count, turns * longer.blocks))

    def fitting(self, gpu: Gpu, call: Call, critical: Iterable[Launch]) -> PieceShape | None:
        """Return the best piece of a kernel that fits what critical launches leave; ``None``: nothing fits.

        Each of several critical launches has a last wave and threads of its own, at worst on other multiprocessors and
        on the same ones: both are added up.
        """
        blocks = sum(launch.physical_blocks % gpu.sm_count for launch in critical)
        threads = sum(launch.physical_threads for launch in critical)
        return self.beside(gpu, call).choose(blocks, threads) if blocks < gpu.sm_count else None


def critical_launches(view: View) -> Sequence[Launch]:
    """Return the critical launch of each chain: the running one, or else the next one."""
    found: list[Launch] = []
    for state in view.tasks:
        if state.task.critical and state.in_flight:
            name = state.task.name
            running = [launch for launch in view.resident if launch.task == name]
            found.extend(running or (state.in_flight[0],))
    return found


def _enough(gpu: Gpu, in_flight: Sequence[Launch], *, beside: Sequence[Launch]) -> bool:
    """Return whether pieces in flight keep the GPU busy until another launch gets there.

    Args:
        gpu: The GPU.
        in_flight: Pieces, at least one. The oldest runs; how much of it is left is unknown.
        beside: Critical launches. A piece that waits behind the oldest keeps from them what they leave later, so that
            the running piece counts too.
    """
    deep = len(in_flight)
    if deep >= MOST:
        return True
    if not beside and deep < DEPTH:
        return False
    oldest = min(launch.number for launch in in_flight)
    counted_s = 0.0
    for launch in in_flight:
        if beside or launch.number != oldest:
            counted_s += took_s(gpu, launch.what, launch.count, launch.per_thread, launch.physical_blocks)
    return counted_s >= gpu.launch_s


def _piece(task: str, call: Call, left: int, shape: PieceShape) -> LaunchPiece:
    """Return a piece of this shape, smaller where less is left; the original kernel where it is that."""
    count = min(shape.count, left)
    blocks = min(shape.blocks, count)
    if count == blocks == call.logical.blocks and shape.per_thread == 1:
        return LaunchPiece(task, count)
    return LaunchPiece(task, count, shape.per_thread, blocks)


class Persistent:
    """Critical chains never wait for a decision; a normal kernel fills the GPU and leaves what critical ones need.

        critical                 [a1   ][a2 ][a3    ]
        normal    [b, 64 blocks ]            [5 of b] [64 blocks of b          ][c ...
        quota     none            0           5        none

    Without a critical kernel as many blocks as the GPU holds take logical blocks, and the next kernel of the task is
    launched behind. Beside a critical kernel the quota is the number of blocks of the best kept piece that fits what it
    and all kernels behind it leave, as a logical block may last longer than a critical kernel; where nothing fits it is
    zero. Kernels of one wave or less, and all that are begun beside critical kernels, are launched as ``elastic`` does.
    """

    name: ClassVar[str] = "persistent"

    def __init__(self) -> None:
        self._elastic = Elastic()
        self._later: dict[tuple[Call, KernelSequence], Sequence[int]] = {}
        """By normal call and critical network."""

    def prepare(self, tasks: Iterable[GpuTask], gpu: Gpu) -> None:
        """Compute the tables of all best-effort kernels before a run."""
        self._elastic.prepare(tasks, gpu)

    def decide(self, view: View) -> Sequence[Decision]:
        """Return the most critical chain that waits, behind the quotas that it needs; else quotas or normal work."""
        waiting = (each.task for each in view.tasks if each.task.critical and each.arrived_ns and not each.in_flight)
        critical = [*critical_launches(view), *(_launch(task, task.network.calls[0]) for task in waiting)]
        decisions: list[Decision] = []
        for state in view.tasks:
            quota = NO_QUOTA if not critical else self._quota(view, state, critical)
            if quota != state.quota and not state.task.critical:
                decisions.append(SetQuota(state.task.name, quota))
        more = self._elastic.decide(view)
        if decisions:  # what else is launched depends on them
            return [*decisions, *(each for each in more if not isinstance(each, LaunchPiece))]
        return more if critical else [self._persistent(view, each) for each in more]

    def _persistent(self, view: View, decision: Decision) -> Decision:
        """Return the persistent launch of a kernel of several waves in place of a piece of it."""
        if not isinstance(decision, LaunchPiece):
            return decision
        found = upcoming(next(each for each in view.tasks if each.task.name == decision.task))
        if found is None or not found[0].elastic or not found[0].persistent:
            return decision
        call, left = found
        blocks = wave(view.gpu, call)
        return LaunchPiece(decision.task, left, 1, blocks, persistent=True) if 0 < blocks < left else decision

    def _quota(self, view: View, state: TaskState, critical: Sequence[Launch]) -> int:
        """Return how many blocks of a task's oldest persistent launch may go on beside critical ones."""
        running = next((launch for launch in state.in_flight if launch.persistent), None)
        if running is None:
            return state.quota
        quota = self._fitting(view.gpu, running.what, critical)
        for other in view.tasks:
            if other.task.critical and (other.in_flight or other.arrived_ns):
                place = other.in_flight[0].call if other.in_flight else 0
                quota = min(quota, self._from_there_on(view.gpu, running.what, other.task)[place])
        return quota

    def _from_there_on(self, gpu: Gpu, call: Call, critical: GpuTask) -> Sequence[int]:
        """Return how many blocks fit beside each critical kernel of a network and all behind it."""
        network = critical.network
        if (call, network) not in self._later:
            fitting = [self._fitting(gpu, call, [_launch(critical, each)]) for each in network.calls]
            self._later[call, network] = [*accumulate(reversed(fitting), min)][::-1]
        return self._later[call, network]

    def _fitting(self, gpu: Gpu, call: Call, critical: Sequence[Launch]) -> int:
        """Return how many blocks of a kernel fit beside critical launches, of the threads of the best kept piece."""
        shape = self._elastic.fitting(gpu, call, critical)
        return 0 if shape is None else shape.blocks // shape.per_thread


def _launch(task: GpuTask, call: Call) -> Launch:
    return Launch(-1, task.name, 0, 0, call, 0, call.logical.blocks)
