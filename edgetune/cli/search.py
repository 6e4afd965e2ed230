"""``edgetune search``: the best power mode and batch size within budgets, from a table or live on a device."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options
from edgetune.cli.default_command import DefaultGroup
from edgetune.cli.options import Root
from edgetune.cli.search_evaluate import evaluate
from edgetune.cli.search_sensitivity import sensitivity
from edgetune.workflows.options import COOL_TIMEOUT, POINT_TIMEOUT
from edgetune.workflows.output import begin_outputs

app = typer.Typer(cls=DefaultGroup, rich_markup_mode=None, add_completion=False)
app.command(short_help="Hold strategies against the best of measured tables.")(evaluate)
app.command(short_help="Say what choosing by a wrong proxy costs.")(sensitivity)


@app.callback(invoke_without_command=True)
def search(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="A profile (Parquet or CSV), or several of one device; - for standard input (the default); or a MODEL "
            "to measure.",
            show_default=False,
        ),
    ] = None,
    *,
    kind: options.Kind = None,
    power_budget: options.PowerBudget = None,
    latency_budget: options.LatencyBudget = None,
    arrival_rate: options.ArrivalRate = None,
    objective: options.Objective = None,
    margin: options.Margin = None,
    problem: Annotated[
        str | None, typer.Option(metavar="FILE", help="Read the problem from YAML, or from a plan; options go first.")
    ] = None,
    background: Annotated[
        str | None, typer.Option(metavar="NAME", help="The second network, without a deadline: its name, or a MODEL.")
    ] = None,
    background_batch: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Samples per minibatch of the second network.")
    ] = None,
    convergence: Annotated[
        str | None, typer.Option(metavar="FILE", help="Epochs to the target accuracy by batch size, for accuracy.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="roofline (the default), pareto, gmd, als, staircase, binary, random, nn, tpe, gp, exhaustive; "
            "or auto: what fits the time there is.",
        ),
    ] = None,
    max_points: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Most points to measure. Default: the strategy's own.")
    ] = None,
    time_budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop measuring after this, e.g. 10m.")
    ] = None,
    reusable: Annotated[
        bool, typer.Option("--reusable", help="Spend the points on every budget, for budgets will change (pareto).")
    ] = False,
    power_noise: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="How much power readings waver; the winner is measured again until it is surely within budget. "
            "Default: 1.5% on a live sensor, 0% from a table or a model.",
        ),
    ] = None,
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which network, when the table has several.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", metavar="infer|train", help="Of a MODEL.")] = None,
    device: Annotated[
        str | None, typer.Option("--device", "-d", metavar="NAME", help="Measure a MODEL live on this device.")
    ] = None,
    root: Root = None,
    modes: options.Modes = None,
    column: options.Column = None,
    batch_sizes: Annotated[
        str | None, typer.Option("--batch-sizes", "-b", metavar="LIST", help="To choose from, e.g. 1,4,16.")
    ] = None,
    dim: options.Dim = None,
    batch_axis: options.BatchAxis = None,
    ops: options.Ops = None,
    precision: options.Precision = None,
    inputs: options.Inputs = None,
    point_timeout: options.PointTimeout = POINT_TIMEOUT,
    cool_to: options.CoolTo = None,
    cool_timeout: options.CoolTimeout = COOL_TIMEOUT,
    known: Annotated[
        str | None, typer.Option(metavar="FILE", help="A profile measured earlier: its points cost nothing.")
    ] = None,
    like: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A profile of another network on this device, as a first guess. Repeatable."),
    ] = None,
    roofline: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The device's roofline, as a first guess with the network's cost."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="The plan. Default: print it.")
    ] = None,
    trace: Annotated[str | None, typer.Option(metavar="FILE", help="Write every step of the search there.")] = None,
    points: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Keep what is measured there; what it holds already costs nothing."),
    ] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw what was measured and the answer: svg, png or pdf.")
    ] = None,
    seed: options.Seed = 0,
    force: options.Force = False,
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
      edgetune search infer.parquet train.parquet --kind train+infer \\
        --power-budget 30W --latency-budget 500ms --arrival-rate 60/s
    """
    from edgetune.cli.screen import Screen
    from edgetune.workflows.search.open_candidates import MeasurementOptions, open_candidates
    from edgetune.workflows.search.problem_options import ProblemOptions, check_kind, read_file
    from edgetune.workflows.search.run import SearchOptions, run_search_command

    begin_outputs(force=force)
    check_kind(kind)
    file = read_file(problem)
    asked_kind = kind or (file.kind if file else None) or task
    budgets = ProblemOptions(
        asked_kind, power_budget, latency_budget, arrival_rate, objective, margin, background, background_batch,
        convergence, file,
    )  # fmt: skip
    live = MeasurementOptions(
        device or (root and "jetson"), modes, batch_sizes, asked_kind, tuple(dim or ()), precision, ops, inputs,
        point_timeout, budgets.second, budgets.second_batch, root, cool_to, cool_timeout,
        tuple(batch_axis or ()), run_code=not dry_run,
    )  # fmt: skip
    opts = SearchOptions(
        strategy, max_points, time_budget, power_noise, reusable, seed, known, tuple(like or ()), roofline, output,
        trace, points, plot, json, dry_run, (*(sources or ()), problem, convergence, roofline, *(like or ())),
    )  # fmt: skip
    with open_candidates(
        sources or ["-"], live, workload=workload, seed=seed, columns=tuple(column or ())
    ) as candidates:
        run_search_command(candidates, budgets, opts, Screen(quiet, verbose))
