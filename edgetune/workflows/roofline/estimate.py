"""Estimates the measurements of ``edgetune roofline`` and their maximum duration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device
from edgetune.stages.roofline.kernel_plan import REPETITIONS, buffer_limits_on, plan_kernels
from edgetune.stages.roofline.measure import LONGEST_RUN_S, longest_idle_s
from edgetune.stages.roofline.next_clocks import next_modes
from edgetune.workflows.roofline.options import RooflineOptions


@dataclass(frozen=True, slots=True)
class RooflineEstimate:
    """The planned measurements.

    Args:
        device: Name of the device.
        kernels: References of the kernels; empty if peaks are read from a file.
        precisions: Precisions of the kernels.
        modes: Number of modes in which peaks are measured.
        at_most_s: Maximum duration of the kernels, s.
        tuned: Number of modes that ``--tune`` chooses from; 0 without it.
        network_modes: Number of modes in which the network is placed; ``None`` if it does not run.
        next_clock_modes: Number of further modes in which it runs with the next clocks.
    """

    device: str
    kernels: tuple[str, ...]
    precisions: tuple[str, ...]
    modes: int
    at_most_s: float
    tuned: int = 0
    network_modes: int | None = None
    next_clock_modes: int | None = None


def estimate(
    opts: RooflineOptions, device: Device, modes: Sequence[Mode], precisions: Sequence[str], *, tuned: int = 0,
    runs: tuple[int | None, int | None] = (None, None),
) -> RooflineEstimate:  # fmt: skip
    """Return the planned measurements.

    Args:
        opts: The options.
        device: The device that runs kernels.
        modes: The modes in which peaks are measured.
        precisions: Precisions of the kernels.
        tuned: Modes that ``--tune`` chooses from.
        runs: See ``runs_planned``.
    """
    limits = buffer_limits_on(device)
    kernels = [] if opts.peaks else plan_kernels(
        limits.memory_bytes, precisions, cache_bytes=limits.cache_bytes, quick=opts.quick
    )  # fmt: skip
    families = len({(kernel.precision, kernel.label) for kernel in kernels})
    points = len(kernels) + families * (len(modes) - 1)
    at_rest_s = 0.0 if isinstance(device.power, Absent) else longest_idle_s(device.power)
    at_most_s = points * REPETITIONS * LONGEST_RUN_S + at_rest_s * len(modes) if kernels else 0.0
    names = tuple(kernel.reference for kernel in kernels)
    return RooflineEstimate(device.name, names, tuple(precisions), len(modes), at_most_s, tuned, *runs)


def runs_planned(
    opts: RooflineOptions, placed: Sequence[Mode], peaks_in: Sequence[Mode]
) -> tuple[int | None, int | None]:
    """Return the number of modes in which the network is placed, and of others in which it runs with the next clocks.

    Args:
        opts: The options.
        placed: The modes in which it is placed, the highest first.
        peaks_in: The modes with peaks, which include its next clocks.

    Returns:
        ``None`` twice if it does not run.
    """
    if opts.model is None or opts.no_measure or opts.profile is not None:
        return None, None
    return len(placed), sum(mode not in placed for _, mode in next_modes(placed[0], peaks_in))
