"""Predictions for every point of a space after some measurements: time, power, and their uncertainty.

``Beliefs`` fits both laws to measurements; ``PointBeliefs`` adds what was measured of one workload; ``Halves`` holds
the two workloads of a pair.

The chance that a point keeps its budgets on columns, such as the time to the first token.

Each column has a model of time of its own, fitted to the values measured so far as shares of their limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from edgetune.artifacts.profile import Point
from edgetune.stages.search.model.board_laws import PowerModel, TimeModel
from edgetune.stages.search.model.coordinates import (
    NO_RELATIVES,
    Array,
    Coordinates,
    Relatives,
    Rows,
    log_caps,
    relative_curves,
)
from edgetune.stages.search.model.fit import NOISES, Hypothesis, Law, Steps, mixed
from edgetune.stages.search.model.hypotheses import KEPT_POINTS, Blend, any_slope, physics, related
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategy import Hints, PointResult, Suggestion

TIME_ERROR, POWER_ERROR = 0.7, 0.95
"""Errors of predicted log time and log power over their standard deviations in the fits, whose priors are wide on
purpose: on the tables of ``tests/benchmarks/search_tables.py`` their 80 % intervals hold for 90 % of times and 85 % of
powers."""
TIME_STEP_CHANCE, POWER_STEP_CHANCE = 0.1, 0.2
"""Chances beforehand that time and power step at some level of a knob, for each knob."""
TIME_STEP_SD, POWER_STEP_SD = 0.5, 0.25
"""Standard deviations of the heights of these steps, in log time and log power."""
TIME_SCALE_SD = 3.0
POWER_SCALE_SD = 0.3
"""Standard deviations of the log of the ratio between a network's time, or power, and its relatives': the time of a
minibatch may be anything, and the board is the same."""


@dataclass(frozen=True, slots=True)
class Belief:
    """Mean and standard deviation of log time (s) and log power (W) of some points, shape (points,) each."""

    log_time: Array
    time_sd: Array
    log_power: Array
    power_sd: Array

    def bold(self) -> Belief:
        """Return the belief to choose points by, with the standard deviations of the fits.

        A search that chooses by the narrower ones, which hold as often as they say, explores too little.
        """
        return replace(self, time_sd=self.time_sd / TIME_ERROR, power_sd=self.power_sd / POWER_ERROR)


@dataclass(slots=True)
class Beliefs:
    """Both models, fitted to what has been measured.

    Args:
        coordinates: The points.
        log_cap: Log of the power limit of each point, W; ``None`` without that knob.
        power_noise: Relative standard deviation of one power reading; 0 estimates it from the measurements.
        relatives: Curves of other networks on the same board, at every point.
    """

    coordinates: Coordinates
    log_cap: Array | None
    power_noise: float = 0.0
    relatives: Relatives = NO_RELATIVES
    _time_model: TimeModel = field(init=False)
    _power_model: PowerModel = field(init=False)
    _of_time: list[Hypothesis] = field(init=False)  # besides the relatives, as below
    _any_slope: Hypothesis = field(init=False)  # of power, whose physics depends on the fit of time
    _power_steps: Steps = field(init=False)
    _time: Blend | None = None
    _power: Blend | None = None
    _scale: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self._time_model = TimeModel.of(self.coordinates)
        self._power_model = PowerModel.of(self.coordinates)
        time_steps = Steps(self.coordinates.step_chances(TIME_STEP_CHANCE), TIME_STEP_SD)
        self._power_steps = Steps(self.coordinates.step_chances(POWER_STEP_CHANCE), POWER_STEP_SD)
        self._of_time = physics(self._time_model.law, self._time_model.prior, time_steps)
        self._any_slope = any_slope(self.coordinates.logs, self._power_steps)

    def learn(self, rows: Rows, times_s: Array, powers_w: Array, readings: Array | None = None) -> None:
        """Fit both models to these measurements, at least one; a power that was not measured is NaN.

        ``readings`` is the number of readings of each mean; 1 by default.
        """
        readings = np.ones(len(rows)) if readings is None else readings
        log_time = np.log(times_s)
        time_scale = float(np.median(log_time))
        log_time = log_time - time_scale
        hypotheses = [*self._of_time, *related(self.relatives.log_times, TIME_SCALE_SD, rows, log_time)]
        self._time = Blend.of(hypotheses, rows, self.coordinates, log_time, readings=readings, before=self._time)
        known = np.isfinite(powers_w)
        rows, readings, log_power = rows[known], readings[known], np.log(powers_w[known])
        power_scale = float(np.median(log_power)) if len(rows) else 0.0
        self._scale = (time_scale, power_scale)
        if not len(rows):
            self._power = None
            return
        theta = self._time.fits[0].theta[0]

        def law(rows: Rows) -> Law:
            return self._power_model.law(rows, self._time_model.busy(theta, rows), self._cap(rows))

        hypotheses = [*physics(law, self._power_model.prior, self._power_steps), self._any_slope]
        noises = (self.power_noise,) if self.power_noise else NOISES
        log_power = log_power - power_scale
        hypotheses += related(self.relatives.log_powers, POWER_SCALE_SD, rows, log_power)
        self._power = Blend.of(
            hypotheses, rows, self.coordinates, log_power, readings=readings, noises=noises, before=self._power
        )

    def about(self, rows: Rows) -> Belief:
        """Return the beliefs of these points; power is NaN without any measurement of power."""
        assert self._time is not None
        log_time, time_sd = mixed(*self._time.predict(rows, self.coordinates))
        if self._power is None:
            unknown = np.full(len(rows), np.nan)
            return Belief(log_time + self._scale[0], TIME_ERROR * time_sd, unknown, unknown)
        log_power, power_sd = mixed(*self._power.predict(rows, self.coordinates))
        time_sd, power_sd = TIME_ERROR * time_sd, POWER_ERROR * power_sd
        return Belief(log_time + self._scale[0], time_sd, log_power + self._scale[1], power_sd)

    def parts(self, rows: Rows, *, in_doubt: bool = False) -> tuple[Array, Array, Belief]:
        """Return the weights of the parts of time and of power, and the belief of each part.

        Times have the shape (parts, 1, points), powers (1, parts, points). Two parts that disagree are two narrow
        beliefs here and one wide belief in ``about``. ``in_doubt`` doubts the physics of power.
        """
        assert self._time is not None
        of_time, log_time, time_sd = self._time.predict(rows, self.coordinates)
        of_power: Array = np.ones(1)
        log_power: Array = np.full((1, len(rows)), np.nan)
        power_sd: Array = np.full((1, len(rows)), np.nan)
        if self._power is not None:
            of_power, log_power, power_sd = self._power.predict(rows, self.coordinates, in_doubt=in_doubt)
        time = log_time[:, None] + self._scale[0], TIME_ERROR * time_sd[:, None]
        return of_time, of_power, Belief(*time, log_power[None] + self._scale[1], POWER_ERROR * power_sd[None])

    def _cap(self, rows: Rows) -> Array | None:
        return None if self.log_cap is None else self.log_cap[rows] - self._scale[1]


@dataclass(frozen=True, slots=True)
class PointFigures:
    """Measurement of a point: s per minibatch, W (NaN if not measured), and the number of readings."""

    minibatch_s: float
    power_w: float
    readings: int


class PointBeliefs:
    """The points of one workload and task, each measured, predicted, or failed.

    Args:
        points: The points.
        hints: Prior knowledge: the noise of power readings, and relatives.
    """

    def __init__(self, points: Iterable[Point], hints: Hints) -> None:
        self.space = Space.of(points)
        self.rows = {point: row for row, point in enumerate(self.space.points)}
        self.coordinates, relatives = Coordinates.of(self.space), relative_curves(self.space.points, hints.relatives)
        self._beliefs = Beliefs(self.coordinates, log_caps(self.space), hints.power_noise, relatives=relatives)
        self.told: NDArray[np.bool_] = np.zeros(len(self.rows), dtype=bool)
        self.failed: NDArray[np.bool_] = np.zeros(len(self.rows), dtype=bool)
        self.figures: dict[int, PointFigures] = {}
        self._stale, self._kept = True, None  # type: tuple[bool, Belief | None]

    def tell(self, row: int, result: PointResult) -> None:
        """Record the result of a point."""
        self.told[row] = True
        if result.minibatch_s is None:
            self.failed[row] = row not in self.figures
            return
        readings = self.figures[row].readings + 1 if row in self.figures else 1
        power_w = math.nan if result.power_w is None else result.power_w
        self.figures[row], self._stale, self._kept = PointFigures(result.minibatch_s, power_w, readings), True, None

    def about(self, rows: Rows) -> Belief:
        """Return the beliefs of these points, exact for measured ones; at least one must be measured."""
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
        """Return all points, or an evenly spread subset if they are too many."""
        return np.linspace(0, len(self.rows) - 1, min(len(self.rows), KEPT_POINTS)).astype(np.intp)

    def suggestion(self, row: int, reason: str) -> Suggestion:
        """Return the suggestion to measure a point, with its prediction once there is a measurement."""
        point = self.space.points[row]
        if not self.figures:
            return Suggestion(point, reason)
        belief = self.about(np.array([row], dtype=np.intp))
        time_s, power_w = math.exp(float(belief.log_time[0])), math.exp(float(belief.log_power[0]))
        return Suggestion(point, reason, time_s, None if math.isnan(power_w) else power_w)

    def _believed(self, rows: Rows) -> Belief:
        belief = self._beliefs.about(rows).bold()
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


Flags = NDArray[np.bool_]


class Halves:
    """Two workloads: the model and row of each half of a pair.

    If both are the same network, it is fitted once, and both models are the same object.

    Args:
        space: The urgent points, with their background.
        hints: Prior knowledge.
    """

    def __init__(self, space: Space, hints: Hints) -> None:
        assert space.background is not None
        partners, first = space.partners, space.points[0]
        self.same = (first.workload, first.task) == (space.background.workload, space.background.task)
        self.urgent = PointBeliefs([*space.points, *partners] if self.same else space.points, hints)
        self.background = self.urgent if self.same else PointBeliefs(partners, hints)
        self.urgent_rows = np.array([self.urgent.rows[each] for each in space.points], dtype=np.intp)
        self.background_rows = np.array([self.background.rows[each] for each in partners], dtype=np.intp)
        self.batch_sizes = np.array([point.batch_size for point in space.points], dtype=float)
        self.background_size = space.background.batch_size
        self.coordinates = Coordinates.of(space)

    def tell(self, point: Point, result: PointResult) -> tuple[Rows, Rows]:
        """Record the result of a half; of the pairs that contain it, return those of which both halves were measured,
        and those with a half that failed."""
        touched = np.zeros(len(self.batch_sizes), dtype=bool)
        for learnt, rows in ((self.urgent, self.urgent_rows), (self.background, self.background_rows)):
            row = learnt.rows.get(point)
            touched |= rows == (-1 if row is None else row)
        for learnt in {id(learnt): learnt for learnt in (self.urgent, self.background)}.values():
            if point in learnt.rows:
                learnt.tell(learnt.rows[point], result)
        pairs = np.flatnonzero(touched)
        urgent, background = self.measured(pairs)
        failed = self.urgent.failed[self.urgent_rows[pairs]] | self.background.failed[self.background_rows[pairs]]
        return pairs[urgent & background & ~failed], pairs[failed]

    def measured(self, pairs: Rows) -> tuple[Flags, Flags]:
        """Return whether each half of these pairs has a result, measured or failed."""
        return self.urgent.told[self.urgent_rows[pairs]], self.background.told[self.background_rows[pairs]]

    def figures(self, pair: int) -> tuple[PointFigures, PointFigures]:
        """Return the measurements of both halves."""
        urgent = self.urgent.figures[int(self.urgent_rows[pair])]
        return urgent, self.background.figures[int(self.background_rows[pair])]

    def nearest(self, place: Array, *, urgent: bool) -> tuple[PointBeliefs, int] | None:
        """Return the half without a result that is nearest to a place in unit coordinates, with its model."""
        learnt, rows = (self.urgent, self.urgent_rows) if urgent else (self.background, self.background_rows)
        pairs = np.flatnonzero(~learnt.told[rows])
        if not len(pairs):
            return None
        squares = ((self.coordinates.unit[pairs] - place) ** 2).sum(axis=1)
        return learnt, int(rows[pairs[np.argmin(squares)]])


WAVER = 0.01
"""Standard deviation of one more measurement around the true value of a point, in log time and log power."""


LEAST_SHARE = 1e-9
"""Smallest share of a limit, for its logarithm."""


class ColumnBeliefs:
    """Learns the columns that have a budget.

    Args:
        coordinates: The points.
    """

    def __init__(self, coordinates: Coordinates) -> None:
        self._coordinates = coordinates
        self._shares: dict[str, dict[int, float]] = {}
        self._beliefs: dict[str, Beliefs] = {}

    def tell(self, row: int, shares: Iterable[tuple[str, float]]) -> None:
        """Record the values of a point, as shares of their limits, by the name of the budget."""
        for name, share in shares:
            self._shares.setdefault(name, {})[row] = max(share, LEAST_SHARE)
            self._beliefs.pop(name, None)

    def chance(self, rows: Rows) -> Array:
        """Return the chance that each point keeps all of these budgets; 1 before any value was measured."""
        chance = np.ones(len(rows))
        for name, shares in self._shares.items():
            if name not in self._beliefs:
                beliefs = self._beliefs[name] = Beliefs(self._coordinates, None)
                values = np.array(list(shares.values()))
                beliefs.learn(np.array(list(shares), dtype=np.intp), values, np.full(len(values), np.nan))
            found = self._beliefs[name].about(rows).bold()
            chance = chance * ndtr(-found.log_time / np.hypot(found.time_sd, WAVER))
        return np.asarray(chance)
