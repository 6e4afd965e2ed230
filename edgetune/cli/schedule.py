"""``edgetune schedule``: several networks in little memory, and what is known and made for that beforehand."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import typer

from edgetune.cli.app import LazyApp, Subcommand, load
from edgetune.cli.command import PlanningTerminal, Terminal, command
from edgetune.cli.screen import answer, print_document, print_lines, table
from edgetune.errors import ExitCode
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
    from edgetune.workflows.schedule.run import dry_run
    from edgetune.workflows.schedule.run import schedule as workflow

    if terminal.dry_run:
        for line in dry_run(opts, terminal.screen):
            terminal.screen.info(line)
    else:
        report_finished(workflow(opts, terminal.screen), opts, terminal)


@command(app)
def prepare(opts: PreparationOptions, terminal: PlanningTerminal) -> None:
    """Split networks into layers once: a graph and a file of weights for each, and a manifest.

    A layer is an operator with weights and those without that follow it. Its weights are loaded when it is scheduled,
    and given back. Networks that are there already, from the same model with the same options, are kept. The layers
    are checked against the whole network on random inputs before they are put in place.
    """
    from edgetune.workflows.schedule.prepare import plan_preparation
    from edgetune.workflows.schedule.prepare import prepare as workflow

    if terminal.dry_run:
        _report(plan_preparation(opts, terminal.screen), _PLANNED, terminal)
    else:
        _report(workflow(opts, terminal.screen), _PREPARED, terminal)


_PLANNED = {"network": "network", "folder": "folder", "weight_bytes": "weights>", "disk_bytes": "on disk about>"}
_PREPARED = {
    "network": "network", "layers": "layers>", "weight_bytes": "weights>", "largest_layer_bytes": "largest layer>",
    "least_budget_bytes": "least budget>", "difference": "differs by at most>",
    "check_peak_bytes": "peak of comparison>",
}  # fmt: skip


def _report(found: Sequence[Mapping[str, Any]], columns: Mapping[str, str], terminal: Terminal) -> None:
    """Print some figures of each network as a table, all of them in JSON."""
    from edgetune.units import format_bytes
    from edgetune.workflows.report.sections import cell

    def shown(key: str, value: Any) -> object:
        return cell(value, format_bytes if key.endswith("_bytes") else ".1e" if isinstance(value, float) else "")

    if terminal.json:
        answer(found)
    else:
        table(list(columns.values()), [[shown(key, each[key]) for key in columns] for each in found])


@command(app)
def profile(opts: LayerProfileOptions, terminal: PlanningTerminal) -> None:
    """Measure what loading and executing each layer takes, and how much memory.

    Every layer is measured alone, in a process of its network, with one thread as edgetune schedule run gives it:
    loading with its file cached by the system, and from storage with --cold; executing on what the layers before it
    made; and the memory that executing adds. Ends with 5 when some layers failed; they are in the table with their
    reason.
    """
    from edgetune.cli.sections import TextSection
    from edgetune.workflows.report.sections import brief, write_sections
    from edgetune.workflows.schedule.prepare import plan_layer_profile, profile_layers

    if terminal.dry_run:
        plan, lines = plan_layer_profile(opts, terminal.screen)
        if terminal.json:
            answer(plan)
        else:
            print_lines(*lines)
        return
    costs, target = profile_layers(opts, terminal.screen)
    if terminal.json:
        answer({"file": str(target.path or "-"), "rows": [brief(row) for row in costs.rows]})
    if not terminal.quiet:
        write_sections(costs, TextSection(sys.stderr, most=20, more=f"edgetune show {target.path or 'FILE'}"))
    if failed := [row for row in costs.rows if row.status != "ok"]:
        first, count = failed[0], f"{len(failed)} of {len(costs.rows)} layers failed"
        terminal.screen.info(f"{count}; {first.network}/{first.layer}: {first.reason}")
        raise typer.Exit(ExitCode.PARTIAL)


app.subcommands["kernels"] = Subcommand(
    "Fill the gaps of critical work on a GPU with best-effort work, kernel by kernel.",
    partial(load, "schedule_kernels"),
)
