"""``edgetune schedule kernels bench``: Miriam's benchmark by several policies."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options
from edgetune.workflows.output import begin_outputs

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def bench(
    workloads: Annotated[
        list[str] | None, typer.Argument(metavar="WORKLOAD", help="A, B, C or D. Default: all four.")
    ] = None,
    *,
    policy: Annotated[
        str, typer.Option("--policy", "-p", metavar="LIST", help="Policies, in the order of the first turn.")
    ] = "sequential,multistream,barrier,elastic",
    gpu: Annotated[str, typer.Option(metavar="NAME", help="Which GPU to simulate, e.g. orin-nano.")] = "orin-agx",
    device: Annotated[
        str | None, typer.Option("--device", "-d", metavar="NAME", help="Run on a GPU instead: nvidia:0, or jetson.")
    ] = None,
    sms: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Use only so many multiprocessors of it, by a green context."),
    ] = None,
    turns: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="How often each policy runs.")] = 3,
    duration: Annotated[str, typer.Option(metavar="TIME", help="How long requests come, in each run.")] = "1s",
    load: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Critical requests at a rate such that alone they take this share of the time; A has no rate.",
        ),
    ] = None,
    deadline: Annotated[
        float, typer.Option(min=1, metavar="FACTOR", help="Of critical requests: times their median alone.")
    ] = 2.0,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="The figures, .json. Default: bench.json.")
    ] = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure what policies make of critical and best-effort networks that share a GPU.

    The workloads are those of Miriam's benchmark. A: alexnet in a closed loop, and cifarnet. B: squeezenet 10/s, and
    alexnet. C: gru 10/s at random, and resnet. D: lstm 10/s, and squeezenet. Kernels and sizes are ours; what was
    published is printed beside. Policies take turns; latency is relative to the critical network alone, throughput to
    the sequential policy.

    \b
      edgetune schedule kernels bench
      edgetune schedule kernels bench A B --gpu xavier --policy sequential,elastic
      edgetune schedule kernels bench D --load 30% --json
      edgetune schedule kernels bench --device nvidia:0 --sms 16
    """
    from edgetune.cli.screen import Screen
    from edgetune.workflows.kernels.bench import KernelBenchOptions, run_kernel_bench

    begin_outputs(force=force)
    opts = KernelBenchOptions(
        workloads or [], policy, gpu, device, sms, turns, duration, load, deadline, output, seed, json=json
    )
    run_kernel_bench(opts, Screen(quiet, verbose))
