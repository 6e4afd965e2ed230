"""A comparison of two tables in a report: conditions that differ, a verdict for each point, and one for all.

The settings of measured points in a report: those that all rows share, and the cells of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgetune.artifacts.profile import ProfileRow
from edgetune.plotting.page import SectionWriter
from edgetune.stages.profiling.comparison import FIGURES, verdict
from edgetune.units import counted
from edgetune.workflows.report.sections import rows_of, si_cell

if TYPE_CHECKING:
    from edgetune.artifacts.trace import TraceRow
    from edgetune.stages.profiling.comparison import Joined, PointComparison
    from edgetune.stages.profiling.ratio import Ratio
    from edgetune.workflows.profile.tables import Comparison


def write_common(rows: Sequence[ProfileRow] | Sequence[TraceRow], out: SectionWriter) -> list[str]:
    """Write the values common to all rows, and return the names of settings in which they differ."""
    from edgetune.artifacts.mode import SETTINGS, Mode

    names = ("workload", "task", "device", "board", "batch_size", *SETTINGS, "round")
    values = {name: {getattr(row, name, None) for row in rows} for name in names}  # a trace has no device or round
    same = {name: next(iter(found)) for name, found in values.items() if len(found) == 1}
    what = [str(same[name]) for name in ("workload", "task") if name in same]
    where = [f"on {same['device']}"] if same.get("device") is not None else []
    batch = [f"batch {same['batch_size']}"] if "batch_size" in same else []
    fixed = {name: value for name in SETTINGS if (value := same.get(name)) is not None}
    mode = [str(Mode.of(fixed))] if fixed else []
    shared = ", ".join(filter(None, [" ".join(what + where), *batch, *mode]))
    out.note(shared)
    return [name for name in names if name not in same]


def column_name(name: str) -> str:
    """Return the name of a setting as a table has it."""
    return name if name in ("workload", "task", "device", "board", "power_mode") else f"{name.removesuffix('_size')}>"


def settings_cells(row: ProfileRow | TraceRow, names: Sequence[str]) -> list[object]:
    """Return the cells of a row's settings."""
    return [setting_cell(name, row) for name in names]


def setting_cell(name: str, row: ProfileRow | TraceRow) -> object:
    """Return the cell of one setting."""
    value = getattr(row, name)
    return f"{value:g}" if isinstance(value, float) else value


_MANY = 20
"""Points from which chance alone calls some of them different."""


def comparison_section(comparison: Comparison, out: SectionWriter, shown: int = 0) -> None:
    """Write conditions, points and the verdict on all of them.

    Args:
        comparison: It.
        out: Takes it.
        shown: Most points that are written, the slowest; 0 writes all.
    """
    joined = comparison.joined
    out.note(f"{comparison.table} beside {comparison.baseline}")
    for words in comparison.differences:
        out.note(f"differs: {words}")
    for words in comparison.unfair:
        out.note(f"cannot tell: {words}")
    if joined.points and not comparison.unfair:
        _write_points(joined.points, shown or len(joined.points), out)
        _write_overall(comparison, out)
    for title, points in (("baseline", joined.only_before), ("other table", joined.only_after)):
        if points:
            more = f" and {len(points) - 3} more" if len(points) > 3 else ""
            out.note(f"only in the {title}: {'; '.join(map(str, points[:3]))}{more}")
    for words in joined.failed:
        out.note(f"not measured any more: {words}")
    for words in comparison.regressions:
        out.note(f"fails: {words}")
    out.space()


def _write_points(points: tuple[PointComparison, ...], shown: int, out: SectionWriter) -> None:
    rows = {id(each): ProfileRow.at(each.point, each.before_s) for each in points}
    varying = write_common(list(rows.values()), out)
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
    names = [*map(column_name, varying), *columns]
    out.table(
        names, [[*settings_cells(rows[id(each)], varying), *row] for each, row in zip(first, cells, strict=False)]
    )
    if len(points) > shown:
        out.note(f"... and {len(points) - shown} more, the faster ones (--verbose prints all)")
    for reason in dict.fromkeys(each.disturbed for each in points if each.disturbed):
        out.note(f"wider intervals: {reason}")


def _write_overall(comparison: Comparison, out: SectionWriter) -> None:
    joined = comparison.joined
    fair = joined.quiet or joined.points
    for figure in FIGURES:
        ratio = joined.overall(figure, disturbed=True)
        if ratio is not None:
            of = f"geometric mean of {counted(len(fair), 'point')}"
            out.note(f"{figure}: {_ratio(ratio)} ({_interval(ratio) or 'no interval'}), {of}: "
                         f"{verdict(ratio, figure)}")  # fmt: skip
    called = sum(each.verdict() in FIGURES["time"] for each in fair)
    if len(fair) > _MANY:
        out.note(f"{called} of {len(fair)} points differ; by chance alone it would be up to {len(fair) // 20}")
    if fair and not joined.rounds and any(each.ratios["time"].low for each in fair):
        out.note(f"intervals are {_basis(joined)}: --interleave-repeats 5 shows how much runs differ")


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
