"""From the options of ``edgetune profile`` to a table on disk or in the pipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.cli.output import Target, choose_target
from edgetune.cli.profile_report import report, tell_plan, unfinished
from edgetune.cli.screen import Label, Screen
from edgetune.cli.subject import Words, check, choose_subject
from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.artifacts.profile import Point, Profile
    from edgetune.devices.device import Device
    from edgetune.profiling.options import ProfileOptions
    from edgetune.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for, as written on the command line."""

    subject: Words
    device: str
    output: str | None
    fresh: bool
    dry_run: bool
    json: bool
    root: str | None = None


def carry_out(asked: Asked, options: ProfileOptions, screen: Screen) -> None:
    """Measure every point and write the table.

    Raises:
        typer.Exit: with 5 when some points failed.
    """
    from edgetune.cli.where import open_named

    check(asked.subject)
    device = open_named(asked.device, asked.root, seed=options.seed)
    subject = choose_subject(device, asked.subject, options, default_size=1)
    workload, points = subject.workload, list(subject.points)
    for note in subject.notes:
        screen.say(f"note: {note.advice}")
    if asked.dry_run:
        tell_plan(device, workload, points, options, json=asked.json)
        return
    name = f"{workload.name}-{subject.task}-{device.name.partition(':')[0]}.parquet"
    target = choose_target(asked.output, name, resumes=True, json=asked.json)
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
    from edgetune.cli.busy import tell_load
    from edgetune.cli.progress import watch
    from edgetune.cli.where import recovered
    from edgetune.profiling.identity import default_journal_path, identify, identity_sha256, temporary_folder
    from edgetune.profiling.journal import discard_journal
    from edgetune.profiling.sweep import sweep

    label = Label(device.simulated)
    regular = target.path if target.path is None or not target.path.exists() or target.path.is_file() else None
    identity = identify(device, workload, points[0].task, options)
    journal = default_journal_path(regular, identity, points)
    if journal.parent == temporary_folder():
        screen.say(f"note: no state folder can be written, so the journal is {journal}")
    if target.path is not None and target.path.is_file() and not journal.exists() and not fresh:
        table = already_there(target.path, identity_sha256(identity), points)
        label.say()
        screen.say(f"{target.path} has these points already; --fresh measures them again")
        return table
    tell_load(device, screen)
    try:
        with watch(screen, label) as on_progress:
            table = sweep(device, workload, points, options, journal, on_progress=on_progress, fresh=fresh)
    except BaseException as end:
        if not isinstance(end, Exception):
            kept = "what was measured is kept, and the same command resumes"
            screen.say(f"stopped; {kept if journal.exists() else 'nothing was measured yet'}")
        raise
    finally:
        for sentence in recovered(device):
            screen.say(f"note: {sentence}")
    try:
        target.write(table)
    except BrokenPipeError:
        screen.say(f"nobody read the table; its points are kept in {journal} for the same command run again")
        raise
    if not unfinished(table):
        discard_journal(journal)
    label.say()
    target.tell(screen)
    return table


def already_there(path: Path, request_sha256: str, points: list[Point]) -> Profile:
    """Return the table in an existing file when it is the answer to this very request (see ``identify``).

    Raises:
        InputError: it is something else, which is not overwritten unasked.
    """
    from edgetune.artifacts.io import read_profile
    from edgetune.profiling.identity import points_sha256

    hint = "name another file with -o, or --fresh to replace it"
    try:
        table = read_profile(str(path))
    except InputError:
        raise InputError(f"{path} exists and is not a profile", hint) from None
    asked = table.header.inputs.get("request", {})
    if path.suffix.lower() == ".csv" and not asked:
        raise InputError(f"{path} exists, and CSV does not keep what was asked for when it was measured", hint)
    same = asked.get("points_sha256") == points_sha256(points) or {row.point for row in table.rows} >= set(points)
    if asked.get("sha256") != request_sha256 or not same:
        raise InputError(f"{path} exists and holds another profile", hint)
    return table
