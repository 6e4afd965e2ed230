"""Search guided by a small physical model of the board: the default strategy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.search.space import Space
from edgetune.search.strategies.strategy import Outcome, Suggestion

if TYPE_CHECKING:
    from edgetune.search.model.beliefs import Rows

NEGLIGIBLE = 2e-4
"""Expected gain below which nothing more is measured, as a share of the best cost."""


class Roofline:
    """The physical model, fitted anew after every measurement, chooses the next."""

    name: ClassVar[str] = "roofline"
    default_max_points: ClassVar[int | None] = 10

    def __init__(self, space: Space, problem: Problem, *, seed: int) -> None:
        import numpy as np

        from edgetune.search.model.candidates import Candidates

        self._space, self._problem = space, problem
        self._rows = {point: row for row, point in enumerate(space.points)}
        self._candidates = Candidates(space, problem, np.random.default_rng(seed))

    def ask(self) -> Suggestion | None:
        """Return the point that promises most, or ``None`` when none promises more than a negligible gain."""
        found = self._candidates.next()
        if found is None:
            return None
        row, reason, log_time, log_power = found
        predicted_s = None if log_time is None else math.exp(log_time)
        predicted_w = None if log_power is None else math.exp(log_power)
        return Suggestion(self._space.points[row], reason, predicted_s, predicted_w)

    def tell(self, point: Point, outcome: Outcome) -> None:
        """Take note of what came of a point."""
        self._candidates.note(self._rows[point], outcome)
