"""Measures a network at every point of a sweep: from the options of ``edgetune profile`` to a table."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.header import Header
from edgetune.artifacts.io import read_profile
from edgetune.artifacts.profile import Point, Profile, ProfileRow
from edgetune.artifacts.repeats import first_difference
from edgetune.devices.device import Device
from edgetune.errors import EdgetuneError, InputError
from edgetune.processes.user_folders import temporary_folder
from edgetune.stages.profiling.boards import measured_by
from edgetune.stages.profiling.estimate import SweepEstimate, estimate
from edgetune.stages.profiling.journal import discard_journal
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.queue import Visit, visits
from edgetune.stages.profiling.sweep import finished_visits, request_header, sweep
from edgetune.stages.profiling.sweep_journal import (
    SweepJournalEntry,
    default_journal_path,
    entries_in_journal,
    grown,
    identify,
    identity_sha256,
    missing_points,
)
from edgetune.units import parse_bytes
from edgetune.workflows.device_option import open_named, recovered, warn_of_load
from edgetune.workflows.output import Target, choose_target
from edgetune.workflows.parse_options import profile_options
from edgetune.workflows.profile.commands import as_command
from edgetune.workflows.profile.convergence import refuse_training
from edgetune.workflows.profile.engines import build_engines, check_modelled, in_python
from edgetune.workflows.profile.options import ProfileCommandOptions
from edgetune.workflows.profile.subject import WorkloadOptions, check, choose_subject, with_largest, without_max
from edgetune.workflows.profile.tables import share_asked
from edgetune.workflows.reporting import Reporter, SimulationLabel, reporting_saved
from edgetune.workloads.endpoint import with_requests
from edgetune.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """A requested sweep.

    Args:
        device: The device that measures.
        workload: The network.
        points: All requested points.
        options: The measuring options.
        target: The output of the table.
        anchors: The points by which boards are compared; all of them are among ``points``.
        board: The name of this board, for the rows.
    """

    device: Device
    workload: Workload
    points: list[Point]
    options: ProfileOptions
    target: Target
    anchors: tuple[Point, ...] = ()
    board: str | None = None


def profile(opts: ProfileCommandOptions, reporter: Reporter) -> tuple[Profile, Target]:
    """Measure every point that is missing in the file and write the table; return the table and its target.

    Raises:
        InputError: an option is invalid, or the file has other content.
        DeviceError: the device is absent, or cannot set the modes.
    """
    request = request_of(opts, reporter)
    request.target.check("profile")
    return measure(request, fresh=opts.fresh, reporter=reporter), request.target


def plan_profile(
    opts: ProfileCommandOptions, reporter: Reporter
) -> tuple[ProfileRequest, list[Point], SweepEstimate | None]:
    """Return the sweep, the points to measure, and their expected cost, which is ``None`` if no point is left.

    Raises:
        InputError, DeviceError: see ``profile``.
    """
    request = request_of(opts, reporter, run_code=False)
    stands, entries = (SweepState(None, request.points), []) if opts.fresh else (sweep_state(request), started(request))
    done = finished_visits(entries)
    planned = stands.order(request)
    rounds = request.options.interleave_repeats
    order = [visit for visit in planned or visits(stands.left, rounds, request.options.seed) if visit not in done]
    wanted = {visit.point for visit in order}
    left = [each for each in stands.left if each in wanted] or [each for each in request.points if each in wanted]
    if not left:
        return request, left, None
    known = [entry.rows[-1] for entry in entries if not entry.failed]
    with reporter.bar("estimating", None):
        expected = estimate(
            request.device, request.workload, left, request.options, run_code=False, measured=known
        )  # fmt: skip
    return request, left, expected.times(len(order) / (len(left) * rounds))


def request_of(opts: ProfileCommandOptions, reporter: Reporter, *, run_code: bool = True) -> ProfileRequest:
    """Open the device and choose the points, without measuring any; ``run_code`` allows to look for the largest."""
    refuse_training(opts)
    opts = as_command(opts, reporter)
    options = profile_options(opts)
    model = with_requests(
        opts.model,
        opts.served_model,
        opts.prompt_tokens,
        opts.output_tokens,
        prompts=opts.prompts,
        arrivals=opts.arrivals,
    )
    sizes, largest = without_max(opts.batch_sizes)
    words = WorkloadOptions(model, opts.task, sizes, opts.modes, opts.ops, tuple(opts.batch_axis))
    check(words)
    budget_bytes = None if opts.memory_budget is None else parse_bytes(opts.memory_budget, what="--memory-budget")
    if not largest and budget_bytes is not None:
        raise InputError("--memory-budget is for --batch-sizes max", "edgetune search keeps a budget of memory, too")
    if largest and not run_code:
        raise InputError("--batch-sizes max runs the network to find it", "leave --dry-run out, or name sizes")
    device = in_python(open_named(opts.device, opts.root, seed=options.seed), options.python)
    check_modelled(device, opts.engine)
    if largest:
        words = with_largest(device, words, options, budget_bytes, reporter)
    subject = choose_subject(device, words, options, default_size=1)
    for note in subject.notes:
        reporter.warn(note)
    if subject.batch is not None:
        reporter.info(subject.batch)
    for sentence in subject.fed:
        reporter.detail(sentence)
    share = share_asked(opts, device, list(dict.fromkeys(subject.points)))
    name = f"{subject.workload.name}-{subject.task}-{device.name.partition(':')[0]}{share.suffix}.parquet"
    target = choose_target(opts.output, name, resumes=True, stdout=reporter.stdout)
    return ProfileRequest(device, subject.workload, share.points, options, target, share.anchors, share.board)


def measure(request: ProfileRequest, *, fresh: bool, reporter: Reporter) -> Profile:
    """Measure the points that the journal lacks, write the table, then discard the journal."""
    device, workload, points = request.device, request.workload, request.points
    options, target = request.options, request.target
    label = SimulationLabel(device.simulated, reporter, device.conditions.get("runtime"))
    stands = SweepState(None, points) if fresh else sweep_state(request)
    if stands.before is not None and not stands.left:
        label.announce()
        reporter.info(f"{target.path} has these points already; --fresh measures them again")
        return stands.before
    build_engines(device, workload, stands.left, options, reporter)
    warn_of_load(device, reporter)
    identity = identify(device, workload, points[0].task, options)
    journal = default_journal_path(target.regular, identity, points)
    if journal.is_relative_to(temporary_folder()):
        reporter.info(f"note: no state folder can be written, so the journal is {journal}")
    if stands.before is not None:
        known = len(points) - len(stands.left)
        reporter.info(f"{target.path} has {known} of {len(points)} points and grows by {len(stands.left)}")
    kept = f"what was measured is kept, and the same command resumes; edgetune show {journal} prints it"
    try:
        with (
            reporting_saved(reporter, lambda: kept if journal.exists() else "nothing was measured yet"),
            reporter.sweep(label) as on_progress,
        ):
            table = sweep(
                device, workload, stands.order(request) or stands.left, options, journal, on_progress=on_progress,
                fresh=fresh, watched=reporter.watched,
            )  # fmt: skip
    except EdgetuneError:
        with suppress(InputError):
            if any(not entry.failed for entry in entries_in_journal(journal, identity)):
                reporter.info(f"note: {kept}")
        raise
    finally:
        for sentence in recovered(device):
            reporter.info(f"note: {sentence}")
    if request.board is not None:
        table = measured_by(request.board, table)
    if stands.before is not None:
        table = grown(stands.before, table)
    try:
        target.write(table)
    except BrokenPipeError:
        reporter.info(f"nobody read the table; its points are kept in {journal} for the same command run again")
        raise
    if not unfinished(table):
        discard_journal(journal)
    label.announce()
    target.report(reporter)
    return table


@dataclass(frozen=True, slots=True)
class SweepState:
    """The state of an existing file relative to the requested points.

    Args:
        before: The table to extend; ``None`` without one, or while a sweep of all points is under way.
        left: The points to measure.
    """

    before: Profile | None
    left: list[Point]

    def order(self, request: ProfileRequest) -> list[Visit]:
        """Return the visits of a sweep with anchors; none without, whose points the sweep orders itself."""
        if not request.anchors:
            return []
        left = [*self.left, *(point for point in request.anchors if point not in self.left)]
        return visits(left, request.options.interleave_repeats, request.options.seed, request.anchors)


def started(request: ProfileRequest) -> list[SweepJournalEntry]:
    """Return the entries in the journal of a request; none where it has begun nothing."""
    identity = identify(request.device, request.workload, request.points[0].task, request.options)
    return entries_in_journal(default_journal_path(request.target.regular, identity, request.points), identity)


def sweep_state(request: ProfileRequest) -> SweepState:
    """Return the state of the file to write, if it was measured in the same way.

    Raises:
        InputError: the file has other content, which needs consent to overwrite; the first difference is named.
    """
    device, workload, points, options = request.device, request.workload, request.points, request.options
    table, path = request.target.earlier(read_profile, "profile"), request.target.path
    if table is None or path is None:
        return SweepState(None, points)
    identity = identify(device, workload, points[0].task, options)
    under_way = {entry.point for entry in started(request)}
    hint = "it is kept; name another file with -o"
    if path.suffix.lower() == ".csv" and "request" not in table.header.inputs and not under_way:
        raise InputError(f"{path} exists, and CSV does not keep the options of its measurement", hint)
    differs = _difference(table, request_header(device, workload, options), identity)
    if differs is None:
        left = missing_points(table, points)
        if under_way <= set(left):
            return SweepState(table, left)
    elif not under_way:
        raise InputError(f"{path} exists and holds another profile: {differs}", hint)
    return SweepState(None, points)  # of a sweep with --fresh, or of one with failures, that is gone on with


def _difference(table: Profile, request: Header, identity: Mapping[str, Any]) -> str | None:
    """Return the difference between a table and a request; ``None`` if it was measured in the same way."""
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


def unfinished(table: Profile) -> list[ProfileRow]:
    """Return the last row of each point and round where that is not a measurement."""
    return [row for row in last_rows(table) if row.status != "ok"]


def last_rows(table: Profile) -> list[ProfileRow]:
    """Return the last row of each point and round."""
    return list({(row.point, row.round): row for row in table.rows}.values())
