"""From the options of ``edgetune schedule kernels simulate`` and ``run`` to what is to run, and where it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.cli.screen import Screen
from edgetune.errors import InputError, blaming
from edgetune.units import format_duration, parse_time_s

if TYPE_CHECKING:
    from edgetune.artifacts.kernel_tasks import KernelTasks
    from edgetune.elastic.gpu import Gpu
    from edgetune.elastic.model import GpuTimingModel
    from edgetune.elastic.work import GpuTask
    from edgetune.workflows.output import Target

_DEFAULT_NAME = "kernels.parquet"


@dataclass(frozen=True, slots=True)
class KernelRunOptions:
    """What was asked for, as written on the command line."""

    tasks: str
    policy: str | None
    gpu: str | None
    duration: str | None
    output: str | None
    plot: str | None
    view: str | None
    seed: int | None
    dry_run: bool = False
    json: bool = False
    assume: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelRun:
    """What is to run.

    Args:
        document: As the file has it.
        tasks: Who asks.
        policies: Their names, in the order in which they are compared.
        gpu: On what.
        duration_s: How long requests come, s.
        seed: Of random arrivals.
        model: What is assumed of the GPU where it is simulated; ``None`` for what is usual.
        kept: Files of kept pieces; what is in none of them is worked out.
    """

    document: KernelTasks
    tasks: Sequence[GpuTask]
    policies: Sequence[str]
    gpu: Gpu
    duration_s: float
    seed: int
    model: GpuTimingModel | None = None
    kept: Sequence[str] = ()


def plan_of(opts: KernelRunOptions, document: KernelTasks, *, simulated: bool = True) -> KernelRun:
    """Return what is to run.

    Raises:
        InputError: a policy, GPU, network or duration that there is not, more requests than can be kept, or something
            to simulate that does not fit the GPU or of which nobody knows how long it takes.
    """
    from edgetune.artifacts.files import name_of
    from edgetune.cli.kernel_model import assumed
    from edgetune.elastic.gpu import find_gpu
    from edgetune.elastic.loop import check_tasks
    from edgetune.elastic.tables import read_tables
    from edgetune.elastic.tasks import check_count, tasks_of

    file = name_of(opts.tasks)
    names = _policies(opts, document, file)
    with blaming(file if opts.gpu is None else "--gpu"):
        gpu = find_gpu(document.gpu if opts.gpu is None else opts.gpu)
    gpu, model = assumed(opts.assume, gpu)
    duration_s = document.duration_s if opts.duration is None else parse_time_s(opts.duration, what="--duration")
    seed = document.seed if opts.seed is None else opts.seed
    with blaming(file):
        tasks = tasks_of(document, folder=Path() if opts.tasks == "-" else Path(opts.tasks).parent)
        check_tasks(tasks)
        if simulated:  # of a real GPU the limits are known once it is open, and what is compiled needs is, too
            check_kernels(tasks, gpu)
        check_count(tasks, names, gpu if simulated else None, duration_s=duration_s)
    if simulated:
        read_tables(opts.kept, gpu)
    return KernelRun(document, tasks, names, gpu, duration_s, seed, model, opts.kept)


def _policies(opts: KernelRunOptions, document: KernelTasks, file: str) -> list[str]:
    from edgetune.elastic.policies import find_policy

    words = document.policy if opts.policy is None else opts.policy
    names = [word.strip() for word in words.split(",")]
    with blaming(file if opts.policy is None else "--policy"):
        for name in names:
            find_policy(name)
        if len(set(names)) < len(names):
            raise InputError(f"{words} names a policy twice", "name each once")
    return names


def check_kernels(tasks: Sequence[GpuTask], gpu: Gpu, *, simulated: bool = True) -> None:
    """Check that blocks of all kernels fit on a GPU, and where it is simulated, that it is known how long they take.

    Raises:
        InputError: they do not, or it is not.
    """
    from edgetune.elastic.model import check_fits, check_known

    for task in tasks:
        with blaming(f"task {task.name}, network {task.network.name}"):
            for call in task.network.calls:
                if simulated:
                    check_known(call)
                check_fits(call, gpu)


def target_of(opts: KernelRunOptions, document: KernelTasks) -> Target:
    """Return where the timeline goes; no file that is read is written, and none twice."""
    from edgetune.workflows.output import check_outputs, choose_target

    target = choose_target(opts.output, _DEFAULT_NAME, last=True, json=opts.json)
    outputs = {"-o": target.file, "--plot": opts.plot}
    folder = Path(opts.tasks).parent
    sources = [str(folder / each.source) for each in document.networks if each.source is not None]
    check_outputs(outputs, [opts.tasks, *sources, *opts.kept], {"-o": "kernel_timeline"})
    return target


def check_view(opts: KernelRunOptions, plan: KernelRun) -> None:
    """Refuse a part of the figure that there will not be.

    Raises:
        InputError: there is no such figure, it is of a policy that does not run, or of a time when nothing comes.
    """
    from edgetune.cli.plot import kernel_view
    from edgetune.elastic.policies.multistream import SOLO

    policy, from_s, _ = kernel_view(opts.view or "gantt")
    drawn = [*plan.policies, *([SOLO] if any(task.critical for task in plan.tasks) else [])]
    if policy is not None and policy not in drawn:
        raise InputError(f"--view: policy {policy!r} does not run", f"there will be: {', '.join(drawn)}")
    if from_s is not None and from_s >= plan.duration_s:
        message = (
            f"--view begins at {format_duration(from_s)}, and requests come for {format_duration(plan.duration_s)}"
        )
        raise InputError(message, "choose an earlier part, or run longer with --duration")


def report_unused(plan: KernelRun, screen: Screen) -> None:
    """Say which files of kept pieces nothing will be looked up in."""
    from edgetune.elastic.policies.elastic import Elastic
    from edgetune.elastic.tables import read_tables

    if plan.kept and Elastic.name not in plan.policies:
        screen.info(f"--kept is not used: only the policy {Elastic.name} launches pieces")
        return
    cut = {(call.kernel, call.logical) for task in plan.tasks if not task.critical for call in task.network.calls}
    for file in plan.kept:
        if not cut & read_tables([file], plan.gpu).keys():
            told = "it has no kernel of a best-effort task at the launch that the task makes"
            screen.info(f"--kept {file} is not used: {told}; pieces are worked out")


def report_plan(plan: KernelRun, screen: Screen) -> None:
    """Say what would run."""
    for task in plan.tasks:
        blocks = [call.logical.blocks for call in task.network.calls]
        kernels = "1 kernel" if len(blocks) == 1 else f"{len(blocks)} kernels"
        size = f"{min(blocks)} to {max(blocks)}" if min(blocks) < max(blocks) else f"{max(blocks)}"
        due = "" if task.deadline_s is None else f", due after {format_duration(task.deadline_s)}"
        kind = f"critical, priority {task.priority}" if task.critical else "best effort"
        screen.info(f"{task.name}: {task.network.name}, {kernels} of {size} blocks; {task.arrivals}; {kind}{due}")
    alone = sum(task.critical for task in plan.tasks)
    before = f"{alone} critical task{'' if alone == 1 else 's'} alone before"
    runs = f"{', '.join(plan.policies)}; {before}"
    screen.info(f"{plan.gpu.name}, {plan.gpu.sm_count} multiprocessors, {format_duration(plan.duration_s)}: {runs}")
