"""A sweep: every point asked for, measured once, whatever happens to the program in between.

Points are measured batch size by batch size, so that the network is loaded as rarely as possible, and delivered in the
order in which they were asked for. Each finished point is in the journal before the next one starts. A point that
failed is tried once more when the same sweep is run again; after that its failure stands. As long as every point has
failed, all of them are tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetune.artifacts import profile as profiles
from edgetune.artifacts.header import Caution, Header
from edgetune.artifacts.profile import Point, Profile, ProfileRow
from edgetune.devices.device import Device
from edgetune.errors import InputError
from edgetune.profiling.identity import identify, identity_sha256
from edgetune.profiling.journal import Journal, discard_journal, open_journal
from edgetune.profiling.journal_lines import Entry
from edgetune.profiling.options import ProfileOptions
from edgetune.profiling.profiler import Profiler, open_profiler
from edgetune.profiling.queue import Queue
from edgetune.stats import median
from edgetune.workloads.workload import Workload

_TRIES = 2
"""Runs of a sweep in which a point may fail before its failure stands."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a sweep is, told after every point and once before the first.

    Args:
        done: Points finished, those of earlier runs included.
        total: Points asked for.
        resumed: Points taken over from earlier runs.
        eta_s: Seconds left, from the pace of this run; ``None`` before there is one.
        row: The row just finished.
    """

    done: int
    total: int
    resumed: int
    eta_s: float | None = None
    row: ProfileRow | None = None


def _silent(_: Progress) -> None:
    """Report nothing."""


def sweep(
    device: Device,
    workload: Workload,
    points: Sequence[Point],
    options: ProfileOptions,
    journal_path: Path,
    *,
    on_progress: Callable[[Progress], None] = _silent,
    fresh: bool = False,
) -> Profile:
    """Measure every point that the journal does not have, and return all of them as a profile.

    The journal stays, unless nothing could be measured: call ``journal.discard_journal`` once the profile is written.

    Args:
        device: Where to measure.
        workload: What to measure.
        points: Points of one workload and task; repeated ones are measured once.
        options: How to measure.
        journal_path: See ``default_journal_path``.
        on_progress: Told after every point.
        fresh: Discard the journal of an earlier run.

    Raises:
        InputError: no points, the journal cannot be used, or every point failed of bad input.
        EdgetuneError: every point failed, or nothing works from the start: what failed.
    """
    points = tuple(dict.fromkeys(points))
    if not points:
        raise InputError("there are no points to measure", "give at least one batch size and one mode")
    sync_every_s = 1.0 if device.simulated else 0.0
    identity = identify(device, workload, points[0].task, options)
    with open_journal(journal_path, identity, sync_every_s=sync_every_s, fresh=fresh) as journal:
        try:
            with open_profiler(device, workload, points[0].task, options) as profiler:
                resumed = _fill(profiler, points, journal=journal, on_progress=on_progress)
                cautions = profiler.cautions(_measured_size(journal.entries, points))
        finally:
            if all(entry.failed for entry in journal.entries):
                discard_journal(journal_path)  # it holds nothing that would not be tried again
        kept = _kept(journal.entries, points)
        header = _header(device, workload, options, kept, resumed=resumed, request_sha256=identity_sha256(identity))
        return Profile(replace(header, warnings=(*header.warnings, *cautions)), _rows(kept))


def _measured_size(entries: Sequence[Entry], points: Sequence[Point]) -> int:
    """Return a batch size at which something was measured, if there is one: what is costed is alike at all of them."""
    return next((entry.point.batch_size for entry in entries if not entry.failed), points[0].batch_size)


def _fill(
    profiler: Profiler,
    points: Sequence[Point],
    *,
    journal: Journal[Entry],
    on_progress: Callable[[Progress], None],
) -> int:
    """Measure what the journal lacks, and return how many points it had."""
    finished = finished_points(journal.entries)
    worked = {entry.point.batch_size for entry in journal.entries if not entry.failed}
    queue = Queue([point for point in points if point not in finished], worked)
    resumed = len(points) - len(queue)
    on_progress(Progress(resumed, len(points), resumed))
    for done, entry in enumerate(_measured(profiler, queue, journal), start=1):
        eta_s = profiler.elapsed_s / done * len(queue)
        on_progress(Progress(resumed + done, len(points), resumed, eta_s, entry.rows[-1]))
    if profiler.last_error is not None and all(entry.failed for entry in journal.entries):
        raise profiler.last_error
    return resumed


def _measured(profiler: Profiler, queue: Queue, journal: Journal[Entry]) -> Iterator[Entry]:
    """Measure what is in the queue, each point journalled before it is told, until that is hopeless."""
    while queue and not queue.hopeless:
        point = queue.take()
        attempts = profiler.attempts(point)
        last = attempts[-1]
        entry = Entry(point, tuple(attempt.row for attempt in attempts), last.overhead, last.target_reached)
        journal.append(entry)
        queue.note(point, failed=entry.failed)
        yield entry


def finished_points(entries: Sequence[Entry]) -> set[Point]:
    """Return the points that need not be measured again."""
    done = {entry.point for entry in entries if not entry.failed}
    if not done:
        return done
    failed = [entry.point for entry in entries if entry.failed]
    return done | {point for point in failed if failed.count(point) >= _TRIES}


def _kept(entries: Sequence[Entry], points: Sequence[Point]) -> dict[Point, list[Entry]]:
    """Return the entries of each point asked for, in the order asked, earlier tries first."""
    kept: dict[Point, list[Entry]] = {point: [] for point in points}
    for entry in entries:
        if entry.point in kept:
            kept[entry.point].append(entry)
    return kept


def _rows(kept: Mapping[Point, Sequence[Entry]]) -> tuple[ProfileRow, ...]:
    return tuple(row for entries in kept.values() for entry in entries for row in entry.rows)


def _header(
    device: Device,
    workload: Workload,
    options: ProfileOptions,
    kept: Mapping[Point, Sequence[Entry]],
    *,
    resumed: int,
    request_sha256: str,
) -> Header:
    """Say where the rows come from and under which conditions."""
    last = [entries[-1] for entries in kept.values()]
    conditions: dict[str, Any] = {
        **device.conditions,
        "device": device.name,
        "device_description": device.description,
        "simulated": device.simulated,
        "options": options.plain(),
        "points_resumed": resumed,
    }
    overheads = [entry.overhead for entry in last if entry.overhead is not None]
    if overheads:
        conditions["harness_overhead"] = {"median": median(overheads), "max": max(overheads)}
    inputs = {
        "workload": {"name": workload.name, "reference": workload.reference, "sha256": workload.sha256},
        "request": {"sha256": request_sha256},
    }
    if workload.ops is not None:
        inputs["ops"] = {"name": workload.ops.name, "sha256": workload.ops.sha256}
    return Header.new(
        profiles.KIND, profiles.VERSION, inputs=inputs, conditions=conditions, warnings=_cautions(last, options)
    )


def _cautions(last: Sequence[Entry], options: ProfileOptions) -> tuple[Caution, ...]:
    """Return what a reader of the profile should know before trusting all of it alike."""
    counts = {
        status: sum(entry.rows[-1].status == status for entry in last) for status in ("failed", "throttled", "drifted")
    }
    advice = {
        "failed": "see the reason column; run the same command again to try them once more",
        "throttled": "improve cooling or leave these modes out; the rows are kept but not used",
        "drifted": "look for a power daemon that changes clocks; the rows are kept but not used",
    }
    found = [
        Caution(f"points-{status}", advice[status], {"points": count}) for status, count in counts.items() if count
    ]
    measured = [entry for entry in last if entry.rows[-1].status == "ok"]
    wide = sum(not entry.target_reached for entry in measured)
    if wide:
        found.append(
            Caution(
                "interval-wider-than-target",
                "quieten the machine, or allow more minibatches or time per point",
                {"points": wide, "target_fraction": options.target_ci},
            )
        )
    powerless = sum(entry.rows[-1].power_w is None for entry in measured)
    if powerless:
        found.append(Caution("no-power", "see the reason column", {"points": powerless}))
    return tuple(found)
