"""Prints the plan and the result of ``edgetune schedule profile``: layer costs by network or by layer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import typer

from edgetune.cli.screen import answer, print_lines, table
from edgetune.errors import ExitCode
from edgetune.units import format_bytes, format_duration
from edgetune.workflows.cells import brief
from edgetune.workflows.report.layer_costs import total_cell

if TYPE_CHECKING:
    from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
    from edgetune.cli.command import Terminal
    from edgetune.stages.schedule.measure import LayerOptions
    from edgetune.workflows.output import Target
    from edgetune.workloads.prepared import Prepared

_TIMES = ("load_s", "cold_load_s", "execute_s")


def report_plan(networks: Sequence[Prepared], rules: LayerOptions, figures: int, terminal: Terminal) -> None:
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


def report(costs: LayerCosts, target: Target, terminal: Terminal) -> None:
    """Show the networks on standard error, or answer in JSON, and end with 5 when layers failed."""
    if terminal.json:
        answer({"file": str(target.path or "-"), "rows": [brief(row) for row in costs.rows]})
    if not terminal.quiet:
        show_networks(costs, stream=sys.stderr)
    failed = [row for row in costs.rows if row.status != "ok"]
    if failed:
        first, count = failed[0], f"{len(failed)} of {len(costs.rows)} layers failed"
        terminal.screen.info(f"{count}; {first.network}/{first.layer}: {first.reason}")
        raise typer.Exit(ExitCode.PARTIAL)


def show_networks(costs: LayerCosts, *, stream: TextIO | None = None) -> None:
    """Print the totals of each network's layers, and its layer with the largest memory."""
    rows = []
    for name, form in dict.fromkeys((row.network, row.form) for row in costs.rows):
        layers = [row for row in costs.rows if (row.network, row.form) == (name, form)]
        whole = all(row.status == "ok" for row in layers)  # the sum of some layers is not the network's time
        rows.append((
            name if form == "layers" else f"{name}, {form}", len(layers),
            format_bytes(_weight_bytes(layers)),
            *(total_cell([getattr(row, column) for row in layers if whole]) for column in _TIMES),
            max(layers, key=_held_bytes).layer, format_bytes(max(map(_held_bytes, layers))),
        ))  # fmt: skip
    columns = ("network", "layers>", "weights>", "load>", "from storage>", "execute>", "hungriest layer", "holds>")
    table(columns, rows, stream=stream)


def _weight_bytes(rows: Sequence[LayerCostRow]) -> int:
    """Return the bytes of all weights; files that layers share count once."""
    shared = [dict(zip(row.shared_files, row.shared_bytes, strict=True)) for row in rows]
    own_bytes = sum(row.weight_bytes - sum(of.values()) for row, of in zip(rows, shared, strict=True))
    return own_bytes + sum({name: size for of in shared for name, size in of.items()}.values())


def _held_bytes(row: LayerCostRow) -> int:
    """Return the bytes of an executing layer without its inputs; the peak of a whole network includes its weights."""
    if row.form != "layers" and row.peak_bytes is not None:
        return row.peak_bytes
    return row.weight_bytes + max(row.output_bytes + row.scratch_bytes, row.peak_bytes or 0)
