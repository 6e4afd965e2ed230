"""A layer at a time: loaded, executed, unloaded; one network after another."""

from __future__ import annotations

from typing import ClassVar

from edgetune.schedule.policies.policy import first_request
from edgetune.schedule.view import LayerTask, View


class Linear:
    """Needs the least memory there is a way to run in, and uses one worker.

    load 1, execute 1, unload 1, load 2, ...: of the request that came first, in the order of its layers.
    """

    name: ClassVar[str] = "linear"
    shares_weights: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    overcommits: bool = False

    def choose(self, view: View) -> LayerTask | None:
        """Return the next task of the first request, once the last is over."""
        spent = view.unwanted()
        state = first_request(view)
        if spent is not None or view.running or state is None:
            return spent
        return next(iter([*state.executions(), *state.loads()]), None)
