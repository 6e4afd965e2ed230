"""Learning a positive physical law from a handful of measurements, and how sure to be of it.

The law says log y = f(x; theta), with a prior on every coefficient. What it cannot express is left to a smooth
discrepancy, a Gaussian process, so that nearby measurements correct the law and far ones do not. The coefficients are
found by damped Gauss-Newton; linearised there (Laplace's approximation), coefficients and discrepancy together are one
Gaussian process with explicit basis functions, which gives mean and standard deviation of log y anywhere in closed form
(Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 2.7). How large the discrepancy and the
noise are is not known either: several are fitted and weighed by their evidence (section 5.4.1 of the same).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from edgetune.search.model.coordinates import Array

Law = Callable[[Array], tuple[Array, Array]]
"""From coefficients to log y at some points, shape (points,), and its slopes, shape (points, coefficients)."""

REACH = 0.5
"""How far a discrepancy reaches, as a share of an axis."""
PER_KNOB = 0.8
"""Share of the discrepancy's variance that is a sum of one curve per knob; the rest is free."""
DISCREPANCIES = (0.03, 0.08, 0.20)
NOISES = (0.005, 0.03)
"""Standard deviations of discrepancy and measurements that are weighed against each other, in log y."""
LEAST_WEIGHT = 0.01
"""A fit with less weight than this is left out."""
_STEPS = 12


@dataclass(frozen=True, slots=True)
class Prior:
    """Mean and standard deviation of each coefficient, shape (coefficients,)."""

    mean: Array
    sd: Array


@dataclass(frozen=True, slots=True)
class Fitted:
    """One fit.

    Args:
        theta: The most probable coefficients.
        covariance: Of the coefficients.
        discrepancy: Standard deviation of the discrepancy, in log y.
        slopes: Of the law at the measurements, shape (measurements, coefficients).
        inverse: Of the covariance of discrepancy and noise at the measurements.
        residual: What the law leaves unexplained, shape (measurements,).
        log_evidence: How well this size of discrepancy and noise explains the measurements.
    """

    theta: Array
    covariance: Array
    discrepancy: float
    slopes: Array
    inverse: Array
    residual: Array
    log_evidence: float

    def predict(self, law: Law, close: Array) -> tuple[Array, Array]:
        """Return mean and variance of log y, from the correlation of these points with the measurements."""
        value, slopes = law(self.theta)
        near = self.discrepancy**2 * close
        weights = near @ self.inverse
        left = slopes - weights @ self.slopes
        variance = self.discrepancy**2 - np.sum(weights * near, axis=1) + np.sum(left @ self.covariance * left, axis=1)
        return value + weights @ self.residual, np.maximum(variance, 1e-8)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Several fits of one law to the same measurements, and the weight of each.

    Args:
        unit: Places of the measurements, shape (measurements, axes).
        members: The fits worth keeping, the likeliest first.
        weights: Their weights; they add up to 1.
    """

    unit: Array
    members: tuple[Fitted, ...]
    weights: Array

    @property
    def theta(self) -> Array:
        """The coefficients of the likeliest fit."""
        return self.members[0].theta

    def predict(self, law: Law, unit: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of log y, without noise, at the places where the law is evaluated."""
        close = closeness(unit, self.unit)
        found = [member.predict(law, close) for member in self.members]
        means, variances = (np.array(values) for values in zip(*found, strict=True))
        mean = self.weights @ means
        return mean, np.sqrt(self.weights @ (variances + (means - mean) ** 2))


def closeness(a: Array, b: Array) -> Array:
    """Return the correlation of the discrepancy between two sets of places, shape (len(a), len(b))."""
    axes = a.shape[1]
    total, curves = np.zeros((len(a), len(b))), np.zeros((len(a), len(b)))
    for axis in range(axes):
        exponent = (a[:, axis, None] - b[None, :, axis]) ** 2 / (-2 * REACH**2)
        total += exponent
        curves += np.exp(exponent)
    whole = np.exp(total)
    return whole if axes == 0 else (1 - PER_KNOB) * whole + PER_KNOB / axes * curves


def fit(law: Law, prior: Prior, unit: Array, log_y: Array, *, start: Array | None = None) -> Mixture:
    """Learn a law from measurements.

    Args:
        law: The law at the places measured.
        prior: What is believed of the coefficients beforehand.
        unit: Places measured, shape (measurements, axes).
        log_y: What was measured there, shape (measurements,).
        start: Coefficients to start from, e.g. those of the last fit; the prior's mean otherwise.
    """
    correlation = closeness(unit, unit)
    theta = prior.mean if start is None else start
    members = []
    for discrepancy, noise in product(DISCREPANCIES, NOISES):
        covariance = discrepancy**2 * correlation + noise**2 * np.eye(len(log_y))
        members.append(_fit_one(law, prior, log_y, theta, covariance=covariance, discrepancy=discrepancy))
        theta = members[-1].theta
    members.sort(key=lambda member: -member.log_evidence)
    weights = np.exp([member.log_evidence - members[0].log_evidence for member in members])
    weights = weights[weights > LEAST_WEIGHT * weights.sum()]
    return Mixture(unit, tuple(members[: len(weights)]), weights / weights.sum())


def _fit_one(law: Law, prior: Prior, log_y: Array, theta: Array, *, covariance: Array, discrepancy: float) -> Fitted:
    inverse = np.asarray(np.linalg.inv(covariance), dtype=float)
    theta, value, slopes = _most_probable(law, prior, inverse, log_y, theta)
    residual = log_y - value
    whole = covariance + slopes * prior.sd**2 @ slopes.T
    offset = residual + slopes @ (theta - prior.mean)
    evidence = -0.5 * float(offset @ np.linalg.solve(whole, offset) + np.linalg.slogdet(whole)[1])
    uncertainty = np.linalg.inv(slopes.T @ inverse @ slopes + np.diag(1 / prior.sd**2))
    return Fitted(theta, np.asarray(uncertainty, dtype=float), discrepancy, slopes, inverse, residual, evidence)


def _most_probable(law: Law, prior: Prior, inverse: Array, log_y: Array, theta: Array) -> tuple[Array, Array, Array]:
    """Return the coefficients that explain measurements and prior best, and the law and its slopes there."""
    precision, damping = 1 / prior.sd**2, 1e-3
    value, slopes = law(theta)
    cost = _cost(log_y - value, theta, prior, inverse)
    for _ in range(_STEPS):
        weighed = slopes.T @ inverse
        gradient = weighed @ (log_y - value) - precision * (theta - prior.mean)
        curvature = weighed @ slopes
        curvature.flat[:: len(theta) + 1] += precision
        curvature.flat[:: len(theta) + 1] *= 1 + damping
        trial = theta + np.linalg.solve(curvature, gradient)
        value_there, slopes_there = law(trial)
        cost_there = _cost(log_y - value_there, trial, prior, inverse)
        if cost_there < cost:
            settled = cost - cost_there < 1e-3
            theta, value, slopes, cost, damping = trial, value_there, slopes_there, cost_there, damping / 5
            if settled:
                break
        else:
            damping = max(damping * 10, 1e-2)
    return theta, value, slopes


def _cost(residual: Array, theta: Array, prior: Prior, inverse: Array) -> float:
    off = (theta - prior.mean) / prior.sd
    return float(residual @ inverse @ residual + off @ off)
