"""The journal of a sweep of points: its entries, and what a stopped sweep has measured.

The identity of a sweep: its network, the facts that two sweeps must share, its journal, and how a table grows.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.artifacts.files import STDIN, file_hash
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.output_file import OutputFile
from edgetune.artifacts.profile import KIND, VERSION, Point, Profile, ProfileRow, Task
from edgetune.artifacts.repeats import NOT_MEASURED, merged
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import InputError
from edgetune.processes.user_folders import make_private, temporary_folder, user_folder
from edgetune.stages.profiling.journal import JOURNAL_SUFFIX, about, journal_beside, peek, read_entry
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.queue import Visit
from edgetune.version import __version__
from edgetune.workloads.batch import axes_words
from edgetune.workloads.onnx_file import network_batch
from edgetune.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class SweepJournalEntry:
    """One finished point.

    Args:
        point: The point, as the sweep requests it.
        rows: Every attempt, the one that counts last.
        overhead: Fraction of the sampled time spent outside the workload.
        target_reached: Whether the confidence interval reached its target.
        round: Number of the visit to the point; ``None`` in a sweep of one round.
        cooled: Whether the device was cool enough before the attempt that counts.
    """

    point: Point
    rows: tuple[ProfileRow, ...]
    overhead: float | None = None
    target_reached: bool = True
    round: int | None = None
    cooled: bool = True

    @property
    def visit(self) -> Visit:
        """Which measurement of which point this is."""
        return Visit(self.point, self.round)

    @property
    def failed(self) -> bool:
        """Whether the point could not be measured."""
        return self.rows[-1].status == "failed"


def entries_in_journal(path: Path, identity: Mapping[str, Any]) -> list[SweepJournalEntry]:
    """Return the entries in the journal of this very request; none where there is no such journal."""
    found = peek(path)
    return _entries(found[1]) if found is not None and found[0] == about(identity) else []


def stopped_sweep(file: str) -> Profile | None:
    """Return what a stopped sweep has measured, where ``file`` is its journal, or its table, not written yet."""
    path = Path(file)
    if file == STDIN or (path.exists() and path.suffix != JOURNAL_SUFFIX):
        return None
    identity, values = peek(path if path.exists() else journal_beside(path)) or ({}, [])
    rows = tuple(row for entry in _entries(values) for row in entry.rows)
    if not rows:
        return None
    of_device = identity.get("device_conditions") or {}
    conditions = {
        **of_device,
        **{name: identity.get(name) for name in ("device", "device_description", "options")},
        "simulated": bool(identity.get("simulated") or of_device.get("simulated")),
    }
    advice = "the sweep was stopped; the same edgetune profile command goes on with it and writes the table"
    inputs = {"workload": {"name": identity.get("workload"), "sha256": identity.get("workload_sha256")}}
    warnings = (DataWarning("sweep-stopped", advice),)
    return Profile(Header.new(KIND, VERSION, inputs=inputs, conditions=conditions, warnings=warnings), rows)


def _entries(values: list[dict[str, Any]]) -> list[SweepJournalEntry]:
    """Return the entries that plain data describe; none where they are those of a training."""
    try:
        return [read_entry(SweepJournalEntry, value) for value in values]
    except ValueError:
        return []


def origin_of(workload: Workload, options: ProfileOptions) -> dict[str, Any]:
    """Return the name, reference, absolute path and hash of a network, and the options with which it ran.

    Missing facts are left out: a network of the zoo has no path, and one known only by its name has no hash. ``batch``
    names the batch axes of a file's graph. Dimensions, batch axes, precision and the file of inputs are included where
    they are not the default.
    """
    named, axes = workload.kind == "name", workload.batch_axes
    own = workload.has_graph and workload.kind == "onnx"
    found: dict[str, Any] = {
        "name": workload.name,
        "reference": None if named else workload.reference,
        "path": None if workload.path is None else str(workload.path.resolve()),
        "sha256": None if named and workload.ops is None else workload.sha256,
        "batch": network_batch(workload, options.dimensions).plain() if own else None,
        "batch_axis": None if axes is None else axes_words(axes),
        "dimensions": dict(options.dimensions) or None,
        "precision": None if options.precision == "fp32" else options.precision,
        "inputs": None if options.inputs is None else str(Path(options.inputs).resolve()),
    }
    return {key: value for key, value in found.items() if value is not None}


def identify(device: Device, workload: Workload, task: Task, options: ProfileOptions) -> dict[str, Any]:
    """Return the facts that two sweeps must share to share measured points; the requested points are not among them.

    Therefore a batch size or a mode can be added to a half-finished sweep. A simulated device counts with its constants
    and seed, a real one with its description, not with the load and temperature of the day.
    """
    plain = {name: value for name, value in options.plain().items() if name not in NOT_MEASURED}
    identity: dict[str, Any] = {
        "version": __version__,
        "device": device.name,
        "device_description": device.description,
        "workload": workload.name,
        "workload_sha256": workload.sha256,
        "batch_axes": workload.batch_axes,
        "task": task,
        "ops_sha256": None if workload.ops is None else workload.ops.sha256,
        "inputs_sha256": None if options.inputs is None else _digest(options.inputs),
        "options": plain,
    }
    if not isinstance(device.source, LiveSource):
        identity["device_conditions"] = dict(device.conditions)
    elif device.simulated:  # a fake board
        identity["simulated"] = True
    return identity


def identity_sha256(identity: Mapping[str, Any]) -> str:
    """Return the hash that identifies the request that a profile answers, without its points."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()


def points_sha256(points: Sequence[object]) -> str:
    """Return the hash that identifies the requested points; rows also name settings that were read back."""
    return hashlib.sha256(json.dumps(sorted(str(point) for point in points)).encode()).hexdigest()


def default_journal_path(output: Path | None, identity: Mapping[str, Any], points: Sequence[object]) -> Path:
    """Return the path of the journal of a sweep.

    Args:
        output: The file of the profile: the journal is a hidden file beside it. ``None`` for standard output: the
            journal is then in the user's folder ``state``, or in ``temporary_folder`` where that cannot be written,
            named by its request.
        identity: See ``identify``.
        points: The requested points or training runs.

    Raises:
        InputError: The profile goes to standard output and no folder can keep the journal.
    """
    if output is not None:
        return journal_beside(output)
    asked = json.dumps([identity, [str(point) for point in points]], sort_keys=True, default=str)
    return _journals_folder() / f"{hashlib.sha256(asked.encode()).hexdigest()[:16]}{JOURNAL_SUFFIX}"


def _journals_folder() -> Path:
    with contextlib.suppress(OSError, InputError):
        folder = user_folder("state", "journals")
        folder.mkdir(parents=True, exist_ok=True)
        if _takes_files(folder):
            return folder
    with contextlib.suppress(OSError):
        folder = make_private(temporary_folder())
        if _takes_files(folder):
            return folder
    raise InputError(
        "there is no folder to keep the journal in", "name a file with -o, or set XDG_STATE_HOME or TMPDIR"
    )


def _takes_files(folder: Path) -> bool:
    """Whether a file can be made in a folder; permissions alone do not show a read-only or full file system."""
    try:
        OutputFile(folder / "journal").try_folder()
    except OSError:
        return False
    return True


def _digest(path: str) -> str:
    """Return the SHA-256 of a file.

    Raises:
        InputError: The file cannot be read.
    """
    try:
        return file_hash(Path(path)).hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", "check the path") from None


_Plain = tuple[int, tuple[tuple[str, Any], ...]]


def partial_points(rows: Iterable[tuple[Point, ProfileRow]]) -> list[list[Any]]:
    """Return batch size and settings of the points that request fewer settings than were read back.

    A row names the settings that were read back; it does not show that the request left some of them as found.
    """
    found = {_plain(point): None for point, row in rows if row.mode.settings() != point.mode.settings()}
    return [[size, dict(settings)] for size, settings in found]


def missing_points(table: Profile, points: Sequence[Point]) -> list[Point]:
    """Return the points that the request of a table does not have."""
    request = table.header.inputs.get("request", {})
    if request.get("points_sha256") == points_sha256(points):
        return []
    there = {row.point for row in table.rows}
    partial = {(size, tuple(sorted(settings.items()))) for size, settings in request.get("partial", ())}
    return [point for point in dict.fromkeys(points) if point not in there and _plain(point) not in partial]


def grown(before: Profile, added: Profile) -> Profile:
    """Return a table with the rows of a later one added."""
    request = dict(added.header.inputs.get("request", {}))
    partial = [*before.header.inputs.get("request", {}).get("partial", ()), *request.get("partial", ())]
    inputs = {**added.header.inputs, "request": {**request, **({"partial": partial} if partial else {})}}
    earlier = before.header.inputs.get("grown_from", [_part(before)])
    return merged([before, added], inputs={**inputs, "grown_from": [*earlier, _part(added)]})


def _plain(point: Point) -> _Plain:
    return point.batch_size, tuple(sorted(point.mode.settings().items()))


def _part(table: Profile) -> dict[str, Any]:
    header = table.header
    command = {"command": header.command} if header.command else {}
    return {"created": header.created, "rows": len(table.rows), **command}
