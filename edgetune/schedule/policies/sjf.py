"""Shortest job first: the request that has the least left to do."""

from __future__ import annotations

from typing import ClassVar

from edgetune.schedule.policies.policy import in_order
from edgetune.schedule.view import LayerTask, View


class ShortestJobFirst:
    """Requests by the time that their loads and executions still take; executions before loads."""

    name: ClassVar[str] = "sjf"
    shares_weights: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    overcommits: bool = False

    def choose(self, view: View) -> LayerTask | None:
        """Return the first task that fits, of the request with the least left."""
        return in_order(view, sorted(view.requests.values(), key=lambda state: state.left_ns))
