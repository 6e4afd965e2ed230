"""The options of ``edgetune interleave``."""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated

from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class


@options_class
class InterleaveOptions:
    """The options of ``edgetune interleave``; options of tenants take precedence over a plan."""

    plan: Annotated[
        str | None,
        Option(
            "A plan, as edgetune search prints it (- reads it from the pipe), or a file of tenants.",
            metavar="PLAN", argument=True,
        ),
    ] = field(default=None, kw_only=False)  # fmt: skip
    infer: Annotated[
        str | None, Option("Network that answers requests: an ONNX file or zoo:NAME.", group="Problem", metavar="MODEL")
    ] = None
    train: Annotated[
        str | None,
        Option("Network that trains: a Python file, an ONNX file or zoo:NAME.", group="Problem", metavar="MODEL"),
    ] = None
    arrivals: Annotated[
        str | None,
        Option(
            "When requests arrive: uniform:60, poisson:60, closed, trace:FILE, trace:FILE@60/s, or - (one request per "
            "input line).",
            group="Problem", metavar="HOW",
        ),
    ] = None  # fmt: skip
    latency_budget: Annotated[
        str | float | None, Option("Longest latency of a request, e.g. 80ms.", group="Problem", metavar="TIME")
    ] = None
    power_budget: Annotated[
        str | float | None,
        Option(
            "Highest mean power, e.g. 30W; 30W,20W@60s changes it after a minute.", group="Problem", metavar="POWER"
        ),
    ] = None
    batch_size: Annotated[
        int | None, Option("Requests per inference minibatch.", ("--batch-size", "-b"), "Problem", "N", least=1)
    ] = None
    train_batch_size: Annotated[
        int | None, Option("Samples per training minibatch.", group="Problem", metavar="N", least=1)
    ] = None
    dim: options.Dim = ()
    batch_axis: options.BatchAxis = ()
    device: options.Device = "auto"
    root: options.Root = None
    modes: options.Modes = None
    engine: Annotated[
        str | None,
        Option(
            "How networks share the device: managed (the default), native, streams, simulated, simulated-native, "
            "simulated-streams; or several.",
            ("--engine", "-e"),
            metavar="LIST",
        ),
    ] = None
    policy: Annotated[
        str | None,
        Option("Scheduling policy: managed, native or native-full. Default: that of the engine.", metavar="NAME"),
    ] = None
    turns: Annotated[int, Option("How often each engine runs.", metavar="N", least=1, most=1000)] = 1
    duration: Annotated[str | float, Option("Duration of one turn, e.g. 10m.", metavar="TIME")] = "60s"
    adapt: Annotated[bool, Option("Make a new plan from measured points when the request rate changes.")] = False
    best_effort: Annotated[bool, Option("Run even if requests cannot all be served in time.")] = False
    seed: options.Seed = 0
    profile: Annotated[
        Sequence[str],
        Option(
            "A profile to plan from, instead of measuring. Repeatable.", group="Files", metavar="FILE", repeatable=True
        ),
    ] = ()
    inputs: options.Inputs = None
    handler: Annotated[
        str | None, Option("Python file with inputs(request, line) and outputs(...).", group="Files", metavar="FILE")
    ] = None
    checkpoint: Annotated[str | None, Option("Write the trained state to FILE.", group="Files", metavar="FILE")] = None
    resume: Annotated[str | None, Option("Resume training from this checkpoint.", group="Files", metavar="FILE")] = None
    output: Annotated[
        str | None, Option("File of the run. Default: run.parquet.", ("-o", "--output"), "Files", "FILE")
    ] = None
    plot: Annotated[str | None, Option("Draw the run: svg, png, pdf or html.", group="Files", metavar="FILE")] = None
    view: Annotated[str | None, Option("Figure to draw: latency or timeline.", group="Files", metavar="NAME")] = None
    force: options.Force = False
