"""The points of a space as arrays, and the search for the best of those still open.

A board offers 18,096 modes, times a few batch sizes. Where a score is too expensive to compute for every point, a
coarse sub-grid is scored first, then finer and finer ones around its best points.

What other networks on the same board measured, as curves over the points of a search.

A relative may have been measured on another grid, or at other batch sizes: where it lacks a point, its neighbours are
interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import mean_minibatch_s
from edgetune.stages.search.space import Space, without_network
from edgetune.stages.search.strategy import LEAST_POINTS

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
"""Points, by their index in the space."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Every point of a space, as arrays of one row per point.

    Args:
        names: The varying knobs, in the order of the columns.
        levels: Place of each point on each axis, counted from 0, shape (points, axes).
        logs: Natural log of each value over the largest on its axis, so at most 0, shape (points, axes).
        unit: Place between 0 and 1, the mean of a linear and a logarithmic scale, shape (points, axes). Times change
            with ratios of clocks and powers with differences; between the two, neither is badly stretched.
        cores: CPU cores of each point, shape (points,); ones where they do not vary.
        above: Whether each point is above each place at which a figure may step, shape (points, 1 + places); the first
            is no place at all, and no point is above it.
        spread: Share of a place among those of its knob, shape (places,).
    """

    names: tuple[str, ...]
    levels: NDArray[np.int32]
    logs: Array
    unit: Array
    cores: Array
    above: NDArray[np.bool_]
    spread: Array

    @classmethod
    def of(cls, space: Space) -> Coordinates:
        """Return the coordinates of a space's points, in their order."""
        count = len(space.points)
        levels = np.array(list(space.levels.values()), dtype=np.int32).reshape(count, -1)  # in the order of the points
        logs, unit = np.zeros(levels.shape), np.zeros(levels.shape)
        cores: NDArray[np.float64] = np.ones(count)
        for i, axis in enumerate(space.axes):
            values = np.array(axis.values, dtype=float)
            # A core count of 0 or a clock read as 0 has no log: the floor keeps it finite and below all others.
            log = np.log(np.maximum(values, values[-1] * 1e-3) / values[-1])
            linear = (values - values[0]) / (values[-1] - values[0])
            logs[:, i] = log[levels[:, i]]
            unit[:, i] = ((linear + 1 - log / log[0]) / 2)[levels[:, i]]
            if axis.name == "cpu_cores":
                cores = values[levels[:, i]]
        tops = levels.max(axis=0, initial=0)
        stepping = tops if len(tops) >= STEPPING_KNOBS else tops[:0]
        chosen = [np.unique(np.linspace(1, top, min(top, MOST_PLACES)).round()) for top in stepping]
        above = [np.zeros((count, 1)), *(levels[:, [i]] >= each for i, each in enumerate(chosen))]
        spread = [np.full(len(each), 1 / len(each)) for each in chosen]
        return cls(
            tuple(axis.name for axis in space.axes), levels, logs, unit, cores,
            np.concatenate(above, axis=1).astype(bool), np.concatenate([np.zeros(0), *spread]),
        )  # fmt: skip

    def step_chances(self, chance: float) -> Array:
        """Return the chance of no step, and of a step at each place, for a chance of one on each knob."""
        steps = chance * self.spread
        return np.concatenate([[max(1 - steps.sum(), LEAST_REGULAR)], steps])

    def log(self, name: str, rows: Rows) -> Array:
        """Return the logs of a knob in these rows, zeros where it does not vary."""
        return self.logs[rows, self.names.index(name)] if name in self.names else np.zeros(len(rows))


def log_caps(space: Space) -> Array | None:
    """Return the log of each point's power limit, W; ``None`` where it does not vary."""
    if all(axis.name != "power_limit_w" for axis in space.axes):
        return None
    logs: Array = np.log(np.array([point.mode.power_limit_w for point in space.points], dtype=float))
    return logs


MOST_PLACES, STEPPING_KNOBS = 12, 3
"""Most places on a knob at which a figure may step, spread over its levels, and fewest knobs with steps: with one or
two knobs, steps cost more than they bring."""
LEAST_REGULAR = 0.05
"""Least chance beforehand that a figure has no step."""
ALL_AT_ONCE = 1600
"""Number of points up to which every point is scored by default."""
KEPT = 24
"""Number of best points whose neighbours each refinement scores: with 4, a search among 18,096 modes ended 1 % worse in
the mean than with all of them scored, with 24 as well."""


class OpenPoints:
    """The points of a space that may still be measured.

    Args:
        coordinates: The points.
        affordable: Number of points up to which every point is scored; a coarse sub-grid has about half as many.
    """

    def __init__(self, coordinates: Coordinates, *, affordable: int = ALL_AT_ONCE) -> None:
        self.coordinates = coordinates
        self._affordable, self._count = affordable, affordable // 2
        self._levels = coordinates.levels
        self._open = np.ones(len(self._levels), dtype=bool)
        self._tops = self._levels.max(axis=0, initial=0)
        # Points lie in the order of their levels, so their places in the full grid are sorted and can be looked up.
        self._strides = np.array(
            [int(np.prod(self._tops[i + 1 :] + 1)) for i in range(len(self._tops))], dtype=np.int64
        )
        self._places = self._levels @ self._strides
        if len(self._levels) > affordable:
            self._coarse, self._steps = self._coarse_grid()

    def close(self, row: int) -> None:
        """Remove a measured point."""
        self._open[row] = False

    def close_all(self, pointless: NDArray[np.bool_]) -> None:
        """Remove every point whose mask is set, shape (points,), because it cannot be an answer."""
        self._open &= ~pointless

    def nearest(self, place: Array) -> int | None:
        """Return the open point nearest to a place in unit coordinates."""
        rows = np.flatnonzero(self._open)
        if not len(rows):
            return None
        squares = ((self.coordinates.unit[rows] - place) ** 2).sum(axis=1)
        return int(rows[np.argmin(squares)])

    def best(self, score: Callable[[Rows], Array]) -> tuple[int, float] | None:
        """Return the open point with the highest score, and that score; ``None`` when no point is open."""
        rows = np.flatnonzero(self._open)
        if not len(rows):
            return None
        if len(rows) <= self._affordable:
            scores = score(rows)
            return int(rows[np.argmax(scores)]), float(scores.max())
        rows = self._coarse[self._open[self._coarse]]
        if not len(rows):
            rows = np.flatnonzero(self._open)[:: len(self._open) // self._count]
        scores, steps = score(rows), self._steps
        while True:
            kept = np.argsort(-scores, kind="stable")[:KEPT]
            rows, scores = rows[kept], scores[kept]
            if (steps <= 1).all() and steps is not self._steps:
                return int(rows[0]), float(scores[0])
            steps = np.maximum(steps // 2, 1)
            around = np.setdiff1d(self._around(rows, steps), rows)
            if len(around):
                rows, scores = np.concatenate([rows, around]), np.concatenate([scores, score(around)])

    def top(self, score: Callable[[Rows], Array], count: int) -> Rows:
        """Return the open points with the highest scores, best first; too many points are thinned out."""
        rows = np.flatnonzero(self._open)
        if len(rows) > self._affordable:
            rows = rows[:: len(rows) // self._count]
        return np.asarray(rows[np.argsort(-score(rows), kind="stable")[:count]] if len(rows) else rows)

    def _around(self, rows: Rows, steps: NDArray[np.int64]) -> Rows:
        """Return the open points one step away from these on any axes."""
        axes = len(self._tops)
        offsets = np.stack(np.meshgrid(*[[-1, 0, 1]] * axes, indexing="ij"), axis=-1).reshape(-1, axes) * steps
        levels = (self._levels[rows][:, None, :] + offsets[None, :, :]).reshape(-1, axes)
        levels = np.clip(levels, 0, self._tops)
        places = np.unique(levels @ self._strides)
        found = np.minimum(np.searchsorted(self._places, places), len(self._places) - 1)
        found = found[self._places[found] == places]
        return np.asarray(found[self._open[found]], dtype=np.intp)

    def _coarse_grid(self) -> tuple[Rows, NDArray[np.int64]]:
        """Return a sub-grid with both ends of every axis, and its steps; on a sparse set, evenly spaced points too."""
        counts = self._tops.astype(np.int64) + 1
        while np.prod(counts.astype(float)) > self._count:
            counts[np.argmax(counts)] -= 1
        inside = np.ones(len(self._levels), dtype=bool)
        for i, count in enumerate(counts):
            chosen = np.unique(np.linspace(0, self._tops[i], count).round().astype(np.int64))
            inside &= np.isin(self._levels[:, i], chosen)
        rows = np.flatnonzero(inside)
        if len(rows) < self._count // 2:
            rows = np.union1d(rows, np.arange(0, len(self._levels), max(len(self._levels) // self._count, 1)))
        steps = np.ceil(self._tops / np.maximum(counts - 1, 1)).astype(np.int64)
        return rows, steps


MOST_ROWS = 4096
"""Rows of a relative that are looked at, spread over all of them."""
NEIGHBOURS = 24
"""How many of the nearest rows a point between them is interpolated from."""


@dataclass(frozen=True, slots=True)
class Relatives:
    """Curves of the relatives, each at every point of a space.

    Args:
        log_times: Log of s per minibatch, shape (relatives, points).
        log_powers: Log of W, shape (relatives that measured power, points).
    """

    log_times: Array
    log_powers: Array


NO_RELATIVES = Relatives(np.zeros((0, 0)), np.zeros((0, 0)))


def relative_curves(points: Sequence[Point], rows: Iterable[ProfileRow]) -> Relatives:
    """Return the curves of every network and task of some rows at these points.

    A network with too few rows, or whose rows do not vary the knobs of the points, has none.
    """
    log_times, log_powers, networks = [], [], by_network(rows)
    places = [without_network(point) for point in points] if networks else []
    for found in networks.values():
        curve = _curve(places, found)
        if curve is None:
            continue
        log_times.append(curve[:, 0])
        if np.isfinite(curve[:, 1]).all():
            log_powers.append(curve[:, 1])
    if not log_times:
        return NO_RELATIVES
    powers = np.array(log_powers) if log_powers else np.zeros((0, len(places)))
    return Relatives(np.array(log_times), powers)


def by_network(rows: Iterable[ProfileRow]) -> dict[str, list[ProfileRow]]:
    """Return the measured rows of each network and task, by their names."""
    found: dict[str, list[ProfileRow]] = {}
    for row in rows:
        if row.status == "ok" and row.minibatch_s is not None and 0 < row.minibatch_s < math.inf:
            found.setdefault(f"{row.workload} {row.task}", []).append(row)
    return found


def _curve(places: Sequence[Point], rows: list[ProfileRow]) -> Array | None:
    """Return log time and log power at some places, shape (places, 2), or ``None`` if the rows do not say."""
    known = {without_network(row.point): row for row in rows}
    wanted = set(places)
    exact = [place for place in known if place in wanted]
    if len(exact) < len(wanted):
        spread = np.linspace(0, len(known) - 1, min(len(known), MOST_ROWS)).round().astype(int)
        every = list(known)
        known = {every[i]: known[every[i]] for i in np.unique(spread)} | {place: known[place] for place in exact}
    if len(known) < LEAST_POINTS:
        return None
    values = np.array([[_log(mean_minibatch_s(row)), _log(row.power_w)] for row in known.values()])
    if len(exact) == len(wanted):
        index = {place: i for i, place in enumerate(known)}
        return values[[index[place] for place in places]]
    if Space.of(known).names != Space.of(places).names:
        return None
    from scipy.interpolate import RBFInterpolator  # takes as long to load as numpy, for tables on another grid only

    space = Space.of([*places, *known])
    unit = dict(zip(space.points, Coordinates.of(space).unit, strict=True))
    at = np.array([unit[place] for place in known])
    interpolate = RBFInterpolator(at, values, neighbors=min(NEIGHBOURS, len(known)), kernel="linear")
    return np.asarray(interpolate(np.array([unit[place] for place in places])))


def _log(value: float | None) -> float:
    return math.log(value) if value is not None and 0 < value < math.inf else math.nan
