"""A critical task alone on the GPU: what its latency is compared with.

Not one of the policies to choose from: it launches whatever waits, and knows nothing of sharing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from edgetune.elastic.view import Decision, LaunchChain, View

SOLO = "solo"
"""What rows call it."""


class Solo:
    """Launches every request as it comes."""

    name: ClassVar[str] = SOLO

    def decide(self, view: View) -> Sequence[Decision]:
        """Return a chain for every request that waits."""
        return [LaunchChain(each.task.name) for each in view.tasks for _ in each.arrived_ns]
