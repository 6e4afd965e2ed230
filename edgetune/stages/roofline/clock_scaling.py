"""Laws of how a figure changes with clocks, and the choice of the law that predicts left-out modes best.

Every law is a function of clocks relative to their highest, so that its coefficients compare. ``waits`` says that an
operation waits for each block in turn, or for the slowest of them:

    waits p   1/y = (a^p + sum (b_k/f_k)^p)^(1/p)         p = 1: one after another; large p: the slowest alone counts
    sums        y = a + sum (b_k/f_k + c_k f_k + d_k f_k^3)    leakage in time, clocks, clocks times voltage squared
    quadratic log y = quadratic polynomial in log f
    spline    log y = thin-plate spline in log f, through every measured mode

Coefficients of ``waits`` and ``sums`` are not negative; errors are relative. Which law holds is not assumed: each is
fitted with one mode left out and asked for that mode, for every mode in turn, and the one with the least root mean
square of relative errors is taken.

On the digital twin of an AGX Orin, mean error at the modes not measured (33 of 11 GPU by 3 memory clocks in all):

    measured  FLOP/s  bytes/s  static power  per FLOP  per byte
    6 by 3     0.6 %    0.8 %         0.0 %     0.1 %     0.5 %
    4 by 3     0.6 %    1.7 %         0.1 %     1.0 %     1.1 %
    3 by 3     0.6 %    1.8 %         0.1 %     1.0 %     2.7 %

Bandwidth is the hardest: each memory clock there has timings of its own, and slow GPUs cannot ask for more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgetune.stages.roofline.energy import nonnegative_fit

Array = NDArray[np.float64]
Predict = Callable[[Array], Array]
Fitter = Callable[[Array, Array], Predict]

SHARPNESS = (1, 2, 4, 8)
"""Powers of ``waits``, each twice as sharp as the one before. With 8 the corner, where two waits are equal, lies 9 %
below that of a hard minimum; real ones are hardly harder."""


@dataclass(frozen=True, slots=True)
class ScalingLaw:
    """A figure as a function of clocks.

    Args:
        name: Of the law, e.g. ``waits 4``.
        knobs: The clocks it takes, in order.
        error_share: Root mean square of its relative errors at modes left out of its fit.
        highest: The clocks that it takes as 1.
        predict: The figure at clocks relative to those.
    """

    name: str
    knobs: tuple[str, ...]
    error_share: float
    highest: Array = field(compare=False, repr=False)
    predict: Predict = field(compare=False, repr=False)

    def at(self, clocks: Array) -> Array:
        """Return the figure at clocks, one row per mode and one column per knob."""
        return self.predict(clocks / self.highest)


def best_scaling_law(clocks: Array, values: Array, knobs: Sequence[str], *, peak: bool) -> ScalingLaw | None:
    """Return the law that predicts left-out modes best; ``None`` when there are too few modes for any.

    Args:
        clocks: One row per mode, one column per knob, all above zero.
        values: The figure of each mode, above zero.
        knobs: Names of the columns.
        peak: Whether the figure is a rate, which ``waits`` describes, or an energy or power, which ``sums`` does.
    """
    clocks, values = _merged(clocks, values)
    highest = clocks.max(axis=0)
    relative, found = clocks / highest, []
    for name, fit in _laws(len(knobs), len(values) - 1, peak=peak).items():
        try:
            error_share = _left_out_error(relative, values, fit)
            predict = fit(relative, values)
        except np.linalg.LinAlgError:  # the modes lie on a line: a spline through them is not unique
            continue
        found.append(ScalingLaw(name, tuple(knobs), error_share, highest, predict))
    return min(found, key=lambda scaling: scaling.error_share, default=None)


def _merged(clocks: Array, values: Array) -> tuple[Array, Array]:
    """Return each row of clocks once, with the median of its values: modes that differ in other knobs are one to a law
    without these, and a spline goes through one value of each."""
    alone, row_of = np.unique(clocks, axis=0, return_inverse=True)
    return alone, np.array([np.median(values[row_of.ravel() == row]) for row in range(len(alone))])


def _left_out_error(clocks: Array, values: Array, fit: Fitter) -> float:
    """Return the root mean square relative error at modes left out of the fit, one at a time.

    Where every corner of the box of clocks was measured, all other modes lie inside it, and leaving a
    corner out would test an extrapolation that is never used.
    """
    corner = ((clocks == clocks.min(axis=0)) | (clocks == clocks.max(axis=0))).all(axis=1)
    asked = np.flatnonzero(~corner) if corner.sum() == 2 ** clocks.shape[1] < len(values) else np.arange(len(values))
    errors = []
    for row in asked:
        others = np.arange(len(values)) != row
        predicted = fit(clocks[others], values[others])(clocks[row : row + 1])[0]
        errors.append(predicted / values[row] - 1)
    return float(np.sqrt(np.mean(np.square(errors))))


def _laws(knobs: int, modes: int, *, peak: bool) -> dict[str, Fitter]:
    """Return the laws that ``modes`` modes are enough to fit."""
    linear: dict[str, Fitter] = {f"waits {power}": _waits(power) for power in SHARPNESS} if peak else {"sums": _sums}
    scaling_laws = {name: fit for name, fit in linear.items() if modes > knobs}
    if modes > knobs + 1:
        scaling_laws["spline"] = _spline
    if modes > 1 + 2 * knobs + knobs * (knobs - 1) // 2:
        scaling_laws["quadratic"] = _quadratic
    return scaling_laws


def _waits(power: int) -> Fitter:
    def fit(clocks: Array, values: Array) -> Predict:
        coefficients = _relative_fit(_wait_terms(clocks, power), values ** -float(power))
        return lambda at: (_wait_terms(at, power) @ coefficients) ** (-1 / power)

    return fit


def _wait_terms(clocks: Array, power: int) -> Array:

    return np.hstack([np.ones((len(clocks), 1)), clocks ** -float(power)])


def _sums(clocks: Array, values: Array) -> Predict:
    coefficients = _relative_fit(_sum_terms(clocks), values)
    return lambda at: _sum_terms(at) @ coefficients


def _sum_terms(clocks: Array) -> Array:

    return np.hstack([np.ones((len(clocks), 1)), 1 / clocks, clocks, clocks**3])


def _relative_fit(terms: Array, values: Array) -> Array:

    return nonnegative_fit(terms / values[:, None], np.ones(len(values)))[0]


def _quadratic(clocks: Array, values: Array) -> Predict:

    coefficients = np.linalg.lstsq(_quadratic_terms(clocks), np.log(values), rcond=None)[0]
    return lambda at: np.asarray(np.exp(_quadratic_terms(at) @ coefficients))


def _quadratic_terms(clocks: Array) -> Array:

    logs = np.log(clocks)
    first, second = np.triu_indices(logs.shape[1])
    return np.hstack([np.ones((len(logs), 1)), logs, logs[:, first] * logs[:, second]])


def _spline(clocks: Array, values: Array) -> Predict:
    from scipy.interpolate import RBFInterpolator

    width = np.ptp(np.log(clocks), axis=0)
    if not width.all():  # leaving one mode out left a clock with one value
        raise np.linalg.LinAlgError
    spline = RBFInterpolator(np.log(clocks) / width, np.log(values), kernel="thin_plate_spline", degree=1)
    return lambda at: np.asarray(np.exp(spline(np.log(at) / width)))
