"""Roofs from kernels: the best rates of computing and of moving data, and their energy.

A kernel proves what it reached, so a peak is the highest rate of any kernel: of its best size, and there of the median,
for a lone fast run proves little. Kernels are distinguished by their intensity, not by their name.

Energy per operation and per byte from the power of kernels, by least squares.

    power x time = flop_j W + byte_j Q + static_w time

The power of a board is measured while it multiplies matrices, copies memory and rests. The power at rest flows all the
time; the power of a product beyond it pays for its FLOP and few bytes, that of a copy for its bytes. Kernels of
intensities in between check the model.

Source: Choi, Bedard, Fowler and Vuduc, "A roofline model of energy" (IPDPS 2013), eq. 3; per mode as in Pagoda (2025).
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.roofline import KernelRun, Roof
from edgetune.errors import InputError
from edgetune.stats import CONFIDENCE, median

Array = NDArray[np.float64]

SLOWEST, FASTEST = 0.5, 1.1
"""Share of the roof that a kernel must reach to be taken for its energy, and may reach.

Below half of it most of the time goes to launches or to waiting, of which the model knows nothing. Above it (a tenth is
left for noise) operands came from a cache, and their bytes cost less than memory's.
"""
CLEAR = 8.0
"""Factor between a kernel's intensity and the balance in time from which it determines the constants, if enough do.

Nearer, arithmetic and memory are both busy, and what either alone keeps awake (schedulers, caches, the clock tree) is
paid once, while the model has it in both constants: fitted to all kernels alike, both come out too low. Those kernels
still count in ``residual_share``, which so tells how far the model is from them. On the twin at MAXN the energy of a
FLOP is 3.81 pJ by kernels eight times off, 3.77 by those four times off, 3.54 by all; Pagoda (2025) prints 3.86.
"""
FEWEST, FEWEST_FOR_STATIC = 3, 4
"""Kernels from which constants are told, and from which static power is told too where none was idle: one more than
there are unknowns. So many clear ones, at least one on each side, are enough."""


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy constants of one mode and precision.

    Args:
        static_w: Power that flows whether or not anything runs, W.
        flop_j, byte_j: Energy of one more FLOP and of one more byte, J; 0 where the fit ended at that bound.
        flop_j_error, byte_j_error: Half their 95 % confidence interval, J; ``None`` at the bound or too few kernels.
        residual_share: Root mean square of the relative error in power of all kernels, those near the balance too;
            ``None`` where nothing was left to err.
    """

    static_w: float
    flop_j: float
    byte_j: float
    flop_j_error: float | None = None
    byte_j_error: float | None = None
    residual_share: float | None = None


def fit_energy(
    runs: Sequence[KernelRun], *, flops_per_s: float, bytes_per_s: float, static_w: float | None
) -> Energy | str:
    """Return the constants that come nearest to the power of every kernel, relative to it, none of them negative.

    Args:
        runs: Kernels of one mode and precision; those without power or far from the roof are left out.
        flops_per_s, bytes_per_s: The roof of time, which tells what bounds a kernel.
        static_w: Power at rest, W; ``None`` fits it too.

    Returns:
        The constants, or in words what is missing to determine them.
    """
    if all(run.power_w is None for run in runs):
        return "no kernel has a power reading, so that the rooflines are of time only"
    used = [run for run in runs if run.power_w and SLOWEST <= _reached(run, flops_per_s, bytes_per_s) <= FASTEST]
    by_compute = sum(run.flops / flops_per_s >= run.bytes_moved / bytes_per_s for run in used)
    if not by_compute:
        return "no kernel bound by compute has a power reading"
    if by_compute == len(used):
        return "no kernel bound by memory has a power reading"
    if static_w is None and len(used) < FEWEST_FOR_STATIC:
        return "power at rest was not measured, and the kernels are too few to estimate it"
    fewest = FEWEST_FOR_STATIC if static_w is None else FEWEST
    return _constants(used, _clear(used, flops_per_s / bytes_per_s, fewest), static_w)


def _clear(runs: Sequence[KernelRun], balance: float, fewest: int) -> list[KernelRun]:
    """Return the kernels far from the balance, or all where these are too few or all on one side."""
    above = [run for run in runs if run.flops >= CLEAR * balance * run.bytes_moved]
    below = [run for run in runs if run.flops * CLEAR <= balance * run.bytes_moved]
    return [*above, *below] if above and below and len(above) + len(below) >= fewest else list(runs)


def _reached(run: KernelRun, flops_per_s: float, bytes_per_s: float) -> float:
    return max(run.flops / flops_per_s, run.bytes_moved / bytes_per_s) / run.seconds


def _constants(runs: Sequence[KernelRun], clear: Sequence[KernelRun], static_w: float | None) -> Energy:
    """Solve ``A x = b`` for the clear kernels, each equation divided by its kernel's energy: all count alike."""
    values, errors, spare = nonnegative_fit(*_equations(clear, static_w))
    shares, target = _equations(runs, static_w)
    residual = target - shares @ values
    return Energy(
        static_w=float(values[2]) if static_w is None else static_w, flop_j=float(values[0]), byte_j=float(values[1]),
        flop_j_error=errors[0], byte_j_error=errors[1],
        residual_share=float((residual @ residual / len(runs)) ** 0.5) if spare is not None else None,
    )  # fmt: skip


def _equations(runs: Sequence[KernelRun], static_w: float | None) -> tuple[Array, Array]:
    """Return ``A`` and ``b``, a row per kernel, as shares of its energy."""
    work = np.array([[run.flops, run.bytes_moved, run.seconds] for run in runs])
    power_w = np.array([run.power_w for run in runs], dtype=np.float64)
    shares = work / (power_w * work[:, 2])[:, None]
    return (shares, np.ones(len(runs))) if static_w is None else (shares[:, :2], 1 - static_w / power_w)


def nonnegative_fit(matrix: Array, target: Array) -> tuple[Array, list[float | None], float | None]:
    """Return the non-negative solution of least squares, half its 95 % intervals, and the root mean square residual.

    An unknown at zero has no interval: those of the others are Student's, as if it had not been there. Without more
    equations than unknowns there is neither interval nor residual.
    """
    from scipy.optimize import nnls
    from scipy.special import stdtrit

    scale = np.abs(matrix).max(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    scaled = matrix / scale
    values: Array = nnls(scaled, target)[0]
    errors: list[float | None] = [None] * len(values)
    free = np.flatnonzero(values)
    spare = len(target) - matrix.shape[1]
    if spare < 1:
        return values / scale, errors, None
    residual = target - scaled @ values
    squares: Any = float(residual @ residual)
    variances = np.diag(np.linalg.pinv(scaled[:, free].T @ scaled[:, free])) * squares / (len(target) - len(free))
    quantile = float(stdtrit(len(target) - len(free), (1 + CONFIDENCE) / 2))
    for column, variance in zip(free, variances, strict=True):
        errors[column] = quantile * float(np.sqrt(max(variance, 0.0)) / scale[column])
    return values / scale, errors, float(np.sqrt(squares / len(target)))


Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")

IDLE = "idle"
MEMORY_INTENSITY = 1.0
"""FLOP per byte up to which a kernel is one of memory: a copy has 0, ReLU 1/8 to 1/2, a product of 64 rows already 10.
Devices that run networks do ten operations or more in the time of a byte (Pagoda, 2025: 67 to 113 on AGX Orin)."""
CACHE_SHARE = 0.25
"""Share of the largest memory kernel's bytes below which one may have run from a cache and proves nothing of memory:
with sizes in powers of two the two largest count."""
_HINT = "measure matrix products and copies of several sizes, as `edgetune roofline` does without --peaks"


@dataclass(frozen=True, slots=True)
class RooflineFit:
    """The roofs of a device.

    Args:
        roofs: One for each mode and precision that had what it takes, in the order measured.
        data_warnings: What is missing, and what came out at a bound.
    """

    roofs: tuple[Roof, ...]
    data_warnings: tuple[DataWarning, ...] = ()


def fit_roofs(runs: Sequence[KernelRun]) -> RooflineFit:
    """Return the roof of every mode and precision.

    A precision whose kernels of memory were not measured takes those of any other: bandwidth hardly depends on the
    type (Pagoda, 2025: 164 GB/s in FP32, 160 GB/s in FP16).

    Raises:
        InputError: No roof can be determined; the message names what is missing.
    """
    roofs: list[Roof] = []
    lacking: list[str] = []
    notes: list[tuple[str, str]] = []
    for mode, of_mode in grouped((run.mode, run) for run in runs).items():
        at_rest_w = [run.power_w for run in of_mode if run.kernel == IDLE and run.power_w is not None]
        idle_w = median(at_rest_w) if at_rest_w else None
        kernels = [run for run in of_mode if run.kernel != IDLE]
        for precision, own in grouped((run.precision, run) for run in kernels).items():
            found = _peaks(precision, own, kernels)
            if isinstance(found, str):
                lacking.append(f"{found} in {precision} at {mode}")
                continue
            roof, used = found
            energy = fit_energy(used, flops_per_s=roof.flops_per_s, bytes_per_s=roof.bytes_per_s, static_w=idle_w)
            if isinstance(energy, Energy):
                roof = replace(roof, **asdict(energy))
                notes += [("energy-at-bound", advice)] if (advice := _bound_advice(energy, idle_w)) else []
            else:
                notes.append(("no-energy", energy))
            roofs.append(roof)
    if not roofs:
        raise InputError(lacking[0] if lacking else "no kernel was measured", _HINT)
    left_out = (
        [DataWarning("roofs-left-out", f"{lacking[0]}; {_HINT}", {"roofs": float(len(lacking))})] if lacking else []
    )
    counted = [DataWarning(*note, {"roofs": float(len(same))}) for note, same in grouped((n, n) for n in notes).items()]
    return RooflineFit(tuple(roofs), (*left_out, *counted))


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return the items by key, in the order found."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


def intensity(run: KernelRun) -> float:
    """Return FLOP per byte; infinite for a kernel that moves nothing."""
    return run.flops / run.bytes_moved if run.bytes_moved else float("inf")


def _peaks(
    precision: str, own: Sequence[KernelRun], kernels: Sequence[KernelRun]
) -> tuple[Roof, list[KernelRun]] | str:
    """Return the roof in time with the kernels that determine it, or the missing kernel in words."""
    compute = [run for run in own if intensity(run) > MEMORY_INTENSITY]
    memory = [run for run in own if intensity(run) <= MEMORY_INTENSITY]
    memory = memory or [run for run in kernels if intensity(run) <= MEMORY_INTENSITY]
    if not compute:
        return "no kernel bound by compute was measured"
    if not memory:
        return "no kernel bound by memory was measured"
    largest = max(run.bytes_moved for run in memory)
    large = [run for run in memory if run.bytes_moved >= CACHE_SHARE * largest]
    flops_per_s = max(run.flops / run.seconds for run in _medians(compute))
    bytes_per_s = max(run.bytes_moved / run.seconds for run in _medians(large))
    return Roof(compute[0].mode, precision, flops_per_s, bytes_per_s), [*compute, *memory]


def _medians(runs: Sequence[KernelRun]) -> list[KernelRun]:
    """Return one run for each kernel and size, with the median time of those measured more than once."""
    same = grouped(((run.kernel, run.size, run.flops, run.bytes_moved), run) for run in runs)
    return [replace(group[0], seconds=median([run.seconds for run in group])) for group in same.values()]


def _bound_advice(energy: Energy, idle_w: float | None) -> str | None:
    """Return advice on an energy constant that came out as zero; ``None`` if none did."""
    names = [name for name, value in (("FLOP", energy.flop_j), ("byte", energy.byte_j)) if value == 0]
    if not names:
        return None
    what = f"energy per {' and per '.join(names)} came out as zero"
    if idle_w is None:
        return f"{what}: measure power at rest, which was estimated from the kernels' power"
    return f"{what}: kernels drew hardly more than at rest; let the device settle before power at rest is measured"
