"""The policy ``persistent``: as ``elastic``, but a kernel of several waves is launched once and follows a quota."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from edgetune.stages.elastic.abi import NO_QUOTA
from edgetune.stages.elastic.backend import Launch
from edgetune.stages.elastic.gpu import Gpu
from edgetune.stages.elastic.pieces import Tables, wave
from edgetune.stages.elastic.policies.elastic import Elastic, critical_launches
from edgetune.stages.elastic.view import Decision, LaunchPiece, SetQuota, TaskState, View, upcoming
from edgetune.stages.elastic.work import GpuTask


class Persistent:
    """Critical chains never wait for a decision; a normal kernel fills the GPU and leaves what critical ones need.

        critical                 [a1   ][a2 ][a3    ]
        normal    [b, 64 blocks ] [3 of b]   [5     ] [64 blocks of b          ][c ...
        quota     none            3      0    5        none

    Without a critical kernel as many blocks as the GPU holds take logical blocks, and the next kernel of the task is
    launched behind. Beside critical kernels the quota is the number of blocks of the best kept piece that fits what
    they leave; where nothing fits it is zero. Kernels of one wave or less, and all that are begun beside critical
    kernels, are launched as ``elastic`` does.

    Args:
        tables: As of ``Elastic``.
    """

    name: ClassVar[str] = "persistent"

    def __init__(self, tables: Tables | None = None) -> None:
        self._elastic = Elastic(tables)

    def prepare(self, tasks: Iterable[GpuTask], gpu: Gpu, kept: Tables) -> None:
        """Compute the tables of all best-effort kernels before a run; ``kept`` ones are taken as they are."""
        self._elastic.prepare(tasks, gpu, kept)

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
        shape = self._elastic.beside(self._elastic.sizes_of(view.gpu), running.what, critical)
        return 0 if shape is None else shape.blocks // shape.per_thread


def _coming(states: Iterable[TaskState]) -> list[Launch]:
    """Return the first kernel of each critical request that waits behind nothing of its task."""
    waiting = (state.task for state in states if state.task.critical and state.arrived_ns and not state.in_flight)
    first = ((task.name, task.network.calls[0]) for task in waiting)
    return [Launch(-1, name, 0, 0, call, 0, call.logical.blocks) for name, call in first]
