"""``edgetune zoo``: the networks defined in edgetune."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from edgetune.cli.app import LazyApp
from edgetune.cli.command import AnswerTerminal, DefaultGroup, command
from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetune.workloads.zoo import Input

app = LazyApp(DefaultGroup)


@command(app, default=True)
def zoo(terminal: AnswerTerminal) -> None:
    """List the networks defined in edgetune, and export them as ONNX files.

    Any command that takes a model takes zoo:NAME.
    """
    from edgetune.cli.screen import answer, table
    from edgetune.workloads.zoo import NETWORKS

    if terminal.json:
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


@options_class
class ExportOptions:
    """The options of ``edgetune zoo export``."""

    name: Annotated[str, Option("Name of the network, as edgetune zoo lists it.", metavar="NETWORK", argument=True)]
    output: Annotated[str | None, Option("Default: NETWORK.onnx.", ("-o", "--output"), "Files", "FILE")] = None
    batch_size: Annotated[
        int | None, Option("Fix the batch size. Default: left open.", (), "Problem", "N", least=1)
    ] = None
    seed: options.Seed = 0
    force: options.Force = False
    quiet: Annotated[bool, Option("On standard error only errors.", ("--quiet", "-q"), "Output")] = False


@command(app)
def export(opts: ExportOptions) -> None:
    """Write a network of the zoo as an ONNX file.

    Its weights are drawn at random from the seed: it costs what the trained network costs, but knows nothing.
    """
    from edgetune.cli.screen import Screen
    from edgetune.workflows.output import Target
    from edgetune.workloads import zoo as networks

    name = opts.name.removeprefix("zoo:")
    networks.network(name)
    path = Path(opts.output or f"{name}.onnx")
    Target(path).check("network")
    screen = Screen(opts.quiet)
    with screen.bar(f"exporting {name}", None):
        networks.export(name, path, batch_size=opts.batch_size, seed=opts.seed)
    screen.info(f"wrote {path}")


def _sample(inputs: "Sequence[Input]") -> str:
    """Return what one sample is, e.g. ``image 3x224x224``; inputs of one shape are counted rather than named."""
    shapes = ["x".join(map(str, item.shape)) for item in inputs]
    if len(inputs) > 1 and len(set(shapes)) == 1:
        return f"{len(inputs)} inputs of {shapes[0]}"
    return ", ".join(f"{item.name} {shape}" for item, shape in zip(inputs, shapes, strict=True))
