"""Learning a positive physical law from a handful of measurements, and how sure to be of it.

The law says log y = f(x; theta), with a prior on every coefficient. What it cannot express is left to a smooth
discrepancy, a Gaussian process, so nearby measurements correct the law and far ones do not. The coefficients are found
by damped Gauss-Newton; linearised there (Laplace's approximation), coefficients and discrepancy together are one
Gaussian process, which gives mean and standard deviation of log y anywhere in closed form (Rasmussen and Williams,
Gaussian Processes for Machine Learning, section 2.7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgetune.search.model.coordinates import Array

Law = Callable[[Array], tuple[Array, Array]]
"""From coefficients to log y at some points, shape (points,), and its slopes, shape (points, coefficients)."""

LENGTH = 0.5
"""How far a discrepancy reaches, as a share of an axis."""
DISCREPANCIES = (0.02, 0.04, 0.08, 0.16)
"""Standard deviations of the discrepancy that are weighed against each other, in log y."""
ITERATIONS = 12
import os
ADD = float(os.environ.get("ADD", ".8")); AVG = int(os.environ.get("AVG", "1")); LENGTH = float(os.environ.get("LENGTH", ".5"))
DISCREPANCIES = tuple(float(x) for x in os.environ.get("DISC", ".03,.08,.2").split(","))


@dataclass(frozen=True, slots=True)
class Prior:
    """Mean and standard deviation of each coefficient, shape (coefficients,)."""

    mean: Array
    sd: Array


@dataclass(frozen=True, slots=True)
class Fitted:
    """A law with its coefficients, and the discrepancy, as learnt from measurements.

    Args:
        theta: The most probable coefficients.
        covariance: Of the coefficients.
        discrepancy: Standard deviation of the discrepancy, in log y.
        noise: Standard deviation of a measurement, in log y.
        unit: Places of the measurements, shape (measurements, axes).
        slopes: Of the law at the measurements, shape (measurements, coefficients).
        inverse: Of the covariance of discrepancy and noise at the measurements.
        residual: What the law leaves unexplained, shape (measurements,).
    """

    theta: Array
    covariance: Array
    discrepancy: float
    noise: float
    unit: Array
    slopes: Array
    inverse: Array
    residual: Array

    def predict(self, law: Law, unit: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of log y at places where the law holds, shape (points,) each."""
        value, slopes = law(self.theta)
        near = self.discrepancy**2 * closeness(unit, self.unit)
        weights = near @ self.inverse
        mean = value + weights @ self.residual
        left = slopes - weights @ self.slopes
        variance = self.discrepancy**2 - np.sum(weights * near, axis=1) + np.sum(left @ self.covariance * left, axis=1)
        return mean, np.sqrt(np.maximum(variance, 1e-8))


@dataclass(frozen=True, slots=True)
class Mixed:
    members: tuple
    weights: Array

    @property
    def theta(self):
        return self.members[int(np.argmax(self.weights))].theta

    def predict(self, law, unit):
        ms = [(w, *m.predict(law, unit)) for w, m in zip(self.weights, self.members) if w > 0.01]
        tot = sum(w for w, _, _ in ms)
        mean = sum(w * m for w, m, _ in ms) / tot
        var = sum(w * (sd**2 + (m - mean) ** 2) for w, m, sd in ms) / tot
        return mean, np.sqrt(var)


NOISES = tuple(float(x) for x in os.environ.get("NOISES", ".005,.02").split(","))
GRID = tuple((d, n) for d in DISCREPANCIES for n in NOISES)


def closeness(a: Array, b: Array) -> Array:
    """Return the correlation of the discrepancy between two sets of places, shape (len(a), len(b))."""
    squares = (a[:, None, :] - b[None, :, :]) ** 2 / (-2 * LENGTH**2)
    joint = np.exp(squares.sum(axis=2))
    if not ADD or a.shape[1] == 0:
        return joint
    return (1 - ADD) * joint + ADD * np.exp(squares).mean(axis=2)


def fit(law: Law, prior: Prior, unit: Array, log_y: Array, *, noise: float, start: Array | None = None) -> Fitted:
    """Learn a law from measurements.

    Args:
        law: The law at the places measured.
        prior: What is believed of the coefficients beforehand.
        unit: Places measured, shape (measurements, axes).
        log_y: What was measured there, shape (measurements,).
        noise: Standard deviation of a measurement, in log y.
        start: Coefficients to start from, e.g. those of the last fit; the prior's mean otherwise.
    """
    correlation = closeness(unit, unit)
    members, evs = [], []
    theta = prior.mean if start is None else start
    for discrepancy, noise in GRID:
        covariance = discrepancy**2 * correlation + noise**2 * np.eye(len(log_y))
        inverse = np.linalg.inv(covariance)
        theta, slopes, residual = _most_probable(law, prior, inverse, log_y, theta)
        whole = covariance + slopes * prior.sd**2 @ slopes.T
        offset = residual + slopes @ (theta - prior.mean)
        evidence = -0.5 * (offset @ np.linalg.solve(whole, offset) + np.linalg.slogdet(whole)[1])
        precision = slopes.T @ inverse @ slopes + np.diag(1 / prior.sd**2)
        members.append(Fitted(theta, np.linalg.inv(precision), discrepancy, noise, unit, slopes, inverse, residual))
        evs.append(evidence)
    w = np.exp(np.array(evs) - max(evs))
    if AVG == 0:
        return members[int(np.argmax(evs))]
    return Mixed(tuple(members), w / w.sum())


def _most_probable(
    law: Law, prior: Prior, inverse: Array, log_y: Array, theta: Array
) -> tuple[Array, Array, Array]:
    """Return the coefficients that explain measurements and prior best, the law's slopes and residuals there."""
    precision, damping = np.diag(1 / prior.sd**2), 1e-3
    value, slopes = law(theta)
    cost = _cost(log_y - value, theta, prior, inverse)
    for _ in range(ITERATIONS):
        gradient = slopes.T @ inverse @ (log_y - value) - (theta - prior.mean) / prior.sd**2
        curvature = slopes.T @ inverse @ slopes + precision
        trial = theta + np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
        value_there, slopes_there = law(trial)
        cost_there = _cost(log_y - value_there, trial, prior, inverse)
        if cost_there < cost:
            settled = cost - cost_there < 1e-4
            theta, value, slopes, cost, damping = trial, value_there, slopes_there, cost_there, damping / 5
            if settled:
                break
        else:
            damping = max(damping * 10, 1e-2)
    return theta, slopes, log_y - value


def _cost(residual: Array, theta: Array, prior: Prior, inverse: Array) -> float:
    return float(residual @ inverse @ residual + np.sum(((theta - prior.mean) / prior.sd) ** 2))
