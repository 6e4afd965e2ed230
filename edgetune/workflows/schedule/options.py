"""The options of the subcommands of ``edgetune schedule``."""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated

from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class

LIMITS = ("auto", "cgroup", "accounted")
COMPARED = "linear,deepeye,partial,fcfs,sjf,masa,reuse"
"""The policies whose order ``schedule robustness`` looks at unless others are named."""

_Jobs = Annotated[str, Option("A YAML file of networks and jobs.", metavar="JOBS", argument=True)]
_Costs = Annotated[
    str | None, Option("What layers take, as edgetune schedule profile writes it.", group="Files", metavar="FILE")
]
_Memory = Annotated[str | float | None, Option("The budget, e.g. 512MiB.", group="Problem", metavar="SIZE")]
_Workers = Annotated[int | None, Option("Tasks that run at a time.", metavar="N", least=1)]
_Prepared = Annotated[
    str | None, Option("Where models are prepared, or will be. Default: a cache.", group="Files", metavar="DIR")
]


@options_class
class ScheduleOptions:
    """The options of ``edgetune schedule run``."""

    jobs: _Jobs = field(kw_only=False)
    policy: Annotated[
        str | None,
        Option(
            "bulk, linear, deepeye, partial, fcfs, sjf, snf, rr, masa, reuse (the default), optimum; or several; "
            "bulk:external and masa:code are variants.",
            ("--policy", "-p"), metavar="LIST",
        ),
    ] = None  # fmt: skip
    variant: Annotated[str | None, Option("Of policies that have variants, e.g. code for masa.", metavar="NAME")] = None
    simulate: Annotated[bool, Option("Run on a clock, from what layers take.", ("--simulate",), "Where")] = False
    memory: _Memory = None
    workers: _Workers = None
    turns: Annotated[int, Option("How often each policy runs.", metavar="N", least=1)] = 1
    time_limit: Annotated[
        str | float, Option("How long optimum looks for the best schedule, simulated.", metavar="TIME")
    ] = "60s"
    duration: Annotated[
        str | float | None,
        Option("Nothing arrives after it, e.g. 60s. Default: jobs end.", group="Problem", metavar="TIME"),
    ] = None
    costs: _Costs = None
    prepared: Annotated[
        str | None, Option("Where networks are prepared, or will be. Default: a cache.", group="Files", metavar="DIR")
    ] = None
    limit: Annotated[
        str, Option("What keeps memory within the budget: auto, cgroup or accounted.", group="Where", metavar="HOW")
    ] = "auto"
    swap: Annotated[
        str | float | None,
        Option("Swap beside the memory, 0 for none. Default: what there is.", group="Where", metavar="SIZE"),
    ] = None
    safety: Annotated[
        float | None, Option("Take layers for so many times their measure. Default: 1.1.", metavar="FACTOR")
    ] = None
    output: Annotated[
        str | None, Option("The timeline. Default: timeline.parquet.", ("-o", "--output"), "Files", "FILE")
    ] = None
    plot: Annotated[str | None, Option("Draw it: svg, png or pdf.", group="Files", metavar="FILE")] = None
    view: Annotated[
        str | None,
        Option("What to draw: responses, gantt, gantt:POLICY or gantt:POLICY@2s-5s.", group="Files", metavar="NAME"),
    ] = None
    chrome_trace: Annotated[
        str | None, Option("Write the JSON that trace viewers open.", group="Files", metavar="FILE")
    ] = None
    seed: Annotated[int | None, Option("Of random arrivals. Default: that of the file.", metavar="N", least=0)] = None
    force: options.Force = False


@options_class
class RobustnessOptions:
    """The options of ``edgetune schedule robustness``."""

    jobs: _Jobs
    costs: _Costs = None
    noise: Annotated[str | float, Option("Durations are wrong by up to this much.", metavar="LIST")] = "10%,25%,50%"
    bytes_too: Annotated[bool, Option("Bytes are wrong as much.", ("--bytes",))] = False
    runs: Annotated[int, Option("How often, for each.", metavar="N", least=1)] = 20
    policy: Annotated[str, Option("Two or more, as for edgetune schedule run.", ("--policy", "-p"), metavar="LIST")] = (
        COMPARED
    )
    memory: _Memory = None
    workers: _Workers = None
    duration: Annotated[
        str | float | None, Option("Nothing arrives after it, e.g. 60s.", group="Problem", metavar="TIME")
    ] = None
    seed: Annotated[int | None, Option("Of arrivals and noise. Default: that of the file.", metavar="N", least=0)] = (
        None
    )


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
        str | None, Option("Default: the pipe, else costs.parquet.", ("-o", "--output"), "Files", "FILE")
    ] = None
    target_ci: Annotated[
        str | float, Option("Stop when a median is known this well (95 % interval), or after 1 s.", metavar="SHARE")
    ] = "5%"
    repeats: Annotated[
        int | None, Option("Take exactly so many samples instead.", metavar="N", least=1, most=10_000)
    ] = None
    cold: Annotated[bool, Option("Load from storage too, dropped from the page cache each time.", ("--cold",))] = False
    whole: Annotated[bool, Option("Whole networks too, in the two forms that policy bulk runs.", ("--whole",))] = False
    layer_timeout: Annotated[str | float, Option("Give a layer up after this.", metavar="TIME")] = "5m"
    prepared: _Prepared = None
    seed: options.Seed = 0
    force: options.Force = False


@options_class
class PreparationOptions:
    """The options of ``edgetune schedule prepare``."""

    models: Annotated[
        Sequence[str], Option("ONNX files, or zoo:NAME.", metavar="MODEL", argument=True, repeatable=True)
    ]
    output: Annotated[
        str, Option("Each network goes into a folder of its name there.", ("-o", "--output"), "Files", "DIR")
    ] = "prepared"
    batch_size: Annotated[
        int | None,
        Option(
            "Samples per request. Default: as exported, else 1.", ("--batch-size", "-b"), "Problem", "N", least=1
        ),
    ] = None  # fmt: skip
    batch_axis: options.BatchAxis = ()
    dim: options.Dim = ()
    split: Annotated[
        str | float | None,
        Option("Split fully connected layers and tables larger than this, e.g. 32MiB.", metavar="SIZE"),
    ] = None
    optimise: Annotated[
        str,
        Option(
            "all: for this kind of processor; extended: for any; basic: standard operators only, slower.",
            metavar="LEVEL",
        ),
    ] = "all"  # fmt: skip
    whole: Annotated[bool, Option("Do not split: one layer for the whole network.", ("--whole",))] = False
    fresh: Annotated[bool, Option("Replace what was prepared before.", ("--fresh",), "Files")] = False


@options_class
class GraphOptions:
    """The options of ``edgetune schedule graph``."""

    model: Annotated[
        str,
        Option("A prepared folder, an ONNX file, zoo:NAME, or a table of layer costs.", metavar="MODEL", argument=True),
    ]
    mode: Annotated[
        str, Option("bulk, linear, deepeye, partial, several, or all.", ("--mode", "-m"), metavar="LIST")
    ] = "all"
    network: Annotated[
        str | None, Option("Which network of a table. Default: its only one.", group="Problem", metavar="NAME")
    ] = None
    output: Annotated[str | None, Option("Draw it: svg, png or pdf.", ("-o", "--output"), "Files", "FIGURE")] = None
    prepared: _Prepared = None
    force: options.Force = False


@options_class
class GenerationOptions:
    """The options of ``edgetune schedule generate``."""

    networks: Annotated[int, Option("How many.", ("--networks", "-n"), "Problem", "N", least=1)] = 3
    shape: Annotated[str, Option("chain, skips, fan or branches.", group="Problem", metavar="NAME")] = "chain"
    layers: Annotated[str, Option("Layers of each network.", group="Problem", metavar="N|LOW:HIGH")] = "5:10"
    width: Annotated[
        int, Option("Layers side by side in a fan, or branches.", group="Problem", metavar="N", least=1)
    ] = 3
    weights: Annotated[
        str, Option("Of a layer: 8MiB, uniform:1MiB:50MiB or log:1MiB:50MiB.", group="Problem", metavar="SIZES")
    ] = "log:64KiB:64MiB"
    outputs: Annotated[str, Option("Of a layer.", group="Problem", metavar="SIZES")] = "log:4KiB:4MiB"
    scratch: Annotated[str, Option("Of a layer.", group="Problem", metavar="SIZES")] = "0"
    load: Annotated[
        str, Option("What storage delivers, or times: log:1ms:100ms.", group="Problem", metavar="RATE|TIMES")
    ] = "500MB/s"
    execute: Annotated[str, Option("Of a layer.", group="Problem", metavar="TIMES")] = "log:1ms:50ms"
    count: Annotated[int, Option("Requests for each network.", group="Problem", metavar="N", least=1)] = 10
    arrivals: Annotated[
        str,
        Option(
            "batch, periodic:2s or normal:2s; normal alone keeps the device busy.", group="Problem", metavar="WORDS"
        ),
    ] = "batch"  # fmt: skip
    memory: Annotated[
        str | float | None,
        Option("Default: half more than the hungriest network needs.", group="Problem", metavar="SIZE"),
    ] = None
    workers: Annotated[int, Option("Tasks that run at a time.", metavar="N", least=1)] = 2
    output: Annotated[str, Option("What layers take.", ("-o", "--output"), "Files", "FILE")] = "made.parquet"
    jobs: Annotated[str, Option("What is to run.", group="Files", metavar="FILE")] = "made.yaml"
    seed: options.Seed = 0
    force: options.Force = False
