"""Prints the plan and the result of ``edgetune schedule profile``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from edgetune.cli.screen import answer, print_lines
from edgetune.cli.sections import TextSection
from edgetune.errors import ExitCode
from edgetune.units import format_duration
from edgetune.workflows.cells import brief
from edgetune.workflows.report.sections import write_sections

if TYPE_CHECKING:
    from edgetune.artifacts.layer_costs import LayerCosts
    from edgetune.cli.command import Terminal
    from edgetune.stages.schedule.measure import LayerOptions
    from edgetune.workflows.output import Target
    from edgetune.workloads.prepared import Prepared


def report_layer_costs_plan(
    networks: Sequence[Prepared], rules: LayerOptions, figures: int, terminal: Terminal
) -> None:
    """Print the layers to measure, and the most time this takes."""
    layers, longest_s = sum(len(network.layers) for network in networks), figures * rules.longest_s
    if terminal.json:
        named = [{"network": each.network, "layers": len(each.layers)} for each in networks]
        answer({"networks": named, "layers": layers, "figures": figures, "longest_s": longest_s})
        return
    for each in networks:
        print_lines(f"{each.network}: {len(each.layers)} layers")
    long = "as long as the samples take" if rules.rule.fixed else f"{format_duration(longest_s)} or less"
    print_lines(f"{figures} figures of {layers} layers; time {long}")


def report_layer_costs(costs: LayerCosts, target: Target, terminal: Terminal) -> None:
    """Show the networks on standard error, or answer in JSON, and end with 5 when layers failed."""
    if terminal.json:
        answer({"file": str(target.path or "-"), "rows": [brief(row) for row in costs.rows]})
    if not terminal.quiet:
        write_sections(costs, TextSection(sys.stderr, most=20, more=f"edgetune show {target.path or 'FILE'}"))
    failed = [row for row in costs.rows if row.status != "ok"]
    if failed:
        first, count = failed[0], f"{len(failed)} of {len(costs.rows)} layers failed"
        terminal.screen.info(f"{count}; {first.network}/{first.layer}: {first.reason}")
        raise typer.Exit(ExitCode.PARTIAL)
