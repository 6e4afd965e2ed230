"""``edgetune schedule kernels run``: tasks that share a real GPU kernel by kernel."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import kernel_options, options
from edgetune.workflows.output import begin_outputs

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def run(
    tasks: Annotated[
        str, typer.Argument(metavar="TASKS", help="A YAML file of tasks and networks.", show_default=False)
    ],
    *,
    device: Annotated[
        str, typer.Option("--device", "-d", metavar="NAME", help="nvidia:N, or jetson for its own GPU.")
    ] = "nvidia:0",
    policy: kernel_options.Policy = None,
    duration: kernel_options.Duration = None,
    sms: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Use only so many multiprocessors, by a green context."),
    ] = None,
    blocks: Annotated[
        bool, typer.Option("--blocks", help="Have blocks write down where and when they run, which costs time.")
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option("--include", "-I", metavar="DIR", help="Look for headers here, too. Repeatable."),
    ] = None,
    output: kernel_options.Output = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it: svg, png or pdf; needs --blocks.")] = None,
    view: kernel_options.View = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Of random arrivals and contents. Default: that of the file.")
    ] = None,
    kept: kernel_options.Kept = None,
    force: options.Force = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compile, and say what would run.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Share a GPU among tasks kernel by kernel: by one policy or several.

    Kernels are made elastic and compiled for the GPU at hand; inputs and weights are made up. Every launch and request
    becomes a row of the timeline that is written, with --blocks also every stay of blocks on a multiprocessor; latency
    beside that of each critical task alone, and what was answered, are printed. CUDA cannot stop a kernel that never
    ends: after 30 s without anything the run is given up, and the end of the process stops it.

    \b
      edgetune schedule kernels run tasks.yaml
      edgetune schedule kernels run tasks.yaml --policy sequential,multistream,elastic --duration 10s
      edgetune schedule kernels run tasks.yaml --sms 16 --blocks -o kernels.parquet --plot gantt.svg
    """
    from edgetune.cli.screen import Screen
    from edgetune.errors import InputError
    from edgetune.workflows.kernels.gpu import KernelDeviceOptions, run_kernel_device
    from edgetune.workflows.kernels.plan import KernelRunOptions

    begin_outputs(force=force)
    if plot is not None and not blocks:
        raise InputError("--plot draws where blocks were, which are not recorded", "add --blocks")
    opts = KernelRunOptions(
        tasks, policy, None, duration, output, plot, view, seed, dry_run=dry_run, json=json, kept=tuple(kept or ())
    )
    run_kernel_device(opts, KernelDeviceOptions(device, sms, blocks, tuple(include or ())), Screen(quiet, verbose))
