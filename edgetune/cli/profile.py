"""``edgetune profile``: a network on a device becomes a table of time, power and energy."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def profile(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="An ONNX file, a Python training file, zoo:NAME, or a name in a table.",
            show_default=False,
        ),
    ],
    *,
    task: Annotated[
        str | None, typer.Option("--task", "-t", metavar="infer|train", help="What the network does.")
    ] = None,
    batch_sizes: options.BatchSizes = None,
    device: options.Device = "auto",
    modes: options.Modes = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Default: the pipe, else a named file.")
    ] = None,
    target_ci: Annotated[
        str, typer.Option(metavar="SHARE", help="Stop when the median is known this well (95 % interval).")
    ] = "2%",
    minibatches: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, metavar="N", help="Time exactly so many minibatches instead, e.g. 40."),
    ] = None,
    point_timeout: options.PointTimeout = options.POINT_TIMEOUT,
    retries: Annotated[int, typer.Option(min=0, metavar="N", help="Measure a throttled point again so often.")] = 2,
    inputs: options.Inputs = None,
    dim: options.Dim = None,
    ops: options.Ops = None,
    precision: options.Precision = "fp32",
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over: discard what was measured before.")] = False,
    seed: options.Seed = 0,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure a network: time, power and energy per minibatch, for batch sizes and power modes.

    Run the same command again to resume what was interrupted. Ends with 5 when some points failed; they are in the
    table with their reason.
    """
    from edgetune.cli.request import profile_options
    from edgetune.cli.run_profile import Asked, carry_out
    from edgetune.cli.screen import Screen
    from edgetune.cli.subject import Words

    measuring = profile_options(
        target_ci=target_ci,
        minibatches=minibatches,
        point_timeout=point_timeout,
        retries=retries,
        inputs=inputs,
        dimensions=dim or (),
        precision=precision,
        seed=seed,
    )
    words = Words(model, task, batch_sizes, modes, ops)
    asked = Asked(words, device, output, fresh=fresh, dry_run=dry_run, json=json)
    carry_out(asked, measuring, Screen(quiet, verbose))
