"""``edgetune measure``: the time, power and energy of commands, in the power mode that is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import typer

from edgetune.cli.command import Terminal, command
from edgetune.workflows.profile.options import MeasureCommandOptions

if TYPE_CHECKING:
    from edgetune.artifacts.profile import ProfileRow

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
    from edgetune.errors import ExitCode
    from edgetune.workflows.cells import brief
    from edgetune.workflows.profile.commands import in_one, measure_commands

    table, target = measure_commands(
        opts, terminal.screen, (lambda _: None) if terminal.json else partial(_report, told=set())
    )
    if terminal.json:
        answer({**plain(table.header), "rows": [brief(in_one(own)) for own in rows_by_point(table.rows).values()]})
    else:
        _compare([row for row in table.rows if row.minibatch_s is not None])
    if target is not None:
        target.report(terminal.screen)
    if any(row.status != "ok" for row in table.rows):
        raise typer.Exit(ExitCode.PARTIAL)


def _report(row: ProfileRow, *, told: set[str]) -> None:
    """Print the block of a command, without the notes that were ``told`` before."""
    from edgetune.cli.screen import print_folded, print_lines
    from edgetune.units import format_bytes, format_si
    from edgetune.workflows.cells import own_figure

    print_lines(row.workload)
    if row.minibatch_s is None:
        print_folded(f"  {row.status}: {row.reason}")
        return
    timed = (row.times_s or ())[row.warmups or 0 :]
    low, high = row.minibatch_ci95_low_s, row.minibatch_ci95_high_s
    within = "" if low is None or high is None else f", 95 % interval {format_si(low, 's')} to {format_si(high, 's')}"
    print_lines(f"  {'mean  ' if row.is_mean else 'median'}  {format_si(row.minibatch_s, 's')}{within}")
    print_lines(f"  range   {format_si(min(timed), 's')} to {format_si(max(timed), 's')}, {len(timed)} timed")
    if row.power_w is not None and row.energy_j is not None:
        print_lines(f"  power   {format_si(row.power_w, 'W')}, {format_si(row.energy_j, 'J')} each")
    if row.memory_peak_bytes is not None:
        print_lines(f"  memory  {format_bytes(row.memory_peak_bytes)} at most")
    if row.own_value is not None:
        print_lines(f"  its own figure: {own_figure(row)}")
    for note in (row.reason or "").split("; "):
        if note and note not in told:
            told.add(note)
            print_folded(f"  note: {note}")


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
