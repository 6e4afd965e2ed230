"""Inference of the rooflines of unmeasured modes, and correlations of peaks with clocks.

A board has thousands of modes. A dozen of them, spread over the clocks, say how peaks and energy follow the clocks.

Laws of how a figure changes with clocks, and the choice of the law that predicts left-out modes best.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.roofline import Roof
from edgetune.errors import InputError
from edgetune.stages.roofline.fit import nonnegative_fit

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


PEAKS = ("flops_per_s", "bytes_per_s")
ENERGIES = ("static_w", "flop_j", "byte_j")
HOST_KNOBS = ("cpu_cores", "cpu_mhz")
"""Knobs of the host beside a GPU, which leave its peaks alone (Pagoda, 2025: no effect on peak FLOP/s or bandwidth),
and what an operation or a byte costs there beyond static power."""

FEWEST_MODES = 4
"""The fewest modes whose correlations say anything."""


@dataclass(frozen=True, slots=True)
class InferredRoofs:
    """Roofs of the requested modes.

    Args:
        roofs: One per mode, in their order; those measured as they were measured.
        scaling_laws: The law of each figure, by its name in ``Roof``, with the error to expect; empty when all were
            measured.
        data_warnings: What the laws had to assume.
    """

    roofs: tuple[Roof, ...]
    scaling_laws: Mapping[str, ScalingLaw]
    data_warnings: tuple[DataWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Correlation:
    """Correlation of a peak with a clock over modes, -1 to 1; ``None`` if the peak never changes.

    Args:
        knob: A field of ``Mode``.
        peak: ``flops_per_s`` or ``bytes_per_s``.
        pearson: Of the values: 1 for a straight line upwards.
        spearman: Of their ranks: 1 for anything that rises throughout.
    """

    knob: str
    peak: str
    pearson: float | None
    spearman: float | None


def infer_roofs(roofs: Sequence[Roof], modes: Sequence[Mode]) -> InferredRoofs:
    """Return a roof for every mode: the measured one, or one from laws fitted to the measured ones.

    Args:
        roofs: Measured, of one precision, one per mode.
        modes: Those to have roofs of.

    Raises:
        InputError: too few modes were measured, or not at different values of a knob that changes among ``modes``.
    """
    measured = {roof.mode: roof for roof in roofs if roof.measured}
    missing = [mode for mode in dict.fromkeys(modes) if mode not in measured]
    if not missing:
        return InferredRoofs(tuple(measured[mode] for mode in modes), {})
    known = list(measured.values())
    if len(known) < 2:
        raise InputError(
            f"{len(known)} measured mode cannot predict {len(missing)} others",
            "measure peaks at low, middle and high values of each clock",
        )
    varied = varied_knobs(list(measured))
    data_warnings = (*_refuse_unknown(list(measured), missing), *_data_warnings_of(list(measured), missing, varied))
    scaling_laws = {name: scaling for name in (*PEAKS, *ENERGIES) if (scaling := _law(known, name, varied)) is not None}
    if not all(name in scaling_laws for name in PEAKS):
        raise InputError(
            f"{len(known)} measured modes are too few to predict {len(missing)} others over {', '.join(varied)}",
            f"measure at least {len(varied) + 2}, at low, middle and high values of each",
        )
    figures = {name: scaling.at(clock_matrix(missing, scaling.knobs)) for name, scaling in scaling_laws.items()}
    with_energy = all(name in scaling_laws for name in ENERGIES)
    kept = [name for name in figures if name in PEAKS or with_energy]
    inferred = {
        mode: Roof(mode, known[0].precision, measured=False, **{name: float(figures[name][row]) for name in kept})
        for row, mode in enumerate(missing)
    }
    all_roofs = measured | inferred
    return InferredRoofs(tuple(all_roofs[mode] for mode in modes), scaling_laws, data_warnings)


def _refuse_unknown(measured: Sequence[Mode], missing: Sequence[Mode]) -> tuple[DataWarning, ...]:
    """Refuse a knob whose effect was not measured; the host beside a GPU is assumed to have none, with a warning."""
    data_warnings = []
    beside_gpu = any(mode.gpu_mhz is not None for mode in measured)
    varied = varied_knobs(measured)
    for knob in KNOBS:
        seen, asked = ({getattr(mode, knob) for mode in modes} for modes in (measured, missing))
        if not asked - seen or (knob in varied and None not in asked):
            continue
        if knob in varied or not (beside_gpu and knob in HOST_KNOBS):
            was, other = " or ".join(map(_value, sorted(seen, key=str))), _value((asked - seen).pop())
            message = f"{knob} was {was} in every measured mode, and {other} is asked for"
            raise InputError(message, f"measure peaks at a low, a middle and a high value of {knob}")
        advice = f"{knob} was the same in every measured mode; peaks and power are taken not to change with it"
        count = sum(getattr(mode, knob) not in seen for mode in missing)
        data_warnings.append(DataWarning("clock-not-varied", advice, {"modes": float(count)}))
    return tuple(data_warnings)


def _value(value: float | None) -> str:
    return "not set" if value is None else f"{value:g}"


def _data_warnings_of(
    measured: Sequence[Mode], missing: Sequence[Mode], varied: Sequence[str]
) -> tuple[DataWarning, ...]:
    known, asked = clock_matrix(measured, varied), clock_matrix(missing, varied)
    outside = int(((asked < known.min(axis=0)) | (asked > known.max(axis=0))).any(axis=1).sum())
    if not outside:
        return ()
    advice = "modes with clocks below or above every measured one; measure at the lowest and highest to be surer"
    return (DataWarning("clocks-extrapolated", advice, {"modes": float(outside)}),)


def varied_knobs(modes: Sequence[Mode]) -> tuple[str, ...]:
    """Return the knobs that are set in all modes and not the same in all."""
    values = {knob: {getattr(mode, knob) for mode in modes} for knob in KNOBS}
    return tuple(knob for knob, found in values.items() if len(found) > 1 and None not in found)


def clock_matrix(modes: Sequence[Mode], knobs: Sequence[str]) -> Array:
    """Return one row per mode and one column per knob."""
    return np.array([[getattr(mode, knob) for knob in knobs] for mode in modes], dtype=np.float64)


def correlations(roofs: Sequence[Roof]) -> tuple[Correlation, ...]:
    """Return the correlation of each peak with each knob that differs between measured roofs of one precision.

    Nothing for fewer than ``FEWEST_MODES``.
    """
    from scipy.stats import rankdata

    roofs = [roof for roof in roofs if roof.measured]
    if len(roofs) < FEWEST_MODES:
        return ()
    knobs = varied_knobs([roof.mode for roof in roofs])
    clocks = clock_matrix([roof.mode for roof in roofs], knobs)
    found = []
    for column, knob in enumerate(knobs):
        for peak in PEAKS:
            values = np.array([getattr(roof, peak) for roof in roofs])
            plain = _pearson(clocks[:, column], values)
            found.append(Correlation(knob, peak, plain, _pearson(rankdata(clocks[:, column]), rankdata(values))))
    return tuple(found)


def _pearson(one: Array, other: Array) -> float | None:

    one, other = one - one.mean(), other - other.mean()
    size = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / size if size else None


def _law(roofs: Sequence[Roof], name: str, varied: Sequence[str]) -> ScalingLaw | None:
    """Return the law of a figure, from its values above zero; zero is a bound at which a fit ended.

    Beside a GPU only static power may go with clocks of the host: a law that takes them for a peak follows what a few
    measurements scatter, and carries that to modes that were not measured.
    """
    known = [roof for roof in roofs if getattr(roof, name)]
    if not known or varied_knobs([roof.mode for roof in known]) != tuple(varied):
        return None
    of_gpu = [knob for knob in varied if knob not in HOST_KNOBS]
    beside_gpu = any(roof.mode.gpu_mhz is not None for roof in known)
    knobs = of_gpu if of_gpu and name != "static_w" and beside_gpu else varied
    values = np.array([getattr(roof, name) for roof in known])
    return best_scaling_law(clock_matrix([roof.mode for roof in known], knobs), values, knobs, peak=name in PEAKS)
