"""``edgetune zoo``: the networks defined in edgetune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgetune.cli.app import LightGroup
from edgetune.cli.options import Force, Json, Quiet, Seed
from edgetune.workflows.output import begin_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetune.workloads.zoo import Input

app = typer.Typer(cls=LightGroup, rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def zoo(ctx: typer.Context, json: Json = False) -> None:
    """List the networks defined in edgetune, and export them as ONNX files.

    Any command that takes a model takes zoo:NAME.
    """
    if ctx.invoked_subcommand is None:
        show_networks(json=json)


@app.command("list")
def list_networks(json: Json = False) -> None:
    """List the networks, as edgetune zoo alone does."""
    show_networks(json=json)


def show_networks(*, json: bool) -> None:
    """Print what each network costs and takes; after which definition it was made in full only for machines."""
    from edgetune.cli.screen import answer, table
    from edgetune.workloads.zoo import NETWORKS

    if json:
        answer(
            [
                {
                    "name": network.name,
                    "parameters": network.parameters,
                    "macs": network.macs,
                    "inputs": {item.name: list(item.shape) for item in network.inputs},
                    "source": network.source,
                }
                for network in NETWORKS.values()
            ]
        )
        return
    rows = [
        (
            network.name,
            f"{network.parameters / 1e6:.2f} M",
            f"{network.macs / 1e9:.3f}",
            _sample(network.inputs),
            network.source.partition(";")[0],
        )
        for network in NETWORKS.values()
    ]
    table(("name", "parameters>", "GMAC>", "one sample", "defined after"), rows)


@app.command()
def export(
    name: Annotated[str, typer.Argument(metavar="NETWORK", help="As edgetune zoo lists it.")],
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help="Default: NETWORK.onnx.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Fix the batch size. Default: left open.")
    ] = None,
    *,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a network of the zoo as an ONNX file.

    Its weights are drawn at random from the seed: it costs what the trained network costs, but knows nothing.
    """
    from edgetune.cli.screen import Screen
    from edgetune.workflows.output import Target
    from edgetune.workloads import zoo as networks

    begin_outputs(force=force)
    name = name.removeprefix("zoo:")
    networks.network(name)
    path = Path(output or f"{name}.onnx")
    Target(path).check("network")
    networks.export(name, path, batch_size=batch_size, seed=seed)
    Screen(quiet).info(f"wrote {path}")


def _sample(inputs: Sequence[Input]) -> str:
    """Return what one sample is, e.g. ``image 3x224x224``; inputs of one shape are counted rather than named."""
    shapes = ["x".join(map(str, item.shape)) for item in inputs]
    if len(inputs) > 1 and len(set(shapes)) == 1:
        return f"{len(inputs)} inputs of {shapes[0]}"
    return ", ".join(f"{item.name} {shape}" for item, shape in zip(inputs, shapes, strict=True))
