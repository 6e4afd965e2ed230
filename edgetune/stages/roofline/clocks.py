"""Inference of the rooflines of unmeasured modes, and correlations of peaks with clocks.

A board has thousands of modes. A dozen of them, spread over the clocks, say how peaks and energy follow the clocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.roofline import Roof
from edgetune.errors import InputError
from edgetune.stages.roofline.clock_scaling import ScalingLaw, best_scaling_law

Array = NDArray[np.float64]

PEAKS = ("flops_per_s", "bytes_per_s")
ENERGIES = ("static_w", "flop_j", "byte_j")
HOST_KNOBS = ("cpu_cores", "cpu_mhz")
"""Knobs of the host beside a GPU, which leave its peaks alone (Pagoda, 2025: no effect on peak FLOP/s or bandwidth),
and what an operation or a byte costs there beyond static power."""


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
    """Return the correlation of each peak with each knob that differs between roofs of one precision."""
    from scipy.stats import rankdata

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
    knobs = of_gpu if of_gpu and name != "static_w" and _has_gpu(known) else varied
    values = np.array([getattr(roof, name) for roof in known])
    return best_scaling_law(clock_matrix([roof.mode for roof in known], knobs), values, knobs, peak=name in PEAKS)


def _has_gpu(roofs: Sequence[Roof]) -> bool:
    return any(roof.mode.gpu_mhz is not None for roof in roofs)
