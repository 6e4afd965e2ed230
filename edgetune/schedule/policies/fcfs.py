"""First come, first served: executions before loads, each in the order of the requests' arrival."""

from __future__ import annotations

from typing import ClassVar

from edgetune.schedule.policies.policy import any_fits, first_fitting, for_progress
from edgetune.schedule.view import LayerTask, View


class FirstComeFirstServed:
    """The first execution that fits, else the first load that does."""

    name: ClassVar[str] = "fcfs"
    shares_weights: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    overcommits: bool = False

    def choose(self, view: View) -> LayerTask | None:
        """Return the first task that fits, of the preferred kind."""
        spent = view.unwanted()
        if spent is not None or not view.idle_workers:
            return spent
        for ready in (view.executions, view.loads):
            if any_fits(ready, view.free_bytes):
                return first_fitting(ready, view.free_bytes)
        return for_progress(view)
