"""What is believed of every point of a space after some measurements: time, power, and how sure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from edgetune.search.model.coordinates import Array, Coordinates, Rows
from edgetune.search.model.fit import NOISES, Mixture, Prior, fit
from edgetune.search.model.power_model import PowerModel
from edgetune.search.model.time_model import TimeModel

BLOCK = 1536
"""Points looked at together. What is computed of a block, some 100 figures per point for each of up to nine fits, stays
near the processor: 18,096 points in one go take three times the time and 70 MB more."""


@dataclass(frozen=True, slots=True)
class Belief:
    """Mean and standard deviation of log time (s) and log power (W) of some points, shape (points,) each."""

    log_time: Array
    time_sd: Array
    log_power: Array
    power_sd: Array


@dataclass(slots=True)
class Beliefs:
    """Both models, fitted to what has been measured.

    Args:
        coordinates: The points.
        log_cap: Log of the power limit of each point, W; ``None`` without that knob.
        power_noise: Relative standard deviation of one power reading where it is known, 0 where it is to be learnt.
        priors: Of the coefficients of time and of power, in place of the models' own.
    """

    coordinates: Coordinates
    log_cap: Array | None
    power_noise: float = 0.0
    priors: tuple[Prior, Prior] | None = None
    _time_model: TimeModel = field(init=False)
    _power_model: PowerModel = field(init=False)
    _time: Mixture | None = None
    _power: Mixture | None = None
    _scale: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self._time_model = TimeModel.of(self.coordinates)
        self._power_model = PowerModel.of(self.coordinates)
        if self.priors is not None:
            self._time_model = replace(self._time_model, prior=self.priors[0])
            self._power_model = replace(self._power_model, prior=self.priors[1])

    def learn(self, rows: Rows, times_s: Array, powers_w: Array, readings: Array | None = None) -> None:
        """Fit both models to these measurements, at least one; a power that was not measured is not a number.

        ``readings`` says how many readings each is the mean of, one each when it is left out.
        """
        readings = np.ones(len(rows)) if readings is None else readings
        log_time = np.log(times_s)
        time_scale = float(np.median(log_time))
        unit = self.coordinates.unit
        start = None if self._time is None else self._time.start
        prior = self._time_model.prior
        law = self._time_model.law(rows)
        self._time = fit(law, prior, unit[rows], log_time - time_scale, start=start, readings=readings)
        known = np.isfinite(powers_w)
        rows, readings, log_power = rows[known], readings[known], np.log(powers_w[known])
        power_scale = float(np.median(log_power)) if len(rows) else 0.0
        self._scale = (time_scale, power_scale)
        if not len(rows):
            self._power = None
            return
        law = self._power_model.law(rows, self._time_model.busy(self._time.theta[0], rows), self._cap(rows))
        start = None if self._power is None else self._power.start
        prior = self._power_model.prior
        noises = (self.power_noise,) if self.power_noise else NOISES
        log_power = log_power - power_scale
        self._power = fit(law, prior, unit[rows], log_power, start=start, readings=readings, noises=noises)

    def likeliest(self) -> tuple[Array, Array | None]:
        """Return the most probable coefficients of time and of power; ``None`` without any measured power."""
        assert self._time is not None
        return self._time.theta[0], None if self._power is None else self._power.theta[0]

    def about(self, rows: Rows) -> Belief:
        """Return what is believed of these points; power without any measurement is not a number."""
        if len(rows) <= BLOCK:
            return self._about_block(rows)
        blocks = [self._about_block(rows[first : first + BLOCK]) for first in range(0, len(rows), BLOCK)]
        columns = [(block.log_time, block.time_sd, block.log_power, block.power_sd) for block in blocks]
        return Belief(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def _about_block(self, rows: Rows) -> Belief:
        assert self._time is not None
        unit = self.coordinates.unit[rows]
        log_time, time_sd = self._time.predict(self._time_model.law(rows), unit)
        if self._power is None:
            unknown = np.full(len(rows), np.nan)
            return Belief(log_time + self._scale[0], time_sd, unknown, unknown)
        busy = self._time_model.busy(self._time.theta[0], rows)
        log_power, power_sd = self._power.predict(self._power_model.law(rows, busy, self._cap(rows)), unit)
        return Belief(log_time + self._scale[0], time_sd, log_power + self._scale[1], power_sd)

    def _cap(self, rows: Rows) -> Array | None:
        return None if self.log_cap is None else self.log_cap[rows] - self._scale[1]
