"""Fits a positive physical law to a handful of measurements, with its uncertainty.

The law says log y = f(x; theta), with a prior on every coefficient. A smooth discrepancy, a Gaussian process, models
the rest, so that nearby measurements correct the law and far ones do not. The coefficients are found by Gauss-Newton;
linearised there (Laplace's approximation), coefficients and discrepancy together are one Gaussian process with explicit
basis functions, which gives mean and standard deviation of log y anywhere in closed form (Rasmussen and Williams,
Gaussian Processes for Machine Learning, 2006, section 2.7). The sizes of discrepancy and noise are unknown too: several
are fitted and weighted by their evidence (section 5.4.1 of the same).

Beside the law, y may step between two levels of one knob: a column h, 1 above the step and 0 below, times a height with
a normal prior of variance s^2. With the inverse covariance K^-1 and the offsets r of a fit and d = 1 + s^2 h'K^-1 h,
the height has the mean s^2 h'K^-1 r / d and the variance s^2 / d, and the evidence is multiplied by
exp(mean^2 d / (2 s^2)) / sqrt(d): updates of rank one, so that nothing is fitted again for a step. Steps are not mixed
with one another: each is a part by itself, weighted by its evidence, so that a small chance of a large gain is not
averaged away.

All members of that mixture are fitted at once, as one more axis of every array. There are fewer measurements than
coefficients, so that every system to solve has the size of the measurements.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from edgetune.stages.search.model.coordinates import Array, Rows

Law = Callable[[Array], tuple[Array, Array]]
"""From coefficients, shape (members, coefficients), to log y at some points, shape (members, points), and its slopes,
shape (members, coefficients, points)."""
LawOf = Callable[[Rows], Law]
"""The law at the points of some rows."""

NOISES = (0.004, 0.012, 0.035)
"""Candidate standard deviations of measurements, in log y."""
LEAST_WEIGHT = 0.01
"""Weight below which a fit is dropped from a part."""
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
class Steps:
    """The steps that y may make: none, or one at any of some places.

    Args:
        chances: Chance beforehand of no step, and of a step at each place, shape (1 + places,).
        sd: Standard deviation of the height of a step, in log y.
    """

    chances: Array
    sd: float = 1.0


NO_STEPS = Steps(np.ones(1))


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One way in which log time or log power may depend on the knobs.

    Args:
        law: The law.
        prior: Of its coefficients.
        kernel: Of the discrepancy.
        log_weight: Log of how likely the hypothesis is beforehand, up to a constant that all share.
        steps: The steps that it allows.
        regular: Whether it is a regular explanation as long as there is no step.
    """

    law: LawOf
    prior: Prior
    kernel: Kernel = SMOOTH
    log_weight: float = 0.0
    steps: Steps = NO_STEPS
    regular: bool = True


@dataclass(frozen=True, slots=True)
class Mixture:
    """Fits of one law to the same measurements with different sizes of discrepancy and noise, without and with a step.

    Args:
        prior: Prior of the coefficients.
        unit: Places of the measurements, shape (measurements, axes).
        start: The most probable coefficients of every member, to start the next fit from, shape (all members,
            coefficients).
        theta: Coefficients of the kept members, the likeliest first, shape (members, coefficients).
        weights: Weights of these members, with the sum 1, without a step and with each one, shape (members, parts).
        discrepancies: Standard deviations of their discrepancies, in log y, shape (members,).
        slopes: Slopes of the law at the measurements, shape (members, coefficients, measurements).
        inverse: Inverse covariance of the measurements, shape (members, measurements, measurements).
        offset: Measurements less the prior mean of the linearised law, shape (members, measurements).
        kernel: Kernel of their discrepancies.
        log_evidence: Log of the mean evidence of all members times the chance of the step, up to a constant that all
            laws share, shape (parts,).
        beside: Product of the column of each step and ``inverse``, shape (members, parts, measurements).
        heights, height_variances: Mean and variance of each step's height, shape (members, parts).
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
    log_evidence: Array
    beside: Array
    heights: Array
    height_variances: Array

    def predict(
        self, law: Law, unit: Array, above: NDArray[np.bool_], parts: Sequence[int] | NDArray[np.intp] = (0,)
    ) -> tuple[Array, Array]:
        """Return mean and standard deviation of log y, without noise, in some parts, shape (parts, points).

        Args:
            law: The law at the points.
            unit: Their places.
            above: Whether each point is above each step, shape (points, 1 + places).
            parts: The parts.
        """
        used = self.weights[:, parts].any(axis=1)
        weights, heights, variances_of_heights = (
            each[used][:, parts] for each in (self.weights, self.heights, self.height_variances)
        )
        inverse, square = self.inverse[used], self.discrepancies[used, None] ** 2
        value, slopes = law(self.theta[used])
        scaled = slopes * self.prior.sd[:, None]
        near = (self.slopes[used] * self.prior.sd[:, None]).swapaxes(1, 2) @ scaled
        near += square[:, :, None] * closeness(self.unit, unit, self.kernel)
        away = (self.prior.mean - self.theta[used])[:, None]
        explained = (self.offset[used, None] @ inverse) @ near
        means = value + (away @ slopes + explained)[:, 0]
        variances = square + np.einsum("mcp,mcp->mp", scaled, scaled)
        variances = np.maximum(variances - np.einsum("mnp,mnp->mp", inverse @ near, near), 1e-8)
        # A member with a step has the mean m + h b and the variance v + w b^2, where b is the column of the step less
        # ``beside @ near``. Their sums over the members are products of matrices, but for that of b^2.
        columns, beside = above[:, parts].T.astype(float), self.beside[used][:, parts]
        raised, squares = weights * heights, weights * (variances_of_heights + heights**2)

        def summed(scale: Array, near: Array) -> Array:
            """Return the sum of ``scale`` times ``beside @ near`` over the members, shape (parts, points)."""
            together = (scale[:, :, None] * beside).swapaxes(0, 1).reshape(len(columns), -1)
            return np.asarray(together @ near.reshape(-1, near.shape[-1]))

        mean = weights.T @ means + raised.sum(axis=0)[:, None] * columns - summed(raised, near)
        crossed = 2 * (raised.T @ means - summed(squares, near)) + squares.sum(axis=0)[:, None]
        roots = (np.sqrt(squares)[:, :, None] * beside) @ near
        square_mean = weights.T @ (variances + means**2) + columns * crossed
        square_mean += np.einsum("mpn,mpn->pn", roots, roots) - 2 * summed(raised, near * means[:, None])
        return mean, np.sqrt(np.maximum(square_mean - mean**2, 1e-8))


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
    hypothesis: Hypothesis,
    law: Law,
    unit: Array,
    above: NDArray[np.bool_],
    log_y: Array,
    *,
    start: Array | None = None,
    readings: Array | None = None,
    noises: Sequence[float] = NOISES,
) -> Mixture:
    """Learn the law of a hypothesis from measurements.

    Args:
        hypothesis: The hypothesis.
        law: Its law at the measured places.
        unit: Measured places, shape (measurements, axes).
        above: Whether each measurement is above each step, shape (measurements, 1 + places).
        log_y: The measurements, shape (measurements,).
        start: Initial coefficients, those of the last fit; by default the prior's mean.
        readings: Number of readings of each mean, shape (measurements,); 1 by default.
        noises: Standard deviations of one reading to consider.
    """
    prior, kernel, steps = hypothesis.prior, hypothesis.kernel, hypothesis.steps
    discrepancies, noise_sd = np.array(list(product(kernel.sizes, noises))).T[:, :, None, None]
    repeated = np.ones(len(log_y)) if readings is None else readings
    covariance = discrepancies**2 * closeness(unit, unit, kernel) + noise_sd**2 * np.diag(1 / repeated)
    if start is None:
        start = np.tile(prior.mean, (len(covariance), 1))
    theta, value, slopes = _most_probable(law, prior, covariance, log_y, start)
    whole, offset = _linearised(prior, covariance, theta, slopes, log_y - value)
    inverse = np.linalg.inv(whole)
    evidence = -0.5 * (np.einsum("mi,mij,mj->m", offset, inverse, offset) + np.linalg.slogdet(whole)[1])
    columns = above[:, : len(steps.chances)].T.astype(float)
    beside = columns @ inverse
    narrowed = 1 + steps.sd**2 * np.einsum("mpn,pn->mp", beside, columns)
    heights = steps.sd**2 * np.einsum("mpn,mn->mp", beside, offset) / narrowed
    logs = evidence[:, None] + (heights**2 * narrowed / steps.sd**2 - np.log(narrowed)) / 2 + np.log(steps.chances)
    weights = np.exp(logs - logs.max())
    evidences = weights.sum(axis=0)
    shares = weights / evidences
    shares *= shares > LEAST_WEIGHT
    kept = np.argsort(-weights.sum(axis=1), kind="stable")
    kept = kept[shares[kept].any(axis=1)]
    return Mixture(
        prior=prior,
        unit=unit,
        start=theta,
        theta=theta[kept],
        weights=shares[kept] / shares.sum(axis=0),
        discrepancies=discrepancies[kept, 0, 0],
        slopes=slopes[kept],
        inverse=inverse[kept],
        offset=offset[kept],
        kernel=kernel,
        log_evidence=logs.max() + np.log(evidences / len(weights)),
        beside=beside[kept],
        heights=heights[kept],
        height_variances=steps.sd**2 / narrowed[kept],
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
