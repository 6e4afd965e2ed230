"""Points measured earlier, and ``--points FILE``, which keeps all measurements of a search whatever its result.

A live search writes its rows as they are measured, also if it finds nothing or is stopped. The next search with the
same file, or with ``--known FILE``, reuses them without measuring.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgetune.artifacts import io
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.profile import KIND, VERSION, Point, Profile, ProfileRow
from edgetune.devices.recorded import RecordedTable
from edgetune.errors import InputError
from edgetune.workflows.output import Target, unused
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.search.candidates import Candidates
from edgetune.workflows.stopping import STOPS


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

    names = list(dict.fromkeys(name for name in (known, _existing(points)) if name is not None))
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


def _existing(path: str | None) -> str | None:
    return path if path is not None and Path(path).is_file() else None


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
            kept.path = _new_path(f"{rows[0].workload}-{rows[0].task}-points")
        if kept.path is not None:
            _write(candidates, rows, before, kept.path)
        raise
    except BaseException:
        if path is not None:
            _write(candidates, rows, before, path)
        raise
    if path is not None:
        _write(candidates, rows, before, path)
        reporter.detail(f"wrote {path}")


def saved_where(kept: SavedPoints, asked: str | None, *, free: bool) -> str:
    """Return a sentence on the file of an interrupted search's points and the command to continue."""
    if free:
        return "every point is in the table as before; --max-points N ends a search sooner"
    measured = "point measured is" if len(kept.rows) == 1 else f"{len(kept.rows)} points measured are"
    how = "the same command goes on from there" if asked is not None else f"add --known {kept.path} to go on from there"
    return f"the {measured} in {kept.path}: {how}"


def _new_path(stem: str) -> str:
    """Return a new path in the working folder or, if that is not writable, in the temporary folder."""
    folder = Path() if os.access(".", os.W_OK) else Path(tempfile.gettempdir())
    return str(unused(folder / f"{stem}.parquet"))


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
