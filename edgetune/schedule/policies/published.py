"""Published policies: MASA, by the memory that tasks need, and DeepEye, two streams of one network.

MASA: Cox, TU Delft 2020; Cox et al., PerCom 2021. DeepEye: Mathur et al., MobiSys 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from edgetune.schedule.policies.classic import shortest_first
from edgetune.schedule.policies.policy import SchedulePolicy, any_fits, first_fitting, first_request, for_progress
from edgetune.schedule.request_state import RequestProgress
from edgetune.schedule.state import View
from edgetune.schedule.tasks import LayerTask

Variant = Literal["thesis", "code"]
"""The algorithm as it was described, or as the published code behaves."""


class Masa(SchedulePolicy):
    """Executions before loads, each by increasing memory; the first that fits what is free.

    If nothing runs and nothing fits, the smallest of the preferred kind runs, so that there is progress.

    Args:
        variant: With ``code``, as the published code does, requests for the shortest network go first, and executions
            begin whatever memory is free (github.com/bacox/edgecaffe, ``MasaScheduler``).
    """

    name = "masa"
    variants = get_args(Variant)

    def __init__(self, variant: Variant = "thesis") -> None:
        self.overcommits = variant == "code"

    def choose(self, view: View) -> LayerTask | None:
        """Return the smallest task of the preferred kind that fits."""
        unwanted = view.unwanted()
        if unwanted is not None or not view.idle_workers:
            return unwanted
        if self.overcommits:
            return _as_published(view)
        for ready in (view.executions, view.loads):
            if any_fits(ready, view.free_bytes):
                return ready.smallest
        return for_progress(view)


def _as_published(view: View) -> LayerTask | None:
    shortest = shortest_first(view)
    if len(view.executions):
        return next(task for state in shortest for task in state.executions())
    if any_fits(view.loads, view.free_bytes):
        return next(task for s in shortest if (task := first_fitting(s.loads(), view.free_bytes)) is not None)
    return for_progress(view)


class DeepEye(SchedulePolicy):
    """Two streams of one network, one network after another: convolutions run while fully connected layers load.

        convolutions      load 1, execute 1, load 2, execute 2, ...
        fully connected   load 6, load 7, load 8, ...              execute 6, execute 7, ...

    Layers of neither kind are in the first stream. Each stream runs one task at a time, in the order of its layers.
    """

    name = "deepeye"

    def choose(self, view: View) -> LayerTask | None:
        """Return the next task of a stream that is idle, where it fits."""
        unwanted, state = view.unwanted(), first_request(view)
        if unwanted is not None or state is None or not view.idle_workers:
            return unwanted
        busy = {_is_fully_connected(state, task) for task in view.running}
        candidates = [task for dense in (False, True) if dense not in busy for task in _next(state, dense=dense)]
        fitting = [task for task in candidates if task.bytes <= view.free_bytes]
        return next(iter(fitting if fitting or view.running else candidates), None)


def _next(state: RequestProgress, *, dense: bool) -> Sequence[LayerTask]:
    """Return the next task of a stream, if there is one: an execution that is ready, else the next load."""
    executions = [task for task in state.executions() if _is_fully_connected(state, task) is dense]
    loads = [task for task in state.loads() if _is_fully_connected(state, task) is dense]
    return executions[:1] or loads[:1]


def _is_fully_connected(state: RequestProgress, task: LayerTask) -> bool:
    return state.network.layers[task.layer].kind == "fc"
