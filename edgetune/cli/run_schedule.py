"""From the options of ``edgetune schedule run`` to a timeline on disk or in the pipe, and its summary on the screen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from edgetune.cli.busy import tell_host_load
from edgetune.cli.choices import choose
from edgetune.cli.kept_rows import keep_rows, write_run
from edgetune.cli.screen import Label, Screen
from edgetune.cli.stopping import telling_kept
from edgetune.errors import EdgetuneError, ExitCode, InputError
from edgetune.units import format_bytes, parse_bytes, parse_time_s

if TYPE_CHECKING:
    from edgetune.artifacts.jobs import Job, Jobs
    from edgetune.artifacts.rows_file import RowsFile
    from edgetune.cli.output import Target
    from edgetune.cli.schedule_live import Live
    from edgetune.cli.schedule_networks import Known, Scenario
    from edgetune.cli.schedule_policies import Chosen
    from edgetune.cli.schedule_turns import Outcome, Simulated
    from edgetune.schedule.network import Network
    from edgetune.schedule.request import Request

LIMITS = ("auto", "cgroup", "accounted")
_MOST_BYTES = 1 << 50
"""A pebibyte; the kernel takes what is much larger for a small number."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for, as written on the command line."""

    jobs: str
    policy: str | None
    variant: str | None
    memory: str | None
    workers: int | None
    turns: int
    duration: str | None
    costs: str | None
    prepared: str | None
    limit: str
    swap: str | None
    safety: float | None
    time_limit: str
    output: str | None
    plot: str | None
    view: str | None
    chrome_trace: str | None
    seed: int | None
    simulate: bool = False
    dry_run: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to run.

    Args:
        jobs: As the file has them.
        scenario: Its networks, and where they were measured.
        policies: In the order in which they are compared.
        limit_bytes: Memory that there is.
        workers: How many tasks run at a time.
        seed: Of random arrivals.
        until_s: Nothing arrives later, s; ``None`` where jobs end by themselves.
        safety: What bytes and times of layers are multiplied by, so that the runtime is not surprised.
        live: The job whose arrivals are lines of standard input; ``None`` where there is none.
    """

    jobs: Jobs
    scenario: Scenario
    policies: Sequence[Chosen]
    limit_bytes: int
    workers: int
    seed: int
    until_s: float | None
    safety: float
    live: Job | None

    @property
    def known(self) -> Sequence[Known]:
        """The networks."""
        return self.scenario.known

    @property
    def believed(self) -> dict[str, Network]:
        """What the runtime takes the networks for."""
        from edgetune.schedule.costs import with_safety

        return {each.network.name: with_safety(each.network, self.safety) for each in self.known}

    def requests(self, turn: int) -> tuple[Request, ...]:
        """Return the requests of a turn: the same for every policy."""
        from edgetune.schedule.jobs import check_tasks, requests_of

        service_s = {each.network.name: each.network.service_s for each in self.known}
        found = requests_of(self.jobs.jobs, service_s, seed=(self.seed, turn), until_s=self.until_s)
        check_tasks(found, [each.network for each in self.known])
        return found


def carry_out(asked: Asked, screen: Screen) -> None:
    """Run every policy in turn, write the timeline and say what came of it.

    Raises:
        InputError, InfeasibleError, DeviceError: see the command's help.
        typer.Exit: stopped by a signal; what ran until then is written.
    """
    from edgetune.artifacts.io import read_jobs
    from edgetune.artifacts.timeline import TimelineRow
    from edgetune.cli.cache_folder import prepared_folder
    from edgetune.cli.schedule_networks import known_networks
    from edgetune.cli.schedule_plot import check_figure
    from edgetune.cli.schedule_policies import choose_policies
    from edgetune.cli.schedule_timeline import timeline_of
    from edgetune.cli.schedule_turns import Outcome

    jobs = read_jobs(asked.jobs)
    policies = choose_policies(asked.policy or jobs.policy, asked.variant)
    choose(asked.limit, LIMITS, what="limit")
    limit_bytes, safety = _limit_bytes(asked, jobs), _safety(asked)
    _swap_bytes(asked)
    parse_time_s(asked.time_limit, what="--time-limit")
    until_s = None if asked.duration is None else parse_time_s(asked.duration, what="--duration")
    live = _live(asked, jobs, len(policies))
    check_figure(asked.plot, asked.view)
    target = _target(asked, jobs)
    folder = Path(asked.prepared) if asked.prepared is not None else prepared_folder()
    with telling_kept(screen, lambda: f"networks prepared by now are in {folder}, and the same command goes on"):
        scenario = known_networks(jobs, asked.costs, folder, simulate=asked.simulate, screen=screen)
    seed = jobs.seed if asked.seed is None else asked.seed
    plan = Plan(jobs, scenario, policies, limit_bytes, _workers(asked, jobs), seed, until_s, safety, live)
    requests = plan.requests(0)
    if asked.dry_run:
        from edgetune.cli.schedule_dry_run import tell_dry_run

        tell_dry_run(asked, plan, requests, screen)
        _rehearse(asked, plan, requests, screen)
        return
    Label(asked.simulate).say()
    if not asked.simulate:
        tell_host_load(screen)
    rows = keep_rows(target, lambda: timeline_of(asked, plan, Outcome()), TimelineRow, screen)
    _finish(asked, plan, _run(asked, plan, rows, screen), target, screen, rows=rows)


def _live(asked: Asked, jobs: Jobs, policies: int) -> Job | None:
    """Return the job whose arrivals are lines of standard input, which is read once, in real time.

    Raises:
        InputError: several turns or jobs would read it, or it has the jobs, or time is only computed.
    """
    from edgetune.schedule.jobs import live_jobs

    live = live_jobs(jobs.jobs)
    if not live:
        return None
    if asked.jobs == "-":
        message = f"standard input cannot be both the jobs and the requests of {live[0].name}"
        raise InputError(message, "give the jobs as a file")
    if asked.simulate:
        message = f"requests of {live[0].name} come line by line in real time, and a simulation has none"
        raise InputError(message, "write arrivals: trace:FILE")
    if policies * asked.turns > 1:
        message = f"standard input is read once, and {policies * asked.turns} turns are to answer it"
        raise InputError(message, "name one policy and one turn, or write arrivals: trace:FILE")
    return live[0]


def _limit_bytes(asked: Asked, jobs: Jobs) -> int:
    limit_bytes = jobs.memory_bytes if asked.memory is None else parse_bytes(asked.memory, what="--memory")
    if limit_bytes is None:
        raise InputError(f"{asked.jobs} has no memory budget", "add --memory 512MiB, or write memory: 512MiB into it")
    if limit_bytes > _MOST_BYTES:
        raise InputError(f"the memory budget is {format_bytes(limit_bytes)}, which no machine has", "e.g. 512MiB")
    return limit_bytes


def _workers(asked: Asked, jobs: Jobs) -> int:
    from edgetune.artifacts.jobs import MOST_WORKERS

    workers = asked.workers or jobs.workers
    if workers > MOST_WORKERS:
        raise InputError(f"there are to be {workers} workers, at most {MOST_WORKERS} can be", "e.g. 2")
    return workers


def _safety(asked: Asked) -> float:
    from edgetune.schedule.costs import SAFETY

    safety = SAFETY if asked.safety is None else asked.safety
    if not 1 <= safety < float("inf"):
        raise InputError(
            f"--safety is {safety:g}", "layers are taken for so many times their measure, e.g. 1.1; 1 trusts it"
        )
    return safety


def _target(asked: Asked, jobs: Jobs) -> Target:
    """Return where the timeline goes; no file that is read is written, and none twice.

    Raises:
        InputError: one would be, or a file cannot be made.
    """
    from edgetune.cli.kept_files import check_outputs
    from edgetune.cli.output import choose_target

    target = choose_target(asked.output, "timeline.parquet", last=True, json=asked.json)
    inputs = [asked.jobs, asked.costs, *(each.costs for each in jobs.networks)]
    inputs += [file for each in jobs.networks for file in (each.reference, each.inputs, each.handler)]
    outputs = {
        "-o": target.file,
        "--plot": asked.plot,
        "--chrome-trace": asked.chrome_trace,
    }
    check_outputs(outputs, inputs, {"-o": "timeline", "--chrome-trace": "event trace"})
    return target


def _run(asked: Asked, plan: Plan, rows: RowsFile | None, screen: Screen) -> Outcome:
    from edgetune.cli.schedule_turns import run_turns

    if asked.simulate:
        return run_turns(plan.policies, asked.turns, plan.requests, _simulated(asked, plan), screen, rows=rows)
    with _live_runner(asked, plan, rows) as live:
        return run_turns(plan.policies, asked.turns, plan.requests, live, screen)


def _rehearse(asked: Asked, plan: Plan, requests: Sequence[Request], screen: Screen) -> None:
    """Say what the process that runs takes itself, and what is left for networks, by each form that policies take.

    Raises:
        InputError, InfeasibleError, DeviceError: what the run would be refused for.
    """
    from edgetune.cli.schedule_dry_run import tell_taken

    by_form = {policy.form: policy for policy in reversed(plan.policies)}
    if asked.simulate:
        simulated = _simulated(asked, plan)
        for policy in by_form.values():
            tell_taken(policy, simulated.check(policy, requests), plan.limit_bytes, screen)
        return
    with _live_runner(asked, plan) as live:
        for policy in by_form.values():
            tell_taken(policy, live.rehearse(policy, requests).base_bytes or 0, plan.limit_bytes, screen)


def _simulated(asked: Asked, plan: Plan) -> Simulated:
    from edgetune.cli.schedule_turns import Simulated

    networks = {each.network.name: each.network for each in plan.known}
    return Simulated(
        networks, plan.believed, plan.limit_bytes, plan.workers, plan.scenario.cores,
        parse_time_s(asked.time_limit, what="--time-limit"), plan.scenario.host,
    )  # fmt: skip


def _live_runner(asked: Asked, plan: Plan, rows: RowsFile | None = None) -> Live:
    from edgetune.cli.schedule_live import Live

    return Live(
        plan.known, plan.believed, plan.limit_bytes, plan.workers, asked.limit, _swap_bytes(asked), plan.seed,
        plan.live, plan.until_s, rows,
    )  # fmt: skip


def _swap_bytes(asked: Asked) -> int | None:
    if asked.swap is None:
        return None
    return 0 if asked.swap.strip() in ("0", "none") else parse_bytes(asked.swap, what="--swap")


def _finish(
    asked: Asked, plan: Plan, outcome: Outcome, target: Target, screen: Screen, *, rows: RowsFile | None
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
    timeline = timeline_of(asked, plan, outcome)
    try:
        write_run(target, timeline, rows, screen)
        if asked.chrome_trace is not None:
            from edgetune.schedule.chrome_trace import chrome_trace

            written = write_atomically(chrome_trace(timeline).encode(), asked.chrome_trace)
            screen.say(f"wrote {written}")
    except (EdgetuneError, OSError) as error:  # a full disk: the figures at least are told
        outcome.failure = outcome.failure or error
    for policy, lost in outcome.lost.items():
        screen.say(f"{policy}: {lost.message}")
    if asked.json:
        answer(report_answer(timeline))
    elif not screen.quiet:
        show_timeline(timeline, stream=sys.stderr if target.path is None else None)
    draw_kept(timeline, asked.plot, screen, view=asked.view, file=target.file)
    if outcome.failure is not None:
        raise outcome.failure
    if outcome.stopped_by is not None:
        raise typer.Exit(128 + outcome.stopped_by)
    if outcome.lost:
        raise typer.Exit(ExitCode.PARTIAL)
