"""MASA (Cox, TU Delft 2020; Cox et al., PerCom 2021): what needs the least memory first."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

from edgetune.schedule.policies.policy import any_fits, first_fitting, for_progress
from edgetune.schedule.policies.snf import shortest_first
from edgetune.schedule.view import LayerTask, View

Variant = Literal["thesis", "code"]
"""The algorithm as it was described, or as the published code behaves."""


class Masa:
    """Executions before loads, each by increasing memory; the first that fits what is free.

    If nothing runs and nothing fits, the smallest of the preferred kind runs, so that there is progress.

    Args:
        variant: ``code`` is what the published code does instead: requests for the shortest network go first, and
            executions are not held against the memory that is free (github.com/bacox/edgecaffe, ``MasaScheduler``).
    """

    name: ClassVar[str] = "masa"
    shares_weights: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    variants: ClassVar[tuple[Variant, ...]] = get_args(Variant)

    def __init__(self, variant: Variant = "thesis") -> None:
        self._variant = variant
        self.overcommits = variant == "code"
        """Whether the loop is to let executions begin that do not fit."""

    def choose(self, view: View) -> LayerTask | None:
        """Return the smallest task of the preferred kind that fits."""
        spent = view.unwanted()
        if spent is not None or not view.idle_workers:
            return spent
        if self._variant == "code":
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
