"""A sweep: every requested point is measured once, or once a round, even if the program is interrupted.

Points are measured batch size by batch size, so that the network is loaded as rarely as possible, and returned in the
order of the request, the rounds of a point together. Each finished point is in the journal before the
next one starts. A point that failed is tried once more when the same sweep is run again; after that its failure stands.
As long as every point has failed, all of them are tried again.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetune.artifacts import profile as profiles
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.profile import Point, Profile, ProfileRow
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, LiveSource, TableSource
from edgetune.errors import InputError
from edgetune.stages.profiling.disturbances import check_possible, contention_warning, describe_contention
from edgetune.stages.profiling.journal import Journal, discard_journal, open_journal
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stages.profiling.queue import Queue, Visit, between_rounds, change_summary, disagreements, visits
from edgetune.stages.profiling.sweep_journal import (
    SweepJournalEntry,
    identify,
    identity_sha256,
    origin_of,
    partial_points,
    points_sha256,
)
from edgetune.stats import median
from edgetune.workloads.costs.ops_table import time_warnings
from edgetune.workloads.network_inputs import describe_inputs
from edgetune.workloads.workload import Workload

_TRIES = 2
"""Runs of a sweep in which a point may fail before its failure stands."""


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """The progress of a sweep, reported before the first point, after each, and meanwhile some
    times a second at most.

    Args:
        done: Points finished, those of earlier runs included; each round of a point counts.
        total: Points requested.
        resumed: Points taken over from earlier runs.
        row: The row just finished.
        state: What is done at the present point.
    """

    done: int
    total: int
    resumed: int
    row: ProfileRow | None = None
    state: str | None = None


def sweep(
    device: Device, workload: Workload, points: Sequence[Point] | Sequence[Visit], options: ProfileOptions,
    journal_path: Path, *, on_progress: Callable[[SweepProgress], None] = lambda _: None, fresh: bool = False,
    watched: bool = False,
) -> Profile:  # fmt: skip
    """Measure every point that the journal lacks, and return all of them as a profile.

    The journal stays unless every point failed: call ``journal.discard_journal`` once the profile is written.

    Args:
        device: Where to measure.
        workload: What to measure.
        points: Points of one workload and task; repeated ones are measured once. Or visits, made in their order.
        options: How to measure.
        journal_path: See ``default_journal_path``.
        on_progress: Called with the progress.
        fresh: Discard the journal of an earlier run.
        watched: Whether somebody looks at ``on_progress``: it then gets the running figures of a point, too.

    Raises:
        InputError: There are no points, the options do not fit the device, the journal cannot be used, or every point
            failed because of bad input.
        EdgetuneError: Every point failed; the error is that of the last one.
    """
    given = [each for each in points if isinstance(each, Visit)]
    points = tuple(dict.fromkeys(each.point if isinstance(each, Visit) else each for each in points))
    if not points:
        raise InputError("there are no points to measure", "give at least one batch size and one mode")
    check_possible(device, options)
    if options.interleave_repeats > 1 and isinstance(device.source, TableSource):
        raise InputError(f"--interleave-repeats: {device.name} looks up what was measured", "leave it out")
    order = given or visits(points, options.interleave_repeats, options.seed)
    told = _ProgressReporter(on_progress, SweepProgress(0, len(order), 0))
    identity = identify(device, workload, points[0].task, options)
    with open_journal(SweepJournalEntry, journal_path, identity, synced=not device.simulated, fresh=fresh) as journal:
        try:
            with Profiler(device, workload, points[0].task, options, told.state, sampling=watched) as profiler:
                _fill(profiler, order, journal=journal, told=told)
                measured = (entry.point.batch_size for entry in journal.entries if not entry.failed)
                data_warnings = profiler.data_warnings(next(measured, points[0].batch_size))  # alike at all sizes
        finally:
            if all(entry.failed for entry in journal.entries):
                discard_journal(journal_path)  # every point in it would be tried again
        kept = _kept(journal.entries, points, order)
        request: dict[str, Any] = {"sha256": identity_sha256(identity), "points_sha256": points_sha256(points)}
        if partial := partial_points((visit.point, entries[-1].rows[-1]) for visit, entries in kept.items()):
            request["partial"] = partial
        header = _header(device, workload, options, kept, resumed=told.last.resumed, request=request)
        return Profile(replace(header, warnings=(*header.warnings, *data_warnings)), _rows(kept))


@dataclass(slots=True)
class _ProgressReporter:
    """Reports progress, and keeps the last report for those of a point in progress."""

    on_progress: Callable[[SweepProgress], None]
    last: SweepProgress

    def report(self, **changes: Any) -> None:
        """Report the last state with some changes."""
        self.last = replace(self.last, **{"row": None, "state": None, **changes})
        self.on_progress(self.last)

    def state(self, state: str) -> None:
        self.report(state=state)


def _fill(
    profiler: Profiler, order: Sequence[Visit], *, journal: Journal[SweepJournalEntry], told: _ProgressReporter
) -> None:
    """Make the visits that the journal lacks."""
    finished = finished_visits(journal.entries)
    worked = {entry.point.batch_size for entry in journal.entries if not entry.failed}
    queue = Queue([visit for visit in order if visit not in finished], worked)
    resumed = len(order) - len(queue)
    told.report(done=resumed, resumed=resumed)
    for done, entry in enumerate(_measured(profiler, queue, journal), start=1):
        told.report(done=resumed + done, row=entry.rows[-1])
    if profiler.last_error is not None and all(entry.failed for entry in journal.entries):
        raise profiler.last_error


def _measured(profiler: Profiler, queue: Queue, journal: Journal[SweepJournalEntry]) -> Iterator[SweepJournalEntry]:
    """Measure the visits of the queue until it is hopeless; yield each entry after it is in the journal."""
    while queue and not queue.hopeless:
        visit = queue.take()
        attempts = profiler.attempts(visit.point, visit.round)
        rows, last = tuple(replace(attempt.row, round=visit.round) for attempt in attempts), attempts[-1]
        entry = SweepJournalEntry(visit.point, rows, last.overhead, last.target_reached, visit.round, last.cooled)
        journal.append(entry)
        queue.note(visit.point, failed=entry.failed)
        yield entry


def finished_visits(entries: Sequence[SweepJournalEntry]) -> set[Visit]:
    """Return the visits that succeeded, or failed ``_TRIES`` times."""
    done = {entry.visit for entry in entries if not entry.failed}
    if not done:
        return done
    failed = Counter(entry.visit for entry in entries if entry.failed)
    return done | {visit for visit, times in failed.items() if times >= _TRIES}


def _kept(
    entries: Sequence[SweepJournalEntry], points: Sequence[Point], order: Sequence[Visit]
) -> dict[Visit, list[SweepJournalEntry]]:
    """Return the entries of each requested visit that has any, in the order of the request.

    The rounds of a point follow each other, and earlier tries come first.
    """
    rank = {point: number for number, point in enumerate(points)}
    requested = sorted(order, key=lambda visit: (rank[visit.point], visit.round or 0))
    kept: dict[Visit, list[SweepJournalEntry]] = {visit: [] for visit in requested}
    for entry in entries:
        if entry.visit in kept:
            kept[entry.visit].append(entry)
    return {visit: tries for visit, tries in kept.items() if tries}


def _rows(kept: Mapping[Visit, Sequence[SweepJournalEntry]]) -> tuple[ProfileRow, ...]:
    return tuple(row for entries in kept.values() for entry in entries for row in entry.rows)


def request_header(device: Device, workload: Workload, options: ProfileOptions) -> Header:
    """Return the header of a sweep of this device, network and options before anything is measured."""
    return _header(device, workload, options, {}, resumed=0, request={})


def _header(
    device: Device, workload: Workload, options: ProfileOptions, kept: Mapping[Visit, Sequence[SweepJournalEntry]], *,
    resumed: int, request: Mapping[str, Any],
) -> Header:  # fmt: skip
    """Return the header of a profile: the origin of its rows and the conditions."""
    last = [entries[-1] for entries in kept.values()]
    conditions: dict[str, Any] = {
        **device.conditions,
        "device": device.name,
        "device_description": device.description,
        "simulated": device.simulated,
        "options": options.plain(),
        "points_resumed": resumed,
    }
    if not isinstance(device.power, Absent):
        conditions["power_refresh_s"] = device.power.refresh_s
    of_network: tuple[DataWarning, ...] = ()
    if kept and isinstance(device.source, LiveSource) and workload.has_graph:
        point = next(iter(kept)).point
        file = options.inputs if point.task == "infer" else None
        conditions["fed"] = describe_inputs(workload, point.batch_size, options.dimensions, file)
        of_network = time_warnings(workload, point.task, point.batch_size, options.dimensions)
    if isinstance(device.source, LiveSource) and os.geteuid() == 0:
        conditions["ran_as_root"] = True
    changes = between_rounds([entry.rows[-1] for entry in last])
    if changes:
        conditions["rounds"] = {"count": max(options.interleave_repeats, 2), **change_summary(changes)}
    overheads = [entry.overhead for entry in last if entry.overhead is not None]
    if overheads:
        conditions["harness_overhead"] = {"median": median(overheads), "max": max(overheads)}
    inputs = {"workload": origin_of(workload, options), "request": request}
    if workload.ops is not None:
        inputs["ops"] = {"name": workload.ops.name, "sha256": workload.ops.sha256}
    return Header.new(
        profiles.KIND, profiles.VERSION, inputs=inputs, conditions=conditions,
        warnings=(*_data_warnings(last, options), *disagreements(changes, options), *of_network),
    )  # fmt: skip


def _data_warnings(last: Sequence[SweepJournalEntry], options: ProfileOptions) -> tuple[DataWarning, ...]:
    """Return warnings about points that failed, were disturbed, or are less certain than others."""
    advice = {
        "failed": "edgetune show FILE gives the reason of each; the same edgetune profile command tries them again",
        "throttled": "improve cooling or leave these modes out; the rows are kept but not used",
        "drifted": "look for a power daemon that changes clocks; the rows are kept but not used",
        "swapped": "free memory, or use smaller batch sizes; the rows are kept but not used",
    }
    counts = {status: sum(entry.rows[-1].status == status for entry in last) for status in advice}
    found = [
        DataWarning(f"points-{status}", advice[status], {"points": count}) for status, count in counts.items() if count
    ]
    measured = [entry for entry in last if entry.rows[-1].status == "ok"]
    wide = sum(not entry.target_reached for entry in measured)
    if wide:
        found.append(
            DataWarning(
                "interval-wider-than-target",
                "stop other programs, or allow more minibatches or time per point",
                {"points": wide, "target_fraction": options.target_ci},
            )
        )
    hot = sum(not entry.cooled for entry in last)
    if hot:
        found.append(
            DataWarning(
                "cooling-timed-out",
                "improve cooling, or wait longer with --cool-timeout or for a higher --cool-to; "
                "temp_start_c holds the temperature of each point",
                {"points": hot, "cool_to_c": options.cool_to_c or 0.0, "cool_timeout_s": options.cool_timeout_s},
            )
        )
    found += contention_warning(entry.rows[-1] for entry in measured)
    powerless = [entry.rows[-1] for entry in measured if entry.rows[-1].power_w is None]
    if powerless:
        reason = next(filter(None, map(_why_no_power, powerless)), "the device gives no power figure")
        found.append(DataWarning("no-power", f"no power and no energy: {reason}", {"points": len(powerless)}))
    return tuple(found)


def _why_no_power(row: ProfileRow) -> str:
    """Return the part of a row's reason that is about power, its first; the rest is of other matters."""
    first = (row.reason or "").partition("; ")[0]
    busy = describe_contention(row.others_cpu_share, row.cpu_throttled_share) or ""
    return "" if first in busy.split("; ") else first.removeprefix("no power: ")
