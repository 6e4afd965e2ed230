"""From the options of ``edgetune schedule run`` to a timeline on disk or in the pipe, and its summary on the screen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from edgetune.choices import choose
from edgetune.cli.schedule_options import ScheduleOptions, ScheduleRun
from edgetune.cli.screen import Screen
from edgetune.errors import EdgetuneError, ExitCode, InputError
from edgetune.units import format_bytes, parse_bytes, parse_time_s
from edgetune.workflows.kept_rows import keep_rows, write_run
from edgetune.workflows.load_warning import warn_of_host_load
from edgetune.workflows.reporting import SimulationLabel
from edgetune.workflows.stopping import reporting_saved

if TYPE_CHECKING:
    from edgetune.artifacts.jobs import Job, Jobs
    from edgetune.artifacts.rows_file import RowsFile
    from edgetune.cli.schedule_live import LiveRunner
    from edgetune.cli.schedule_turns import ScheduleResult, SimulatedRunner
    from edgetune.schedule.requests import Request
    from edgetune.workflows.output import Target

LIMITS = ("auto", "cgroup", "accounted")
_MOST_BYTES = 1 << 50
"""A pebibyte; the kernel takes what is much larger for a small number."""


def run_schedule(opts: ScheduleOptions, screen: Screen) -> None:
    """Run every policy in turn, write the timeline and say what came of it.

    Raises:
        InputError, InfeasibleError, DeviceError: see the command's help.
        typer.Exit: stopped by a signal; what ran until then is written.
    """
    from edgetune.artifacts.io import read_jobs
    from edgetune.artifacts.timeline import TimelineRow
    from edgetune.cli.schedule_networks import known_networks
    from edgetune.cli.schedule_policies import choose_policies
    from edgetune.cli.schedule_timeline import timeline_of
    from edgetune.cli.schedule_turns import ScheduleResult
    from edgetune.workflows.cache_folder import prepared_folder
    from edgetune.workflows.timeline_view import check_figure

    jobs = read_jobs(opts.jobs)
    policies = choose_policies(opts.policy or jobs.policy, opts.variant)
    choose(opts.limit, LIMITS, what="limit")
    limit_bytes, safety = _limit_bytes(opts, jobs), _safety(opts)
    _swap_bytes(opts)
    parse_time_s(opts.time_limit, what="--time-limit")
    until_s = None if opts.duration is None else parse_time_s(opts.duration, what="--duration")
    live = _live(opts, jobs, len(policies))
    check_figure(opts.plot, opts.view)
    target = _target(opts, jobs)
    folder = Path(opts.prepared) if opts.prepared is not None else prepared_folder()
    with reporting_saved(screen, lambda: f"networks prepared by now are in {folder}, and the same command goes on"):
        scenario = known_networks(jobs, opts.costs, folder, simulate=opts.simulate, screen=screen)
    seed = jobs.seed if opts.seed is None else opts.seed
    plan = ScheduleRun(jobs, scenario, policies, limit_bytes, _workers(opts, jobs), seed, until_s, safety, live)
    requests = plan.requests(0)
    if opts.dry_run:
        from edgetune.cli.schedule_dry_run import report_dry_run

        report_dry_run(opts, plan, requests, screen)
        _rehearse(opts, plan, requests, screen)
        return
    SimulationLabel(opts.simulate, screen).announce()
    if not opts.simulate:
        warn_of_host_load(screen)
    rows = keep_rows(target, lambda: timeline_of(opts, plan, ScheduleResult()), TimelineRow, screen)
    _finish(opts, plan, _run(opts, plan, rows, screen), target, screen, rows=rows)


def _live(opts: ScheduleOptions, jobs: Jobs, policies: int) -> Job | None:
    """Return the job whose arrivals are lines of standard input, which is read once, in real time.

    Raises:
        InputError: several turns or jobs would read it, or it has the jobs, or time is only computed.
    """
    from edgetune.schedule.jobs import live_jobs

    live = live_jobs(jobs.jobs)
    if not live:
        return None
    if opts.jobs == "-":
        message = f"standard input cannot be both the jobs and the requests of {live[0].name}"
        raise InputError(message, "give the jobs as a file")
    if opts.simulate:
        message = f"requests of {live[0].name} come line by line in real time, and a simulation has none"
        raise InputError(message, "write arrivals: trace:FILE")
    if policies * opts.turns > 1:
        message = f"standard input is read once, and {policies * opts.turns} turns are to answer it"
        raise InputError(message, "name one policy and one turn, or write arrivals: trace:FILE")
    return live[0]


def _limit_bytes(opts: ScheduleOptions, jobs: Jobs) -> int:
    limit_bytes = jobs.memory_bytes if opts.memory is None else parse_bytes(opts.memory, what="--memory")
    if limit_bytes is None:
        raise InputError(f"{opts.jobs} has no memory budget", "add --memory 512MiB, or write memory: 512MiB into it")
    if limit_bytes > _MOST_BYTES:
        raise InputError(f"the memory budget is {format_bytes(limit_bytes)}, which no machine has", "e.g. 512MiB")
    return limit_bytes


def _workers(opts: ScheduleOptions, jobs: Jobs) -> int:
    from edgetune.artifacts.jobs import MOST_WORKERS

    workers = opts.workers or jobs.workers
    if workers > MOST_WORKERS:
        raise InputError(f"there are to be {workers} workers, at most {MOST_WORKERS} can be", "e.g. 2")
    return workers


def _safety(opts: ScheduleOptions) -> float:
    from edgetune.schedule.costs import SAFETY

    safety = SAFETY if opts.safety is None else opts.safety
    if not 1 <= safety < float("inf"):
        raise InputError(
            f"--safety is {safety:g}", "layers are taken for so many times their measure, e.g. 1.1; 1 trusts it"
        )
    return safety


def _target(opts: ScheduleOptions, jobs: Jobs) -> Target:
    """Return where the timeline goes; no file that is read is written, and none twice.

    Raises:
        InputError: one would be, or a file cannot be made.
    """
    from edgetune.workflows.output import check_outputs, choose_target

    target = choose_target(opts.output, "timeline.parquet", last=True, json=opts.json)
    inputs = [opts.jobs, opts.costs, *(each.costs for each in jobs.networks)]
    inputs += [file for each in jobs.networks for file in (each.reference, each.inputs, each.handler)]
    outputs = {
        "-o": target.file,
        "--plot": opts.plot,
        "--chrome-trace": opts.chrome_trace,
    }
    check_outputs(outputs, inputs, {"-o": "timeline", "--chrome-trace": "event trace"})
    return target


def _run(opts: ScheduleOptions, plan: ScheduleRun, rows: RowsFile | None, screen: Screen) -> ScheduleResult:
    from edgetune.cli.schedule_turns import run_turns

    if opts.simulate:
        return run_turns(plan.policies, opts.turns, plan.requests, _simulated(opts, plan), screen, rows=rows)
    with _live_runner(opts, plan, rows) as live:
        return run_turns(plan.policies, opts.turns, plan.requests, live, screen)


def _rehearse(opts: ScheduleOptions, plan: ScheduleRun, requests: Sequence[Request], screen: Screen) -> None:
    """Say what the process that runs takes itself, and what is left for networks, by each form that policies take.

    Raises:
        InputError, InfeasibleError, DeviceError: what the run would be refused for.
    """
    from edgetune.cli.schedule_dry_run import report_memory_taken

    by_form = {policy.form: policy for policy in reversed(plan.policies)}
    if opts.simulate:
        simulated = _simulated(opts, plan)
        for policy in by_form.values():
            report_memory_taken(policy, simulated.check(policy, requests), plan.limit_bytes, screen)
        return
    with _live_runner(opts, plan) as live:
        for policy in by_form.values():
            report_memory_taken(policy, live.rehearse(policy, requests).base_bytes or 0, plan.limit_bytes, screen)


def _simulated(opts: ScheduleOptions, plan: ScheduleRun) -> SimulatedRunner:
    from edgetune.cli.schedule_turns import SimulatedRunner

    networks = {each.network.name: each.network for each in plan.known}
    return SimulatedRunner(
        networks, plan.believed, plan.limit_bytes, plan.workers, plan.scenario.cores,
        parse_time_s(opts.time_limit, what="--time-limit"), plan.scenario.host,
    )  # fmt: skip


def _live_runner(opts: ScheduleOptions, plan: ScheduleRun, rows: RowsFile | None = None) -> LiveRunner:
    from edgetune.cli.schedule_live import LiveRunner

    return LiveRunner(
        plan.known, plan.believed, plan.limit_bytes, plan.workers, opts.limit, _swap_bytes(opts), plan.seed,
        plan.live, plan.until_s, rows,
    )  # fmt: skip


def _swap_bytes(opts: ScheduleOptions) -> int | None:
    if opts.swap is None:
        return None
    return 0 if opts.swap.strip() in ("0", "none") else parse_bytes(opts.swap, what="--swap")


def _finish(
    opts: ScheduleOptions,
    plan: ScheduleRun,
    outcome: ScheduleResult,
    target: Target,
    screen: Screen,
    *,
    rows: RowsFile | None,
) -> None:
    """Write the timeline, draw it and say what came of it.

    Raises:
        BaseException: what ended the run before its time, now that the rows so far are written.
    """
    from edgetune.artifacts.files import write_atomically
    from edgetune.cli.plot import draw_kept
    from edgetune.cli.schedule_report import report_answer, show_timeline
    from edgetune.cli.schedule_timeline import timeline_of
    from edgetune.cli.screen import answer

    if outcome.failure is not None and not outcome.rows:
        if rows is not None:
            (rows.finish if rows.kept else rows.discard)()
        raise outcome.failure
    timeline = timeline_of(opts, plan, outcome)
    try:
        write_run(target, timeline, rows, screen)
        if opts.chrome_trace is not None:
            from edgetune.schedule.timeline import chrome_trace

            written = write_atomically(chrome_trace(timeline).encode(), opts.chrome_trace)
            screen.info(f"wrote {written}")
    except (EdgetuneError, OSError) as error:  # a full disk: the figures at least are told
        outcome.failure = outcome.failure or error
    for policy, lost in outcome.lost.items():
        screen.info(f"{policy}: {lost.message}")
    if opts.json:
        answer(report_answer(timeline))
    elif not screen.quiet:
        show_timeline(timeline, stream=sys.stderr if target.path is None else None)
    draw_kept(timeline, opts.plot, screen, view=opts.view, file=target.file)
    if outcome.failure is not None:
        raise outcome.failure
    if outcome.stopped_by is not None:
        raise typer.Exit(128 + outcome.stopped_by)
    if outcome.lost:
        raise typer.Exit(ExitCode.PARTIAL)
