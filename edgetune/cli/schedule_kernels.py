"""``edgetune schedule kernels``: best-effort work in the gaps that critical work leaves on a GPU, kernel by kernel."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from edgetune.cli.app import LazyApp
from edgetune.cli.command import PlanningTerminal, Terminal, command
from edgetune.cli.screen import Screen, answer, print_document, print_lines
from edgetune.cli.sections import TextSection
from edgetune.processes.streams import write_bytes
from edgetune.workflows.kernels.options import (
    BenchOptions,
    RunOptions,
    ShrinkOptions,
    SimulateOptions,
    TransformOptions,
)

if TYPE_CHECKING:
    from edgetune.workflows.kernels.plan import KernelRun
    from edgetune.workflows.kernels.transform import Transformed

app = LazyApp()


@app.callback()
def kernels(ctx: typer.Context) -> None:
    """Fill the gaps of critical work on a GPU with best-effort work, kernel by kernel.

    Kernels of best-effort networks are made elastic: they can be launched in pieces that fit into what a resident
    critical kernel leaves free, and get out of its way within one piece.
    """
    if ctx.invoked_subcommand is None:
        print_document(ctx.get_help())


@command(app)
def transform(opts: TransformOptions, terminal: Terminal) -> None:
    """Make the kernels of a CUDA C or PTX file elastic, or say why not.

    CUDA C is compiled to PTX, by NVRTC, with host code by nvcc. All of it stays, and behind it stand the forms of each
    kernel: KERNEL__grid runs any part of the logical blocks on any number of physical ones, KERNEL__block2 and so on
    run several logical threads in a physical one. Results are those of the original, bit by bit. What cannot be shown
    to be safe is refused with a line, a reason and a remedy.

    Launches to check with are comments in the file, // launch KERNEL grid=... , or given here; where there are neither,
    one is guessed, which says nothing of the kernel where it does not suit it. Arguments stand in the order of the
    parameters: TYPE[SIZE] is memory (TYPE[SIZE]:zero, :count, :LOW..HIGH say how it is filled), TYPE:NUMBER a value,
    members of a struct are joined by +. Types have their bits in their names: C's int is int32, float float32, float4
    float4. shared=BYTES is dynamic shared memory. More: edgetune help kernels. A kernel that was not checked is an
    error (exit code 5).

    Of kernels whose source is not there (CUTLASS, Triton) give the PTX; their launches name a kernel by its symbol.

    --check runs all forms in an interpreter of PTX, which needs no GPU, and with --device on a GPU too: each shows what
    the other may not. A GPU has the machine's own code; orders of the interpreter show races that a GPU may hide. CUDA
    runs nothing more after a kernel that fails, so that those behind it are not checked, nor are kernels that do not
    end on the CPU.

    \b
      edgetune schedule kernels transform conv.cu -o conv_elastic.ptx
      edgetune schedule kernels transform conv.cu --explain --check
      edgetune schedule kernels transform conv.cu --check --device nvidia:0
    """
    from edgetune.stages.elastic.kernel import explained, reasons
    from edgetune.workflows.kernels import transform as workflow

    def show_reasons(found: Transformed) -> None:
        if opts.explain and not terminal.json:
            print_lines(*explained(found.done))
        elif not terminal.json:
            for line in reasons(found.done)[not found.made :]:  # where nothing is made, the first one is the error
                terminal.screen.info(line)

    found = workflow.transform(opts, terminal.screen, show_reasons)
    if terminal.json:
        answer(workflow.document(found))
    elif opts.checks and found.made:
        workflow.check_section(found, TextSection(), explain=opts.explain)
    found.require_elastic()
    if opts.output == "-" or not (opts.output or terminal.json or opts.explain or opts.checks):
        source = found.done.source.encode("utf-8", "surrogateescape")
        print_document(source.decode(errors="surrogateescape")) if sys.stdout.isatty() else write_bytes(source)
    workflow.judge(found)


@command(app)
def shrink(opts: ShrinkOptions, terminal: Terminal) -> None:
    """Keep the pieces of a kernel that are worth launching beside a critical kernel.

    Compiles the kernel's elastic forms, which needs no GPU, and drops those that do not fit, that have stack or spills
    which the original has not, or whose smaller blocks take more registers than its blocks. The rest is cut into
    slices; for everything that a critical kernel can leave of the GPU, the best of those that fit are kept: those that
    fill it most, and are not too many to launch. Policies of elastic kernels compute the same before a run.

    \b
      edgetune schedule kernels shrink conv.cu --grid 14,14 --block 16,16
      edgetune schedule kernels shrink conv.cu -k conv --grid 196 --block 256 \\
        --gpu rtx-2060
    """
    from edgetune.workflows.kernels import shrink as workflow

    kept = workflow.shrink(opts, terminal.screen)
    if terminal.json:
        answer(kept.document)
    else:
        workflow.pieces_section(kept, TextSection(), whole=terminal.verbose)


@command(app)
def simulate(opts: SimulateOptions, terminal: PlanningTerminal) -> None:
    """Share a GPU among tasks kernel by kernel, on a model of it: by one policy or several.

    Every launch, request and stay of blocks on a multiprocessor becomes a row of the timeline that is written; latency
    beside that of each critical task alone, and what was answered, are printed. The model knows threads, registers,
    shared memory, peak, bandwidth and launches; it knows no caches and no clocks.

    \b
      edgetune schedule kernels simulate tasks.yaml
      edgetune schedule kernels simulate tasks.yaml \\
        --policy sequential,multistream,elastic --gpu xavier
      edgetune schedule kernels simulate tasks.yaml -o kernels.parquet \\
        --plot gantt.svg --view gantt:elastic@0s-50ms
    """
    from edgetune.cli.plot import report_finished
    from edgetune.workflows.kernels import plan, share

    if terminal.dry_run:
        _report_plan(plan.plan_of(opts, terminal.screen), terminal.screen)
        return
    finished = share.simulate(opts, terminal.screen)
    report_finished(finished, opts, terminal)


@command(app, short_help="Share a GPU among tasks kernel by kernel, on a real one: by one policy or several.")
def run(opts: RunOptions, terminal: PlanningTerminal) -> None:
    """Share a GPU among tasks kernel by kernel: by one policy or several.

    Kernels are made elastic and compiled for the GPU at hand; inputs and weights are made up. Every launch and request
    becomes a row of the timeline that is written, with --blocks also every stay of blocks on a multiprocessor; latency
    beside that of each critical task alone, and what was answered, are printed. CUDA cannot stop a kernel that never
    ends: after 30 s without anything the run is given up, and the end of the process stops it.

    \b
      edgetune schedule kernels run tasks.yaml
      edgetune schedule kernels run tasks.yaml \\
        --policy sequential,multistream,elastic --duration 10s
      edgetune schedule kernels run tasks.yaml --sms 16 --blocks \\
        -o kernels.parquet --plot gantt.svg
    """
    from edgetune.cli.plot import report_finished
    from edgetune.workflows.kernels import share

    if terminal.dry_run:
        with share.planned(opts, terminal.screen) as (planned, *_):
            _report_plan(planned, terminal.screen)
        return
    with share.run(opts, terminal.screen) as finished:
        report_finished(finished, opts, terminal)


@command(app)
def bench(opts: BenchOptions, terminal: Terminal) -> None:
    """Compare policies on critical and best-effort networks that share a GPU.

    The workloads are those of Miriam's benchmark. A: alexnet in a closed loop, and cifarnet. B: squeezenet 10/s, and
    alexnet. C: gru 10/s at random, and resnet. D: lstm 10/s, and squeezenet. Named only: A224, which is A with images
    of 224 x 224 for cifarnet too, and its case study LGSVL, driving: resnet 10/s, and squeezenet 12.5/s. Kernels and
    sizes are ours; what was published is printed beside. Policies take turns; latency is relative to the critical
    network alone, throughput to the sequential policy.

    \b
      edgetune schedule kernels bench
      edgetune schedule kernels bench A B --gpu xavier --policy sequential,elastic
      edgetune schedule kernels bench D --json
      edgetune schedule kernels bench --device nvidia:0 --sms 16
    """
    from edgetune.workflows.kernels import bench as workflow

    figures = workflow.bench(opts, terminal.screen)
    if terminal.json or figures.target.path is None:
        answer(figures.document)
    else:
        workflow.bench_section(figures, TextSection())
    if figures.stopped:
        raise typer.Exit(figures.stopped)


def _report_plan(plan: KernelRun, screen: Screen) -> None:
    """Print the tasks, policies and durations of a planned run."""
    from edgetune.units import format_duration

    for task in plan.tasks:
        blocks = [call.logical.blocks for call in task.network.calls]
        kernels = "1 kernel" if len(blocks) == 1 else f"{len(blocks)} kernels"
        size = f"{min(blocks)} to {max(blocks)}" if min(blocks) < max(blocks) else f"{max(blocks)}"
        due = "" if task.deadline_s is None else f", due after {format_duration(task.deadline_s)}"
        kind = f"critical, priority {task.priority}" if task.critical else "best effort"
        screen.info(f"{task.name}: {task.network.name}, {kernels} of {size} blocks; {task.arrivals}; {kind}{due}")
    alone = sum(task.critical for task in plan.tasks)
    runs = f"{', '.join(plan.policies)}; {alone} critical task{'' if alone == 1 else 's'} alone before"
    screen.info(f"{plan.gpu.name}, {plan.gpu.sm_count} multiprocessors, {format_duration(plan.duration_s)}: {runs}")
