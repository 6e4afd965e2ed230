"""Measure everything, of two workloads both halves: the truth, where there is time for it or a table that has it."""

from __future__ import annotations

from itertools import chain
from typing import ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.search.space import Space
from edgetune.search.strategies.strategy import NO_HINTS, Hints, PointResult, Suggestion


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
