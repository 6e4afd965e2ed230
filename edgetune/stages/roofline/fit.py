"""Roofs from kernels: the best rates of computing and of moving data, and their energy.

A kernel proves what it reached, so a peak is the highest rate of any kernel: of its best size, and there of the median,
for a lone fast run proves little. Kernels are distinguished by their intensity, not by their name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.roofline import KernelRun, Roof
from edgetune.errors import InputError
from edgetune.stages.roofline.energy import Energy, fit_energy
from edgetune.stats import median

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
        idle_w = _idle_power(of_mode)
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


def _idle_power(runs: Sequence[KernelRun]) -> float | None:
    idle_w = [run.power_w for run in runs if run.kernel == IDLE and run.power_w is not None]
    return median(idle_w) if idle_w else None


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
