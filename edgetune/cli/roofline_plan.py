"""What ``edgetune roofline`` would measure, told without measuring it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgetune.cli.screen import answer, print_lines

if TYPE_CHECKING:
    from edgetune.artifacts.mode import Mode
    from edgetune.cli.roofline_request import RooflineOptions
    from edgetune.devices.device import Device


def report_plan(
    device: Device, modes: Sequence[Mode], precisions: Sequence[str], opts: RooflineOptions, *, tuned: int = 0,
    runs: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    """Tell what would be measured, and how long that takes at most.

    Args:
        device: Where kernels would run.
        modes: Those in which peaks would be measured.
        precisions: Of the kernels.
        opts: What was asked for.
        tuned: Modes that ``--tune`` would choose from.
        runs: See ``runs_planned``.
    """
    from edgetune.devices.device import Absent
    from edgetune.roofline.buffer_limits import buffer_limits_on
    from edgetune.roofline.idle import longest_idle_s
    from edgetune.roofline.kernel_plan import REPETITIONS, plan_kernels
    from edgetune.roofline.measure import LONGEST_RUN_S
    from edgetune.roofline.tune import POINTS

    limits = buffer_limits_on(device)
    kernels = [] if opts.peaks else plan_kernels(
        limits.memory_bytes, precisions, cache_bytes=limits.cache_bytes, quick=opts.quick
    )  # fmt: skip
    families = len({(kernel.precision, kernel.label) for kernel in kernels})
    points = len(kernels) + families * (len(modes) - 1)
    at_rest_s = 0.0 if isinstance(device.power, Absent) else longest_idle_s(device.power)
    at_most_s = points * REPETITIONS * LONGEST_RUN_S + at_rest_s * len(modes) if kernels else 0.0
    if opts.json:
        found = {"device": device.name, "kernels": [kernel.reference for kernel in kernels], "modes": len(modes)}
        placed, beside = runs or (None, None)
        of_network = {"tuned_modes": tuned or None, "network_modes": placed, "next_clock_modes": beside}
        answer({**found, "kernels_at_most_s": at_most_s, **of_network})
        return
    where = f"in {len(modes)} modes, all sizes in the highest" if len(modes) > 1 else "in 1 mode"
    print_lines(f"{len(kernels)} kernels in {', '.join(precisions)} on {device.name} {where}")
    if kernels:
        print_lines(
            f"at most {at_most_s / 60:.0f} min, were every kernel as slow as {LONGEST_RUN_S:g} s a run: most are not"
        )
    if tuned:
        print_lines(f"then the network in the fastest of {tuned} modes and in up to {POINTS} others")
    elif runs is not None:
        more = f", and in {counted(runs[1], 'more mode')} with the next clocks" if runs[1] else ""
        print_lines(f"then the network in {counted(runs[0], 'mode')}{more}")


def runs_planned(opts: RooflineOptions, placed: Sequence[Mode], peaks_in: Sequence[Mode]) -> tuple[int, int] | None:
    """Return in how many modes the network would be placed, and in how many others it would run with the next clocks;
    ``None`` where it would not run.

    Args:
        opts: What was asked for.
        placed: The modes in which it is placed, the highest first.
        peaks_in: Those with peaks, which its next clocks are among.
    """
    from edgetune.roofline.next_clocks import next_modes

    if opts.model is None or opts.no_measure or opts.profile is not None:
        return None
    return len(placed), sum(mode not in placed for _, mode in next_modes(placed[0], peaks_in))


def counted(count: int, what: str) -> str:
    """Return a count with its noun, in the plural unless it is one."""
    return f"{count} {what}{'' if count == 1 else 's'}"
