"""``edgetune schedule generate``: networks and jobs that nobody has, to schedule on a clock."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from edgetune.cli import options
from edgetune.errors import InputError
from edgetune.workflows.output import begin_outputs

if TYPE_CHECKING:
    from edgetune.artifacts.jobs import Jobs
    from edgetune.artifacts.layer_costs import LayerCosts
    from edgetune.schedule.generate import NetworkDesign
    from edgetune.schedule.network import LayeredNetwork

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_ROOM = 1.5
"""Memory of the jobs, in what the hungriest network needs at the least: above the safety that a runtime adds to that,
and little enough that weights have to leave."""
_KIB = 1024
_SIZES = ("weights", "outputs", "scratch")


@app.command()
def generate(
    *,
    networks: Annotated[int, typer.Option("--networks", "-n", min=1, metavar="N", help="How many.")] = 3,
    shape: Annotated[str, typer.Option(metavar="NAME", help="chain, skips, fan or branches.")] = "chain",
    layers: Annotated[str, typer.Option(metavar="N|LOW:HIGH", help="Layers of each network.")] = "5:10",
    width: Annotated[int, typer.Option(min=1, metavar="N", help="Layers side by side in a fan, or branches.")] = 3,
    weights: Annotated[
        str, typer.Option(metavar="SIZES", help="Of a layer: 8MiB, uniform:1MiB:50MiB or log:1MiB:50MiB.")
    ] = "log:64KiB:64MiB",
    outputs: Annotated[str, typer.Option(metavar="SIZES", help="Of a layer.")] = "log:4KiB:4MiB",
    scratch: Annotated[str, typer.Option(metavar="SIZES", help="Of a layer.")] = "0",
    load: Annotated[
        str, typer.Option(metavar="RATE|TIMES", help="What storage delivers, or times: log:1ms:100ms.")
    ] = "500MB/s",
    execute: Annotated[str, typer.Option(metavar="TIMES", help="Of a layer.")] = "log:1ms:50ms",
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Requests for each network.")] = 10,
    arrivals: Annotated[
        str, typer.Option(metavar="WORDS", help="batch, periodic:2s or normal:2s; normal alone keeps the device busy.")
    ] = "batch",
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Default: half more than the hungriest network needs.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Tasks that run at a time.")] = 2,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="What layers take.")] = "made.parquet",
    jobs: Annotated[str, typer.Option(metavar="FILE", help="What is to run.")] = "made.yaml",
    seed: options.Seed = 0,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Make up networks and jobs to schedule.

    Two files are written: a table of what layers take, and jobs that name it. The same options make the same networks.

    \b
      edgetune schedule generate --networks 5 --shape branches --weights log:1MiB:100MiB
      edgetune schedule run made.yaml --simulate --policy masa,reuse
    """
    from edgetune.artifacts import io
    from edgetune.cli.screen import Screen, answer, table
    from edgetune.schedule.generate import generate as make
    from edgetune.units import format_bytes, format_duration
    from edgetune.workflows.output import check_outputs

    begin_outputs(force=force)
    words = {"weights": weights, "outputs": outputs, "scratch": scratch, "load": load, "execute": execute}
    design = _design(shape, layers, width, words)
    check_outputs({"-o": output, "--jobs": jobs}, [], {"-o": "layer_costs", "--jobs": "jobs"})
    made, screen = make(design, networks, seed=seed), Screen(quiet, verbose)
    told = {"shape": shape, "layers": layers, "width": width, **words, "seed": seed}
    document = _jobs(made, output, memory=memory, workers=workers, arrivals=arrivals, count=count, seed=seed)
    io.write(_costs(made, told), output)
    io.write(document, jobs)
    screen.info(f"wrote {output} and {jobs}")
    rows = [
        {
            "network": each.name,
            "layers": len(each.layers),
            "weight_bytes": each.weight_bytes,
            "service_s": each.service_s,
        }
        for each in made
    ]
    if json:
        answer({"costs": output, "jobs": jobs, "memory_bytes": document.memory_bytes, "networks": rows})
        return
    table(
        ["network", "layers>", "weights>", "alone>"],
        [(row["network"], row["layers"], format_bytes(cast("int", row["weight_bytes"])),
          format_duration(cast("float", row["service_s"]))) for row in rows],
    )  # fmt: skip


def _design(shape: str, layers: str, width: int, words: Mapping[str, str]) -> NetworkDesign:
    """Return the design in words; ``words`` are those of the figures, by option."""
    from edgetune.choices import choose
    from edgetune.schedule.generate import FORMS, Form, NetworkDesign, parse_distribution
    from edgetune.units import parse_bytes

    choose(shape, FORMS, what="shape")
    sizes = {name: parse_distribution(words[name], what=f"--{name}", of="bytes") for name in _SIZES}
    execute = parse_distribution(words["execute"], what="--execute", of="time")
    load, rate = words["load"], words["load"].removesuffix("/s")
    return NetworkDesign(
        cast("Form", shape),
        _range(layers),
        width,
        sizes["weights"],
        sizes["outputs"],
        sizes["scratch"],
        execute,
        load_s=parse_distribution(load, what="--load", of="time") if rate == load else None,
        load_bytes_per_s=float(parse_bytes(rate, what="--load")) if rate != load else None,
    )


def _range(words: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,4})(?::(\d{1,4}))?", words)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= low <= high:
        raise InputError(f"--layers is {words}", "e.g. 8, or 5:10")
    return low, high


def _costs(networks: Sequence[LayeredNetwork], told: Mapping[str, Any]) -> LayerCosts:
    from edgetune.artifacts.header import Header
    from edgetune.artifacts.layer_costs import KIND, VERSION, LayerCostRow, LayerCosts

    rows = tuple(
        LayerCostRow(
            network.name, layer.name, layer.kind, layer.weight_bytes, layer.output_bytes, layer.load_s,
            layer.execute_s, index, layer.after, layer.scratch_bytes, network.input_bytes,
        )
        for network in networks
        for index, layer in enumerate(network.layers)
    )  # fmt: skip
    return LayerCosts(Header.new(KIND, VERSION, conditions={"simulated": True, "generated": dict(told)}), rows)


def _jobs(
    networks: Sequence[LayeredNetwork], costs: str, *, memory: str | None, workers: int, arrivals: str, count: int,
    seed: int,
) -> Jobs:  # fmt: skip
    """Return jobs that ask for all networks together."""
    from edgetune.artifacts.header import Header
    from edgetune.artifacts.jobs import KIND, VERSION, Job, Jobs, NetworkSource
    from edgetune.schedule.jobs import arrivals_of
    from edgetune.schedule.network import least_budget_bytes
    from edgetune.units import parse_bytes

    names = tuple(network.name for network in networks)
    intensity = None if arrivals == "batch" or ":" in arrivals else 1.0
    job = Job("made", names, arrivals, intensity=intensity, count=count)
    arrivals_of(job)
    least = max(map(least_budget_bytes, networks))
    limits = -(-round(_ROOM * least) // _KIB) * _KIB
    memory_bytes = limits if memory is None else parse_bytes(memory, what="--memory")
    sources = tuple(NetworkSource(name, costs=costs, costs_name=name) for name in names)
    return Jobs(Header.new(KIND, VERSION), sources, (job,), memory_bytes, workers, seed=seed)
