"""``edgetune profile``: a network on a device becomes a table of time, power and energy."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options
from edgetune.cli.device_option import Root
from edgetune.cli.output import begin_outputs

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def profile(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="An ONNX file, a Python training file, zoo:NAME, or a name in a table; proxy:NAME to --convergence.",
            show_default=False,
        ),
    ],
    *,
    task: Annotated[
        str | None,
        typer.Option(
            "--task", "-t", metavar="infer|train", help="Default: train for a Python file, infer for a network."
        ),
    ] = None,
    batch_sizes: options.BatchSizes = None,
    device: options.Device = "auto",
    root: Root = None,
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
    cool_to: options.CoolTo = None,
    cool_timeout: options.CoolTimeout = options.COOL_TIMEOUT,
    interleave_repeats: Annotated[
        int | None,
        typer.Option(min=1, max=1000, metavar="N", help="Visit all points N times, each round in a new random order."),
    ] = None,
    inputs: options.Inputs = None,
    dim: options.Dim = None,
    batch_axis: options.BatchAxis = None,
    ops: options.Ops = None,
    precision: options.Precision = None,
    convergence: options.Convergence = False,
    dataset: options.Dataset = None,
    target_accuracy: options.TargetAccuracy = None,
    max_epochs: options.MaxEpochs = None,
    seeds: options.Seeds = None,
    jobs: options.Jobs = None,
    optimizer: options.Optimizer = None,
    learning_rate: options.LearningRate = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over: discard what was measured before.")] = False,
    seed: options.Seed = 0,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure a network: time, power and energy per minibatch, for batch sizes and power modes.

    With --convergence, train it (or a small proxy of its task) instead, at each batch size with several seeds: how many
    epochs it takes to an accuracy, which edgetune search needs for the time to accuracy.

    Run the same command again to resume what was interrupted. Ends with 5 when some points failed; they are in the
    table with their reason.
    """
    from edgetune.cli.convergence import ConvergenceOptions, refuse_training, train
    from edgetune.cli.parse_options import profile_options
    from edgetune.cli.run_profile import ProfileCommandOptions, run_profile
    from edgetune.cli.screen import Screen
    from edgetune.cli.subject import WorkloadOptions

    begin_outputs(force=force)
    words = WorkloadOptions(model, task, batch_sizes, modes, ops, tuple(batch_axis or ()))
    asked = ProfileCommandOptions(words, device, output, fresh=fresh, dry_run=dry_run, json=json, root=root)
    training = ConvergenceOptions(dataset, target_accuracy, max_epochs, seeds, jobs, optimizer, learning_rate)
    if convergence:
        given = {
            "--inputs": inputs, "--minibatches": minibatches, "--dim": dim, "--batch-axis": batch_axis,
            "--cool-to": cool_to, "--interleave-repeats": interleave_repeats,
        }  # fmt: skip
        train(asked, training, given, first_seed=seed, screen=Screen(quiet, verbose))
        return
    refuse_training(training)
    measuring = profile_options(
        target_ci=target_ci,
        minibatches=minibatches,
        point_timeout=point_timeout,
        retries=retries,
        cool_to=cool_to,
        cool_timeout=cool_timeout,
        interleave_repeats=interleave_repeats or 1,
        inputs=inputs,
        dimensions=dim or (),
        precision=precision,
        seed=seed,
    )
    run_profile(asked, measuring, Screen(quiet, verbose))
