"""``edgetune report``: one page for a browser of everything that was found."""

import typer

from edgetune.cli.command import AnswerTerminal, command
from edgetune.workflows.report.options import ReportOptions

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@command(app)
def report(opts: ReportOptions, terminal: AnswerTerminal) -> None:
    """Write one page for a browser: answers, fronts, rooflines and timelines of files of edgetune.

    \b
      edgetune report sweep.parquet plan.yaml trace.parquet -o report.html
      edgetune report results/ -o report.html

    The page loads nothing: it can be sent, opened on a phone, and printed. Ends with 5 when some files were left out.
    """
    from edgetune.errors import ExitCode
    from edgetune.workflows.report.report import report as workflow

    made = workflow(opts, terminal.screen)
    terminal.screen.info(f"wrote {made.path}")
    if made.broken:
        raise typer.Exit(ExitCode.PARTIAL)
