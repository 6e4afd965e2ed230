"""The policy ``persistent``: as ``elastic``, but a kernel of several waves is launched once and follows a quota."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import ClassVar

from edgetune.stages.elastic.abi import NO_QUOTA
from edgetune.stages.elastic.backend import Launch
from edgetune.stages.elastic.gpu import Gpu
from edgetune.stages.elastic.pieces import Tables, wave
from edgetune.stages.elastic.policies.elastic import Elastic, critical_launches
from edgetune.stages.elastic.view import Decision, LaunchPiece, SetQuota, TaskState, View, upcoming
from edgetune.stages.elastic.work import Call, GpuTask, KernelSequence


class Persistent:
    """Critical chains never wait for a decision; a normal kernel fills the GPU and leaves what critical ones need.

        critical                 [a1   ][a2 ][a3    ]
        normal    [b, 64 blocks ]            [5 of b] [64 blocks of b          ][c ...
        quota     none            0           5        none

    Without a critical kernel as many blocks as the GPU holds take logical blocks, and the next kernel of the task is
    launched behind. Beside a critical kernel the quota is the number of blocks of the best kept piece that fits what it
    and all kernels behind it leave, as a logical block may last longer than a critical kernel; where nothing fits it is
    zero. Kernels of one wave or less, and all that are begun beside critical kernels, are launched as ``elastic`` does.

    Args:
        tables: As of ``Elastic``.
    """

    name: ClassVar[str] = "persistent"

    def __init__(self, tables: Tables | None = None) -> None:
        self._elastic = Elastic(tables)
        self._later: dict[tuple[int, int], tuple[Call, KernelSequence, Sequence[int]]] = {}
        """By identity of the normal call and of the critical network; both are kept."""

    def prepare(self, tasks: Iterable[GpuTask], gpu: Gpu) -> None:
        """Compute the tables of all best-effort kernels before a run."""
        self._elastic.prepare(tasks, gpu)

    def decide(self, view: View) -> Sequence[Decision]:
        """Return the most critical chain that waits, behind the quotas that it needs; else quotas or normal work."""
        critical = [*critical_launches(view), *_coming(view.tasks)]
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
        found = self._later.get((id(call), id(network)))
        if found is None:
            fitting = [self._fitting(gpu, call, [_launch(critical, each)]) for each in network.calls]
            least = [*accumulate(reversed(fitting), min)][::-1]
            found = self._later[id(call), id(network)] = call, network, least
        return found[2]

    def _fitting(self, gpu: Gpu, call: Call, critical: Sequence[Launch]) -> int:
        """Return how many blocks of a kernel fit beside critical launches, of the threads of the best kept piece."""
        shape = self._elastic.fitting(gpu, call, critical)
        return 0 if shape is None else shape.blocks // shape.per_thread


def _coming(states: Iterable[TaskState]) -> list[Launch]:
    """Return the first kernel of each critical request that waits behind nothing of its task."""
    waiting = (state.task for state in states if state.task.critical and state.arrived_ns and not state.in_flight)
    return [_launch(task, task.network.calls[0]) for task in waiting]


def _launch(task: GpuTask, call: Call) -> Launch:
    return Launch(-1, task.name, 0, 0, call, 0, call.logical.blocks)
