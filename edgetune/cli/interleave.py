"""``edgetune interleave``: training in the background of answers that are due."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options
from edgetune.cli.options import Root
from edgetune.workflows.output import begin_outputs

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def interleave(
    plan: Annotated[
        str | None,
        typer.Argument(
            metavar="[PLAN]",
            help="A plan, as edgetune search prints it (- reads it from the pipe), or a file of tenants.",
            show_default=False,
        ),
    ] = None,
    *,
    infer: Annotated[str | None, typer.Option("--infer", metavar="MODEL", help="Answers: ONNX file, zoo:NAME.")] = None,
    train: Annotated[
        str | None, typer.Option("--train", metavar="MODEL", help="Trains: Python file, ONNX file, zoo:NAME.")
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(
            "--arrivals",
            metavar="HOW",
            help="uniform:60, poisson:60, closed, trace:FILE, trace:FILE@60/s, or - for a line of input a request.",
        ),
    ] = None,
    latency_budget: options.LatencyBudget = None,
    power_budget: Annotated[
        str | None, typer.Option(metavar="POWER", help="Power at most, e.g. 30W, or 30W,20W@60s from a minute on.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", "-b", min=1, metavar="N", help="Requests answered together.")
    ] = None,
    train_batch_size: Annotated[
        int | None, typer.Option("--train-batch-size", min=1, metavar="N", help="Samples per training minibatch.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", "-e", metavar="LIST", help="managed (the default), native, streams, simulated; or several."
        ),
    ] = None,
    turns: Annotated[
        int, typer.Option("--turns", min=1, max=1000, metavar="N", help="How often each engine runs.")
    ] = 1,
    duration: Annotated[str, typer.Option("--duration", metavar="TIME", help="Of one turn, e.g. 10m.")] = "60s",
    device: options.Device = "auto",
    root: Root = None,
    modes: options.Modes = None,
    profile: Annotated[
        list[str] | None,
        typer.Option("--profile", metavar="FILE", help="Points measured earlier, to plan from. Repeatable."),
    ] = None,
    adapt: Annotated[
        bool, typer.Option("--adapt", help="Plan anew when the rate of requests changes, from known points first.")
    ] = False,
    govern: Annotated[
        bool, typer.Option("--govern", help="Step between measured modes so that power stays within --power-budget.")
    ] = False,
    best_effort: Annotated[bool, typer.Option("--best-effort", help="Run also what cannot be served in time.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say where each millisecond of a cycle goes, and run nothing.")
    ] = False,
    inputs: options.Inputs = None,
    handler: Annotated[
        str | None,
        typer.Option("--handler", metavar="FILE", help="Python file with inputs(request, line) and outputs(...)."),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", metavar="FILE", help="Where the trained state goes.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="FILE", help="A checkpoint that training begins from.")
    ] = None,
    dim: options.Dim = None,
    batch_axis: options.BatchAxis = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="The run. Default: run.parquet.")
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="Draw the run: svg, png, pdf or html; with --explain the cycle."),
    ] = None,
    view: Annotated[
        str | None, typer.Option("--view", metavar="NAME", help="What to draw: latency, timeline or cycle.")
    ] = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Answer requests in time, and train in what is left.

    PLAN says which networks, batch sizes and power mode; options go before it. Without one, name the networks: how long
    they take here is measured first. What cannot be served in time is refused with the nearest rate that can be.

    Every request and every training step becomes a row of the table that is written; a summary is printed.
    """
    from edgetune.cli.screen import Screen
    from edgetune.workflows.interleave.interleave import run_interleave
    from edgetune.workflows.interleave.options import InterleaveOptions
    from edgetune.workflows.interleave.tenants import TenantOptions

    begin_outputs(force=force)
    said = TenantOptions(
        infer, train, arrivals, latency_budget, batch_size, train_batch_size, inputs=inputs, handler=handler,
        checkpoint=checkpoint, resume=resume, batch_axis=",".join(batch_axis or ()) or None,
    )  # fmt: skip
    opts = InterleaveOptions(
        plan, said, device, root, engine, turns, duration, power_budget, modes, tuple(profile or ()),
        tuple(dim or ()), output, plot, view, seed, adapt=adapt, govern=govern, best_effort=best_effort,
        explain=explain, dry_run=dry_run, json=json,
    )  # fmt: skip
    run_interleave(opts, Screen(quiet, verbose))
