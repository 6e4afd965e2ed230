"""Layers with nothing but their dependencies, first come, first served."""

from __future__ import annotations

from typing import ClassVar

from edgetune.schedule.policies.policy import any_fits, first_fitting, for_progress
from edgetune.schedule.view import LayerTask, View


class Partial:
    """Of all that is ready and fits, the first by request, then by layer; a load before no execution of its layer.

    Loads of late layers begin as soon as a worker is idle, whether they will be needed soon or not.
    """

    name: ClassVar[str] = "partial"
    shares_weights: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    overcommits: bool = False

    def choose(self, view: View) -> LayerTask | None:
        """Return the first task that fits."""
        spent = view.unwanted()
        if spent is not None or not view.idle_workers:
            return spent
        free_bytes = view.free_bytes
        first = [
            task
            for ready in (view.executions, view.loads)
            if any_fits(ready, free_bytes) and (task := first_fitting(ready, free_bytes)) is not None
        ]
        return min(first, key=lambda task: (task.request, task.layer)) if first else for_progress(view)
