"""``edgetune zoo``: the networks defined in edgetune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetune.cli.app import LightGroup
from edgetune.cli.options import Json, Quiet, Seed

app = typer.Typer(cls=LightGroup, rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def zoo(ctx: typer.Context, json: Json = False) -> None:
    """List the networks defined in edgetune, and export them as ONNX files.

    Any command that takes a model takes zoo:NAME.
    """
    if ctx.invoked_subcommand is not None:
        return
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
            f"{network.parameters / 1e6:.2f}",
            f"{network.macs / 1e9:.3f}",
            ", ".join(f"{item.name} {'x'.join(map(str, item.shape))}" for item in network.inputs),
            network.source,
        )
        for network in NETWORKS.values()
    ]
    table(("name", "M parameters>", "GMAC>", "one sample", "defined after"), rows)


@app.command()
def export(
    name: Annotated[str, typer.Argument(metavar="NETWORK", help="As edgetune zoo lists it.")],
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help="Default: NETWORK.onnx.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Fix the batch size. Default: left open.")
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Write a network of the zoo, with weights drawn from the seed, as an ONNX file."""
    from edgetune.cli.output import Target
    from edgetune.cli.screen import Screen
    from edgetune.workloads import zoo as networks

    name = name.removeprefix("zoo:")
    networks.network(name)
    path = Path(output or f"{name}.onnx")
    Target(path).check()
    networks.export(name, path, batch_size=batch_size, seed=seed)
    Screen(quiet).say(f"wrote {path}")
