"""Tasks that share a GPU kernel by kernel, by one policy or several: on a model of the GPU or on a real one.

plan -> each critical task alone (solo), then all tasks by each policy -> rows and costs -> kernel timeline
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from edgetune.artifacts import kernel_timeline
from edgetune.artifacts.files import name_of
from edgetune.artifacts.header import Header
from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError, PartialError, blaming
from edgetune.serving.clock import Supervision
from edgetune.serving.requests import latencies_s
from edgetune.stages.elastic.bound import BOUNDED, LatencyBound, admitted, latency_bound
from edgetune.stages.elastic.cuda.building import check_source
from edgetune.stages.elastic.cuda.gpu_session import GpuSession
from edgetune.stages.elastic.gpu import GpuTask
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.policies import make_policy
from edgetune.stages.elastic.policies.elastic import Persistent
from edgetune.stages.elastic.policies.simple import SOLO, MultiStream
from edgetune.stages.elastic.timeline import timeline_rows
from edgetune.stages.elastic.view import ElasticPolicy, Record
from edgetune.units import NS
from edgetune.workflows.kernels.options import RunOptions, ShareOptions, SimulateOptions
from edgetune.workflows.kernels.place import Place, gpu_place, model_place, opened
from edgetune.workflows.kernels.plan import KernelRun, check_kernels, include_folders, plan_of
from edgetune.workflows.output import FinishedRun
from edgetune.workflows.reporting import Reporter, Stopping, noting_signals

_POLL_INTERVAL_NS = 100_000_000
"""Delay of a signal on a real GPU, at most."""


@dataclass(slots=True)
class Runs:
    """The runs of a plan at a place, and their results.

    Args:
        plan: The plan.
        place: Where the tasks run.
        stopping: Whether a signal asked to stop.
        rows: Of all policies.
        conditions: What deciding cost in each run, by policy.
        bounds: Of the critical task, by policy.
        refused: The kernels that may not run beside it, each with the reason.
    """

    plan: KernelRun
    place: Place
    stopping: Stopping
    rows: list[KernelTimelineRow] = field(default_factory=list)
    conditions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    bounds: dict[str, LatencyBound] = field(default_factory=dict)
    refused: Sequence[str] = ()

    @property
    def lost(self) -> str | None:
        """Why the GPU cannot be used any more; ``None`` where it can."""
        return None if self.place.session is None else self.place.session.lost

    @property
    def failure(self) -> PartialError | None:
        """The error of a run that lost the GPU, or that ran to its end with failed requests."""
        if self.lost is not None:
            message = f"the GPU cannot be used any more by this process: {self.lost}"
            return PartialError(message, "what ran until then was kept; the timeline says which launches failed")
        failed = [row for row in self.rows if row.event == "request" and row.status == "failed"]
        if not failed or self.stopping.number is not None:
            return None
        tasks = ", ".join(dict.fromkeys(str(row.task) for row in failed))
        policies = ", ".join(dict.fromkeys(row.policy for row in failed))
        message = f"{len(failed)} requests of {tasks} failed (by {policies}), the first: {failed[0].reason}"
        return PartialError(message, "the timeline is written all the same, and has the reason of each")


def simulate(opts: SimulateOptions, reporter: Reporter) -> FinishedRun[KernelTimeline]:
    """Run every critical task alone and all tasks by every policy on a model, and write the timeline.

    Raises:
        InputError: the tasks or options are wrong, or cannot be simulated.
        DeviceError: a figure is asked for, and matplotlib is missing.
    """
    plan = plan_of(opts, reporter)
    reporter.simulated()
    with noting_signals(reporter, "what is being simulated now") as stopping:
        runs = Runs(plan, model_place(plan.gpu), stopping)
        run_all(runs, reporter)
    return _finished(opts, runs, reporter)


def plan_run(opts: RunOptions, reporter: Reporter) -> KernelRun:
    """Compile, and return what ``run`` would run; errors as ``run``."""
    with _ready(opts, reporter) as (_, plan):
        return plan


@contextmanager
def run(opts: RunOptions, reporter: Reporter) -> Iterator[FinishedRun[KernelTimeline]]:
    """Run every critical task alone and all tasks by every policy on a GPU, write the timeline, and yield it.

    The GPU is closed afterwards: a driver that crashes then loses nothing that is shown while the block runs.

    Raises:
        InputError: the tasks or options are wrong, or a kernel does not compile or fit the GPU.
        DeviceError: the GPU, its driver or the compiler is missing, or a figure is asked for without matplotlib.
    """
    with _ready(opts, reporter) as (ready, compiled):
        reporter.info("timing their kernels")
        plan = replace(compiled, tasks=ready.measured(compiled.tasks))
        with noting_signals(reporter, "the launches in flight") as stopping:
            runs = Runs(plan, gpu_place(ready, part=opts.sms is not None, records=opts.blocks), stopping)
            run_all(runs, reporter)
        yield _finished(opts, runs, reporter)


@contextmanager
def _ready(opts: RunOptions, reporter: Reporter) -> Iterator[tuple[GpuSession, KernelRun]]:
    """Open the GPU, compile the tasks, and yield both."""
    if opts.plot is not None and not opts.blocks:
        raise InputError("--plot draws where blocks were, which are not recorded", "add --blocks")
    plan, file = plan_of(opts, reporter), name_of(opts.tasks)
    for task in plan.tasks:
        with blaming(f"{file}: task {task.name}"):
            check_source(task.network)
    include = [*include_folders(plan.document, opts.tasks), *opts.include]
    persistent = Persistent.name in plan.policies
    with opened(
        opts.device, sms=opts.sms, seed=plan.seed, records=opts.blocks, include=include, persistent=persistent
    ) as ready:
        reporter.info(f"compiling for {ready.gpu.name}")
        plan = replace(plan, gpu=ready.gpu, tasks=ready.fitted(plan.tasks))
        with blaming(file):
            check_kernels(plan.tasks, plan.gpu, simulated=False)
        yield ready, plan


def run_all(runs: Runs, reporter: Reporter) -> None:
    """Run every critical task alone, and all tasks that are admitted by every policy, one after another.

    Raises:
        InfeasibleError: no best-effort task is admitted.
    """
    plan = runs.plan
    made = {name: make_policy(name, plan.tasks, runs.place.gpu) for name in plan.policies}
    with progress(reporter, len(plan.runs) * plan.duration_s) as advance:
        words = iter(plan.runs)

        def run_one(name: str, number: int, policy: ElasticPolicy, tasks: Sequence[GpuTask]) -> None:
            if runs.stopping.number is None:
                reporter.detail(next(words))
                if runs.lost is None:
                    _run_one(runs, name, number, policy, tasks=tasks, advance=advance)

        for number, task in enumerate(task for task in plan.tasks if task.critical):
            run_one(SOLO, number, MultiStream(), [task])
        tasks = _admitted(runs, made, reporter)
        for name, policy in made.items():
            run_one(name, 0, policy, tasks)


def _admitted(runs: Runs, policies: Mapping[str, ElasticPolicy], reporter: Reporter) -> Sequence[GpuTask]:
    """Note the worst case of the critical task by each policy; return the tasks that may run beside it.

    The first policy that has a bound decides which, so that all run the same tasks.
    """
    plan, place = runs.plan, runs.place
    alone_s, tasks = max(latencies_s(row for row in runs.rows if row.event == "request"), default=None), plan.tasks
    if alone_s is None:
        if plan.within is not None:
            reporter.info("no critical request was answered alone, so that all best-effort tasks are admitted")
        return tasks
    if plan.within is not None:
        decisive = next(policies[name] for name in BOUNDED if name in policies)
        tasks, runs.refused = admitted(decisive, tasks, place.gpu, place.costs, alone_s=alone_s, within=plan.within)
        for words in runs.refused:
            reporter.info(words)
    for name, policy in policies.items():
        found = latency_bound(policy, tasks, place.gpu, place.costs, alone_s=alone_s)
        if found is not None:
            runs.bounds[name] = found[0]
    return tasks


@contextmanager
def progress(reporter: Reporter, total: float) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with each increment towards a total."""
    with reporter.bar("running", total) as advance:
        yield lambda done: None if advance is None else advance(done, "running")


def _run_one(
    runs: Runs, name: str, number: int, policy: ElasticPolicy, *, tasks: Sequence[GpuTask],
    advance: Callable[[float], None],
) -> None:  # fmt: skip
    """Run tasks by a policy; append its rows and costs, and report its progress in steps of two per cent."""
    plan, place, told_s = runs.plan, runs.place, 0.0
    with place.open_backend(tasks) as backend:
        begin_ns = backend.now_ns()

        def stopped() -> bool:
            return runs.stopping.number is not None or backend.lost is not None

        def note(record: Record) -> None:
            nonlocal told_s
            at_s = min((record.ended_ns - begin_ns) / NS, plan.duration_s)
            if at_s - told_s > plan.duration_s / 50:
                advance(at_s - told_s)
                told_s = at_s

        supervision = Supervision(stopped, None if place.session is None else _POLL_INTERVAL_NS, note)
        loop = ElasticLoop(
            policy, backend, tasks, gpu=place.gpu, duration_s=plan.duration_s, seed=plan.seed, supervision=supervision
        )
        loop.run()
        advance(plan.duration_s - told_s)
    residencies, costs = place.spent(backend, loop)
    records: list[Record] = [*loop.launches, *loop.requests]
    runs.rows += timeline_rows(records, residencies, policy=name, turn=number, begin_ns=begin_ns)
    ended_s = max(((each.ended_ns - begin_ns) / NS for each in loop.requests), default=0.0)
    spent = loop.overhead
    decided = {"decisions": spent.decisions, "decisions_s": spent.decisions_s, "longest_decision_s": spent.longest_s}
    cut = {"stopped_s": min(ended_s, plan.duration_s)} if stopped() else {}
    runs.conditions.setdefault(name, []).append({**decided, **costs, **cut})


def _finished(opts: ShareOptions, runs: Runs, reporter: Reporter) -> FinishedRun[KernelTimeline]:
    """Write the timeline of all runs and return it."""
    plan = runs.plan
    tasks = [
        {
            "name": task.name, "network": task.network.name, "priority": task.priority, "arrivals": task.arrivals,
            "deadline_s": task.deadline_s,
        }
        for task in plan.tasks
    ]  # fmt: skip
    conditions = {
        **runs.place.conditions, "duration_s": plan.duration_s, "seed": plan.seed, "tasks": tasks,
        "policies": runs.conditions, "bounds": plain(runs.bounds), "refused": list(runs.refused),
    }  # fmt: skip
    header = Header.new(
        kernel_timeline.KIND, kernel_timeline.VERSION, inputs={"tasks": opts.tasks}, conditions=conditions
    )
    timeline = KernelTimeline(header, tuple(runs.rows))
    if runs.stopping.number is not None:
        begun = sum(len(costs) for costs in runs.conditions.values())
        not_run = f"; not run: {', '.join(plan.runs[begun:])}" if begun < len(plan.runs) else ""
        where_stopped = f"stopped in: {plan.runs[begun - 1]}" if begun else "stopped before anything ran"
        reporter.info(f"{where_stopped}{not_run}")
    plan.target.write(timeline)
    plan.target.report(reporter)
    return FinishedRun(timeline, plan.target, stopped_by=runs.stopping.number, failure=runs.failure)
