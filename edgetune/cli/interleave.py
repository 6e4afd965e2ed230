"""``edgetune interleave``: training in the background of answers that are due."""

from typing import TYPE_CHECKING, Annotated

import typer

from edgetune.cli.command import PlanningTerminal, command
from edgetune.errors import InputError
from edgetune.units import counted, format_duration
from edgetune.workflows.interleave.options import InterleaveOptions
from edgetune.workflows.options import Option, options_class

if TYPE_CHECKING:
    from edgetune.workflows.interleave.planning import InterleaveRequest

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@options_class
class InterleaveTerminal(PlanningTerminal):
    """How the command answers."""

    explain: Annotated[bool, Option("Explain where each millisecond of a cycle goes; run nothing.", group="Output")] = (
        False
    )


_USUAL = (
    "infer", "train", "arrivals", "latency_budget", "power_budget", "device", "engine", "duration", "adapt", "output",
    "plot",
)  # fmt: skip


@command(app, usual=_USUAL)
def interleave(opts: InterleaveOptions, terminal: InterleaveTerminal) -> None:
    """Answer requests in time, and train in the time that is left.

    PLAN says which networks, batch sizes and power mode; options override what it says. Without one, name the networks:
    how long they take here is measured first. A rate that cannot be served in time is an error that names the nearest.

    Every request and every training step becomes a row of the table that is written; a summary is printed.
    """
    from edgetune.cli.plot import report_finished
    from edgetune.cli.screen import answer, print_lines
    from edgetune.workflows.figures import check_plot
    from edgetune.workflows.interleave import interleave as workflow
    from edgetune.workflows.interleave.planning import cycle_figures, explained

    if terminal.explain and opts.plot is not None:
        raise InputError("--plot draws a run, and --explain runs nothing", "leave one of them out")
    check_plot(opts.plot, opts.view, "run")
    if not (terminal.dry_run or terminal.explain):
        report_finished(workflow.interleave(opts, terminal.screen), opts, terminal)
        return
    with workflow.requested(opts, terminal.screen) as request:
        if terminal.dry_run:
            _report_dry_run(request)
            return
        planned = workflow.plan_of(request)
        if terminal.json:
            answer({"cycle": cycle_figures(planned), "explanation": explained(planned)})
        else:
            print_lines(*explained(planned))


def _report_dry_run(request: "InterleaveRequest") -> None:
    """Print what would be measured first, and how long everything would run."""
    info = request.reporter.info
    for each in request.known:
        name = each.asked.name
        how = f", requests {each.asked.arrivals}" if name in request.specs else ""
        info(f"{name}: {each.asked.task}{how}; {counted(len(request.points[name]), 'point')} to measure first")
    whole_s = request.duration_s * request.opts.turns * len(request.engines)
    info(f"then {format_duration(whole_s)} of running in all")
