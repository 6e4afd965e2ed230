"""Several explanations of the same measurements, each weighed by how well it explains them.

    physics, smooth discrepancy --.
    physics, one step of a knob --|
    physics, jagged per knob -----+--> evidence --> weights --> mean and standard deviation of each per point
    any slope along each knob ----|
    each relative's curve --------'

A board may break the physics: power may be a step function of a clock, or decrease as it grows. Under the jagged
discrepancy, a level of a knob that was never measured may differ by a tenth or a quarter from its neighbours. Power
with any slope along each knob has no physics at all: it may decrease as well as increase. Beside the smooth law and any
slope, each place at which a knob may step is a part by itself (``fit``).

All but the smooth law without a step, and the jagged one, is irregular. A search in doubt of the regular explanations
weights the irregular ones ``IN_DOUBT`` times as much.

A relative is a table of another network on the same board. Its curve is a hypothesis like any other, so that an unlike
relative loses its weight. Of many relatives only those nearest to the measurements are fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from edgetune.stages.search.model.coordinates import Array, Coordinates, Rows
from edgetune.stages.search.model.fit import NOISES, Hypothesis, Kernel, Law, LawOf, Mixture, Prior, Steps, fit

Predicted = tuple[Array, Array, Array]
"""Weights of the parts of hypotheses, shape (parts,), and mean and standard deviation of log y in each at some points,
shape (parts, points)."""
BLOCK = 1536
"""Number of points computed as a block: its arrays, some 100 figures per point for each of up to nine fits, then fit
into caches."""
KEPT_POINTS = 4096
"""Number of points up to which all predictions are computed at once and kept."""

JAGGED = Kernel(reach=0.12, per_knob=0.9, sizes=(0.1, 0.25))
"""A discrepancy that may jump from one level of a knob to the next."""
JAGGED_LOG_WEIGHT = -1.0
"""Log of how likely the jagged discrepancy is beforehand, against the smooth one."""
LEAST_WEIGHT = 0.02
"""A part with less than this share of the largest weight is left out of predictions."""
IN_DOUBT = 10.0
"""How many times as likely irregular parts are to a search in doubt."""
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


def physics(law: LawOf, prior: Prior, steps: Steps) -> list[Hypothesis]:
    """Return the hypotheses that a physical law holds but for a smooth, or a jagged, discrepancy."""
    return [Hypothesis(law, prior, steps=steps), Hypothesis(law, prior, JAGGED, JAGGED_LOG_WEIGHT)]


def any_slope(logs: Array, steps: Steps) -> Hypothesis:
    """Return the hypothesis that log power has some slope along the log of each knob, of shape (points, knobs)."""
    sd = np.array([1.0] + [ANY_SLOPE_SD] * logs.shape[1])
    law = _linear((logs - logs.mean(axis=0)).T)
    return Hypothesis(law, Prior(np.zeros(len(sd)), sd), BUMPY, ANY_SLOPE_LOG_WEIGHT, steps, regular=False)


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
        fits: The fit of each, of one or several parts.
        weights: Weights of all parts, 0 of those not worth keeping, shape (parts,).
        in_doubt: The same to a search in doubt of the regular parts.
    """

    hypotheses: tuple[Hypothesis, ...]
    fits: tuple[Mixture, ...]
    weights: Array
    in_doubt: Array
    _kept: dict[bool, Array] = field(default_factory=dict, init=False, repr=False, compare=False)  # NaN: not yet

    @classmethod
    def of(
        cls,
        hypotheses: Sequence[Hypothesis],
        rows: Rows,
        coordinates: Coordinates,
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
            coordinates: All points.
            log_y: What was measured, shape (measurements,).
            readings: How many readings each is the mean of, shape (measurements,).
            noises: Standard deviations of one reading to consider.
            before: The last fit, to start from.
        """
        starts = [None] * len(hypotheses) if before is None else [found.start for found in before.fits]
        places = coordinates.unit[rows], coordinates.above[rows]
        fits = tuple(
            fit(each, each.law(rows), *places, log_y, start=start, readings=readings, noises=noises)
            for each, start in zip(hypotheses, starts, strict=True)
        )
        each_with = list(zip(fits, hypotheses, strict=True))
        logs = np.concatenate([found.log_evidence + each.log_weight for found, each in each_with])
        none = np.concatenate([np.arange(len(found.log_evidence)) == 0 for found in fits])
        regular = none & np.repeat([each.regular for each in hypotheses], [len(found.log_evidence) for found in fits])
        weights = np.exp(logs - logs.max())
        both = weights, weights * np.where(regular, 1.0, IN_DOUBT)
        return cls(tuple(hypotheses), fits, *(each * (each > LEAST_WEIGHT * each.max()) for each in both))

    def predict(self, rows: Rows, coordinates: Coordinates, *, in_doubt: bool = False) -> Predicted:
        """Return the weights of the parts worth keeping, and each one's mean and standard deviation of log y.

        Predictions are kept, unless the space has too many points.
        """
        weights = self.in_doubt if in_doubt else self.weights
        kept = np.flatnonzero(weights)
        weights = weights[kept] / weights.sum()
        if len(coordinates.unit) > KEPT_POINTS:
            return weights, *self._predict(kept, rows, coordinates)
        figures = self._kept.setdefault(in_doubt, np.full((2, len(kept), len(coordinates.unit)), np.nan))
        new = rows[np.isnan(figures[0, 0, rows])]
        if len(new):
            figures[:, :, new] = self._predict(kept, new, coordinates)
        return weights, *figures[:, :, rows]

    def _predict(self, kept: Rows, rows: Rows, coordinates: Coordinates) -> Array:
        """Return mean and standard deviation of log y in some parts, shape (2, parts, points), block by block."""
        figures, counts = np.empty((2, len(kept), len(rows))), [len(found.log_evidence) for found in self.fits]
        which, ends = np.repeat(np.arange(len(counts)), counts)[kept], np.cumsum([0, *counts])
        for block in (slice(first, first + BLOCK) for first in range(0, len(rows), BLOCK)):
            here, laws = rows[block], dict[LawOf, Law]()
            unit, above = coordinates.unit[here], coordinates.above[here]
            for i in np.unique(which):
                own, law_of = which == i, self.hypotheses[i].law
                law = laws.get(law_of) or laws.setdefault(law_of, law_of(here))
                figures[:, own, block] = self.fits[i].predict(law, unit, above, kept[own] - ends[i])
        return figures
