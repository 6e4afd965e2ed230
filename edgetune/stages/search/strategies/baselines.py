"""The strategies ``exhaustive`` (the true optimum) and ``random`` (the baseline)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import chain
from typing import ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategy import NO_HINTS, Hints, PointResult, Strategy, Suggestion


class _Listed(Strategy):
    """Points in a given order, without those whose result is known."""

    reason: ClassVar[str]
    takes_names: ClassVar[bool] = True
    judges_columns: ClassVar[bool] = True

    def __init__(self, points: Iterable[Point]) -> None:
        self._left = iter(dict.fromkeys(points))
        self._told: set[Point] = set()

    def ask(self) -> Suggestion | None:
        """Return the next point whose result is not known."""
        point = next((point for point in self._left if point not in self._told), None)
        return None if point is None else Suggestion(point, self.reason)

    def tell(self, point: Point, result: PointResult) -> None:
        """Remember that the point is done."""
        del result
        self._told.add(point)


class Exhaustive(_Listed):
    """Every offered point, of two workloads both halves, in the order of the space. The seed has no effect."""

    name: ClassVar[str] = "exhaustive"
    reason: ClassVar[str] = "every point is measured"
    learns_halves: ClassVar[bool] = True

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del problem, seed, hints
        halves = [[point] if space.background is None else [point, space.partner(point)] for point in space.points]
        super().__init__(chain.from_iterable(halves))

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return ``None``: all of them."""
        del problem
        return None


class Random(_Listed):
    """Offered points drawn without replacement, each as likely as any other; the seed decides which."""

    name: ClassVar[str] = "random"
    reason: ClassVar[str] = "drawn at random"
    budget_free: ClassVar[bool] = True

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del problem, hints
        points = list(space.points)
        random.Random(seed).shuffle(points)
        super().__init__(points)

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return 50, the smallest of the three budgets (50, 150, 250) that Fulcrum gives its random baseline."""
        del problem
        return 50
