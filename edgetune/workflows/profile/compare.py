"""Compares tables of one network: conditions first, then each point and the whole, with intervals and verdicts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from edgetune.artifacts.merging import ProfileDifference, differences, rows_difference
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.errors import InputError
from edgetune.plotting.page import require_drawing
from edgetune.stages.profiling.comparison import FIGURES, Joined, join, verdict
from edgetune.stages.profiling.ratio import surely_above
from edgetune.stats import median
from edgetune.units import counted, parse_share
from edgetune.workflows.output import check_outputs
from edgetune.workflows.parse_options import parse_columns
from edgetune.workflows.profile.options import CompareOptions
from edgetune.workflows.reporting import Reporter, SimulationLabel
from edgetune.workflows.search.candidates import read_table

UNFAIR = frozenset(
    ("device", "simulated", "device description", "board", "module", "gpu", "machine", "constants sha256")
)
"""Conditions that differ between devices: a comparison across them says nothing about the network or its software."""
_WARMER_C = 10.0
"""Difference of the temperatures of two tables that is reported."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table beside its baseline.

    Args:
        baseline, table: Names of the tables.
        unfair: Why no verdict is possible; empty where one is.
        differences: Conditions that differ.
        joined: The points.
        simulated: Whether any figure comes from a model.
        regressions: What ``--fail-above`` objects to.
    """

    baseline: str
    table: str
    unfair: tuple[str, ...]
    differences: tuple[str, ...]
    joined: Joined
    simulated: bool
    regressions: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the verdict on all points in one line."""
        told = [f"cannot tell: {reason}" for reason in self.unfair]
        for figure in FIGURES if not told else ():
            if (ratio := self.joined.overall(figure, disturbed=True)) is not None:
                within = "" if ratio.low is None or ratio.high is None else f" ({ratio.low:.3f} to {ratio.high:.3f})"
                told.append(f"{figure} {ratio.ratio:.3f}{within}, {verdict(ratio, figure)}")
        simulated = ", SIMULATED" if self.simulated else ""
        points = counted(len(self.joined.points), "point")
        return f"<{self.table} beside {self.baseline}: {'; '.join(told)}; {points}{simulated}>"


def compare(opts: CompareOptions, reporter: Reporter) -> list[Comparison]:
    """Compare each table with the first one.

    Raises:
        InputError: there are fewer than two tables, one is unreadable, or the figure cannot be written.
    """
    if len(opts.tables) < 2:
        raise InputError("a comparison needs two tables", "e.g. edgetune compare before.parquet after.parquet")
    limit = None if opts.fail_above is None else parse_share(opts.fail_above, what="--fail-above")
    if opts.plot is not None:
        require_drawing(opts.plot)
        check_outputs({"--plot": opts.plot}, opts.tables, {})
    columns = parse_columns(opts.column)
    tables = [read_table(table, columns)[0] for table in opts.tables]
    SimulationLabel(any(table.header.simulated for table in tables), reporter).announce()
    return [
        _compare(tables[0], table, (opts.tables[0], name), limit, allow_missing=opts.allow_missing)
        for table, name in zip(tables[1:], opts.tables[1:], strict=True)
    ]


def _compare(
    before: Profile, after: Profile, names: tuple[str, str], limit: float | None, *, allow_missing: bool
) -> Comparison:
    found = _conditions(before, after)
    sources = _values(before.rows, "power_source"), _values(after.rows, "power_source")
    joined = join(before.rows, after.rows, any_power=sources[0] == sources[1] or not all(sources))
    unfair = [_words(each) for each in found if each.what in UNFAIR]
    if not joined.points:
        unfair.append("no point was measured in both")
    simulated = before.header.simulated or after.header.simulated
    objections = () if limit is None else tuple(_objections(joined, unfair, limit, allow_missing=allow_missing))
    rest = tuple(_words(each) for each in found if each.what not in UNFAIR)
    return Comparison(*names, tuple(unfair), rest, joined, simulated, objections)


def _conditions(before: Profile, after: Profile) -> list[ProfileDifference]:
    """Return every difference between the conditions of two tables, each once."""
    found = [*differences(before.header, after.header), *_of_rows(before.rows, after.rows)]
    devices = [_values(table.rows, "device") for table in (before, after)]
    if before.header.simulated != after.header.simulated and devices[0] != devices[1]:
        ours, theirs = ("yes" if of.header.simulated else "not stated" for of in (before, after))
        found.insert(0, ProfileDifference("simulated", ours, theirs))
    tools = before.header.tool, after.header.tool
    if tools[0] != tools[1] and "unknown" not in tools:
        found.append(ProfileDifference("program", *tools))
    first: dict[str, ProfileDifference] = {}
    for each in found:
        first.setdefault(each.what, each)
    return list(first.values())


def _of_rows(before: Sequence[ProfileRow], after: Sequence[ProfileRow]) -> Iterator[ProfileDifference]:
    if (found := rows_difference(before, after)) is not None:
        yield found
    for what, column in (("task", "task"), ("power source", "power_source")):
        ours, theirs = _values(before, column), _values(after, column)
        if ours and theirs and ours != theirs:
            yield ProfileDifference(what, ", ".join(ours), ", ".join(theirs))
    temperatures = [[row.temp_max_c for row in rows if row.temp_max_c is not None] for rows in (before, after)]
    if all(temperatures):
        ours_c, theirs_c = map(median, temperatures)
        if abs(ours_c - theirs_c) >= _WARMER_C:
            yield ProfileDifference("median temperature", f"{ours_c:.0f} C", f"{theirs_c:.0f} C")
    lost = [sum(row.status != "ok" for row in rows) for rows in (before, after)]
    if lost[0] != lost[1]:
        yield ProfileDifference("rows that throttled, drifted, swapped or failed", str(lost[0]), str(lost[1]))


def _values(rows: Sequence[ProfileRow], column: str) -> list[str]:
    return sorted({value for row in rows if (value := getattr(row, column)) is not None})


def _words(difference: ProfileDifference) -> str:
    return f"{difference.what}: {difference.ours} before, {difference.theirs} after"


def _objections(joined: Joined, unfair: Sequence[str], limit: float, *, allow_missing: bool) -> Iterator[str]:
    """Return what ``--fail-above`` objects to: a ratio above the limit with certainty, or no comparison."""
    yield from (f"cannot tell: {reason}" for reason in unfair)
    if unfair:
        return
    yield from (f"not measured any more: {each}" for each in joined.failed)
    yield from (f"missing: {each}" for each in joined.only_before if not allow_missing)
    slower = {f"slower: {each.point}": each.ratios["time"] for each in joined.points}
    if (overall := joined.overall(disturbed=True)) is not None:
        slower["slower: all points together"] = overall
    found = [words for words, ratio in slower.items() if surely_above(ratio, 1 + limit, len(slower))]
    yield from found
    if not found and joined.points and not joined.quiet and (overall is None or (overall.high or inf) > 1 + limit):
        yield f"cannot tell: {joined.points[0].disturbed}"
