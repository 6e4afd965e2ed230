"""DeepEye (Mathur et al., MobiSys 2017): convolutions run while fully connected layers load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from edgetune.schedule.policies.policy import first_request
from edgetune.schedule.view import LayerTask, RequestState, View


class DeepEye:
    """Two streams of one network, one network after another: convolutions compute, fully connected layers are bytes.

        convolutions      load 1, execute 1, load 2, execute 2, ...
        fully connected   load 6, load 7, load 8, ...              execute 6, execute 7, ...

    Layers of neither kind are in the first stream. Each stream runs one task at a time, in the order of its layers.
    """

    name: ClassVar[str] = "deepeye"
    shares_weights: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    overcommits: bool = False

    def choose(self, view: View) -> LayerTask | None:
        """Return the next task of a stream that is idle, where it fits."""
        spent = view.unwanted()
        state = first_request(view)
        if spent is not None or state is None or not view.idle_workers:
            return spent
        busy = {_is_fully_connected(state, task) for task in view.running}
        candidates = [task for dense in (False, True) if dense not in busy for task in _next(state, dense=dense)]
        fitting = [task for task in candidates if task.bytes <= view.free_bytes]
        if fitting or view.running:
            return fitting[0] if fitting else None
        return candidates[0] if candidates else None


def _next(state: RequestState, *, dense: bool) -> Sequence[LayerTask]:
    """Return the next task of a stream, if there is one: an execution that is ready, else the next load."""
    executions = [task for task in state.executions() if _is_fully_connected(state, task) is dense]
    loads = [task for task in state.loads() if _is_fully_connected(state, task) is dense]
    return executions[:1] or loads[:1]


def _is_fully_connected(state: RequestState, task: LayerTask) -> bool:
    return state.network.layers[task.layer].kind == "fc"
