"""The options of the subcommands of ``edgetune schedule``."""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated

from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class

LIMITS = ("auto", "cgroup", "accounted")

_Prepared = Annotated[str | None, Option("Folder of prepared models. Default: a cache.", group="Files", metavar="DIR")]


@options_class
class ScheduleOptions:
    """The options of ``edgetune schedule run``."""

    jobs: Annotated[str, Option("A YAML file of networks and jobs.", metavar="JOBS", argument=True)] = field(
        kw_only=False
    )
    policy: Annotated[
        str | None,
        Option(
            "bulk, linear, deepeye, partial, fcfs, sjf, snf, rr, masa, reuse (the default), optimum; or several; "
            "bulk:external and masa:code are variants.",
            ("--policy", "-p"), metavar="LIST",
        ),
    ] = None  # fmt: skip
    simulate: Annotated[bool, Option("Simulate with the measured costs of layers.", ("--simulate",), "Where")] = False
    memory: Annotated[str | float | None, Option("Memory budget, e.g. 512MiB.", group="Problem", metavar="SIZE")] = None
    workers: Annotated[int | None, Option("Tasks that run at a time.", metavar="N", least=1)] = None
    turns: Annotated[int, Option("How often each policy runs.", metavar="N", least=1)] = 1
    time_limit: Annotated[
        str | float, Option("Longest search of policy optimum for a schedule, before the clock starts.", metavar="TIME")
    ] = "60s"
    duration: Annotated[
        str | float | None,
        Option(
            "No request arrives after this time, e.g. 60s. Default: until jobs end.", group="Problem", metavar="TIME"
        ),
    ] = None
    costs: Annotated[
        str | None,
        Option("Table of layer costs, as edgetune schedule profile writes it.", group="Files", metavar="FILE"),
    ] = None
    prepared: Annotated[
        str | None, Option("Folder of prepared networks. Default: a cache.", group="Files", metavar="DIR")
    ] = None
    limit: Annotated[
        str, Option("How the memory budget is enforced: auto, cgroup or accounted.", group="Where", metavar="HOW")
    ] = "auto"
    swap: Annotated[
        str | float | None,
        Option("Swap space besides the memory; 0 for none. Default: the machine's.", group="Where", metavar="SIZE"),
    ] = None
    output: Annotated[
        str | None, Option("File of the timeline. Default: timeline.parquet.", ("-o", "--output"), "Files", "FILE")
    ] = None
    plot: Annotated[
        str | None, Option("Draw the result: .svg, .png, .pdf or .html.", group="Files", metavar="FILE")
    ] = None
    view: Annotated[
        str | None, Option("Figure to draw: gantt, gantt:POLICY or gantt:POLICY@2s-5s.", group="Files", metavar="NAME")
    ] = None
    seed: Annotated[int | None, Option("Seed of random arrivals. Default: that of the file.", metavar="N", least=0)] = (
        None
    )
    force: options.Force = False


@options_class
class LayerProfileOptions:
    """The options of ``edgetune schedule profile``."""

    models: Annotated[
        Sequence[str],
        Option(
            "Prepared folders, folders of them, ONNX files, or zoo:NAME.", metavar="MODEL", argument=True,
            repeatable=True,
        ),
    ]  # fmt: skip
    output: Annotated[
        str | None,
        Option("Table of layer costs. Default: a pipe, else costs.parquet.", ("-o", "--output"), "Files", "FILE"),
    ] = None
    repeats: Annotated[int | None, Option("Take exactly N samples instead.", metavar="N", least=1, most=10_000)] = None
    cold: Annotated[bool, Option("Also time loads from storage, with an empty page cache.", ("--cold",))] = False
    prepared: _Prepared = None
    seed: options.Seed = 0
    force: options.Force = False


@options_class
class PreparationOptions:
    """The options of ``edgetune schedule prepare``."""

    models: Annotated[
        Sequence[str], Option("ONNX files, or zoo:NAME.", metavar="MODEL", argument=True, repeatable=True)
    ]
    output: Annotated[str, Option("Write each network to the folder DIR/NAME.", ("-o", "--output"), "Files", "DIR")] = (
        "prepared"
    )
    batch_size: Annotated[
        int | None,
        Option(
            "Samples per request. Default: the exported size, else 1.", ("--batch-size", "-b"), "Problem", "N", least=1
        ),
    ] = None  # fmt: skip
    batch_axis: options.BatchAxis = ()
    dim: options.Dim = ()
    inputs: options.Inputs = None
    split: Annotated[
        str | float | None,
        Option("Split fully connected layers and tables larger than this, e.g. 32MiB.", metavar="SIZE"),
    ] = None
    optimise: Annotated[
        str,
        Option(
            "Graph optimisation: all (runs on this kind of processor only), extended (runs on any), "
            "basic (standard operators only, slower).",
            metavar="LEVEL",
        ),
    ] = "all"  # fmt: skip
    whole: Annotated[bool, Option("Do not split: one layer for the whole network.", ("--whole",))] = False
    fresh: Annotated[bool, Option("Replace networks prepared earlier.", ("--fresh",), "Files")] = False
