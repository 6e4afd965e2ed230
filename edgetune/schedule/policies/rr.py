"""Round robin: requests take turns, a task each."""

from __future__ import annotations

from typing import ClassVar

from edgetune.schedule.policies.policy import in_order
from edgetune.schedule.view import LayerTask, View


class RoundRobin:
    """The request whose last task was chosen longest ago goes first; executions before loads."""

    name: ClassVar[str] = "rr"
    shares_weights: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    overcommits: bool = False

    def __init__(self) -> None:
        self._turns: dict[int, int] = {}
        """When each request that had a turn had its last, counted in turns."""
        self._next = 1

    def choose(self, view: View) -> LayerTask | None:
        """Return the first task that fits, of the request that has waited longest for its turn."""
        if len(self._turns) > 2 * len(view.requests):
            self._turns = {number: turn for number, turn in self._turns.items() if number in view.requests}
        waiting = sorted(view.requests.values(), key=lambda state: self._turns.get(state.request.number, 0))
        task = in_order(view, waiting)
        if task is not None and task.kind != "unload":
            self._turns[task.request] = self._next
            self._next += 1
        return task
