"""``edgetune schedule graph``: which tasks of a network wait for which."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgetune.cli import options
from edgetune.cli.screen import Screen, answer, print_lines, table
from edgetune.errors import InputError
from edgetune.workflows.output import begin_outputs

if TYPE_CHECKING:
    from edgetune.cli.screen import Screen
    from edgetune.schedule.dependencies import DependencyGraph, LinearExtensions, Mode
    from edgetune.schedule.network import LayeredNetwork

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def graph(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A prepared folder, an ONNX file, zoo:NAME, or a table of layer costs.",
            show_default=False,
        ),
    ],
    *,
    mode: Annotated[
        str, typer.Option("--mode", "-m", metavar="LIST", help="bulk, linear, deepeye, partial, several, or all.")
    ] = "all",
    network: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which network of a table. Default: its only one.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FIGURE", help="Draw it: svg, png or pdf.")
    ] = None,
    prepared: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where models are prepared, or will be. Default: a cache.")
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Draw which loads, executions and unloads wait for which, and count their orders.

    One mode per panel: layers from left to right, loads over executions over unloads; arrows that others imply are left
    out. The number of orders in which all tasks can run, one at a time, is exact, or said to be between two bounds.

    \b
      edgetune schedule graph zoo:alexnet -o alexnet.svg
      edgetune schedule graph costs.parquet --network faces --mode deepeye
    """
    from edgetune.cli.plot import write_drawing
    from edgetune.plotting.figure_file import require_figure
    from edgetune.schedule.dependencies import count_linear_extensions, dependency_graph
    from edgetune.workflows.output import check_outputs

    begin_outputs(force=force)
    modes, screen = _modes(mode), Screen(quiet, verbose)
    if output is not None:
        require_figure(output)
        check_outputs({"-o": output}, [model], {})
    found = _network(model, network, prepared, screen)
    graphs = []
    for each in modes:
        drawn = dependency_graph(found, each)
        graphs.append((each, drawn, count_linear_extensions(drawn.before)))
    if output is not None:
        from edgetune.schedule.figures.dependencies import dependencies_figure

        write_drawing(lambda: dependencies_figure(found, graphs), output, screen)
    rows = [_row(*each) for each in graphs]
    if json:
        answer({"network": found.name, "layers": len(found.layers), "modes": rows})
        return
    print_lines(f"{found.name}: {len(found.layers)} layers")
    table(
        ["mode", "tasks>", "arrows>", "orders"],
        [(row["mode"], row["tasks"], row["arrows"], row["orders"]) for row in rows],
    )


def _row(mode: Mode, graph: DependencyGraph, orders: LinearExtensions) -> dict[str, object]:
    """Return what is told of a mode; numbers of orders are text, because they have more digits than numbers may."""
    from edgetune.schedule.figures.dependencies import orders_text

    return {
        "mode": mode,
        "tasks": len(graph.nodes),
        "arrows": sum(map(len, graph.before)),
        "orders": orders_text(orders),
        "exact": orders.least == orders.most,
        "method": orders.method,
    }


def _modes(words: str) -> list[Mode]:
    from edgetune.choices import choose
    from edgetune.schedule.dependencies import MODES

    if words == "all":
        return list(MODES)
    named = [word.strip() for word in words.split(",")]
    for word in named:
        choose(word, [*MODES, "all"], what="mode")
    return [mode for mode in MODES if mode in named]


def _network(model: str, name: str | None, folder: str | None, screen: Screen) -> LayeredNetwork:
    """Return the network of a model, split into layers now where it was not, or one of a table."""
    from edgetune.artifacts.kinds import ENDINGS
    from edgetune.cli.schedule_networks import open_reference
    from edgetune.schedule.costs import network_of
    from edgetune.workflows.cache_folder import prepared_folder

    if Path(model).suffix.lower() in ENDINGS["layer_costs"] or model == "-":
        return _costed(model, name)
    if name is not None:
        raise InputError(f"--network is for tables of layer costs, and {model} is none", "leave it out")
    prepared = open_reference(model, Path(folder) if folder else prepared_folder(), screen, make=True)
    assert prepared is not None  # it is made where it is not there
    return network_of(prepared)


def _costed(file: str, name: str | None) -> LayeredNetwork:
    from edgetune.artifacts.io import read_layer_costs
    from edgetune.schedule.costs import networks_of

    networks = networks_of(read_layer_costs(file))
    if name is None and len(networks) == 1:
        return next(iter(networks.values()))
    if name not in networks:
        wrong = f"{file} has several networks" if name is None else f"{file} has no network {name!r}"
        raise InputError(wrong, f"choose one: --network {' or '.join(networks)}")
    return networks[name]
