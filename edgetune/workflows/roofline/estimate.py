"""What ``edgetune roofline`` would measure, and how long that takes at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.artifacts.mode import Mode
from edgetune.devices.device import Absent, Device
from edgetune.stages.roofline.kernel_plan import REPETITIONS, buffer_limits_on, plan_kernels
from edgetune.stages.roofline.measure import LONGEST_RUN_S, longest_idle_s
from edgetune.stages.roofline.next_clocks import next_modes
from edgetune.workflows.roofline_options import RooflineOptions


@dataclass(frozen=True, slots=True)
class RooflineEstimate:
    """What would be measured.

    Args:
        device: Name of the device.
        kernels: References of the kernels; none where peaks are read from a file.
        precisions: Of the kernels.
        modes: How many modes peaks are measured in.
        at_most_s: How long the kernels take at most, s.
        tuned: How many modes ``--tune`` would choose from; 0 without it.
        network_modes: In how many modes the network would be placed; ``None`` where it would not run.
        next_clock_modes: In how many others it would run with the next clocks.
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
    """Return what would be measured.

    Args:
        opts: What is asked for.
        device: Where kernels would run.
        modes: Those in which peaks would be measured.
        precisions: Of the kernels.
        tuned: Modes that ``--tune`` would choose from.
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
    """Return in how many modes the network would be placed, and in how many others it would run with the next clocks.

    Args:
        opts: What is asked for.
        placed: The modes in which it is placed, the highest first.
        peaks_in: Those with peaks, which its next clocks are among.

    Returns:
        ``None`` twice where it would not run.
    """
    if opts.model is None or opts.no_measure or opts.profile is not None:
        return None, None
    return len(placed), sum(mode not in placed for _, mode in next_modes(placed[0], peaks_in))
