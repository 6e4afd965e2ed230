"""``edgetune schedule graph``: which tasks of a network wait for which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from edgetune.cli.command import Terminal, command
from edgetune.workflows.schedule.options import GraphOptions

if TYPE_CHECKING:
    from edgetune.schedule.dependencies import DependencyGraph, LinearExtensions, Mode

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@command(app)
def graph(opts: GraphOptions, terminal: Terminal) -> None:
    """Draw which loads, executions and unloads wait for which, and count their orders.

    One mode per panel: layers from left to right, loads over executions over unloads; arrows that others imply are left
    out. The number of orders in which all tasks can run, one at a time, is exact, or said to be between two bounds.

    \b
      edgetune schedule graph zoo:alexnet -o alexnet.svg
      edgetune schedule graph costs.parquet --network faces --mode deepeye
    """
    from edgetune.cli.plot import write_drawing
    from edgetune.cli.screen import answer, print_lines, table
    from edgetune.plotting.figure_file import require_figure
    from edgetune.schedule.figures.dependencies import dependencies_figure
    from edgetune.workflows.schedule.graph import graph as workflow

    if opts.output is not None:
        require_figure(opts.output)
    network, graphs = workflow(opts, terminal.screen)
    if opts.output is not None:
        write_drawing(lambda: dependencies_figure(network, graphs), opts.output, terminal.screen)
    rows = [_row(*each) for each in graphs]
    if terminal.json:
        answer({"network": network.name, "layers": len(network.layers), "modes": rows})
        return
    print_lines(f"{network.name}: {len(network.layers)} layers")
    columns = ("mode", "tasks", "arrows", "orders")
    table(["mode", "tasks>", "arrows>", "orders"], [[row[column] for column in columns] for row in rows])


def _row(mode: Mode, graph: DependencyGraph, orders: LinearExtensions) -> dict[str, object]:
    """Return the figures of a mode; numbers of orders are text, because they have more digits than numbers may."""
    from edgetune.schedule.figures.dependencies import orders_text

    return {
        "mode": mode,
        "tasks": len(graph.nodes),
        "arrows": sum(map(len, graph.before)),
        "orders": orders_text(orders),
        "exact": orders.least == orders.most,
        "method": orders.method,
    }
