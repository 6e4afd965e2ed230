"""The candidates of a search, and those of measured tables.

Points measured earlier, and ``--points FILE``, which keeps all measurements of a search whatever its result.

A live search writes its rows as they are measured, also if it finds nothing or is stopped. The next search with the
same file, or with ``--known FILE``, reuses them without measuring.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.artifacts import io
from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.io import profile_of_bytes
from edgetune.artifacts.profile import KIND, VERSION, Point, Profile, ProfileRow
from edgetune.choices import nearest
from edgetune.devices.recorded import RecordedTable, workloads_of
from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.profiling.estimate import SweepEstimate
from edgetune.stages.search.problem import PAIRS, background_task
from edgetune.workflows.output import Target, unused
from edgetune.workflows.parse_options import parse_batch_sizes, parse_columns
from edgetune.workflows.reporting import STOPS, Reporter
from edgetune.workflows.search.options import SearchOptions


@dataclass(frozen=True, slots=True)
class Candidates:
    """Points to choose from, and how to measure one.

    Args:
        points: The candidates.
        measure: Measures one of them.
        kind: The kind of problem they are for.
        described: Their description.
        simulated: Whether a model gives the figures.
        free: Whether measuring is a look-up.
        inputs, conditions, warnings: Fields of headers.
        expect: Returns the expected cost of measuring all points; ``None`` for look-ups.
        no_power: Why the device cannot measure power; ``None`` if it can.
        defect: Returns the reason if every measurement failed.
        background: Name of the second network of a live search.
        recovered: Returns a sentence for each setting restored on the device after an earlier run.
        rows: The rows of a table.
        warn_of_load: Reports other load on the measuring machine.
        known: Points measured while the candidates were opened.
        at_once, on_asked: See ``SearchSettings``.
    """

    points: Sequence[Point]
    measure: Callable[[Point], ProfileRow]
    kind: str
    described: str
    simulated: bool
    free: bool
    inputs: Mapping[str, Any]
    conditions: Mapping[str, Any]
    warnings: tuple[DataWarning, ...] = ()
    expect: Callable[[], SweepEstimate] | None = None
    no_power: str | None = None
    defect: Callable[[], EdgetuneError | None] = lambda: None
    background: str | None = None
    recovered: Callable[[], Sequence[str]] = tuple
    rows: Sequence[ProfileRow] = ()
    warn_of_load: Callable[[Reporter], None] = lambda _: None
    known: Sequence[ProfileRow] = ()
    at_once: int = 1
    on_asked: Callable[[Sequence[Point]], None] = lambda _: None


def candidates_of_tables(opts: SearchOptions) -> Candidates:
    """Return the points of one table, or of several of one device.

    Raises:
        InputError: a table is unreadable, tables are of several devices, or several networks or tasks remain.
    """
    columns = parse_columns(opts.column)
    tables = (read_table(source.removeprefix("recorded:"), columns) for source in opts.sources)
    profiles, origins = zip(*tables, strict=True)
    names = ", ".join(origin["name"] for origin in origins)
    conditions = _conditions(profiles, names)
    table = RecordedTable.of([row for profile in profiles for row in profile.rows], name=names)
    if opts.kind in PAIRS:
        kind, points = str(opts.kind), _of_two(table, opts)
        described = f"{kind} in {names}"
    else:
        workload, task, kind = _choose(table, opts)
        points = [row.point for row in table.rows if row.workload == workload and row.task == task]
        described = f"{workload} {task} in {names}"
    points = _of_sizes(points, opts, names)
    inputs = {**profiles[0].header.inputs, **_origins(profiles, points, opts)}
    for number, origin in enumerate(origins):
        role = "table" if "table" in profiles[number].header.inputs else "profile"  # a foreign table names itself
        if number or role == "profile":
            inputs[role if number == 0 else f"{role}_{number + 1}"] = origin
    return Candidates(
        points=points,
        measure=table.lookup,
        kind=kind,
        described=described,
        simulated=any(profile.header.simulated for profile in profiles),
        free=True,
        inputs=inputs,
        conditions=conditions,
        warnings=(*(w for profile in profiles for w in profile.header.warnings), *table.data_warnings),
        rows=table.rows,
    )


def read_table(source: str, columns: Mapping[str, str]) -> tuple[Profile, dict[str, str]]:
    """Return a table and its origin; ``columns`` as in ``foreign_table``.

    Raises:
        InputError: the table is unreadable or not a profile.
    """

    data, name = read_source(source), name_of(source)
    origin = {"name": name, "sha256": hashlib.sha256(data).hexdigest()}
    return profile_of_bytes(data, columns, name=name), origin


def _conditions(profiles: Sequence[Profile], names: str) -> dict[str, Any]:
    """Return the conditions of the first table, simulated if any table is; refuse tables of different devices."""
    devices = {str(device) for p in profiles if (device := p.header.conditions.get("device")) is not None}
    if len(devices) < 2:
        devices = {row.device for profile in profiles for row in profile.rows if row.device is not None}
    if len(devices) > 1:
        message = f"{names} has rows of different devices: {', '.join(sorted(devices))}"
        raise InputError(message, "choose tables, or rows, of one device")
    merged = dict(profiles[0].header.conditions)
    if any(profile.header.simulated for profile in profiles):
        merged["simulated"] = True
    return merged


def _origins(profiles: Sequence[Profile], points: Sequence[Point], opts: SearchOptions) -> dict[str, Any]:
    """Return the origin of each network in the tables, at least its name, by role: ``workload`` and ``background``."""

    found = list(dict.fromkeys((point.workload, point.task) for point in points))
    if opts.kind not in PAIRS:
        return {"workload": _origin(profiles, *found[0])}
    task = background_task(opts.kind)
    first = next((one for one in found if one[1] == "infer" and one[0] != opts.background), None)
    second = next((one for one in found if one[1] == task and one != first), None)
    roles = {"workload": first, "background": second}
    return {role: _origin(profiles, *one) for role, one in roles.items() if one is not None}


def _origin(profiles: Sequence[Profile], name: str, task: str) -> dict[str, Any]:
    """Return the origin of a network in the table that measured it, with its options."""
    for profile in profiles:
        options = profile.header.options
        given = {key: options[key] for key in ("dimensions", "precision", "inputs") if options.get(key)}
        for role in ("workload", "background"):
            told = profile.header.inputs.get(role, {})
            if told.get("name") == name and any((row.workload, row.task) == (name, task) for row in profile.rows):
                return {**given, **told}
    return {"name": name}


def _of_sizes(points: Sequence[Point], opts: SearchOptions, names: str) -> list[Point]:
    """Return the points at the requested batch sizes; a background workload keeps its own."""

    if opts.batch_sizes is None:
        return list(points)
    asked = parse_batch_sizes(opts.batch_sizes)
    kept = [
        point
        for point in points
        if point.batch_size in asked
        or (opts.kind in PAIRS and (point.task == "train" or point.workload == opts.background))
    ]
    if not kept:
        sizes = sorted({point.batch_size for point in points})
        raise InputError(f"{names} has none of these batch sizes", f"it has {', '.join(map(str, sizes))}")
    return kept


def _choose(table: RecordedTable, opts: SearchOptions) -> tuple[str, str, str]:
    """Return the workload, task and kind of problem: the requested ones, else the only ones."""
    here = [(candidates.workload, candidates.task) for candidates in workloads_of(table.rows)]
    workload, task = opts.workload, "train" if opts.kind == "accuracy" else opts.kind
    _known(workload, [name for name, _ in here])
    left = [(name, kind) for name, kind in here if workload in (None, name) and task in (None, kind)]
    listed = ", ".join(f"{name} {kind}" for name, kind in here)
    if len(left) == 1:
        return *left[0], opts.kind or left[0][1]
    if not left:
        raise InputError(f"the table has no {task} rows of {workload or 'any network'}", f"it has: {listed}")
    raise InputError(
        f"the table has several networks or tasks: {listed}", "choose with --workload NAME and --kind KIND"
    )


def _of_two(table: RecordedTable, opts: SearchOptions) -> list[Point]:
    """Return the points of the two workloads: the named ones, else all possible ones."""

    task = background_task(str(opts.kind))
    points = [row.point for row in table.rows]
    _known(opts.workload, [point.workload for point in points if point.task == "infer"])
    _known(opts.background, [point.workload for point in points if point.task == task])
    return [
        point
        for point in points
        if (point.task == "infer" and opts.workload in (None, point.workload))
        or (point.task == task and opts.background in (None, point.workload))
    ]


def _known(name: str | None, names: Sequence[str]) -> None:
    if name is not None and name not in names:
        raise InputError(f"the table has no workload {name!r}", nearest(name, sorted(set(names))))


@dataclass(frozen=True, slots=True)
class KnownPoints:
    """Rows measured earlier, one per point, and notes on them."""

    rows: tuple[ProfileRow, ...] = ()
    data_warnings: tuple[DataWarning, ...] = ()


def read_known(candidates: Candidates, known: str | None, points: str | None) -> KnownPoints:
    """Return the rows measured earlier: those of ``--known`` and those in the file of ``--points``.

    Raises:
        InputError: a file is unreadable, or measured on another device.
    """

    existing = points if points is not None and Path(points).is_file() else None
    names = list(dict.fromkeys(name for name in (known, existing) if name is not None))
    profiles = [io.read_profile(name) for name in names]
    for name, profile in zip(names, profiles, strict=True):
        _refuse_other_device(candidates, profile, name)
        if name == points:
            _refuse_other_networks(candidates, profile, name)
    rows = [row for profile in profiles for row in profile.rows]
    if not rows:
        return KnownPoints()
    table = RecordedTable.of(rows, name=" and ".join(names))
    data_warnings = table.data_warnings
    if not {row.point for row in table.rows} & set(candidates.points):
        advice = f"none of the {len(table.rows)} points of {' and '.join(names)} is offered here"
        data_warnings = (*data_warnings, DataWarning("known-unused", advice))
    return KnownPoints(table.rows, data_warnings)


def _refuse_other_device(candidates: Candidates, profile: Profile, name: str) -> None:
    """Refuse rows of another device, or of another version of the network."""
    here, there = candidates.conditions.get("device"), profile.header.conditions.get("device")
    if here is not None and there is not None and here != there:
        raise InputError(f"{name} was measured on {there}, not on {here}", "give points of this device")
    ours, theirs = candidates.inputs.get("workload", {}), profile.header.inputs.get("workload", {})
    hashes = {each.get("sha256") for each in (ours, theirs)}
    if ours.get("name") == theirs.get("name") and None not in hashes and len(hashes) > 1:
        raise InputError(f"{name} is of another {ours['name']}: the files differ", "measure this one afresh")


def _refuse_other_networks(candidates: Candidates, profile: Profile, name: str) -> None:
    """Refuse to add rows to a profile of other networks or tasks, which a search could not read any more."""
    here = {(point.workload, point.task) for point in candidates.points}
    there = {(row.workload, row.task) for row in profile.rows}
    if not there <= here:
        listed = ", ".join(f"{workload} {task}" for workload, task in sorted(there - here))
        raise InputError(f"--points: {name} holds {listed}", "name another file; --known reads any")


def check_points(path: str) -> None:
    """Check that the file of points can be written, and that an existing one is a profile.

    Raises:
        InputError: it is standard output, cannot be created, or is not a profile.
    """

    if path == "-":
        raise InputError("standard output carries the plan, not the points", "name a file with --points")
    Target(Path(path)).check()
    if Path(path).is_file():
        try:
            io.read_profile(path)
        except InputError as error:
            raise InputError(
                f"{path} exists, and what it holds would be lost: {error.message}", "name another file"
            ) from None


@dataclass(slots=True)
class SavedPoints:
    """The points that a search has measured.

    Args:
        measure: Measures a point and keeps its row.
        rows: The rows in the order of measurement.
        path: The file of the rows; ``None`` without one (yet).
    """

    measure: Callable[[Point], ProfileRow]
    rows: list[ProfileRow]
    path: str | None


@contextmanager
def saving_points(candidates: Candidates, path: str | None, reporter: Reporter) -> Iterator[SavedPoints]:
    """Keep the rows that the candidates' ``measure`` returns, and write them to ``path``.

    A row that took a second or longer is written at once, so that even SIGKILL does not lose it; other rows are
    written when the context ends. Without a path, rows are written to a new file if a signal ends the context,
    unless they came from a table.

    Args:
        candidates: The candidates, which measure.
        path: The output file. Its existing rows stay before the new ones.
        reporter: Receives notes.
    """

    before = io.read_profile(path) if path is not None and Path(path).is_file() else None
    rows: list[ProfileRow] = []

    def measure(point: Point) -> ProfileRow:
        row = candidates.measure(point)
        rows.append(row)
        if path is not None and (row.duration_s or 0.0) >= 1.0 and not candidates.free:
            _write(candidates, rows, before, path)
        return row

    kept = SavedPoints(measure, rows, path)
    try:
        yield kept
    except STOPS:
        if path is None and rows and not candidates.free:
            folder = Path() if os.access(".", os.W_OK) else Path(tempfile.gettempdir())
            kept.path = str(unused(folder / f"{rows[0].workload}-{rows[0].task}-points.parquet"))
        raise
    finally:
        if kept.path is not None:
            _write(candidates, rows, before, kept.path)
    if path is not None:
        reporter.detail(f"wrote {path}")


def saved_where(kept: SavedPoints, asked: str | None, *, free: bool) -> str:
    """Return a sentence on the file of an interrupted search's points and the command to continue."""
    if free:
        return "every point is in the table as before; --max-points N ends a search sooner"
    measured = "point measured is" if len(kept.rows) == 1 else f"{len(kept.rows)} points measured are"
    how = "the same command goes on from there" if asked is not None else f"add --known {kept.path} to go on from there"
    return f"the {measured} in {kept.path}: {how}"


def _write(candidates: Candidates, rows: Sequence[ProfileRow], before: Profile | None, path: str) -> None:
    """Write the rows, if any, as a profile."""

    if not rows:
        return
    earlier = () if before is None else before.rows
    simulated = candidates.simulated or (before is not None and before.header.simulated)
    header = Header.new(
        KIND, VERSION, inputs=candidates.inputs, conditions={**candidates.conditions, "simulated": simulated},
        warnings=candidates.warnings,
    )  # fmt: skip
    io.write(Profile(header, (*earlier, *rows)), path)
