"""``edgetune schedule profile``: what loading and executing each layer takes."""

from __future__ import annotations

import sys

import typer

from edgetune.cli.command import PlanningTerminal, command
from edgetune.errors import ExitCode
from edgetune.workflows.schedule.options import LayerProfileOptions

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@command(app)
def profile(opts: LayerProfileOptions, terminal: PlanningTerminal) -> None:
    """Measure what loading and executing each layer takes, and how much memory.

    Every layer is measured alone, in a process of its network, with one thread as edgetune schedule run gives it:
    loading with its file cached by the system, and from storage with --cold; executing on what the layers before it
    made; and the memory that executing adds. Then, by two threads on the largest network, what tasks cost each other.
    With --whole also whole networks, which take more memory than layers: ONNX Runtime copies their weights. Ends with 5
    when some layers failed; they are in the table with their reason.
    """
    from edgetune.cli.layer_costs_report import brief, show_networks
    from edgetune.cli.screen import answer
    from edgetune.workflows.schedule.layer_profile import profile_layers

    if terminal.dry_run:
        _report_plan(opts, terminal)
        return
    costs, target = profile_layers(opts, terminal.screen)
    if terminal.json:
        answer({"file": str(target.path or "-"), "rows": [brief(row) for row in costs.rows]})
    if not terminal.quiet:
        show_networks(costs, stream=sys.stderr)
    failed = [row for row in costs.rows if row.status != "ok"]
    if failed:
        first, count = failed[0], f"{len(failed)} of {len(costs.rows)} layers failed"
        terminal.screen.info(f"{count}; {first.network}/{first.layer}: {first.reason}")
        raise typer.Exit(ExitCode.PARTIAL)


def _report_plan(opts: LayerProfileOptions, terminal: PlanningTerminal) -> None:
    """Print what would be measured and for how long at the most."""
    from edgetune.cli.screen import answer, print_lines
    from edgetune.units import format_duration
    from edgetune.workflows.schedule.layer_profile import plan_layer_profile

    networks, rules, figures = plan_layer_profile(opts, terminal.screen)
    layers, longest_s = sum(len(network.layers) for network in networks), figures * rules.longest_s
    if terminal.json:
        named = [{"network": each.network, "layers": len(each.layers)} for each in networks]
        answer({"networks": named, "layers": layers, "figures": figures, "longest_s": longest_s})
        return
    for each in networks:
        print_lines(f"{each.network}: {len(each.layers)} layers")
    long = "as long as the samples take" if rules.rule.fixed else f"{format_duration(longest_s)} or less"
    print_lines(f"{figures} figures of {layers} layers; time {long}")
