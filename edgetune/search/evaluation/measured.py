"""A fully measured table as arrays, so that thousands of problems are answered at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.search.space import Space

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What is known of each point of a space, in its order; NaN where nothing was measured.

    Args:
        batch_size, minibatch_s, power_w: Of the one workload, or the urgent one of two: samples, s and W.
        background_batch_size: Samples of the second workload's minibatch; 0 where there is one workload.
        background_s, background_w: Of the second workload in the mode of each point.
    """

    batch_size: Array
    minibatch_s: Array
    power_w: Array
    background_batch_size: int = 0
    background_s: Array | None = None
    background_w: Array | None = None

    @classmethod
    def of(cls, space: Space, rows: Mapping[Point, ProfileRow]) -> Measured:
        """Return what ``rows`` say of the points of ``space``; any that are not there are not known."""
        sizes = np.array([point.batch_size for point in space.points], dtype=float)
        urgent = _figures([rows.get(point) for point in space.points])
        if space.background is None:
            return cls(sizes, *urgent)
        background = _figures([rows.get(space.partner(point)) for point in space.points])
        return cls(sizes, *urgent, space.background.batch_size, *background)


def _figures(rows: list[ProfileRow | None]) -> tuple[Array, Array]:
    """Return s and W of the rows; NaN for what is missing, failed or no figure."""
    figures = np.array([(np.nan, np.nan) if row is None else _pair(row) for row in rows], dtype=float).reshape(-1, 2)
    figures[~(np.isfinite(figures) & (figures > 0))] = np.nan
    return figures[:, 0], figures[:, 1]


def _pair(row: ProfileRow) -> tuple[float, float]:
    if row.status != "ok" or row.minibatch_s is None:
        return np.nan, np.nan
    return row.minibatch_s, np.nan if row.power_w is None else row.power_w
