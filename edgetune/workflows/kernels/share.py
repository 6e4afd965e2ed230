"""Tasks that share a GPU kernel by kernel, by one policy or several: on a model of the GPU or on a real one.

plan -> each critical task alone (solo), then all tasks by each policy -> rows and costs -> kernel timeline
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from edgetune.artifacts import kernel_timeline
from edgetune.artifacts.files import name_of
from edgetune.artifacts.header import Header
from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError, PartialError, blaming
from edgetune.serving.clock import Supervision
from edgetune.serving.requests import latencies_s
from edgetune.stages.elastic.bound import BOUNDED, LatencyBound, admitted, describe_bound, latency_bound
from edgetune.stages.elastic.cuda.backend import CudaBackend
from edgetune.stages.elastic.cuda.gpu_session import GpuSession
from edgetune.stages.elastic.gpu import GpuTask
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.policies import make_policy
from edgetune.stages.elastic.policies.elastic import Persistent
from edgetune.stages.elastic.policies.simple import SOLO, MultiStream
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stages.elastic.timeline import timeline_rows
from edgetune.stages.elastic.view import ElasticPolicy, Record
from edgetune.units import NS
from edgetune.workflows.kernels.options import RunOptions, ShareOptions, SimulateOptions
from edgetune.workflows.kernels.place import Place, model_place, opened
from edgetune.workflows.kernels.plan import KernelRun, include_folders, plan_of
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
        reporter: For notes and progress.
        rows: Of all policies.
        conditions: What deciding cost in each run, by policy.
        bounds: Of the critical task, by policy.
        refused: The kernels that may not run beside it, each with the reason.
        lost: Why the GPU cannot be used any more; ``None`` where it can.
    """

    plan: KernelRun
    place: Place
    stopping: Stopping
    reporter: Reporter
    rows: list[KernelTimelineRow] = field(default_factory=list)
    conditions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    bounds: dict[str, LatencyBound] = field(default_factory=dict)
    refused: Sequence[str] = ()
    lost: str | None = None

    @property
    def begun(self) -> int:
        """How many were begun."""
        return sum(len(costs) for costs in self.conditions.values())

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
        runs = Runs(plan, model_place(plan.gpu), stopping, reporter)
        run_all(runs)
    return _finished(opts, runs)


@contextmanager
def run(opts: RunOptions, reporter: Reporter) -> Iterator[FinishedRun[KernelTimeline]]:
    """Run every critical task alone and all tasks by every policy on a GPU, write the timeline, and yield it.

    The GPU is closed afterwards: a driver that crashes then loses nothing that is shown while the block runs.

    Raises:
        InputError: the tasks or options are wrong, or a kernel does not compile or fit the GPU.
        DeviceError: the GPU, its driver or the compiler is missing, or a figure is asked for without matplotlib.
    """
    with planned(opts, reporter) as (plan, place, ready):
        reporter.info("timing their kernels")
        with noting_signals(reporter, "the launches in flight") as stopping:
            runs = Runs(replace(plan, tasks=ready.measured(plan.tasks)), place, stopping, reporter)
            run_all(runs)
        yield _finished(opts, runs)


@contextmanager
def planned(opts: RunOptions, reporter: Reporter) -> Iterator[tuple[KernelRun, Place, GpuSession]]:
    """Open the GPU, compile the tasks, and yield what ``run`` runs; errors as ``run``."""
    if opts.plot is not None and not opts.blocks:
        raise InputError("--plot draws where blocks were, which are not recorded", "add --blocks")
    plan, file = plan_of(opts, reporter), name_of(opts.tasks)
    include = [*include_folders(plan.document, opts.tasks), *opts.include]
    persistent = Persistent.name in plan.policies
    with opened(
        opts.device, sms=opts.sms, seed=plan.seed, records=opts.blocks, include=include, persistent=persistent
    ) as (ready, place):
        reporter.info(f"compiling for {place.gpu.name}")
        with blaming(file):
            tasks = ready.fitted(plan.tasks)
        yield replace(plan, gpu=place.gpu, tasks=tasks), place, ready


def run_all(runs: Runs) -> None:
    """Run every critical task alone, and all tasks that are admitted by every policy, one after another.

    Raises:
        InfeasibleError: no best-effort task is admitted.
    """
    plan = runs.plan
    made = {name: make_policy(name, plan.tasks, runs.place.gpu) for name in plan.policies}
    with progress(runs.reporter, len(plan.runs) * plan.duration_s) as advance:
        for task in (task for task in plan.tasks if task.critical):
            _run_one(runs, SOLO, MultiStream(), [task], advance)
        tasks = _admitted(runs, made)
        for name, policy in made.items():
            _run_one(runs, name, policy, tasks, advance)


def _admitted(runs: Runs, policies: Mapping[str, ElasticPolicy]) -> Sequence[GpuTask]:
    """Note the worst case of the critical task by each policy; return the tasks that may run beside it.

    The first policy that has a bound decides which, so that all run the same tasks.
    """
    plan, place = runs.plan, runs.place
    alone_s, tasks = max(latencies_s(row for row in runs.rows if row.event == "request"), default=None), plan.tasks
    if alone_s is None:
        if plan.within is not None:
            runs.reporter.info("no critical request was answered alone, so that all best-effort tasks are admitted")
        return tasks
    if plan.within is not None:
        decisive = next(policies[name] for name in BOUNDED if name in policies)
        tasks, runs.refused = admitted(decisive, tasks, place.gpu, place.costs, alone_s=alone_s, within=plan.within)
        for words in runs.refused:
            runs.reporter.info(words)
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
    runs: Runs, name: str, policy: ElasticPolicy, tasks: Sequence[GpuTask], advance: Callable[[float], None]
) -> None:
    """Run tasks by a policy, unless the runs are over; append rows and costs, and report progress by two per cent."""
    if runs.stopping.number is not None or runs.lost is not None:
        return
    plan, place, told_s = runs.plan, runs.place, 0.0
    runs.reporter.detail(plan.runs[runs.begun])
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

        supervision = Supervision(stopped, None if place.conditions["simulated"] else _POLL_INTERVAL_NS, note)
        loop = ElasticLoop(
            policy, backend, tasks, gpu=place.gpu, duration_s=plan.duration_s, seed=plan.seed, supervision=supervision
        )
        loop.run()
        advance(plan.duration_s - told_s)
    turns, records = runs.conditions.setdefault(name, []), chain[Record](loop.launches, loop.requests)
    runs.rows += timeline_rows(records, backend.residencies, policy=name, turn=len(turns), begin_ns=begin_ns)
    ended_s = max(((each.ended_ns - begin_ns) / NS for each in loop.requests), default=0.0)
    cut = {"stopped_s": min(ended_s, plan.duration_s)} if stopped() else {}
    turns.append({**_costs(backend, loop), **cut})
    runs.lost = backend.lost


def _costs(backend: SimulatedGpu | CudaBackend, loop: ElasticLoop) -> dict[str, Any]:
    """Return what deciding cost in a run that is over, and what is told of its blocks."""
    spent = loop.overhead
    told = {"decisions": spent.decisions, "decisions_s": spent.decisions_s, "longest_decision_s": spent.longest_s}
    if isinstance(backend, SimulatedGpu):
        told["blocks"] = backend.blocks
        if backend.residencies_until_ns is not None:
            told["residencies_until_s"] = backend.residencies_until_ns / NS
        return told
    told["blocks"] = sum(each.launch.physical_blocks for each in loop.launches)
    told["clocks_apart_s"] = backend.times.uncertain_ns / NS
    told["unrecorded_launches"] = 0 if backend.records is None else backend.records.unrecorded
    if backend.records is not None and backend.lost is None:
        told["block_clocks_apart_s"] = backend.records.timer.uncertain_ns / NS
    return told


def _finished(opts: ShareOptions, runs: Runs) -> FinishedRun[KernelTimeline]:
    """Write the timeline of all runs and return it."""
    plan = runs.plan
    tasks = [
        {
            "name": task.name, "network": task.network.name, "priority": task.priority, "arrivals": task.arrivals,
            "deadline_s": task.deadline_s,
        }
        for task in plan.tasks
    ]  # fmt: skip
    bounds = dict[str, dict[str, Any]]()
    for policy, bound in runs.bounds.items():
        of = (row for row in runs.rows if (row.event, row.policy, row.task) == ("request", policy, bound.task))
        bounds[policy] = {**plain(bound), "said": describe_bound(bound, max(latencies_s(of), default=None))}
    conditions = {
        **runs.place.conditions, "duration_s": plan.duration_s, "seed": plan.seed, "tasks": tasks,
        "policies": runs.conditions, "bounds": bounds, "refused": list(runs.refused),
    }  # fmt: skip
    header = Header.new(
        kernel_timeline.KIND, kernel_timeline.VERSION, inputs={"tasks": opts.tasks}, conditions=conditions
    )
    timeline = KernelTimeline(header, tuple(runs.rows))
    if runs.stopping.number is not None:
        begun = runs.begun
        not_run = f"; not run: {', '.join(plan.runs[begun:])}" if begun < len(plan.runs) else ""
        where_stopped = f"stopped in: {plan.runs[begun - 1]}" if begun else "stopped before anything ran"
        runs.reporter.info(f"{where_stopped}{not_run}")
    plan.target.write(timeline)
    plan.target.report(runs.reporter)
    return FinishedRun(timeline, plan.target, stopped_by=runs.stopping.number, failure=runs.failure)
