"""One of two workloads: what was measured of it, and what is believed of all its points."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.profile import Point
from edgetune.search.model.beliefs import Belief, Beliefs
from edgetune.search.model.coordinates import Coordinates, Rows, log_caps
from edgetune.search.model.gain import WAVER
from edgetune.search.space import Space
from edgetune.search.strategies.strategy import PointResult, Suggestion

KEPT_POINTS = 4096
"""Up to this many points their beliefs are computed at once and kept until something more is measured."""


@dataclass(frozen=True, slots=True)
class PointFigures:
    """What was measured of a point: s per minibatch, W (not a number when not measured), and how many readings."""

    minibatch_s: float
    power_w: float
    readings: int


class PointBeliefs:
    """The points of one workload and task, each known, believed, or failed.

    Args:
        points: All of them.
        power_noise: Relative standard deviation of one power reading.
    """

    def __init__(self, points: Iterable[Point], power_noise: float) -> None:
        self.space = Space.of(points)
        self.rows = {point: row for row, point in enumerate(self.space.points)}
        self.coordinates = Coordinates.of(self.space)
        self.told: NDArray[np.bool_] = np.zeros(len(self.rows), dtype=bool)
        self.failed: NDArray[np.bool_] = np.zeros(len(self.rows), dtype=bool)
        self.figures: dict[int, PointFigures] = {}
        self._beliefs = Beliefs(self.coordinates, log_caps(self.space), power_noise)
        self._stale, self._kept = True, None  # type: tuple[bool, Belief | None]

    def tell(self, row: int, result: PointResult) -> None:
        """Take note of what came of a point."""
        self.told[row] = True
        if result.minibatch_s is None:
            self.failed[row] = row not in self.figures
            return
        readings = self.figures[row].readings + 1 if row in self.figures else 1
        power_w = math.nan if result.power_w is None else result.power_w
        self.figures[row], self._stale, self._kept = PointFigures(result.minibatch_s, power_w, readings), True, None

    def about(self, rows: Rows) -> Belief:
        """Return what is believed of these points; something must have been measured. What was measured is sure."""
        if self._stale:
            figures = self.figures.values()
            measured = [
                np.array([getattr(f, name) for f in figures]) for name in ("minibatch_s", "power_w", "readings")
            ]
            self._beliefs.learn(np.array(list(self.figures), dtype=np.intp), *measured)
            self._stale = False
        if len(self.rows) > KEPT_POINTS:
            unique, places = np.unique(rows, return_inverse=True)
            return _at(self._believed(unique), places)
        if self._kept is None:
            self._kept = self._believed(np.arange(len(self.rows)))
        return _at(self._kept, rows)

    def spread(self) -> Rows:
        """Return all points, or many spread evenly over them where they are too many."""
        return np.linspace(0, len(self.rows) - 1, min(len(self.rows), KEPT_POINTS)).astype(np.intp)

    def suggestion(self, row: int, reason: str) -> Suggestion:
        """Return the suggestion to measure a point, with what is believed of it once anything was measured."""
        point = self.space.points[row]
        if not self.figures:
            return Suggestion(point, reason)
        belief = self.about(np.array([row], dtype=np.intp))
        time_s, power_w = math.exp(float(belief.log_time[0])), math.exp(float(belief.log_power[0]))
        return Suggestion(point, reason, time_s, None if math.isnan(power_w) else power_w)

    def _believed(self, rows: Rows) -> Belief:
        belief = self._beliefs.about(rows)
        log_time, log_power = belief.log_time.copy(), belief.log_power.copy()
        time_sd, power_sd = np.hypot(belief.time_sd, WAVER), np.hypot(belief.power_sd, WAVER)
        for row, figures in self.figures.items():
            place = rows == row
            log_time[place], time_sd[place] = math.log(figures.minibatch_s), 0.0
            if not math.isnan(figures.power_w):
                log_power[place], power_sd[place] = math.log(figures.power_w), 0.0
        return Belief(log_time, time_sd, log_power, power_sd)


def _at(belief: Belief, rows: Rows) -> Belief:
    return Belief(belief.log_time[rows], belief.time_sd[rows], belief.log_power[rows], belief.power_sd[rows])
