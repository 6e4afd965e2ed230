"""``edgetune schedule run``: jobs under a memory budget."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options
from edgetune.workflows.output import begin_outputs

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def run(
    jobs: Annotated[str, typer.Argument(metavar="JOBS", help="A YAML file of networks and jobs.", show_default=False)],
    *,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="LIST",
            help="bulk, linear, deepeye, partial, fcfs, sjf, snf, rr, masa, reuse (the default), optimum; or several; "
            "bulk:external and masa:code are variants.",
        ),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of policies that have variants, e.g. code for masa.")
    ] = None,
    simulate: Annotated[bool, typer.Option("--simulate", help="Run on a clock, from what layers take.")] = False,
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="The budget, e.g. 512MiB.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, metavar="N", help="Tasks that run at a time.")] = None,
    turns: Annotated[int, typer.Option(min=1, metavar="N", help="How often each policy runs.")] = 1,
    time_limit: Annotated[
        str,
        typer.Option("--time-limit", metavar="TIME", help="How long optimum looks for the best schedule, simulated."),
    ] = "60s",
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="Nothing arrives after it, e.g. 60s. Default: jobs end.")
    ] = None,
    costs: Annotated[
        str | None, typer.Option(metavar="FILE", help="What layers take, as edgetune schedule profile writes it.")
    ] = None,
    prepared: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where networks are prepared, or will be. Default: a cache.")
    ] = None,
    limit: Annotated[
        str, typer.Option(metavar="HOW", help="What keeps memory within the budget: auto, cgroup or accounted.")
    ] = "auto",
    swap: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Swap beside the memory, 0 for none. Default: what there is.")
    ] = None,
    safety: Annotated[
        float | None, typer.Option(metavar="FACTOR", help="Take layers for so many times their measure. Default: 1.1.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="The timeline. Default: timeline.parquet.")
    ] = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it: svg, png or pdf.")] = None,
    view: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What to draw: responses, gantt, gantt:POLICY or gantt:POLICY@2s-5s."),
    ] = None,
    chrome_trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the JSON that trace viewers open.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Of random arrivals. Default: that of the file.")
    ] = None,
    force: options.Force = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and what it needs.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Run jobs under a memory budget, for real or simulated, by one policy or several in alternation.

    Networks are prepared first where they are not. Every load, execution, unload and request becomes a row of the
    timeline that is written; a summary is printed.

    \b
      edgetune schedule run jobs.yaml --memory 512MiB -o timeline.parquet
      edgetune schedule run jobs.yaml --policy bulk,masa,reuse --turns 5
      edgetune schedule run jobs.yaml --simulate --costs costs.parquet --plot gantt.svg
    """
    from edgetune.cli.run_schedule import run_schedule
    from edgetune.cli.schedule_options import ScheduleOptions
    from edgetune.cli.screen import Screen

    begin_outputs(force=force)
    opts = ScheduleOptions(
        jobs, policy, variant, memory, workers, turns, duration, costs, prepared, limit, swap, safety, time_limit,
        output, plot, view, chrome_trace, seed, simulate=simulate, dry_run=dry_run, json=json,
    )  # fmt: skip
    run_schedule(opts, Screen(quiet, verbose))
