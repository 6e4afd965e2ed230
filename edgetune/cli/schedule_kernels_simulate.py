"""``edgetune schedule kernels simulate``: tasks that share a GPU kernel by kernel, on a model of one."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import kernel_options, options
from edgetune.workflows.output import begin_outputs

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def simulate(
    tasks: Annotated[
        str, typer.Argument(metavar="TASKS", help="A YAML file of tasks and networks.", show_default=False)
    ],
    *,
    policy: kernel_options.Policy = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which GPU, e.g. orin-nano. Default: that of the file.")
    ] = None,
    duration: kernel_options.Duration = None,
    output: kernel_options.Output = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it: svg, png or pdf.")] = None,
    view: kernel_options.View = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Of random arrivals. Default: that of the file.")
    ] = None,
    assume: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Numbers that no catalogue has: launch, host, gap and turn (times), bandwidth and serial (shares), "
            "saturating (threads), e.g. host=20us. Repeatable.",
        ),
    ] = None,
    kept: kernel_options.Kept = None,
    force: options.Force = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Share a GPU among tasks kernel by kernel, on a model of it: by one policy or several.

    Every launch, request and stay of blocks on a multiprocessor becomes a row of the timeline that is written; latency
    beside that of each critical task alone, and what was answered, are printed. The model knows threads, registers,
    shared memory, peak, bandwidth and launches; it knows no caches and no clocks.

    \b
      edgetune schedule kernels simulate tasks.yaml
      edgetune schedule kernels simulate tasks.yaml --policy sequential,multistream,elastic --gpu xavier
      edgetune schedule kernels simulate tasks.yaml -o kernels.parquet --plot gantt.svg --view gantt:elastic@0s-50ms
    """
    from edgetune.cli.screen import Screen
    from edgetune.workflows.kernels.plan import KernelRunOptions
    from edgetune.workflows.kernels.share import run_kernel_simulate

    begin_outputs(force=force)
    opts = KernelRunOptions(
        tasks,
        policy,
        gpu,
        duration,
        output,
        plot,
        view,
        seed,
        dry_run=dry_run,
        json=json,
        assume=tuple(assume or ()),
        kept=tuple(kept or ()),
    )
    run_kernel_simulate(opts, Screen(quiet, verbose))
