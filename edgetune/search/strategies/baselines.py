"""The strategies ``exhaustive`` and ``random``: the truth, and the baseline that any other strategy has to beat."""

from __future__ import annotations

import random
from itertools import chain
from typing import ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.search.space import Space
from edgetune.search.strategy import NO_HINTS, Hints, PointResult, Suggestion


class Exhaustive:
    """Every offered point, in the order of the space. The seed changes nothing."""

    name: ClassVar[str] = "exhaustive"
    learns_halves: ClassVar[bool] = True
    budget_free: ClassVar[bool] = False
    takes_names: ClassVar[bool] = True

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del problem, seed, hints
        halves = [[point] if space.background is None else [point, space.partner(point)] for point in space.points]
        self._left = iter(dict.fromkeys(chain.from_iterable(halves)))
        self._told: set[Point] = set()

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return ``None``: all of them."""
        del problem
        return None

    def ask(self) -> Suggestion | None:
        """Return the next point that nobody has told of."""
        point = next((point for point in self._left if point not in self._told), None)
        return None if point is None else Suggestion(point, "every point is measured")

    def tell(self, point: Point, result: PointResult) -> None:
        """Remember that the point is done."""
        del result
        self._told.add(point)


class Random:
    """Offered points drawn without replacement, each as likely as any other; the seed decides which."""

    name: ClassVar[str] = "random"
    learns_halves: ClassVar[bool] = False
    budget_free: ClassVar[bool] = True
    takes_names: ClassVar[bool] = True

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del problem, hints
        points = list(space.points)
        random.Random(seed).shuffle(points)
        self._left = iter(points)
        self._told: set[Point] = set()

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return 50, the smallest of the three budgets (50, 150, 250) that Fulcrum gives its random baseline."""
        del problem
        return 50

    def ask(self) -> Suggestion | None:
        """Return the next point drawn that nobody has told of."""
        point = next((point for point in self._left if point not in self._told), None)
        return None if point is None else Suggestion(point, "drawn at random")

    def tell(self, point: Point, result: PointResult) -> None:
        """Remember that the point is done."""
        del result
        self._told.add(point)
