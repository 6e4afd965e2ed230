"""``edgetune compare``: tables of the same network beside a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from edgetune.cli.command import Terminal, command
from edgetune.workflows.profile.options import CompareOptions

if TYPE_CHECKING:
    from edgetune.stages.profiling.comparison import Joined, PointComparison
    from edgetune.stages.profiling.ratio import Ratio
    from edgetune.workflows.profile.compare import Comparison

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
    from edgetune.cli.plot import draw_finished
    from edgetune.cli.screen import answer
    from edgetune.errors import ExitCode
    from edgetune.stages.profiling.comparison_figure import comparison_figure
    from edgetune.workflows.profile.compare import compare as workflow

    found = workflow(opts, terminal.screen)
    if terminal.json:
        answer([_plain(each) for each in found])
    else:
        for each in found:
            _report(each, whole=terminal.verbose)
    titles = [f"{each.table} beside {each.baseline}" for each in found]
    simulated = any(each.simulated for each in found)
    joined = [each.joined for each in found]
    draw_finished(lambda: comparison_figure(joined, titles, simulated=simulated), opts.plot, terminal.screen, None)
    if any(each.regressions for each in found):
        raise typer.Exit(ExitCode.PARTIAL)


def _plain(comparison: Comparison) -> dict[str, object]:
    """Return a comparison for machines, verdicts included."""
    from edgetune.artifacts.plain import plain
    from edgetune.stages.profiling.comparison import FIGURES, verdict

    data = plain(comparison)
    joined, fair = comparison.joined, not comparison.unfair
    for each, point in zip(data["joined"]["points"], joined.points, strict=True):
        each["verdicts"] = {figure: point.verdict(figure) for figure in point.ratios} if fair else {}
    overall = {figure: joined.overall(figure) for figure in FIGURES} if fair else {}
    data["overall"] = {
        figure: {**plain(ratio), "verdict": verdict(ratio, figure)} for figure, ratio in overall.items() if ratio
    }
    return dict(data)


def _report(comparison: Comparison, *, whole: bool) -> None:
    """Print conditions, points and the verdict on all of them."""
    from edgetune.cli.screen import print_folded, print_lines

    joined = comparison.joined
    print_folded(f"{comparison.table} beside {comparison.baseline}")
    for words in comparison.differences:
        print_folded(f"differs: {words}")
    for words in comparison.unfair:
        print_folded(f"cannot tell: {words}")
    if joined.points and not comparison.unfair:
        _report_points(joined.points, len(joined.points) if whole else _SHOWN)
        _report_overall(comparison)
    for title, points in (("baseline", joined.only_before), ("other table", joined.only_after)):
        if points:
            more = f" and {len(points) - 3} more" if len(points) > 3 else ""
            print_folded(f"only in the {title}: {'; '.join(map(str, points[:3]))}{more}")
    for words in joined.failed:
        print_folded(f"not measured any more: {words}")
    for words in comparison.regressions:
        print_folded(f"fails: {words}")
    print_lines()


def _report_points(points: tuple[PointComparison, ...], shown: int) -> None:
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.cli.artifact_report import report_common, setting_cells, setting_column
    from edgetune.cli.cells import rows_of, si_cell
    from edgetune.cli.screen import print_folded, print_lines, table

    rows = {id(each): ProfileRow.at(each.point, each.before_s) for each in points}
    varying = report_common(list(rows.values()), None)
    first = sorted(points, key=lambda each: each.ratios["time"].ratio, reverse=True) if len(points) > shown else points
    figures = {
        "before>": lambda each: si_cell(each.before_s, "s"),
        "ratio>": lambda each: _ratio(each.ratios["time"]),
        "95 %": lambda each: _interval(each.ratios["time"]),
        "verdict": lambda each: each.verdict(),
        "power": lambda each: _figure(each, "power"),
        "energy": lambda each: _figure(each, "energy"),
    }
    columns, cells = rows_of(figures, first[:shown])
    names = [*map(setting_column, varying), *columns]
    table(names, [[*setting_cells(rows[id(each)], varying), *row] for each, row in zip(first, cells, strict=False)])
    if len(points) > shown:
        print_lines(f"... and {len(points) - shown} more, the faster ones (--verbose prints all)")
    for reason in dict.fromkeys(each.unfair for each in points if each.unfair):
        print_folded(f"cannot tell: {reason}")


def _report_overall(comparison: Comparison) -> None:
    from edgetune.cli.screen import print_folded
    from edgetune.stages.profiling.comparison import FIGURES, verdict
    from edgetune.units import counted

    joined = comparison.joined
    fair = [each for each in joined.points if each.unfair is None]
    for figure in FIGURES:
        ratio = joined.overall(figure)
        if ratio is not None:
            of = f"geometric mean of {counted(len(fair), 'point')}"
            print_folded(f"{figure}: {_ratio(ratio)} ({_interval(ratio) or 'no interval'}), {of}: "
                         f"{verdict(ratio, figure)}")  # fmt: skip
    called = sum(each.verdict() in FIGURES["time"] for each in fair)
    if len(fair) > _SHOWN:
        print_folded(f"{called} of {len(fair)} points differ; by chance alone it would be up to {len(fair) // 20}")
    if fair and not joined.rounds and any(each.ratios["time"].low for each in fair):
        print_folded(f"intervals are {_basis(joined)}: --interleave-repeats 5 shows how much runs differ")


def _basis(joined: Joined) -> str:
    """Return what the intervals without rounds include."""
    shares = [f"{share:.1%} of {figure}" for figure, share in joined.scatter.items()]
    if not shares:
        return "of one run each, and boards repeat to 1 to 3 %"
    return f"of one run each, and include by how much the points differ besides, {', '.join(shares)}"


def _figure(each: PointComparison, figure: str) -> str | None:
    if figure not in each.ratios:
        return None
    ratio = each.ratios[figure]
    return _ratio(ratio) if ratio.low is None else f"{_ratio(ratio)} {each.verdict(figure)}"


def _ratio(ratio: Ratio) -> str:
    return f"{ratio.ratio:.3f}"


def _interval(ratio: Ratio) -> str | None:
    return None if ratio.low is None or ratio.high is None else f"{ratio.low:.3f} to {ratio.high:.3f}"
