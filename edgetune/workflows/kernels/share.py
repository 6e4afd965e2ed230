"""Tasks that share a GPU kernel by kernel, by one policy or several: on a model of the GPU or on a real one.

plan -> each critical task alone (solo), then all tasks by each policy -> rows and costs -> kernel timeline
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from edgetune.artifacts import kernel_timeline
from edgetune.artifacts.files import name_of
from edgetune.artifacts.header import Header
from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError, PartialError, blaming
from edgetune.serving.clock import EventClock, Supervision
from edgetune.serving.requests import latencies_s
from edgetune.stages.elastic.bound import (
    BOUNDED,
    LatencyBound,
    PreemptionCosts,
    admitted,
    latency_bound,
    measured_costs,
    simulated_costs,
)
from edgetune.stages.elastic.cuda.building import check_source
from edgetune.stages.elastic.cuda.gpu_session import GpuSession
from edgetune.stages.elastic.gpu import Gpu, GpuTask
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.model import GpuTimingModel, note_of, seen_by_policies
from edgetune.stages.elastic.policies import make_policy
from edgetune.stages.elastic.policies.elastic import Persistent
from edgetune.stages.elastic.policies.simple import SOLO, Solo
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stages.elastic.timeline import timeline_rows
from edgetune.stages.elastic.view import ElasticPolicy, GpuBackend, Record, Residency
from edgetune.units import NS
from edgetune.workflows.kernels.gpu import gpu_conditions, opened
from edgetune.workflows.kernels.options import RunOptions, ShareOptions, SimulateOptions
from edgetune.workflows.kernels.plan import KernelRun, check_kernels, include_folders, plan_of
from edgetune.workflows.output import FinishedRun
from edgetune.workflows.reporting import Reporter, Stopping, noting_signals

_MOST_RESIDENCIES = 100_000
"""Kept of each simulated run: some fifty megabytes of memory, and more than a figure can show."""
_POLL_INTERVAL_NS = 100_000_000
"""Delay of a signal on a real GPU, at most."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of tasks by a policy.

    Args:
        plan: The whole run.
        name: Of the policy.
        number: Number of earlier runs of this policy.
        policy: The policy.
        tasks: The tasks that share the GPU.
        stopping: Whether a signal asked to stop.
        advance: Called with each increment of the run's time, s.
    """

    plan: KernelRun
    name: str
    number: int
    policy: ElasticPolicy
    tasks: Sequence[GpuTask]
    stopping: Stopping
    advance: Callable[[float], None]


@dataclass(slots=True)
class Runs:
    """The results of all runs.

    Args:
        rows: Of all policies.
        conditions: What deciding cost in each run, by policy.
        signal: The signal that stopped them; ``None`` where none did.
        lost: Why the GPU cannot be used any more; ``None`` where it can.
        bounds: Of the critical task, by policy.
        refused: The kernels that may not run beside it, each with the reason.
    """

    rows: list[KernelTimelineRow] = field(default_factory=list)
    conditions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    signal: int | None = None
    lost: str | None = None
    bounds: dict[str, LatencyBound] = field(default_factory=dict)
    refused: Sequence[str] = ()

    @property
    def failure(self) -> PartialError | None:
        """The error of a run that lost the GPU, or that ran to its end with failed requests."""
        if self.lost is not None:
            message = f"the GPU cannot be used any more by this process: {self.lost}"
            return PartialError(message, "what ran until then was kept; the timeline says which launches failed")
        failed = [row for row in self.rows if row.event == "request" and row.status == "failed"]
        if not failed or self.signal is not None:
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
        costs = simulated_costs(plan.gpu, plan.model)
        runs = run_all(plan, reporter, stopping, _simulated, costs)
    return _finished(opts, plan, runs, simulated_conditions(plan.gpu, plan.model), reporter)


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
            runs = run_all(plan, reporter, stopping, partial(_on_gpu, ready), measured_costs(plan.gpu))
        conditions = gpu_conditions(ready, part=opts.sms is not None, records=opts.blocks)
        runs.lost = ready.lost
        yield _finished(opts, plan, runs, conditions, reporter)


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
    with opened(
        opts.device,
        sms=opts.sms,
        seed=plan.seed,
        records=opts.blocks,
        include=include,
        persistent=Persistent.name in plan.policies,
    ) as ready:
        reporter.info(f"compiling for {ready.gpu.name}")
        plan = replace(plan, gpu=ready.gpu, tasks=ready.fitted(plan.tasks))
        with blaming(file):
            check_kernels(plan.tasks, plan.gpu, simulated=False)
        yield ready, plan


def run_all(
    plan: KernelRun, reporter: Reporter, stopping: Stopping, run_turn: Callable[[Turn, Runs], None],
    costs: PreemptionCosts,
) -> Runs:  # fmt: skip
    """Run every critical task alone, and all tasks that are admitted by every policy, one after another.

    Args:
        plan: The run.
        reporter: For progress.
        stopping: Whether a signal asked to stop.
        run_turn: Runs tasks by a policy, on a model or a device.
        costs: Times of which the worst case is made.

    Raises:
        InfeasibleError: no best-effort task is admitted.
    """
    found, solos = Runs(), [task for task in plan.tasks if task.critical]
    made = {name: make_policy(name, plan.tasks, plan.gpu) for name in plan.policies}
    with progress(reporter, len(plan.runs) * plan.duration_s) as advance:
        words = iter(plan.runs)

        def run_one(name: str, number: int, policy: ElasticPolicy, tasks: Sequence[GpuTask]) -> None:
            if stopping.number is None:
                reporter.detail(next(words))
                run_turn(Turn(plan, name, number, policy, tasks, stopping, advance), found)

        for number, task in enumerate(solos):
            run_one(SOLO, number, Solo(), [task])
        tasks = _admitted(plan, made, found, costs, reporter)
        for name, policy in made.items():
            run_one(name, 0, policy, tasks)
    found.signal = stopping.number
    return found


def _admitted(
    plan: KernelRun, policies: Mapping[str, ElasticPolicy], runs: Runs, costs: PreemptionCosts, reporter: Reporter
) -> Sequence[GpuTask]:
    """Note the worst case of the critical task by each policy; return the tasks that may run beside it.

    The first policy that has a bound decides which, so that all run the same tasks.
    """
    alone_s = max(latencies_s(row for row in runs.rows if row.event == "request"), default=None)
    gpu, tasks = seen_by_policies(plan.gpu, plan.model), plan.tasks
    if alone_s is None:
        if plan.within is not None:
            reporter.info("no critical request was answered alone, so that all best-effort tasks are admitted")
        return tasks
    if plan.within is not None:
        decisive = next(policies[name] for name in BOUNDED if name in policies)
        tasks, runs.refused = admitted(decisive, tasks, gpu, costs, alone_s=alone_s, within=plan.within)
        for words in runs.refused:
            reporter.info(words)
    for name, policy in policies.items():
        found = latency_bound(policy, tasks, gpu, costs, alone_s=alone_s)
        if found is not None:
            runs.bounds[name] = found[0]
    return tasks


@contextmanager
def progress(reporter: Reporter, total: float) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with each increment towards a total."""
    with reporter.bar("running", total) as advance:
        yield lambda done: None if advance is None else advance(done, "running")


def _simulated(turn: Turn, runs: Runs) -> None:
    """Run tasks by a policy on the model."""
    plan, stopping = turn.plan, turn.stopping
    backend = SimulatedGpu(EventClock(), plan.gpu, turn.tasks, model=plan.model, most_residencies=_MOST_RESIDENCIES)
    loop = _looped(turn, backend, stopped=lambda: stopping.number is not None)
    until_ns = backend.residencies_until_ns
    more = {} if until_ns is None else {"residencies_until_s": until_ns / NS}
    costs = {"blocks": backend.blocks, **more}
    _note(turn, loop, runs, backend.residencies, costs, early=stopping.number is not None)


def _on_gpu(ready: GpuSession, turn: Turn, runs: Runs) -> None:
    """Run tasks by a policy on a GPU that is not lost."""
    if ready.lost is not None:
        return
    stopping = turn.stopping
    with ready.open_backend(turn.tasks) as backend:
        begin_ns = backend.now_ns()
        loop = _looped(
            turn, backend, stopped=lambda: stopping.number is not None or backend.lost is not None,
            poll_interval_ns=_POLL_INTERVAL_NS,
        )  # fmt: skip
    apart_ns = ready.records_apart_ns
    costs = {
        "blocks": sum(each.launch.physical_blocks for each in loop.launches),
        "clocks_apart_s": backend.uncertain_ns / NS,
        "unrecorded_launches": ready.unrecorded,
        **({} if apart_ns is None else {"block_clocks_apart_s": apart_ns / NS}),
    }
    early = stopping.number is not None or backend.lost is not None
    _note(turn, loop, runs, ready.residencies, costs, early=early, begin_ns=begin_ns)


def _looped(
    turn: Turn, backend: GpuBackend, *, stopped: Callable[[], bool], poll_interval_ns: int | None = None
) -> ElasticLoop:
    """Run the loop of a turn, and report its progress in steps of two per cent."""
    duration_s, begin_ns, told_s = turn.plan.duration_s, backend.now_ns(), 0.0

    def note(record: Record) -> None:
        nonlocal told_s
        at_s = min((record.ended_ns - begin_ns) / NS, duration_s)
        if at_s - told_s > duration_s / 50:
            turn.advance(at_s - told_s)
            told_s = at_s

    gpu = seen_by_policies(turn.plan.gpu, turn.plan.model)
    loop = ElasticLoop(
        turn.policy, backend, turn.tasks, gpu=gpu, duration_s=duration_s, seed=turn.plan.seed,
        supervision=Supervision(stopped, poll_interval_ns, note),
    )  # fmt: skip
    loop.run()
    turn.advance(duration_s - told_s)
    return loop


def _note(
    turn: Turn, loop: ElasticLoop, runs: Runs, residencies: Sequence[Residency], costs: Mapping[str, Any], *,
    early: bool, begin_ns: int = 0,
) -> None:  # fmt: skip
    """Append the rows and the costs of a turn to those of the run."""
    records: list[Record] = [*loop.launches, *loop.requests]
    runs.rows += timeline_rows(records, residencies, policy=turn.name, turn=turn.number, begin_ns=begin_ns)
    spent = loop.overhead
    ended_s = max(((each.ended_ns - begin_ns) / NS for each in loop.requests), default=0.0)
    stopped = {"stopped_s": min(ended_s, turn.plan.duration_s)} if early else {}
    decided = {"decisions": spent.decisions, "decisions_s": spent.decisions_s, "longest_decision_s": spent.longest_s}
    runs.conditions.setdefault(turn.name, []).append({**decided, **costs, **stopped})


def simulated_conditions(gpu: Gpu, model: GpuTimingModel) -> dict[str, Any]:
    """Return the conditions of runs on the model of a GPU."""
    return {
        "simulated": True, "device": gpu.name, "gpu": plain(gpu), "model": {"note": note_of(gpu), **plain(model)}
    }  # fmt: skip


def _finished(
    opts: ShareOptions, plan: KernelRun, runs: Runs, where: Mapping[str, Any], reporter: Reporter
) -> FinishedRun[KernelTimeline]:
    """Write the timeline of all runs and return it; ``where`` are the conditions of the GPU."""
    tasks = [
        {
            "name": task.name, "network": task.network.name, "priority": task.priority, "arrivals": task.arrivals,
            "deadline_s": task.deadline_s,
        }
        for task in plan.tasks
    ]  # fmt: skip
    header = Header.new(
        kernel_timeline.KIND,
        kernel_timeline.VERSION,
        inputs={"tasks": opts.tasks},
        conditions={
            **where, "duration_s": plan.duration_s, "seed": plan.seed, "tasks": tasks, "policies": runs.conditions,
            "bounds": plain(runs.bounds), "refused": list(runs.refused),
        },
    )  # fmt: skip
    timeline = KernelTimeline(header, tuple(runs.rows))
    if runs.signal is not None:
        begun = sum(len(costs) for costs in runs.conditions.values())
        not_run = f"; not run: {', '.join(plan.runs[begun:])}" if begun < len(plan.runs) else ""
        where_stopped = f"stopped in: {plan.runs[begun - 1]}" if begun else "stopped before anything ran"
        reporter.info(f"{where_stopped}{not_run}")
    plan.target.write(timeline)
    plan.target.report(reporter)
    return FinishedRun(timeline, plan.target, stopped_by=runs.signal, failure=runs.failure)
