"""Several explanations of the same measurements, each weighed by how well it explains them.

    physics, smooth discrepancy --.
    physics, jagged per knob -----+--> evidence --> weights --> mean and standard deviation of each per point
    any slope along each knob ----|
    each relative's curve --------'

A board may break the physics: power may be a step function of a clock, or decrease as it grows. Under the jagged
discrepancy, a level of a knob that was never measured may differ by a tenth or a quarter from its neighbours. Power
with any slope along each knob has no physics at all: it may decrease as well as increase.

A relative is a table of another network on the same board. Its curve is a hypothesis like any other, so that an unlike
relative loses its weight. Of many relatives only those nearest to the measurements are fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgetune.stages.search.model.coordinates import Array, Rows
from edgetune.stages.search.model.fit import NOISES, SMOOTH, Kernel, Law, Mixture, Prior, fit

Predicted = tuple[Array, Array, Array]
"""Weights of hypotheses, shape (hypotheses,), and each one's mean and standard deviation of log y at some points, shape
(hypotheses, points)."""
KEPT_POINTS = 4096
"""Number of points up to which all predictions are computed at once and kept."""

LawOf = Callable[[Rows], Law]
"""The law at the points of some rows."""

JAGGED = Kernel(reach=0.12, per_knob=0.9, sizes=(0.1, 0.25))
"""A discrepancy that may jump from one level of a knob to the next."""
JAGGED_LOG_WEIGHT = -1.0
"""Log of how likely the jagged discrepancy is beforehand, against the smooth one."""
LEAST_WEIGHT = 0.003
"""A hypothesis with less than this share of the largest weight is left out of predictions."""
BUMPY = Kernel(reach=0.3, per_knob=0.8, sizes=(0.05, 0.15))
"""The discrepancy of power that has any slope along each knob."""
ANY_SLOPE_SD = 0.3
ANY_SLOPE_LOG_WEIGHT = -3.0
"""Standard deviation of these slopes, of log power along the log of a knob, and the log of how likely they are."""
RELATED = Kernel(reach=0.5, per_knob=0.5, sizes=(0.03, 0.1, 0.25))
"""By how much, and how smoothly, two networks on one board differ."""
ALIKE_SD = 0.2
"""Standard deviation of how much steeper the curve of a network is than its relative's, in log y."""
MOST_RELATED = 8
"""Number of relatives that are fitted: those whose curves, up to a factor, are nearest to the measurements."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One way in which log time or log power may depend on the knobs.

    Args:
        law: The law.
        prior: Of its coefficients.
        kernel: Of the discrepancy.
        log_weight: Log of how likely the hypothesis is beforehand, up to a constant that all share.
    """

    law: LawOf
    prior: Prior
    kernel: Kernel = SMOOTH
    log_weight: float = 0.0


def physics(law: LawOf, prior: Prior) -> list[Hypothesis]:
    """Return the hypotheses that a physical law holds but for a smooth, or a jagged, discrepancy."""
    return [Hypothesis(law, prior), Hypothesis(law, prior, JAGGED, JAGGED_LOG_WEIGHT)]


def any_slope(logs: Array) -> Hypothesis:
    """Return the hypothesis that log power has some slope along the log of each knob, of shape (points, knobs)."""
    sd = np.array([1.0] + [ANY_SLOPE_SD] * logs.shape[1])
    return Hypothesis(_linear((logs - logs.mean(axis=0)).T), Prior(np.zeros(len(sd)), sd), BUMPY, ANY_SLOPE_LOG_WEIGHT)


def related(curves: Array, scale_sd: float, rows: Rows, log_y: Array) -> list[Hypothesis]:
    """Return one hypothesis per relative near to the measurements, and one of their mixture where there are several.

    Args:
        curves: Log y of each relative at every point, shape (relatives, points).
        scale_sd: Standard deviation of the log of the ratio between the network's scale and its relatives'.
        rows: The points measured.
        log_y: What was measured, shape (measurements,).
    """
    if not len(curves):
        return []
    nearest = np.sort(np.argsort((log_y - curves[:, rows]).std(axis=1).round(9), kind="stable")[:MOST_RELATED])
    centred = curves[nearest] - np.median(curves[nearest], axis=1, keepdims=True)
    groups = [centred[[i]] for i in range(len(centred))] + ([centred] if len(centred) > 1 else [])
    return [
        Hypothesis(
            _linear(group),
            Prior(np.array([0.0] + [1 / len(group)] * len(group)), np.array([scale_sd] + [ALIKE_SD] * len(group))),
            RELATED,
            -np.log(len(curves) + (len(curves) > 1)),  # those left out share the prior weight
        )
        for group in groups
    ]


def _linear(columns: Array) -> LawOf:
    """Return a law that is a constant plus a sum of columns, shape (columns, points), each times its coefficient."""

    def of(rows: Rows) -> Law:
        basis = np.concatenate([np.ones((1, len(rows))), columns[:, rows]])
        return lambda theta: (theta @ basis, np.broadcast_to(basis, (len(theta), *basis.shape)))

    return of


@dataclass(frozen=True, slots=True)
class Blend:
    """Fits of several hypotheses to the same measurements.

    Args:
        hypotheses: The hypotheses.
        fits: The fit of each.
        weights: Their weights, which add up to 1, shape (hypotheses,).
    """

    hypotheses: tuple[Hypothesis, ...]
    fits: tuple[Mixture, ...]
    weights: Array
    _kept: list[Array] = field(default_factory=list, init=False, repr=False, compare=False)  # NaN: not predicted yet
    _alone: dict[int, Blend] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        hypotheses: Sequence[Hypothesis],
        rows: Rows,
        unit: Array,
        log_y: Array,
        *,
        readings: Array,
        noises: Sequence[float] = NOISES,
        before: Blend | None = None,
    ) -> Blend:
        """Fit every hypothesis to measurements.

        Args:
            hypotheses: The hypotheses, as many in every call of one search, with as many coefficients each.
            rows: The points measured.
            unit: Places of all points, shape (points, axes).
            log_y: What was measured, shape (measurements,).
            readings: How many readings each is the mean of, shape (measurements,).
            noises: Standard deviations of one reading to consider.
            before: The last fit, to start from.
        """
        starts = [None] * len(hypotheses) if before is None else [found.start for found in before.fits]
        fits = tuple(
            fit(
                each.law(rows),
                each.prior,
                unit[rows],
                log_y,
                start=start,
                readings=readings,
                noises=noises,
                kernel=each.kernel,
            )
            for each, start in zip(hypotheses, starts, strict=True)
        )
        logs = np.array([found.log_evidence + h.log_weight for found, h in zip(fits, hypotheses, strict=True)])
        weights = np.exp(logs - logs.max())
        return cls(tuple(hypotheses), fits, weights / weights.sum())

    def only(self, at: int) -> Blend:
        """Return the fit of one of the hypotheses, by its place, as if there were no other."""
        if at not in self._alone:
            self._alone[at] = Blend((self.hypotheses[at],), (self.fits[at],), np.ones(1))
        return self._alone[at]

    def predict(self, rows: Rows, unit: Array) -> Predicted:
        """Return the weights of the hypotheses worth keeping, and each one's mean and standard deviation of log y.

        Predictions are kept, unless the space has too many points.
        """
        kept = np.flatnonzero(self.weights > LEAST_WEIGHT * self.weights.max())
        weights = self.weights[kept] / self.weights[kept].sum()
        if len(unit) > KEPT_POINTS:
            return weights, *self._predict(kept, rows, unit)
        if not self._kept:
            self._kept.append(np.full((2, len(kept), len(unit)), np.nan))
        figures = self._kept[0]
        new = rows[np.isnan(figures[0, 0, rows])]
        if len(new):
            figures[:, :, new] = self._predict(kept, new, unit)
        means, sds = figures[:, :, rows]
        return weights, means, sds

    def _predict(self, kept: Rows, rows: Rows, unit: Array) -> tuple[Array, Array]:
        found = [self.fits[i].predict(self.hypotheses[i].law(rows), unit[rows]) for i in kept]
        means, sds = (np.array(each) for each in zip(*found, strict=True))
        return means, sds
