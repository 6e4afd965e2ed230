"""``edgetune search evaluate``: how strategies fare on tables in which every point has been measured."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options
from edgetune.workflows.output import begin_outputs


def evaluate(
    tables: Annotated[
        list[str],
        typer.Argument(metavar="TABLE", help="Profiles with every point measured; - for one.", show_default=False),
    ],
    *,
    family: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="train, infer, train+infer, infer+infer, dynamic or accuracy. Default: the task of the tables.",
        ),
    ] = None,
    strategies: Annotated[
        str, typer.Option(metavar="NAME[:POINTS],...", help="Whom to judge, e.g. roofline,gmd,random:250.")
    ] = "roofline,random:250",
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="fulcrum|auto",
            help="Problems of the Fulcrum study, or scaled to each table. Default: the study's for its networks on an "
            "Orin AGX.",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Replay N solvable problems, spread over workloads and power budgets. "
            "Default: 5000 where a strategy searches for each, else all.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Replay every problem.")] = False,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Repeat with so many seeds, from 0.")] = 1,
    noise: Annotated[
        str, typer.Option(metavar="SHARE", help="Deviation of every measured time; powers have half of it. E.g. 3%.")
    ] = "0%",
    tie: Annotated[
        str, typer.Option(metavar="SHARE", help="Excess that is none: noise of the tables, e.g. 3%.")
    ] = "0%",
    by: Annotated[
        str, typer.Option(metavar="strategy|workload", help="Print a row per strategy, or for each workload too.")
    ] = "strategy",
    convergence: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Epochs to the target by batch size, for accuracy. Repeatable."),
    ] = None,
    arrivals: Annotated[
        str | None, typer.Option(metavar="FILE", help="Requests to replay, for dynamic. Default: Poisson, 60/s.")
    ] = None,
    scale: Annotated[
        str | None, typer.Option(metavar="RATE", help="Scale the requests to this mean, e.g. 60/s.")
    ] = None,
    power_budget: Annotated[str, typer.Option(metavar="POWER", help="Of dynamic problems.")] = "40W",
    latency_budget: Annotated[str, typer.Option(metavar="TIME", help="Of dynamic problems.")] = "100ms",
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Processes. Default: as many as there are processors.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="A row per problem. Default: evaluation.parquet."),
    ] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FIGURE", help="Draw the excess of each strategy: .svg, .png or .pdf.")
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Replay a family of problems against tables and hold each strategy's answers against the best there is.

    \b
      edgetune search evaluate train-*.parquet --family train --strategies roofline:10,gmd,random:250

    Strategies that ignore budgets while they measure (random, nn, als, pareto) measure once and answer every problem
    from that; all others search for each problem anew.
    """
    from edgetune.cli.evaluation_options import EvaluationOptions, TrafficOptions
    from edgetune.cli.screen import Screen
    from edgetune.workflows.search.evaluate import run_evaluation

    begin_outputs(force=force)
    traffic = TrafficOptions(arrivals, scale, power_budget, latency_budget)
    opts = EvaluationOptions(
        tuple(tables), family, strategies, grid, sample, everything, seeds, noise, tie, by, tuple(convergence or ()),
        traffic, jobs, output, plot, json,
    )  # fmt: skip
    run_evaluation(opts, Screen(quiet, verbose))
