"""``edgetune search``: the best power mode and batch size within budgets, from a table or live on a device."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options
from edgetune.cli.default_command import DefaultGroup
from edgetune.cli.search_evaluate import evaluate

app = typer.Typer(cls=DefaultGroup, rich_markup_mode=None, add_completion=False)
app.command(short_help="Hold strategies against the best of measured tables.")(evaluate)


@app.callback(invoke_without_command=True)
def search(
    source: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A profile (Parquet or CSV), - for standard input, or a MODEL to measure."
        ),
    ] = "-",
    *,
    power_budget: Annotated[str | None, typer.Option(metavar="POWER", help="Mean power at most, e.g. 30W.")] = None,
    latency_budget: Annotated[str | None, typer.Option(metavar="TIME", help="Every answer within, e.g. 80ms.")] = None,
    arrival_rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="Requests to keep up with, e.g. 60/s.")
    ] = None,
    objective: Annotated[
        str | None, typer.Option(metavar="NAME", help="throughput, latency, energy or energy-delay.")
    ] = None,
    margin: Annotated[str, typer.Option(metavar="SHARE", help="Share of each budget to keep free, e.g. 5%.")] = "0%",
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="roofline, gmd (training throughput; about 10 points each), random or exhaustive. Default: gmd where "
            "it can, else exhaustive for a table or few points, else random.",
        ),
    ] = None,
    max_points: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Most points to measure. Default: the strategy's own.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="train|infer", help="The problem. Default: the task of the table.")
    ] = None,
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which network, when the table has several.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", metavar="infer|train", help="Of a MODEL.")] = None,
    device: Annotated[
        str | None, typer.Option("--device", "-d", metavar="NAME", help="Measure a MODEL live on this device.")
    ] = None,
    modes: options.Modes = None,
    batch_sizes: Annotated[
        str | None, typer.Option("--batch-sizes", "-b", metavar="LIST", help="Of a MODEL, e.g. 1,4,16.")
    ] = None,
    dim: options.Dim = None,
    ops: options.Ops = None,
    precision: options.Precision = "fp32",
    inputs: options.Inputs = None,
    point_timeout: options.PointTimeout = options.POINT_TIMEOUT,
    known: Annotated[
        str | None, typer.Option(metavar="FILE", help="A profile measured earlier: its points cost nothing.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="The plan. Default: print it.")
    ] = None,
    trace: Annotated[str | None, typer.Option(metavar="FILE", help="Write every step of the search there.")] = None,
    points: Annotated[
        str | None, typer.Option(metavar="FILE", help="Keep what was measured there, also when stopped; see --known.")
    ] = None,
    seed: options.Seed = 0,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Find the best power mode and batch size within budgets, and print a plan.

    From a table, a point costs a look-up; live, it costs a measurement:

    \b
      edgetune search table.csv --power-budget 30W
      edgetune search zoo:resnet18 --task train --batch-sizes 16 \\
        --device twin:orin-agx --modes grid:441 --power-budget 30W
    """
    from edgetune.cli.offer import Live, open_offer
    from edgetune.cli.run_search import Budgets, Want, carry_out
    from edgetune.cli.screen import Screen

    budgets = Budgets(power_budget, latency_budget, arrival_rate, objective, margin)
    live = Live(device, modes, batch_sizes, task or kind, tuple(dim or ()), precision, ops, inputs, point_timeout)
    want = Want(strategy, max_points, seed, kind or task, known, output, trace, points, json, dry_run)
    with open_offer(source, live, workload=workload, task=kind or task, seed=seed) as offer:
        carry_out(offer, budgets, want, Screen(quiet, verbose))
