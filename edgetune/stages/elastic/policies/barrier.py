"""The policy ``barrier``: kernels side by side, in rounds, with barriers between streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from edgetune.stages.elastic.backend import Launch
from edgetune.stages.elastic.view import Decision, LaunchPiece, View, by_priority, upcoming

_ROUNDS = 2
"""Rounds in flight: the running one, and one behind it, whose barriers the GPU waits at without the host."""


class Barrier:
    """A round is the next kernel of each task; it begins when all kernels of the last round have ended.

        critical  [a1  ]|[a2]    |[a3    ]|
        normal    [b1]  |[b2    ]|[b3]    |[b4  ]|     a task that becomes busy joins the next round

    This keeps several streams in step where contention is to be controlled (Yu et al., ICCAD 2021, compared with in
    Miriam): no kernel is beside more than one of each other task, and each waits for the slowest.
    """

    name: ClassVar[str] = "barrier"

    def decide(self, view: View) -> Sequence[Decision]:
        """Return the next round, where there is room for one."""
        rounds = _rounds([launch for state in view.tasks for launch in state.in_flight])
        if len(rounds) == _ROUNDS:
            return ()
        after = tuple(sorted(launch.number for launch in rounds[-1])) if rounds else ()
        found = [(state, upcoming(state)) for state in by_priority(view.tasks)]
        return [LaunchPiece(state.task.name, next_[1], after=after) for state, next_ in found if next_ is not None]


def _rounds(in_flight: Sequence[Launch]) -> Sequence[Sequence[Launch]]:
    """Return launches by round: those of one round wait for the same launches of the round before."""
    rounds: dict[tuple[int, ...], list[Launch]] = {}
    for launch in sorted(in_flight, key=lambda launch: launch.number):
        rounds.setdefault(launch.after, []).append(launch)
    return list(rounds.values())
