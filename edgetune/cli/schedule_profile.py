"""``edgetune schedule profile``: what loading and executing each layer takes."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options
from edgetune.workflows.output import begin_outputs

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def profile(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Prepared folders, folders of them, ONNX files, or zoo:NAME."),
    ],
    *,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Default: the pipe, else costs.parquet.")
    ] = None,
    target_ci: Annotated[
        str, typer.Option(metavar="SHARE", help="Stop when a median is known this well (95 % interval), or after 1 s.")
    ] = "5%",
    repeats: Annotated[
        int | None, typer.Option(min=1, max=10_000, metavar="N", help="Take exactly so many samples instead.")
    ] = None,
    cold: Annotated[
        bool, typer.Option("--cold", help="Load from storage too, dropped from the page cache each time.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Whole networks too, in the two forms that policy bulk runs.")
    ] = False,
    layer_timeout: Annotated[str, typer.Option(metavar="TIME", help="Give a layer up after this.")] = "5m",
    prepared: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where models are prepared, or will be. Default: a cache.")
    ] = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure what loading and executing each layer takes, and how much memory.

    Every layer is measured alone, in a process of its network, with one thread as edgetune schedule run gives it:
    loading with its file cached by the system, and from storage with --cold; executing on what the layers before it
    made; and the memory that executing adds. Then, by two threads on the largest network, what tasks cost each other.
    With --whole also whole networks, which take more memory than layers: ONNX Runtime copies their weights. Ends with 5
    when some layers failed; they are in the table with their reason.
    """
    from edgetune.cli.run_layer_profile import layer_options, run_layer_profile
    from edgetune.cli.screen import Screen

    begin_outputs(force=force)
    asked = layer_options(target_ci, repeats, layer_timeout, cold=cold, whole=whole, seed=seed)
    run_layer_profile(models, asked, output, prepared, dry_run=dry_run, json=json, screen=Screen(quiet, verbose))
