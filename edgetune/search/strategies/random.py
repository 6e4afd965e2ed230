"""Measure points drawn at random: the baseline that any other strategy has to beat."""

from __future__ import annotations

import random
from typing import ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.search.space import Space
from edgetune.search.strategies.strategy import Outcome, Suggestion


class Random:
    """Offered points drawn without replacement, each as likely as any other; the seed decides which."""

    name: ClassVar[str] = "random"
    default_max_points: ClassVar[int | None] = 50
    """The smallest of the three budgets (50, 150, 250) that Fulcrum gives its random baseline."""

    def __init__(self, space: Space, problem: Problem, *, seed: int) -> None:
        del problem
        points = list(space.points)
        random.Random(seed).shuffle(points)
        self._left = iter(points)
        self._told: set[Point] = set()

    def ask(self) -> Suggestion | None:
        """Return the next point drawn that nobody has told of."""
        point = next((point for point in self._left if point not in self._told), None)
        return None if point is None else Suggestion(point, "drawn at random")

    def tell(self, point: Point, outcome: Outcome) -> None:
        """Remember that the point is done."""
        del outcome
        self._told.add(point)
