"""The policy ``sequential``: one request at a time, as a program with one stream runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from edgetune.stages.elastic.view import Decision, LaunchChain, View, by_priority


class Sequential:
    """All kernels of the oldest request, once all kernels of the last request have ended.

        critical  [a1 a2 a3]                    [a1 a2 a3]
        normal              [b1 b2 b3 b4 b5 b6]

    Of requests that came at once the most critical is first.
    """

    name: ClassVar[str] = "sequential"

    def decide(self, view: View) -> Sequence[Decision]:
        """Return the oldest request, where nothing runs."""
        waiting = [state for state in view.tasks if state.arrived_ns]
        if not waiting or any(state.in_flight for state in view.tasks):
            return ()
        first = min(by_priority(waiting), key=lambda state: state.arrived_ns[0])
        return (LaunchChain(first.task.name),)
