"""Fits a positive physical law to a handful of measurements, with its uncertainty.

The law says log y = f(x; theta), with a prior on every coefficient. A smooth discrepancy, a Gaussian process, models
the rest, so that nearby measurements correct the law and far ones do not. The coefficients are found by Gauss-Newton;
linearised there (Laplace's approximation), coefficients and discrepancy together are one Gaussian process with explicit
basis functions, which gives mean and standard deviation of log y anywhere in closed form (Rasmussen and Williams,
Gaussian Processes for Machine Learning, 2006, section 2.7). The sizes of discrepancy and noise are unknown too: several
are fitted and weighted by their evidence (section 5.4.1 of the same).

All members of that mixture are fitted at once, as one more axis of every array. There are fewer measurements than
coefficients, so that every system to solve has the size of the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from edgetune.stages.search.model.coordinates import Array

Law = Callable[[Array], tuple[Array, Array]]
"""From coefficients, shape (members, coefficients), to log y at some points, shape (members, points), and its slopes,
shape (members, coefficients, points)."""

NOISES = (0.004, 0.012, 0.035)
"""Candidate standard deviations of measurements, in log y."""
LEAST_WEIGHT = 0.01
"""Weight below which a fit is dropped."""
_STEPS = 15
_SETTLED = 1e-2


@dataclass(frozen=True, slots=True)
class Kernel:
    """How the discrepancy varies over the knobs.

    Args:
        reach: Distance over which it stays alike, as a share of an axis.
        per_knob: Share of its variance that is a sum of one curve per knob; the rest is free.
        sizes: Standard deviations to weigh against each other, in log y.
    """

    reach: float
    per_knob: float
    sizes: tuple[float, ...]


SMOOTH = Kernel(reach=0.5, per_knob=0.8, sizes=(0.03, 0.08, 0.20))
"""A discrepancy that grows slowly with the distance to what was measured."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Mean and standard deviation of each coefficient, shape (coefficients,)."""

    mean: Array
    sd: Array


@dataclass(frozen=True, slots=True)
class Mixture:
    """Fits of one law to the same measurements with different sizes of discrepancy and noise.

    Args:
        prior: Prior of the coefficients.
        unit: Places of the measurements, shape (measurements, axes).
        start: The most probable coefficients of every member, to start the next fit from, shape (all members,
            coefficients).
        theta: Coefficients of the kept members, the likeliest first, shape (members, coefficients).
        weights: Weights of these members, with the sum 1.
        discrepancies: Standard deviations of their discrepancies, in log y, shape (members,).
        slopes: Slopes of the law at the measurements, shape (members, coefficients, measurements).
        inverse: Inverse covariance of the measurements, shape (members, measurements, measurements).
        offset: Measurements less the prior mean of the linearised law, shape (members, measurements).
        kernel: Kernel of their discrepancies.
        log_evidence: Log of the mean evidence of all members, up to a constant that all laws share.
    """

    prior: Prior
    unit: Array
    start: Array
    theta: Array
    weights: Array
    discrepancies: Array
    slopes: Array
    inverse: Array
    offset: Array
    kernel: Kernel
    log_evidence: float

    def predict(self, law: Law, unit: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of log y, without noise, at the places where the law is evaluated."""
        value, slopes = law(self.theta)
        square = self.discrepancies[:, None] ** 2
        scaled = slopes * self.prior.sd[:, None]
        near = (self.slopes * self.prior.sd[:, None]).swapaxes(1, 2) @ scaled
        near += square[:, :, None] * closeness(self.unit, unit, self.kernel)
        away = (self.prior.mean - self.theta)[:, None]
        explained = (self.offset[:, None] @ self.inverse) @ near
        means = value + (away @ slopes + explained)[:, 0]
        variances = square + np.einsum("mcp,mcp->mp", scaled, scaled)
        variances -= np.einsum("mnp,mnp->mp", self.inverse @ near, near)
        return mixed(self.weights, means, np.sqrt(np.maximum(variances, 1e-8)))


def mixed(weights: Array, means: Array, sds: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of a mixture, shape (points,) each, of parts of shape (parts, points)."""
    mean = weights @ means
    return mean, np.sqrt(weights @ (sds**2 + (means - mean) ** 2))


def closeness(a: Array, b: Array, kernel: Kernel = SMOOTH) -> Array:
    """Return the correlation of the discrepancy between two sets of places, shape (len(a), len(b))."""
    axes = a.shape[1]
    if axes == 0:
        return np.ones((len(a), len(b)))
    curves, whole = np.zeros((len(a), len(b))), np.ones((len(a), len(b)))
    for axis in range(axes):
        curve = np.exp((a[:, axis, None] - b[None, :, axis]) ** 2 / (-2 * kernel.reach**2))
        curves += curve
        whole *= curve
    return np.asarray((1 - kernel.per_knob) * whole + kernel.per_knob / axes * curves)


def fit(
    law: Law,
    prior: Prior,
    unit: Array,
    log_y: Array,
    *,
    start: Array | None = None,
    readings: Array | None = None,
    noises: Sequence[float] = NOISES,
    kernel: Kernel = SMOOTH,
) -> Mixture:
    """Learn a law from measurements.

    Args:
        law: The law at the measured places.
        prior: Prior of the coefficients.
        unit: Measured places, shape (measurements, axes).
        log_y: The measurements, shape (measurements,).
        start: Initial coefficients, those of the last fit; by default the prior's mean.
        readings: Number of readings of each mean, shape (measurements,); 1 by default.
        noises: Standard deviations of one reading to consider.
        kernel: Of the discrepancy.
    """
    discrepancies, noise_sd = np.array(list(product(kernel.sizes, noises))).T[:, :, None, None]
    repeated = np.ones(len(log_y)) if readings is None else readings
    covariance = discrepancies**2 * closeness(unit, unit, kernel) + noise_sd**2 * np.diag(1 / repeated)
    if start is None:
        start = np.tile(prior.mean, (len(covariance), 1))
    theta, value, slopes = _most_probable(law, prior, covariance, log_y, start)
    whole, offset = _linearised(prior, covariance, theta, slopes, log_y - value)
    inverse = np.linalg.inv(whole)
    evidence = -0.5 * (np.einsum("mi,mij,mj->m", offset, inverse, offset) + np.linalg.slogdet(whole)[1])
    weights = np.exp(evidence - evidence.max())
    kept = np.argsort(-weights, kind="stable")
    kept = kept[weights[kept] > LEAST_WEIGHT * weights.sum()]
    return Mixture(
        prior=prior,
        unit=unit,
        start=theta,
        theta=theta[kept],
        weights=weights[kept] / weights[kept].sum(),
        discrepancies=discrepancies[kept, 0, 0],
        slopes=slopes[kept],
        inverse=inverse[kept],
        offset=offset[kept],
        kernel=kernel,
        log_evidence=float(evidence.max() + np.log(weights.mean())),
    )


def _linearised(prior: Prior, covariance: Array, theta: Array, slopes: Array, residual: Array) -> tuple[Array, Array]:
    """Return the covariance of the measurements under prior, discrepancy and noise, and their residuals."""
    scaled = slopes * prior.sd[:, None]
    offset = residual + ((theta - prior.mean)[:, None] @ slopes)[:, 0]
    return covariance + scaled.swapaxes(1, 2) @ scaled, offset


def _most_probable(law: Law, prior: Prior, covariance: Array, log_y: Array, theta: Array) -> tuple[Array, Array, Array]:
    """Return the coefficients that explain measurements and prior best, and the law and its slopes there."""
    inverse = np.asarray(np.linalg.inv(covariance), dtype=float)
    value, slopes = law(theta)
    cost = _cost(log_y - value, theta, prior, inverse)
    share: Array = np.ones(len(theta))  # of the step to the best of the linearised law; less where that overshot
    for _ in range(_STEPS):
        whole, offset = _linearised(prior, covariance, theta, slopes, log_y - value)
        solved = np.linalg.solve(whole, offset[:, :, None])
        target = prior.mean + prior.sd**2 * (slopes @ solved)[:, :, 0]
        trial = theta + share[:, None] * (target - theta)
        value_there, slopes_there = law(trial)
        cost_there = _cost(log_y - value_there, trial, prior, inverse)
        better = cost_there < cost
        settled = np.where(better, cost - cost_there, np.where(share > 0.05, np.inf, 0.0)).max() < _SETTLED
        theta, slopes = np.where(better[:, None], trial, theta), np.where(better[:, None, None], slopes_there, slopes)
        value, cost = np.where(better[:, None], value_there, value), np.where(better, cost_there, cost)
        share = np.where(better, np.minimum(2 * share, 1.0), share / 3)
        if settled:
            break
    return theta, value, slopes


def _cost(residual: Array, theta: Array, prior: Prior, inverse: Array) -> Array:
    off = (theta - prior.mean) / prior.sd
    return np.asarray(np.einsum("mi,mij,mj->m", residual, inverse, residual) + np.einsum("mc,mc->m", off, off))
