"""``edgetune schedule prepare``: networks split into layers, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgetune.cli.command import Terminal, command
from edgetune.workflows.options import Option
from edgetune.workflows.schedule.options import PreparationOptions

if TYPE_CHECKING:
    from edgetune.workloads.prepared import Prepared

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@dataclass(frozen=True, kw_only=True)
class PrepareTerminal(Terminal):
    """Of a command that can say what it would write."""

    dry_run: Annotated[bool, Option("Say what would be written, and write nothing.", ("--dry-run",), "Output")] = False


@command(app)
def prepare(opts: PreparationOptions, terminal: PrepareTerminal) -> None:
    """Split networks into layers once: a graph and a file of weights for each, and a manifest.

    A layer is an operator with weights and those without that follow it. Its weights are loaded when it is scheduled,
    and given back. Networks that are there already, from the same model with the same options, are kept. The layers
    are checked against the whole network on random inputs before they are put in place.
    """
    from edgetune.cli.screen import answer, table
    from edgetune.units import format_bytes
    from edgetune.workflows.schedule.prepare import plan_preparation
    from edgetune.workflows.schedule.prepare import prepare as workflow

    if terminal.dry_run:
        planned = plan_preparation(opts, terminal.screen)
        if terminal.json:
            answer(
                [
                    {
                        "network": each.network,
                        "folder": str(each.folder),
                        "weight_bytes": each.weight_bytes,
                        "disk_bytes": each.disk_bytes,
                    }
                    for each in planned
                ]
            )
            return
        rows = [(p.network, p.folder, format_bytes(p.weight_bytes), format_bytes(p.disk_bytes)) for p in planned]
        table(("network", "folder", "weights>", "on disk about>"), rows)
        return
    found = [_figures(each) for each in workflow(opts, terminal.screen)]
    if terminal.json:
        answer(found)
        return
    table(
        ("network", "layers>", "weights>", "largest layer>", "least budget>", "differs by at most>"),
        [
            (
                row["network"],
                row["layers"],
                *(format_bytes(row[key]) for key in ("weight_bytes", "largest_layer_bytes", "least_budget_bytes")),
                None if row["difference"] is None else f"{row['difference']:.1e}",
            )
            for row in found
        ],
    )


def _figures(prepared: Prepared) -> dict[str, Any]:
    from edgetune.schedule.costs import network_of
    from edgetune.schedule.network import least_budget_bytes

    return {
        "network": prepared.network,
        "folder": str(prepared.folder),
        "layers": len(prepared.layers),
        "weight_bytes": prepared.weight_bytes,
        "largest_layer_bytes": max(layer.weight_bytes for layer in prepared.layers),
        "least_budget_bytes": least_budget_bytes(network_of(prepared)),
        "difference": prepared.difference,
    }
