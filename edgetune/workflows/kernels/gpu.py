"""From the options of ``edgetune schedule kernels run`` to a kernel timeline of a real GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from edgetune.cli.launch_costs import costs_folder
from edgetune.cli.screen import Screen
from edgetune.elastic.cuda.driver import WITHOUT
from edgetune.errors import InputError, PartialError, blaming
from edgetune.units import NS
from edgetune.workflows.cache_folder import compiled_folder
from edgetune.workflows.kernels.plan import (
    KernelRun,
    KernelRunOptions,
    check_kernels,
    check_view,
    plan_of,
    report_plan,
    report_unused,
    target_of,
)
from edgetune.workflows.kernels.share import (
    KernelSimulationResult,
    check_answered,
    finish,
    report_stopped,
    run_all,
    timeline_of,
)
from edgetune.workflows.stopping import Stopping, noting_signals

if TYPE_CHECKING:
    from edgetune.artifacts.kernel_tasks import KernelTasks
    from edgetune.elastic.backend import Record
    from edgetune.elastic.cuda.context import Context
    from edgetune.elastic.cuda.gpu_session import GpuSession
    from edgetune.elastic.cuda.program import Build
    from edgetune.elastic.view import ElasticPolicy
    from edgetune.elastic.work import GpuTask, KernelSequence

_LOOK_NS = 100_000_000
"""How soon a signal is noted, at the latest."""


@dataclass(frozen=True, slots=True)
class KernelDeviceOptions:
    """Where to run, as written on the command line.

    Args:
        device: E.g. ``nvidia:0``.
        sms: Multiprocessors to use; ``None`` for all.
        records: Whether blocks write down where they run.
        include: Folders of headers.
    """

    device: str
    sms: int | None
    records: bool
    include: tuple[str, ...] = ()


def gpu_index(device: str, without: str = WITHOUT) -> int:
    """Return the number in ``nvidia:0``.

    Args:
        device: As it was asked for.
        without: What can be done without a GPU, for the hint.

    Raises:
        InputError: it is no NVIDIA GPU.
    """
    kind, _, number = device.partition(":")
    if kind == "jetson" and not number:
        return 0
    if kind != "nvidia" or not number.isdecimal():
        raise InputError(f"CUDA kernels do not run on {device!r}", f"write nvidia:0; {without}")
    return int(number)


@contextmanager
def opened(where: KernelDeviceOptions, *, seed: int = 0) -> Iterator[GpuSession]:
    """Open the GPU that was asked for.

    Raises:
        InputError: it is no NVIDIA GPU.
        DeviceError: cuda-bindings, the driver or the GPU is missing; the message says which, and that simulating works.
    """
    from edgetune.elastic.compiler import CompileOptions
    from edgetune.elastic.cuda.gpu_session import open_gpu_session
    from edgetune.elastic.cuda.program import build

    def builder(network: KernelSequence, context: Context, recorded: bool) -> Build:
        options = CompileOptions(include=where.include)
        return build(network, context, recorded=recorded, options=options, cache=compiled_folder())

    index = gpu_index(where.device)
    with open_gpu_session(
        index, sm_count=where.sms, recorded=where.records, seed=seed, launch_s=known_launch_s, builder=builder
    ) as ready:
        yield ready


def known_launch_s(context: Context) -> float:
    """Return how soon a kernel can follow another on a GPU, s: as it was measured before, else as it is now.

    What is measured now is kept.
    """
    from edgetune.elastic.cuda.calibrate import calibrate, compiled_for, costs_of, costs_path, write_costs

    costs = costs_of(context.facts, costs_folder())
    if costs is None:
        with context.scope():
            costs = calibrate(context, compiled_for(context))
        with suppress(InputError, OSError):  # a cache that cannot be written is no reason not to run
            costs_folder().mkdir(parents=True, exist_ok=True)
            write_costs(costs, costs_path(context.facts, costs_folder()))
    return costs.reaction_s


def run_kernel_device(opts: KernelRunOptions, where: KernelDeviceOptions, screen: Screen) -> None:
    """Run every critical task alone and all tasks by every policy on a GPU; write the timeline and say what came of it.

    Raises:
        InputError, DeviceError: see the command's help.
        PartialError: a kernel failed, or hangs; what ran until then is written.
        typer.Exit: stopped by a signal; what ran until then is written.
    """
    from edgetune.artifacts.files import name_of
    from edgetune.artifacts.io import read_kernel_tasks
    from edgetune.cli.schedule_plot import check_figure
    from edgetune.elastic.cuda.program import check_source

    document = read_kernel_tasks(opts.tasks)
    check_figure(opts.plot, opts.view)
    plan, target = plan_of(opts, document, simulated=False), target_of(opts, document)
    check_view(opts, plan)
    file = name_of(opts.tasks)
    for task in plan.tasks:
        with blaming(f"{file}: task {task.name}"):
            check_source(task.network)
    where = replace(where, include=(*_beside(opts, document), *where.include))
    with opened(where, seed=plan.seed) as ready:
        screen.info(f"compiling for {ready.gpu.name}")
        plan = replace(plan, gpu=ready.gpu, tasks=ready.fitted(plan.tasks))
        with blaming(file):
            check_kernels(plan.tasks, plan.gpu, simulated=False)
        report_unused(plan, screen)
        if opts.dry_run:
            report_plan(plan, screen)
            return
        outcome = KernelSimulationResult()
        screen.info("timing their kernels")
        plan = replace(plan, tasks=ready.measured(plan.tasks))
        with noting_signals(screen, "the launches in flight") as stopping:
            run_all(plan, outcome, screen, stopping, on(ready))
        timeline = timeline_of(opts.tasks, plan, outcome, conditions(ready, where))
        report_stopped(plan, outcome, stopping, screen)
        finish(opts, timeline, target, screen)
        if ready.lost is not None:
            message = f"the GPU cannot be used any more by this process: {ready.lost}"
            raise PartialError(message, "what ran until then was kept; the timeline says which launches failed")
    if stopping.number is not None:
        raise typer.Exit(128 + stopping.number)
    check_answered(timeline)


def _beside(opts: KernelRunOptions, document: KernelTasks) -> Iterator[str]:
    """Yield the folders of source files, where headers are looked for first."""
    folder = Path() if opts.tasks == "-" else Path(opts.tasks).parent
    sources = (each.source for each in document.networks if each.source is not None)
    yield from dict.fromkeys(str((folder / source).parent) for source in sources)


def on(ready: GpuSession) -> Callable[..., None]:
    """Return what runs tasks by a policy on a GPU; see ``run_kernel_simulate.RunOne``."""
    from edgetune.elastic.loop import ElasticLoop
    from edgetune.elastic.timeline import timeline_rows

    def run_one(  # noqa: PLR0917 (as ``RunOne`` says)
        plan: KernelRun,
        outcome: KernelSimulationResult,
        name: str,
        turn: int,
        policy: ElasticPolicy,
        tasks: Sequence[GpuTask],
        stopping: Stopping,
        advance: Callable[[float], None],
    ) -> None:
        if ready.lost is not None:
            return
        with ready.stage(tasks) as backend:
            begin_ns, told_s = backend.now_ns(), 0.0

            def note(record: Record) -> None:
                nonlocal told_s
                at_s = min((record.ended_ns - begin_ns) / NS, plan.duration_s)
                if at_s - told_s > plan.duration_s / 50:
                    advance(at_s - told_s)
                    told_s = at_s

            loop = ElasticLoop(
                policy,
                backend,
                tasks,
                gpu=plan.gpu,
                duration_s=plan.duration_s,
                seed=plan.seed,
                poll_interval_ns=_LOOK_NS,
                stopped=lambda: stopping.number is not None or backend.lost is not None,
                on_record=note,
            )
            loop.run()
        advance(plan.duration_s - told_s)
        records: list[Record] = [*loop.launches, *loop.requests]
        outcome.rows += timeline_rows(records, ready.residencies, policy=name, turn=turn, begin_ns=begin_ns)
        blocks = sum(each.launch.physical_blocks for each in loop.launches)
        outcome.blocks += blocks
        cost = loop.overhead
        ended_s = max(((each.ended_ns - begin_ns) / NS for each in loop.requests), default=0.0)
        early = stopping.number is not None or backend.lost is not None
        stopped = {"stopped_s": min(ended_s, plan.duration_s)} if early else {}
        outcome.conditions.setdefault(name, []).append({
            "decisions": cost.decisions, "decisions_s": cost.decisions_s, "longest_decision_s": cost.longest_s,
            "blocks": blocks, "clocks_apart_s": backend.uncertain_ns / NS, "unrecorded_launches": ready.unrecorded,
            **({} if ready.records_apart_ns is None else {"block_clocks_apart_s": ready.records_apart_ns / NS}),
            **stopped,
        })  # fmt: skip

    return run_one


def conditions(ready: GpuSession, where: KernelDeviceOptions) -> dict[str, Any]:
    """Return what figures of a GPU depend on."""
    from edgetune.artifacts.plain import plain

    facts = ready.context.facts
    return {
        "simulated": False,
        "device": facts.gpu.name,
        "gpu": plain(facts.gpu),
        "uuid": facts.uuid,
        "cuda": facts.driver,
        "part_of_the_gpu": where.sms is not None,
        "block_records": where.records,
    }
