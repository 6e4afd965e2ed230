"""From the options of ``edgetune profile`` to a table on disk or in the pipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune.cli.output import Target, choose_target, forced
from edgetune.cli.profile_report import report, report_plan, unfinished
from edgetune.cli.screen import Screen, SimulationLabel
from edgetune.cli.stopping import reporting_saved
from edgetune.cli.subject import WorkloadOptions, check, choose_subject
from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.artifacts.header import Header
    from edgetune.artifacts.profile import Point, Profile
    from edgetune.devices.device import Device
    from edgetune.profiling.options import ProfileOptions
    from edgetune.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class ProfileCommandOptions:
    """What was asked for, as written on the command line."""

    subject: WorkloadOptions
    device: str
    output: str | None
    fresh: bool
    dry_run: bool
    json: bool
    root: str | None = None


def run_profile(asked: ProfileCommandOptions, options: ProfileOptions, screen: Screen) -> None:
    """Measure every point and write the table.

    Raises:
        typer.Exit: with 5 when some points failed.
    """
    from edgetune.cli.device_option import open_named

    check(asked.subject)
    device = open_named(asked.device, asked.root, seed=options.seed)
    subject = choose_subject(device, asked.subject, options, default_size=1)
    workload, points = subject.workload, list(dict.fromkeys(subject.points))
    for note in subject.notes:
        screen.info(f"note: {note.advice}")
    if subject.batch is not None:
        screen.info(subject.batch)
    for sentence in subject.fed:
        screen.detail(sentence)
    name = f"{workload.name}-{subject.task}-{device.name.partition(':')[0]}.parquet"
    target = choose_target(asked.output, name, resumes=True, json=asked.json)
    if asked.dry_run:
        left = points if asked.fresh else sweep_state(device, workload, points, options, target).left
        report_plan(device, workload, points, options, left=left, file=target.file, json=asked.json)
        return
    target.check("profile")
    table = measure(device, workload, points, options, target, fresh=asked.fresh, screen=screen)
    report(table, target, screen, json=asked.json)


def measure(
    device: Device,
    workload: Workload,
    points: list[Point],
    options: ProfileOptions,
    target: Target,
    *,
    fresh: bool,
    screen: Screen,
) -> Profile:
    """Measure what the journal does not have yet, write the table, and only then discard the journal."""
    from edgetune.cli.device_option import recovered
    from edgetune.cli.load_warning import warn_of_load
    from edgetune.cli.progress import watch
    from edgetune.processes.private_folder import temporary_folder
    from edgetune.profiling.growth import grown
    from edgetune.profiling.identity import default_journal_path, identify
    from edgetune.profiling.journal import discard_journal
    from edgetune.profiling.sweep import sweep

    label = SimulationLabel(device.simulated)
    stands = SweepState(None, points) if fresh else sweep_state(device, workload, points, options, target)
    if stands.before is not None and not stands.left:
        label.announce()
        screen.info(f"{target.path} has these points already; --fresh measures them again")
        return stands.before
    warn_of_load(device, screen)
    identity = identify(device, workload, points[0].task, options)
    journal = default_journal_path(_regular(target), identity, points)
    if journal.parent == temporary_folder():
        screen.info(f"note: no state folder can be written, so the journal is {journal}")
    if stands.before is not None:
        known = len(points) - len(stands.left)
        screen.info(f"{target.path} has {known} of {len(points)} points and grows by {len(stands.left)}")
    kept = "what was measured is kept, and the same command resumes"
    try:
        with (
            reporting_saved(screen, lambda: kept if journal.exists() else "nothing was measured yet"),
            watch(screen, label) as on_progress,
        ):
            table = sweep(device, workload, stands.left, options, journal, on_progress=on_progress, fresh=fresh)
    finally:
        for sentence in recovered(device):
            screen.info(f"note: {sentence}")
    if stands.before is not None:
        table = grown(stands.before, table)
    try:
        target.write(table)
    except BrokenPipeError:
        screen.info(f"nobody read the table; its points are kept in {journal} for the same command run again")
        raise
    if not unfinished(table):
        discard_journal(journal)
    label.announce()
    target.report(screen)
    return table


@dataclass(frozen=True, slots=True)
class SweepState:
    """What a file holds of the points asked for.

    Args:
        before: The table that grows; ``None`` where there is none, or where a sweep of all points is under way.
        left: The points to measure.
    """

    before: Profile | None
    left: list[Point]


def sweep_state(
    device: Device, workload: Workload, points: list[Point], options: ProfileOptions, target: Target
) -> SweepState:
    """Return what the file that will be written holds already, when it was measured in the same way.

    Raises:
        InputError: the file holds something else, which is not overwritten unasked; the first difference is named.
    """
    from edgetune.artifacts.io import read_profile
    from edgetune.profiling.growth import missing_points
    from edgetune.profiling.identity import default_journal_path, identify
    from edgetune.profiling.journal import points_in_journal
    from edgetune.profiling.sweep import request_header

    path = _regular(target)
    if path is None or not path.is_file():
        return SweepState(None, points)
    identity = identify(device, workload, points[0].task, options)
    under_way = points_in_journal(default_journal_path(path, identity, points), identity)
    try:
        table = read_profile(str(path))
    except InputError:
        if forced():
            return SweepState(None, points)
        hint = "name another file with -o, or --force to replace it"
        raise InputError(f"{path} exists and is not a profile", hint) from None
    hint = "name another file with -o, or --fresh to replace it"
    if path.suffix.lower() == ".csv" and "request" not in table.header.inputs and not under_way:
        raise InputError(f"{path} exists, and CSV does not keep what was asked for when it was measured", hint)
    differs = _difference(table, request_header(device, workload, options), identity)
    if differs is None:
        left = missing_points(table, points)
        if under_way <= set(left):
            return SweepState(table, left)
    elif not under_way:
        raise InputError(f"{path} exists and holds another profile: {differs}", hint)
    return SweepState(None, points)  # of a sweep with --fresh, or of one with failures, that is gone on with


def _difference(table: Profile, request: Header, identity: Mapping[str, Any]) -> str | None:
    """Return in what a table differs from a request; ``None`` where it was measured in the same way."""
    from edgetune.artifacts.merging import first_difference
    from edgetune.profiling.identity import identity_sha256

    differs = first_difference(table.header, request)
    if differs is not None:
        return str(differs)
    tasks, task = sorted({row.task for row in table.rows}), str(identity["task"])
    if tasks != [task]:
        return f"its task is {' and '.join(tasks)}, not {task}"
    if table.header.inputs.get("request", {}).get("sha256") == identity_sha256(identity):
        return None
    if table.header.tool != (tool := f"edgetune {identity['version']}"):
        return f"it was written by {table.header.tool}, and this is {tool}"
    return "it does not say that it was measured with the same inputs and options"


def _regular(target: Target) -> Path | None:
    """Return the file that will be written; ``None`` for standard output, a device or a pipe."""
    return target.path if target.path is None or not target.path.exists() or target.path.is_file() else None
