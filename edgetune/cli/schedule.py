"""``edgetune schedule``: several networks in little memory, and what is known and made for that beforehand."""

from functools import partial

import typer

from edgetune.cli.app import LazyApp, Subcommand, load
from edgetune.cli.command import PlanningTerminal, command
from edgetune.cli.screen import print_document
from edgetune.workflows.schedule.options import LayerProfileOptions, PreparationOptions, ScheduleOptions

app = LazyApp()


@app.callback()
def schedule(ctx: typer.Context) -> None:
    """Run several networks in little memory, layer by layer, for real or simulated.

    Layers are loaded, executed and unloaded as tasks, such that what is held stays within a budget. Networks are
    prepared once, their layers measured, and then run as a file of jobs says.
    """
    if ctx.invoked_subcommand is None:
        print_document(ctx.get_help())


@command(app, usual=("policy", "memory", "simulate", "costs", "prepared", "workers", "turns", "output", "plot"))
def run(opts: ScheduleOptions, terminal: PlanningTerminal) -> None:
    """Run jobs under a memory budget, for real or simulated, by one policy or several in alternation.

    Networks are prepared first where they are not. Every load, execution, unload and request becomes a row of the
    timeline that is written; a summary is printed.

    \b
      edgetune schedule run jobs.yaml --memory 512MiB -o timeline.parquet
      edgetune schedule run jobs.yaml --policy bulk,masa,reuse --turns 5
      edgetune schedule run jobs.yaml --simulate --costs costs.parquet \\
        --plot gantt.svg
    """
    from edgetune.cli.plot import report_finished
    from edgetune.cli.schedule_report import report_plan
    from edgetune.workflows.schedule.plan import plan_schedule
    from edgetune.workflows.schedule.run import schedule as workflow

    if terminal.dry_run:
        report_plan(plan_schedule(opts, terminal.screen), terminal.screen)
    else:
        report_finished(workflow(opts, terminal.screen), opts, terminal)


@command(app)
def prepare(opts: PreparationOptions, terminal: PlanningTerminal) -> None:
    """Split networks into layers once: a graph and a file of weights for each, and a manifest.

    A layer is an operator with weights and those without that follow it. Its weights are loaded when it is scheduled,
    and given back. Networks that are there already, from the same model with the same options, are kept. The layers
    are checked against the whole network on random inputs before they are put in place.
    """
    from edgetune.cli.schedule_report import report_planned_folders, report_prepared
    from edgetune.workflows.schedule.prepare import plan_preparation
    from edgetune.workflows.schedule.prepare import prepare as workflow

    if terminal.dry_run:
        report_planned_folders(plan_preparation(opts, terminal.screen), terminal)
    else:
        report_prepared(workflow(opts, terminal.screen), terminal)


@command(app)
def profile(opts: LayerProfileOptions, terminal: PlanningTerminal) -> None:
    """Measure what loading and executing each layer takes, and how much memory.

    Every layer is measured alone, in a process of its network, with one thread as edgetune schedule run gives it:
    loading with its file cached by the system, and from storage with --cold; executing on what the layers before it
    made; and the memory that executing adds. With --whole also whole networks, which take more memory than layers: ONNX
    Runtime copies their weights. Ends with 5 when some layers failed; they are in the table with their reason.
    """
    from edgetune.cli.schedule_report import report_layer_costs, report_layer_costs_plan
    from edgetune.workflows.schedule.prepare import plan_layer_profile, profile_layers

    if terminal.dry_run:
        report_layer_costs_plan(*plan_layer_profile(opts, terminal.screen), terminal)
    else:
        report_layer_costs(*profile_layers(opts, terminal.screen), terminal)


app.subcommands["kernels"] = Subcommand(
    "Fill the gaps of critical work on a GPU with best-effort work, kernel by kernel.",
    partial(load, "schedule_kernels"),
)
