"""``edgetune schedule run``: jobs under a memory budget."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from edgetune.cli.command import Terminal, command
from edgetune.errors import ExitCode
from edgetune.workflows.options import Option
from edgetune.workflows.schedule.options import ScheduleOptions

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@dataclass(frozen=True, kw_only=True)
class RunTerminal(Terminal):
    """Of a command that can say what it would run."""

    dry_run: Annotated[bool, Option("Say what would run, and what it needs.", ("--dry-run",), "Output")] = False


@command(app)
def run(opts: ScheduleOptions, terminal: RunTerminal) -> None:
    """Run jobs under a memory budget, for real or simulated, by one policy or several in alternation.

    Networks are prepared first where they are not. Every load, execution, unload and request becomes a row of the
    timeline that is written; a summary is printed.

    \b
      edgetune schedule run jobs.yaml --memory 512MiB -o timeline.parquet
      edgetune schedule run jobs.yaml --policy bulk,masa,reuse --turns 5
      edgetune schedule run jobs.yaml --simulate --costs costs.parquet --plot gantt.svg
    """
    from edgetune.cli.plot import draw_kept
    from edgetune.cli.schedule_report import report_answer, report_plan, show_timeline
    from edgetune.cli.screen import answer
    from edgetune.workflows.schedule.plan import plan_schedule
    from edgetune.workflows.schedule.run import schedule

    screen = terminal.screen
    if terminal.dry_run:
        report_plan(plan_schedule(opts, screen), screen)
        return
    finished = schedule(opts, screen)
    if terminal.json:
        answer(report_answer(finished.timeline))
    elif not terminal.quiet:
        show_timeline(finished.timeline, stream=sys.stderr if finished.target.path is None else None)
    draw_kept(finished.timeline, opts.plot, screen, view=opts.view, file=finished.target.file)
    if finished.failure is not None:
        raise finished.failure
    if finished.stopped_by is not None:
        raise typer.Exit(128 + finished.stopped_by)
    if finished.lost:
        raise typer.Exit(ExitCode.PARTIAL)
