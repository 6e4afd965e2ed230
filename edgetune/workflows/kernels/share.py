"""From the options of ``edgetune schedule kernels simulate`` to a kernel timeline, its figures and its drawing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from edgetune.cli.progress import simple_bar
from edgetune.cli.screen import Screen, answer
from edgetune.errors import PartialError
from edgetune.units import NS
from edgetune.workflows.kernels.plan import (
    KernelRun,
    KernelRunOptions,
    check_view,
    plan_of,
    report_plan,
    report_unused,
    target_of,
)
from edgetune.workflows.reporting import SimulationLabel
from edgetune.workflows.stopping import Stopping, noting_signals

if TYPE_CHECKING:
    from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
    from edgetune.elastic.backend import Record
    from edgetune.elastic.gpu import Gpu
    from edgetune.elastic.model import GpuTimingModel
    from edgetune.elastic.view import ElasticPolicy
    from edgetune.elastic.work import GpuTask
    from edgetune.workflows.output import Target

_MOST_RESIDENCIES = 100_000
"""Of each run: some fifty megabytes of memory, and more than a figure can show."""

RunOne = Callable[
    [
        "KernelRun",
        "KernelSimulationResult",
        str,
        int,
        "ElasticPolicy",
        Sequence["GpuTask"],
        "Stopping",
        Callable[[float], None],
    ],
    None,
]
"""Runs tasks by a policy (its name, its turn, itself) until somebody stops it, puts what came of it into the outcome,
and tells how much of the time has passed, s."""


@dataclass(slots=True)
class KernelSimulationResult:
    """What came of all runs.

    Args:
        rows: Of all policies.
        conditions: What deciding cost, by policy.
        blocks: Physical blocks that were run.
    """

    rows: list[KernelTimelineRow] = field(default_factory=list)
    conditions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    blocks: int = 0


def run_kernel_simulate(opts: KernelRunOptions, screen: Screen) -> None:
    """Run every critical task alone and all tasks by every policy, write the timeline and say what came of it.

    Raises:
        InputError, DeviceError: see the command's help.
        PartialError: requests failed; the timeline is written.
        typer.Exit: stopped by a signal; what ran until then is written.
    """
    from edgetune.artifacts.io import read_kernel_tasks
    from edgetune.cli.schedule_plot import check_figure

    document = read_kernel_tasks(opts.tasks)
    check_figure(opts.plot, opts.view)
    plan, target = plan_of(opts, document), target_of(opts, document)
    check_view(opts, plan)
    report_unused(plan, screen)
    if opts.dry_run:
        report_plan(plan, screen)
        return
    SimulationLabel(True, screen).announce()
    outcome = KernelSimulationResult()
    with noting_signals(screen, "what is being simulated now") as stopping:
        run_all(plan, outcome, screen, stopping, simulate_one)
    timeline = timeline_of(opts.tasks, plan, outcome, simulated_on(plan.gpu, plan.model))
    report_stopped(plan, outcome, stopping, screen)
    finish(opts, timeline, target, screen)
    if stopping.number is not None:
        raise typer.Exit(128 + stopping.number)
    check_answered(timeline)


def run_all(
    plan: KernelRun, outcome: KernelSimulationResult, screen: Screen, stopping: Stopping, run_one: RunOne
) -> None:
    """Run every critical task alone, and all tasks by every policy, one after another.

    Args:
        plan: What is to run.
        outcome: Where everything is put.
        screen: For progress.
        stopping: Whether somebody asked to stop.
        run_one: Runs tasks by a policy, on a model or a device.
    """
    from edgetune.elastic.policies import make_policy
    from edgetune.elastic.policies.multistream import SOLO, Solo
    from edgetune.elastic.tables import read_tables

    kept = read_tables(plan.kept, plan.gpu)
    critical = [task for task in plan.tasks if task.critical]
    runs: list[tuple[str, int, Callable[[], ElasticPolicy], Sequence[GpuTask]]] = []
    runs += [(SOLO, turn, Solo, [task]) for turn, task in enumerate(critical)]
    for name in plan.policies:
        runs.append((name, 0, partial(make_policy, name, plan.tasks, plan.gpu, kept=kept), plan.tasks))
    with bar(screen, len(runs) * plan.duration_s) as advance:
        for name, turn, make, tasks in runs:
            if stopping.number is not None:
                return
            screen.detail(name if turn == 0 and name != SOLO else f"{tasks[0].name} alone")
            run_one(plan, outcome, name, turn, make(), tasks, stopping, advance)


def report_stopped(plan: KernelRun, outcome: KernelSimulationResult, stopping: Stopping, screen: Screen) -> None:
    """Say which runs somebody stopped before their time, and which before they began."""
    from edgetune.elastic.policies.multistream import SOLO

    if stopping.number is None:
        return
    critical = [f"{task.name} alone" for task in plan.tasks if task.critical]
    opts = [*critical, *plan.policies]
    begun = len(outcome.conditions.get(SOLO, ())) + sum(name in outcome.conditions for name in plan.policies)
    not_run = f"; not run: {', '.join(opts[begun:])}" if begun < len(opts) else ""
    screen.info(f"stopped in: {opts[begun - 1]}{not_run}" if begun else f"stopped before anything ran{not_run}")


def simulate_one(  # noqa: PLR0917 -- as RunOne
    plan: KernelRun,
    outcome: KernelSimulationResult,
    name: str,
    turn: int,
    policy: ElasticPolicy,
    tasks: Sequence[GpuTask],
    stopping: Stopping,
    advance: Callable[[float], None],
) -> None:
    """Run tasks by a policy on the model; see ``RunOne``."""
    from edgetune.elastic.simulated import simulate
    from edgetune.elastic.timeline import timeline_rows

    told_s = 0.0

    def note(record: Record) -> None:
        nonlocal told_s
        at_s = min(record.ended_ns / NS, plan.duration_s)
        if at_s - told_s > plan.duration_s / 50:
            advance(at_s - told_s)
            told_s = at_s

    done = simulate(
        policy, tasks, plan.gpu, duration_s=plan.duration_s, seed=plan.seed, model=plan.model,
        most_residencies=_MOST_RESIDENCIES, on_record=note,
        stopped=lambda: stopping.number is not None,
    )  # fmt: skip
    advance(plan.duration_s - told_s)
    outcome.rows += timeline_rows([*done.launches, *done.requests], done.residencies, policy=name, turn=turn)
    outcome.blocks += done.blocks
    cost = done.overhead
    told = {"decisions": cost.decisions, "decisions_s": cost.decisions_s, "longest_decision_s": cost.longest_s}
    ended_s = max((each.ended_ns / NS for each in done.requests), default=0.0)
    stopped = {} if stopping.number is None else {"stopped_s": min(ended_s, plan.duration_s)}
    cut = {} if done.residencies_until_s is None else {"residencies_until_s": done.residencies_until_s}
    outcome.conditions.setdefault(name, []).append({**told, "blocks": done.blocks, **stopped, **cut})


@contextmanager
def bar(screen: Screen, total: float) -> Iterator[Callable[[float], None]]:
    """Return what to tell how much more of all is done, e.g. how much time of the runs; a bar on terminals only."""
    with simple_bar(screen, "running", total) as advance:
        yield lambda done: None if advance is None else advance(done, "running")


def simulated_on(gpu: Gpu, model: GpuTimingModel | None = None) -> dict[str, Any]:
    """Return the conditions of runs on the model of a GPU; ``None`` for what is usually assumed of it."""
    from edgetune.artifacts.plain import plain
    from edgetune.elastic.model import GpuTimingModel, note_of

    told = {"note": note_of(gpu), **plain(model or GpuTimingModel())}
    return {"simulated": True, "device": gpu.name, "gpu": plain(gpu), "model": told}


def timeline_of(
    name: str, plan: KernelRun, outcome: KernelSimulationResult, where: Mapping[str, Any]
) -> KernelTimeline:
    """Return what came of all runs, with what ran under which conditions; ``where``: on what."""
    from edgetune.artifacts import kernel_timeline
    from edgetune.artifacts.header import Header

    tasks = [
        {
            "name": task.name,
            "network": task.network.name,
            "priority": task.priority,
            "arrivals": task.arrivals,
            "deadline_s": task.deadline_s,
        }
        for task in plan.tasks
    ]
    header = Header.new(
        kernel_timeline.KIND,
        kernel_timeline.VERSION,
        inputs={"tasks": name, **({"kept": list(plan.kept)} if plan.kept else {})},
        conditions={
            **where,
            "duration_s": plan.duration_s,
            "seed": plan.seed,
            "tasks": tasks,
            "policies": outcome.conditions,
        },
    )
    return kernel_timeline.KernelTimeline(header, tuple(outcome.rows))


def finish(opts: KernelRunOptions, timeline: KernelTimeline, target: Target, screen: Screen) -> None:
    """Write the timeline, say what came of it, and draw it."""
    from edgetune.cli.kernel_report import report_answer, show_kernel_timeline
    from edgetune.cli.plot import draw_kept

    target.write(timeline)
    target.report(screen)
    if opts.json:
        answer(report_answer(timeline))
    elif not screen.quiet:
        show_kernel_timeline(timeline, stream=sys.stderr if target.path is None else None)
    draw_kept(timeline, opts.plot, screen, view=opts.view, file=target.file)


def check_answered(timeline: KernelTimeline) -> None:
    """Check that no request failed.

    Raises:
        PartialError: one did; which and why.
    """
    failed = [row for row in timeline.rows if row.event == "request" and row.status == "failed"]
    if failed:
        tasks = ", ".join(dict.fromkeys(str(row.task) for row in failed))
        policies = ", ".join(dict.fromkeys(row.policy for row in failed))
        raise PartialError(
            f"{len(failed)} requests of {tasks} failed (by {policies}), the first: {failed[0].reason}",
            "the timeline is written all the same, and has the reason of each",
        )
