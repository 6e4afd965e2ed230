"""Compares tables of one network: conditions first, then each point and the whole, with intervals and verdicts.

Merges tables of one network, device and conditions.

``--shard 2/8``: the share of one board in a sweep over several, for ``edgetune merge``.
"""

import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from edgetune.artifacts.profile import Point, Profile, ProfileRow
from edgetune.artifacts.repeats import ProfileDifference, differences, first_difference, merged, rows_difference
from edgetune.devices.board_files import read_text
from edgetune.devices.device import Device
from edgetune.errors import InputError
from edgetune.stages.profiling.boards import COMMON, choose_anchors, on_common_board, share_of, with_boards
from edgetune.stages.profiling.comparison import FIGURES, Joined, join, verdict
from edgetune.stages.profiling.ratio import surely_above
from edgetune.stats import median
from edgetune.units import counted, parse_share
from edgetune.workflows.output import Target, check_outputs, choose_target, forced
from edgetune.workflows.parse_options import parse_columns
from edgetune.workflows.profile.options import CompareOptions, MergeOptions, ProfileCommandOptions
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
        InputError: there are fewer than two tables, or one is unreadable.
    """
    if len(opts.tables) < 2:
        raise InputError("a comparison needs two tables", "e.g. edgetune compare before.parquet after.parquet")
    limit = None if opts.fail_above is None else parse_share(opts.fail_above, what="--fail-above")
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


def merge(opts: MergeOptions, reporter: Reporter) -> tuple[Profile, Target, list[int]]:
    """Merge tables and write the result; return it, its target, and the number of rows of each table.

    Raises:
        InputError: The tables do not fit together, or the output holds something else.
    """
    columns = parse_columns(opts.column)
    profiles, origins = zip(*(read_table(table, columns) for table in opts.tables), strict=True)
    for other, name in zip(profiles[1:], opts.tables[1:], strict=True):
        _refuse_difference(profiles[0], other, opts.tables[0], name)
    whole, boards = with_boards(_whole(profiles, origins), parse_share(opts.board_tolerance, what="--board-tolerance"))
    if opts.common:
        if not boards:
            raise InputError("--common: the tables are not of several boards", "edgetune profile --shard 1/2")
        whole = on_common_board(whole)
    target = choose_target(opts.output, "merged.parquet", stdout=reporter.stdout)
    _check(opts.output, opts.tables)
    target.check("profile")
    SimulationLabel(whole.header.simulated, reporter).announce()
    target.write(whole)
    for sentence in boards:
        reporter.info(sentence)
    return whole, target, [len(profile.rows) for profile in profiles]


def _refuse_difference(first: Profile, other: Profile, name: str, other_name: str) -> None:
    """Refuse a table that does not match the first one.

    Raises:
        InputError: the tables differ in device, network, options or software, or one has the common board's figures.
    """
    if COMMON in first.header.conditions or COMMON in other.header.conditions:
        raise InputError("a table of merge --common has no measured figures", "merge the tables that it was made of")
    differs = first_difference(first.header, other.header) or rows_difference(first.rows, other.rows)
    if differs is not None:
        message = f"{name} and {other_name} do not fit together: {differs.what} {differs.ours} and {differs.theirs}"
        raise InputError(
            message, "keep them apart: edgetune compare compares them, edgetune search takes several of one device"
        )


def _whole(profiles: Sequence[Profile], origins: Sequence[dict[str, str]]) -> Profile:
    """Return the merged table; ``edgetune profile`` can extend it if all tables have the same request."""
    requests = [profile.header.inputs.get("request", {}) for profile in profiles]
    inputs: dict[str, Any] = {"tables": list(origins)}
    if len({request.get("sha256") for request in requests}) == 1 and requests[0].get("sha256"):
        partial = [point for request in requests for point in request.get("partial", ())]
        inputs["request"] = {"sha256": requests[0]["sha256"], **({"partial": partial} if partial else {})}
    return merged(profiles, inputs=inputs)


def _check(output: str | None, tables: Sequence[str]) -> None:
    """Refuse an output with other content; it may be one of the tables, whose rows all are in the new one."""
    same = output is not None and Path(output).resolve() in {Path(table).resolve() for table in tables if table != "-"}
    if not same:
        check_outputs({"-o": output}, tables, {"-o": "profile"})
        if output is not None and not forced() and Path(output).is_file() and Path(output).stat().st_size:
            hint = "name another file, or give it as a table too"
            raise InputError(f"-o: {output} exists, and would be lost", hint)


_SERIAL = "proc/device-tree/serial-number"


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one board.

    Args:
        points: What it measures, the anchors included.
        anchors: What every board measures, first and again at the end.
        board: Its name.
        suffix: Of the default name of the table.
    """

    points: list[Point]
    anchors: tuple[Point, ...] = ()
    board: str | None = None
    suffix: str = ""


def share_asked(opts: ProfileCommandOptions, device: Device, points: Sequence[Point]) -> Share:
    """Return the share of this board: all points without ``--shard``.

    Raises:
        InputError: ``--shard`` is not I/N, or a shard would be empty.
    """
    if opts.shard is None:
        return Share(list(points), board=opts.board)
    words = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", opts.shard)
    number, count = (int(word) for word in words.groups()) if words else (0, 0)
    if not 1 <= number <= count:
        raise InputError(f"--shard: {opts.shard!r} is not a share of all boards", "e.g. --shard 2/8")
    modes = len({point.mode for point in points})
    if count > modes:
        raise InputError(f"--shard: {modes} modes have no {count} shares", "give more modes, or fewer shares")
    anchors = tuple(choose_anchors(points, opts.anchors)) if opts.anchors else ()
    own = [*anchors, *share_of(points, number, count)]
    board = opts.board or board_name(device, opts.root)
    return Share(list(dict.fromkeys(own)), anchors, board, f"-{number}-of-{count}")


def board_name(device: Device, root: str | None = None) -> str:
    """Return the serial number of a Jetson, else the names of the host and the device."""
    serial = read_text(Path(root or "/"), _SERIAL) if device.name == "jetson" else None
    return re.sub(r"\W", "", serial or "") or f"{socket.gethostname()} {device.name}"
