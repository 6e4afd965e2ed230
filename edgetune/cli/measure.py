"""``edgetune measure``: the time, power and energy of commands, in the power mode that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from edgetune.cli.command import Terminal, command
from edgetune.workflows.profile.options import MeasureCommandOptions

if TYPE_CHECKING:
    from edgetune.artifacts.profile import Profile

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@command(app)
def measure(opts: MeasureCommandOptions, terminal: Terminal) -> None:
    """Measure commands in the power mode that is: time, power and energy of a run, or of its steps.

    \b
      edgetune measure -- ./app --input frames.bin
      edgetune measure 'gzip -k big' 'zstd -k big'

    A command runs until the interval of its median time is narrow enough, ten times at least; several run one after
    the other. Ends with 5 when some commands failed.
    """
    from edgetune.artifacts.yaml_document import plain
    from edgetune.cli.screen import answer
    from edgetune.cli.sections import TextSection
    from edgetune.errors import ExitCode
    from edgetune.workflows.profile.commands import measure_commands
    from edgetune.workflows.report.profile import profile_section
    from edgetune.workflows.report.sections import brief

    def show(table: Profile) -> None:
        if not terminal.json:
            profile_section(table, TextSection())

    table, target = measure_commands(opts, terminal.screen, show)
    if terminal.json:
        answer({**plain(table.header), "rows": [brief(row) for row in table.rows]})
    if target is not None:
        target.report(terminal.screen)
    if any(row.status != "ok" for row in table.rows):
        raise typer.Exit(ExitCode.PARTIAL)
