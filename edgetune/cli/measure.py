"""``edgetune measure``: the time, power and energy of commands, in the power mode that is."""

from __future__ import annotations

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

    A command runs until the interval of its median time is narrow enough, ten times at least. Several commands are
    compared with the fastest. Ends with 5 when some commands failed.
    """
    from edgetune.artifacts.plain import plain
    from edgetune.cli.screen import answer
    from edgetune.errors import ExitCode
    from edgetune.workflows.cells import brief
    from edgetune.workflows.profile.commands import measure_commands

    table, target = measure_commands(
        opts, terminal.screen, (lambda _: None) if terminal.json else partial(_report, told=set())
    )
    if terminal.json:
        answer({**plain(table.header), "rows": [brief(row) for row in table.rows]})
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
    print_lines(f"  median  {format_si(row.minibatch_s, 's')}{within}")
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


def _compare(rows: list[ProfileRow]) -> None:
    from edgetune.cli.screen import print_folded

    if len(rows) < 2:
        return
    fastest, *others = sorted(rows, key=lambda row: row.minibatch_s or 0.0)
    for row in others:
        low, high = row.minibatch_ci95_low_s, row.minibatch_ci95_high_s
        its_low, its_high = fastest.minibatch_ci95_low_s, fastest.minibatch_ci95_high_s
        known = low and high and its_low and its_high
        within = f" ({low / its_high:.3g} to {high / its_low:.3g})" if known else ""  # type: ignore[operator]
        ratio = (row.minibatch_s or 0.0) / (fastest.minibatch_s or 1.0)
        print_folded(f"{fastest.workload} is {ratio:.3g} times as fast{within} as {row.workload}")
