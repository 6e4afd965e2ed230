"""``edgetune compare``: tables of the same network beside a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from edgetune.cli.command import Terminal, command
from edgetune.workflows.profile.options import CompareOptions

if TYPE_CHECKING:
    from edgetune.workflows.profile.tables import Comparison

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_SHOWN = 20
"""Points shown to people; --json has all."""


@command(app)
def compare(opts: CompareOptions, terminal: Terminal) -> None:
    """Compare tables of the same network with the first one: ratios with intervals, and a verdict.

    \b
      edgetune compare before.parquet after.parquet
      edgetune compare before.parquet after.parquet --fail-above 3%

    Conditions that differ come first; where they make the comparison unfair, that is the answer.
    """
    from edgetune.cli.screen import answer
    from edgetune.cli.sections import TextSection
    from edgetune.errors import ExitCode
    from edgetune.workflows.profile.tables import compare as workflow
    from edgetune.workflows.report.comparison import comparison_section

    found = workflow(opts, terminal.screen)
    if terminal.json:
        answer([_plain(each) for each in found])
    else:
        for each in found:
            comparison_section(each, TextSection(), 0 if terminal.verbose else _SHOWN)
    if any(each.regressions for each in found):
        raise typer.Exit(ExitCode.PARTIAL)


def _plain(comparison: Comparison) -> dict[str, object]:
    """Return a comparison for machines, verdicts included."""
    from edgetune.artifacts.yaml_document import plain
    from edgetune.stages.profiling.comparison import FIGURES, verdict

    data = plain(comparison)
    joined, fair = comparison.joined, not comparison.unfair
    for each, point in zip(data["joined"]["points"], joined.points, strict=True):
        each["verdicts"] = {figure: point.verdict(figure) for figure in point.ratios} if fair else {}
    overall = {figure: joined.overall(figure, disturbed=True) for figure in FIGURES} if fair else {}
    data["overall"] = {
        figure: {**plain(ratio), "verdict": verdict(ratio, figure)} for figure, ratio in overall.items() if ratio
    }
    return dict(data)
