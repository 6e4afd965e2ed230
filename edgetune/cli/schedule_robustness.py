"""``edgetune schedule robustness``: how much wrong durations change which policy is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from edgetune.cli.command import Terminal, command
from edgetune.cli.screen import answer, print_lines, table
from edgetune.workflows.schedule.options import RobustnessOptions

if TYPE_CHECKING:
    from edgetune.schedule.robustness import Robustness

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@command(app)
def robustness(opts: RobustnessOptions, terminal: Terminal) -> None:
    """Say how much wrong durations change which policy is best.

    Jobs are run on a clock again and again, with layers that take other times than policies believe: each duration is
    multiplied by a factor of its own. Policies are put in order by their mean response; Kendall's tau says how like the
    order is to that without noise: 1 the same, 0 unrelated, -1 reversed.

    \b
      edgetune schedule robustness jobs.yaml --costs costs.parquet --noise 0.1,0.25,0.5
    """
    from edgetune.workflows.schedule.robustness import compare_with_noise

    report = compare_with_noise(opts, terminal.screen)
    if terminal.json:
        noise = [asdict(each) for each in report.found]
        answer({"simulated": True, "measured_s": report.measured, "noise": noise})
    else:
        _show(report.measured, report.found)
    if report.stopped is not None:
        raise report.stopped


def _show(measured: Mapping[str, float], found: Sequence[Robustness]) -> None:
    """Print the order as measured, and what noise makes of it."""
    from edgetune.units import format_duration

    order = sorted(measured, key=measured.__getitem__)
    print_lines(
        f"mean responses as measured: {', '.join(f'{name} {format_duration(measured[name])}' for name in order)}"
    )
    print_lines(f"{order[0]} is best; over {found[0].runs} runs for each amount of noise:")
    print_lines()
    table(
        ["noise>", "tau: mean>", "least>", "best stays>", "lost at most>", *(f"{name}>" for name in order)],
        [
            (
                f"{each.noise:.0%}",
                f"{sum(each.tau) / len(each.tau):.3f}",
                f"{min(each.tau):.3f}",
                f"{each.best_stays}/{each.runs}",
                f"{each.regret:.1%}",
                *(format_duration(each.mean_s[name]) for name in order),
            )
            for each in found
        ],
    )
