"""``edgetune measure``: the time, power and energy of commands, in the power mode that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from edgetune.cli.command import Terminal, command
from edgetune.workflows.profile.options import MeasureCommandOptions

if TYPE_CHECKING:
    from edgetune.artifacts.profile import Profile, ProfileRow

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@command(app)
def measure(opts: MeasureCommandOptions, terminal: Terminal) -> None:
    """Measure commands in the power mode that is: time, power and energy of a run, or of its steps.

    \b
      edgetune measure -- ./app --input frames.bin
      edgetune measure 'gzip -k big' 'zstd -k big'

    A command runs until the interval of its median time is narrow enough, ten times at least. Several commands run in
    turns and are compared with the fastest. Ends with 5 when some commands failed.
    """
    from edgetune.artifacts.repeats import rows_by_point
    from edgetune.artifacts.yaml_document import plain
    from edgetune.cli.screen import answer
    from edgetune.cli.sections import TextSection
    from edgetune.errors import ExitCode
    from edgetune.workflows.cells import brief
    from edgetune.workflows.profile.commands import in_one, measure_commands
    from edgetune.workflows.report.profile import profile_section

    def show(table: Profile) -> None:
        if not terminal.json:
            profile_section(table, TextSection())

    table, target = measure_commands(opts, terminal.screen, show)
    if terminal.json:
        answer({**plain(table.header), "rows": [brief(in_one(own)) for own in rows_by_point(table.rows).values()]})
    else:
        _compare([row for row in table.rows if row.minibatch_s is not None])
    if target is not None:
        target.report(terminal.screen)
    if any(row.status != "ok" for row in table.rows):
        raise typer.Exit(ExitCode.PARTIAL)


def _compare(rows: Sequence[ProfileRow]) -> None:
    """Print how the fastest command compares with each other one, from the turns of both."""
    from edgetune.artifacts.repeats import rows_by_point, standing, together
    from edgetune.cli.screen import print_folded
    from edgetune.stages.profiling.comparison import CANNOT_TELL, compare_rows

    turns = map(standing, rows_by_point(rows).values())
    commands = sorted(turns, key=lambda own: together(own).minibatch_s or 0.0)
    for other in commands[1:]:
        found, names = compare_rows(commands[0], other), (commands[0][0].workload, other[0].workload)
        ratio = found.ratios["time"]
        within = "" if ratio.low is None else f" ({ratio.low:.3g} to {ratio.high:.3g})"
        if found.verdict() != CANNOT_TELL:
            print_folded(f"{names[0]} is {ratio.ratio:.3g} times as fast{within} as {names[1]}")
            continue
        reason = found.disturbed or "the interval holds 1" if within else "too few runs for an interval"
        print_folded(f"cannot tell: {names[1]} took {ratio.ratio:.3g} times{within} as long as {names[0]}: {reason}")
