"""Two workloads on one board: which point of which workload each half of a pair is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.profile import Point
from edgetune.search.model.coordinates import Array, Coordinates, Rows
from edgetune.search.model.learnt import PointBeliefs, PointFigures
from edgetune.search.space import Space
from edgetune.search.strategies.strategy import PointResult

Flags = NDArray[np.bool_]


class Halves:
    """Two workloads: which row of which model each half of a pair is.

    One network that is both, a second instance of itself, is learnt once: then both models are the same object.

    Args:
        space: The urgent points, with their background.
        power_noise: Relative standard deviation of one power reading.
    """

    def __init__(self, space: Space, power_noise: float) -> None:
        assert space.background is not None
        partners, first = [space.partner(point) for point in space.points], space.points[0]
        self.same = (first.workload, first.task) == (space.background.workload, space.background.task)
        self.urgent = PointBeliefs([*space.points, *partners] if self.same else space.points, power_noise)
        self.background = self.urgent if self.same else PointBeliefs(partners, power_noise)
        self.urgent_rows = np.array([self.urgent.rows[point] for point in space.points], dtype=np.intp)
        self.background_rows = np.array([self.background.rows[point] for point in partners], dtype=np.intp)
        self.batch_sizes = np.array([point.batch_size for point in space.points], dtype=float)
        self.background_size = space.background.batch_size
        self.coordinates = Coordinates.of(space)

    def tell(self, point: Point, result: PointResult) -> Rows:
        """Take note of a half; return the pairs that it is a half of."""
        touched = np.zeros(len(self.batch_sizes), dtype=bool)
        for learnt, rows in ((self.urgent, self.urgent_rows), (self.background, self.background_rows)):
            row = learnt.rows.get(point)
            touched |= rows == (-1 if row is None else row)
        for learnt in {id(learnt): learnt for learnt in (self.urgent, self.background)}.values():
            if point in learnt.rows:
                learnt.tell(learnt.rows[point], result)
        return np.flatnonzero(touched)

    def measured(self, pairs: Rows) -> tuple[Flags, Flags]:
        """Return whether each half of these pairs was told of, measured or failed."""
        return self.urgent.told[self.urgent_rows[pairs]], self.background.told[self.background_rows[pairs]]

    def failed(self, pairs: Rows) -> Flags:
        """Return whether a half of these pairs failed."""
        return self.urgent.failed[self.urgent_rows[pairs]] | self.background.failed[self.background_rows[pairs]]

    def figures(self, pair: int) -> tuple[PointFigures, PointFigures]:
        """Return what was measured of both halves."""
        urgent = self.urgent.figures[int(self.urgent_rows[pair])]
        return urgent, self.background.figures[int(self.background_rows[pair])]

    def nearest(self, place: Array, *, urgent: bool) -> tuple[PointBeliefs, int] | None:
        """Return the half nearest to a place in unit coordinates that was not told of, with its model."""
        learnt, rows = (self.urgent, self.urgent_rows) if urgent else (self.background, self.background_rows)
        pairs = np.flatnonzero(~learnt.told[rows])
        if not len(pairs):
            return None
        squares = ((self.coordinates.unit[pairs] - place) ** 2).sum(axis=1)
        return learnt, int(rows[pairs[np.argmin(squares)]])
