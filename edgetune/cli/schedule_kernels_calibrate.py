"""``edgetune schedule kernels calibrate``: what launches cost on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgetune.cli import options
from edgetune.cli.screen import Screen, answer, print_lines, table
from edgetune.errors import InputError
from edgetune.workflows.output import begin_outputs

if TYPE_CHECKING:
    from edgetune.elastic.cuda.calibrate import LaunchCosts

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def calibrate(
    *,
    device: Annotated[
        str, typer.Option("--device", "-d", metavar="NAME", help="nvidia:N, or jetson for its own GPU.")
    ] = "nvidia:0",
    sms: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Use only so many multiprocessors, by a green context."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Default: the cache, where `run` looks for it."),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure what launches cost on a GPU, with kernels that do nothing, and keep it with the GPU's name and driver.

    It takes a second. Nothing else is to run on the GPU meanwhile. Also said is whether a part of the multiprocessors
    can be used alone (--sms), by doing it: that takes green contexts, of CUDA 12.4.

    \b
      edgetune schedule kernels calibrate
      edgetune schedule kernels calibrate --device nvidia:1 --sms 16 -o costs.yaml
    """
    from dataclasses import asdict
    from math import nan

    from edgetune.cli.launch_costs import costs_folder
    from edgetune.elastic.cuda.calibrate import calibrate as measure
    from edgetune.elastic.cuda.calibrate import compiled_for, costs_path, write_costs
    from edgetune.elastic.cuda.context import why_not_green
    from edgetune.elastic.cuda.gpu_session import open_gpu_session
    from edgetune.workflows.kernels.gpu import gpu_index
    from edgetune.workflows.output import Target

    begin_outputs(force=force)
    index = gpu_index(device)
    if output is not None:
        Target(Path(output)).check("set of constants")
    else:
        _make(costs_folder())
    with open_gpu_session(index, sm_count=sms, launch_s=lambda _: nan) as ready:
        costs = measure(ready.context, compiled_for(ready.context))
        refused = None if sms is not None else why_not_green(ready.context)
        path = costs_path(ready.context.facts, costs_folder()) if output is None else Path(output)
    write_costs(costs, path)
    Screen(quiet).info(f"wrote {path}")
    if json:
        answer({**asdict(costs), "parts": {"offered": refused is None, "why_not": refused}})
    elif not quiet:
        _show(costs)
        print_lines(f"--sms, a part of the multiprocessors: {'yes' if refused is None else f'no: {refused}'}")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}", "name a file with -o") from None


def _show(costs: LaunchCosts) -> None:
    from edgetune.units import format_si

    print_lines(
        f"{costs.gpu}, {costs.sm_count} multiprocessors, CUDA {costs.cuda}: medians, with kernels that do nothing"
    )
    off = format_si(costs.over_uncertain_s, "s")
    rows = [
        ("call of a launch", costs.call_s, ""),
        ("record of an event", costs.record_s, ""),
        ("question whether an event is over", costs.query_s, ""),
        ("launch until the kernel is over", costs.over_s, f"or {off} off"),
        ("end of a kernel until that of the next", costs.reaction_s, "decided by the loop"),
        *((f"{count} launches until all are seen to be over", each_s, "") for count, each_s in costs.shards_s.items()),
        ("each shard more", costs.shard_s, ""),
    ]
    table(("what", "takes>", "note"), [(what, format_si(taken_s, "s"), note) for what, taken_s, note in rows])
