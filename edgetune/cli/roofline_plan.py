"""Prints the plan of ``edgetune roofline --dry-run``: the measurements, and the most time they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.cli.screen import answer, print_lines
from edgetune.units import counted

if TYPE_CHECKING:
    from edgetune.workflows.roofline.request import RooflineEstimate


def report_plan(found: RooflineEstimate, *, json: bool) -> None:
    """Print an estimate."""
    from edgetune.stages.roofline.measure import LONGEST_RUN_S
    from edgetune.stages.roofline.tune import POINTS

    if json:
        answer({
            "device": found.device, "kernels": found.kernels, "modes": found.modes,
            "kernels_at_most_s": found.at_most_s, "tuned_modes": found.tuned or None,
            "network_modes": found.network_modes, "next_clock_modes": found.next_clock_modes,
        })  # fmt: skip
        return
    where = f"in {found.modes} modes, all sizes in the highest" if found.modes > 1 else "in 1 mode"
    print_lines(f"{len(found.kernels)} kernels in {', '.join(found.precisions)} on {found.device} {where}")
    if found.kernels:
        minutes = f"{found.at_most_s / 60:.0f} min"
        slow = f"were every kernel as slow as {LONGEST_RUN_S:g} s a run: most are not"
        print_lines(f"at most {minutes} on a machine that is not busy, {slow}")
    if found.tuned:
        print_lines(f"then the network in the fastest of {found.tuned} modes and in up to {POINTS} others")
    elif found.network_modes is not None:
        beside = found.next_clock_modes
        more = f", and in {counted(beside, 'more mode')} with the next clocks" if beside else ""
        print_lines(f"then the network in {counted(found.network_modes, 'mode')}{more}")
