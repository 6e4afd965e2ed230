"""Prints the results of ``edgetune schedule``: plans and prepared networks.

Prints the plan and the result of ``edgetune schedule profile``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from edgetune.cli.screen import answer, print_lines, table
from edgetune.cli.sections import TextSection
from edgetune.errors import ExitCode
from edgetune.units import NS, format_bytes, format_duration
from edgetune.workflows.cells import brief, cell
from edgetune.workflows.report.sections import write_sections

if TYPE_CHECKING:
    from edgetune.artifacts.layer_costs import LayerCosts
    from edgetune.cli.command import Terminal
    from edgetune.cli.screen import Screen
    from edgetune.stages.schedule.costs import LayerOptions
    from edgetune.workflows.output import Target
    from edgetune.workflows.schedule.plan import SchedulePlan
    from edgetune.workflows.schedule.prepare import PlannedFolder
    from edgetune.workloads.prepared import Prepared


def report_plan(plan: SchedulePlan, screen: Screen) -> None:
    """Print the costs of every network, the requests and policies, and the memory of the process itself.

    Raises:
        InputError, InfeasibleError, DeviceError: the run would be refused.
    """
    from edgetune.stages.schedule.network import least_budget_bytes
    from edgetune.workflows.schedule.run import rehearse

    opts, requests, limit = plan.opts, plan.requests(0), format_bytes(plan.limit_bytes)
    for each in plan.known:
        network, least = each.network, least_budget_bytes(each.network)
        alone = f", {format_duration(network.service_s)} alone" if each.timed else ""
        screen.info(
            f"{network.name}: {len(network.layers)} layers, {format_bytes(network.weight_bytes)} of weights{alone}; "
            f"runs in {format_bytes(least)}, layer by layer"
        )
    last_s = max((request.arrival_ns for request in requests), default=0) / NS
    screen.info(f"{len(requests)} requests, the last after {format_duration(last_s)}; {limit}")
    turns = f", {opts.turns} turns each" if opts.turns > 1 else ""
    names = ", ".join(policy.words for policy in plan.policies)
    screen.info(f"{names}{turns}, {'simulated' if opts.simulate else 'for real'}")
    for policy, taken_bytes in rehearse(plan):
        if taken_bytes:
            layers = policy.form == "layers"
            what = "ONNX Runtime and the sessions of all layers take" if layers else "ONNX Runtime takes"
            screen.info(f"{policy.words}: {what} {format_bytes(taken_bytes)} of {limit} before anything is loaded")


def report_planned_folders(planned: Sequence[PlannedFolder], terminal: Terminal) -> None:
    """Print the folders that would be written."""
    if terminal.json:
        answer([{**asdict(each), "folder": str(each.folder), "disk_bytes": each.disk_bytes} for each in planned])
        return
    rows = [(p.network, p.folder, format_bytes(p.weight_bytes), format_bytes(p.disk_bytes)) for p in planned]
    table(("network", "folder", "weights>", "on disk about>"), rows)


def report_prepared(prepared: Sequence[Prepared], terminal: Terminal) -> None:
    """Print the sizes of each prepared network."""
    found = [_figures(each) for each in prepared]
    if terminal.json:
        answer(found)
        return
    sizes = ("weight_bytes", "largest_layer_bytes", "least_budget_bytes")
    rows = [
        (
            row["network"], row["layers"], *(format_bytes(row[key]) for key in sizes),
            cell(row["difference"], ".1e"), cell(row["check_peak_bytes"], format_bytes),
        )
        for row in found
    ]  # fmt: skip
    table(
        (
            "network",
            "layers>",
            "weights>",
            "largest layer>",
            "least budget>",
            "differs by at most>",
            "peak of comparison>",
        ),
        rows,
    )


def _figures(prepared: Prepared) -> dict[str, Any]:
    from edgetune.stages.schedule.costs import network_of
    from edgetune.stages.schedule.network import least_budget_bytes

    return {
        "network": prepared.network,
        "folder": str(prepared.folder),
        "layers": len(prepared.layers),
        "weight_bytes": prepared.weight_bytes,
        "largest_layer_bytes": max(layer.weight_bytes for layer in prepared.layers),
        "least_budget_bytes": least_budget_bytes(network_of(prepared)),
        "difference": prepared.difference,
        "check_peak_bytes": prepared.check_peak_bytes,
    }


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
