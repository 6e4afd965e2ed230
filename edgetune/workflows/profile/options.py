"""The options of ``edgetune profile``, ``edgetune merge`` and ``edgetune compare``."""

from collections.abc import Sequence
from dataclasses import field, fields
from functools import partial
from typing import Annotated, Any

from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class

BoardTolerance = Annotated[
    str | float,
    Option("Leave out boards whose time or power at the anchors is further off.", ("--board-tolerance",),
           metavar="SHARE"),
]  # fmt: skip
TargetCi = Annotated[str | float, Option("Stop when the 95 % interval of the median is this narrow.", metavar="SHARE")]
StepPattern = Annotated[
    str | None,
    Option("A step of COMMAND ends at each line that matches, e.g. 'iter (?P<value>[0-9.]+) ms'.", metavar="REGEX"),
]
Steps = Annotated[
    bool, Option("COMMAND reports its steps by edgetune.step(), or is a script that trains with PyTorch.", ("--steps",))
]


@options_class
class PointOptions:
    """The measuring options of one point, as written; ``parse_options.profile_options`` checks them."""

    point_timeout: options.PointTimeout = options.POINT_TIMEOUT
    cool_to: options.CoolTo = None
    cool_timeout: options.CoolTimeout = options.COOL_TIMEOUT
    inputs: options.Inputs = None
    dim: options.Dim = ()
    precision: options.Precision = None
    engine: Annotated[
        str | None,
        Option("What infers an ONNX network: ort (the default), or tensorrt on an NVIDIA GPU.", metavar="NAME"),
    ] = None
    dla_core: Annotated[
        int | None, Option("Core of the DLA that TensorRT uses, from 0.", metavar="N", least=0, most=7)
    ] = None
    allow_gpu_fallback: Annotated[bool, Option("Run layers that the DLA lacks on the GPU.")] = False
    python: Annotated[
        str | None,
        Option("Run an ONNX network, a Python file or script in this Python (3.6 or newer).", metavar="FILE"),
    ] = None
    step_pattern: StepPattern = None
    steps: Steps = False
    start: Annotated[
        str | None,
        Option("Starts the server for each point, e.g. 'llama-server -m m.gguf --port {port}'.", metavar="COMMAND"),
    ] = None
    seed: options.Seed = 0


@options_class
class ServerOptions:
    """The options of requests to a server, as written."""

    served_model: Annotated[
        str | None, Option("Name of the model at a server, http://...", ("--model",), "Problem", "NAME")
    ] = None
    prompt_tokens: Annotated[
        str | int | Sequence[int] | None,
        Option("Tokens of each prompt to a server, e.g. 64,256. Default: 128.", (), "Problem", "LIST"),
    ] = None
    output_tokens: Annotated[
        str | int | Sequence[int] | None,
        Option("Tokens of each answer of a server, e.g. 16,64. Default: 64.", (), "Problem", "LIST"),
    ] = None
    prompts: Annotated[
        str | None, Option("A file of prompts to a server, one in each line.", (), "Problem", "FILE")
    ] = None
    arrivals: Annotated[
        str | None,
        Option(
            "Send requests at these times, e.g. poisson:0.5/s, at most as many at once as the batch size. "
            "Default: each after an answer.",
            (), "Problem", "PROCESS",
        ),
    ] = None  # fmt: skip


@options_class
class MeasuringOptions(PointOptions):
    """The measuring options of a sweep, as written."""

    target_ci: TargetCi = "2%"
    minibatches: Annotated[
        int | None, Option("Time exactly N minibatches instead, e.g. 40.", metavar="N", least=1, most=1_000_000)
    ] = None
    retries: Annotated[int, Option("Measure a throttled point again up to N times.", metavar="N", least=0)] = 2
    fan: Annotated[str | None, Option("max: a board's fan at full speed meanwhile, then as found.", metavar="max")] = (
        None
    )
    interleave_repeats: Annotated[
        int | None,
        Option("Visit all points N times, each round in a new random order.", metavar="N", least=1, most=1000),
    ] = None
    soak: Annotated[
        str | None, Option("Keep each point running so long, and show where it settles, e.g. 30m.", metavar="TIME")
    ] = None
    idle_gap: Annotated[
        str | None, Option("Also time the first minibatch after so long without work, e.g. 1s,10s.", metavar="TIME,...")
    ] = None


@options_class
class MeasureCommandOptions:
    """The options of ``edgetune measure``."""

    commands: Annotated[
        Sequence[str],
        Option(
            "Commands, each in quotes; or one, unquoted, after --.", metavar="COMMAND", argument=True, repeatable=True
        ),
    ] = field(kw_only=False)
    device: options.Device = "auto"
    root: options.Root = None
    target_ci: TargetCi = "2%"
    runs: Annotated[
        int | None, Option("Time exactly N runs or steps instead, e.g. 40.", metavar="N", least=1, most=1_000_000)
    ] = None
    step_pattern: StepPattern = None
    steps: Steps = False
    point_timeout: options.PointTimeout = options.POINT_TIMEOUT
    output: Annotated[str | None, Option("Also write a table, a profile.", ("-o", "--output"), "Files", "FILE")] = None
    force: options.Force = False


_trained = partial(Option, group="Training")


@options_class
class ConvergenceOptions:
    """``--convergence`` and its options; an absent option is ``None``."""

    convergence: Annotated[
        bool, _trained("Train MODEL, or proxy:cnn, mlp, lstm or transformer: epochs to an accuracy, by batch size.")
    ] = False
    dataset: Annotated[
        str | None,
        _trained(
            "Data set to train on: shapes, words, chain, a .npz file with x and y, a .txt file, or a folder "
            "of text or of pictures.",
            metavar="NAME",
        ),
    ] = None
    target_accuracy: Annotated[str | float | None, _trained("Accuracy to reach, e.g. 90%.", metavar="SHARE")] = None
    max_epochs: Annotated[int | None, _trained("Most epochs of a run. Default: 40.", metavar="N", least=1)] = None
    seeds: Annotated[int | None, _trained("Runs per batch size. Default: 3.", metavar="N", least=1)] = None
    jobs: Annotated[int | None, _trained("Runs in parallel. Default: one per core.", metavar="N", least=1)] = None
    learning_rate: Annotated[
        float | None,
        _trained(
            "Learning rate at batch size 32, scaled by the square root of the batch size. Default: 0.001.",
            metavar="RATE",
        ),
    ] = None


@options_class
class ProfileCommandOptions(ServerOptions, ConvergenceOptions, MeasuringOptions):
    """The options of ``edgetune profile``."""

    model: Annotated[
        str,
        Option(
            "An ONNX file, a .pt2 program, a TensorRT .engine, a Python file that trains, zoo:NAME, "
            "a server http://..., -- COMMAND ..., or a name in a table; proxy:NAME to --convergence.",
            metavar="MODEL", argument=True,
        ),
    ] = field(kw_only=False)  # fmt: skip
    task: Annotated[
        str | None,
        Option(
            "Task to measure. Default: train for a Python file, infer for a network.",
            ("--task", "-t"), "Problem", "infer|train",
        ),
    ] = None  # fmt: skip
    batch_sizes: Annotated[
        str | Sequence[int] | None,
        Option(
            "Samples per minibatch, e.g. 1,4,16; max for the largest that fits in memory. Default: the exported size, "
            "else 1; of a table, all sizes.",
            ("--batch-sizes", "-b"), "Problem", "LIST",
        ),
    ] = None  # fmt: skip
    memory_budget: Annotated[
        str | int | None,
        Option("Most memory for --batch-sizes max, e.g. 2GiB. Default: 90% of what is free.", (), "Problem", "SIZE"),
    ] = None
    batch_axis: options.BatchAxis = ()
    batch_option: Annotated[
        str | None,
        Option(
            "The option by which a Python script takes its batch size, e.g. --batch-size.",
            group="Problem",
            metavar="OPTION",
        ),
    ] = None
    device: options.Device = "auto"
    root: options.Root = None
    modes: options.Modes = None
    shard: Annotated[
        str | None,
        Option("Measure share I of N of the modes, for edgetune merge: one of N boards.", ("--shard",), "Where", "I/N"),
    ] = None
    anchors: Annotated[
        int,
        Option(
            "With --shard and on a fleet: modes that every board measures, first and again at the end.",
            ("--anchors",), "Where", "N", least=0, most=100,
        ),
    ] = 3  # fmt: skip
    board: Annotated[
        str | None,
        Option(
            "Name of this board in the table. Default with --shard: its serial number, else host and device.",
            ("--board",), "Where", "NAME",
        ),
    ] = None  # fmt: skip
    board_tolerance: BoardTolerance = "10%"
    ops: options.Ops = None
    output: Annotated[
        str | None,
        Option(
            "Output file. Default: a pipe, else a file named after the network.", ("-o", "--output"), "Files", "FILE"
        ),
    ] = None
    fresh: options.Fresh = False
    force: options.Force = False


def given(opts: Any, kind: type) -> list[str]:
    """Return the options of a dataclass ``kind`` that ``opts`` sets to other values than their defaults."""
    changed = [each.name for each in fields(kind) if getattr(opts, each.name) != each.default]
    return [f"--{name.replace('_', '-')}" for name in changed]


@options_class
class MergeOptions:
    """The options of ``edgetune merge``."""

    tables: Annotated[
        Sequence[str],
        Option("Profiles, the oldest first; - for standard input.", metavar="PROFILE", argument=True, repeatable=True),
    ] = field(kw_only=False)
    output: Annotated[
        str | None,
        Option("Merged table; may be one of the inputs. Default: a pipe.", ("-o", "--output"), "Files", "FILE"),
    ] = None
    board_tolerance: BoardTolerance = "10%"
    common: Annotated[
        bool, Option("Give every row as the common board would have measured it: by the boards' factors.")
    ] = False
    column: options.Column = ()
    force: options.Force = False


@options_class
class CompareOptions:
    """The options of ``edgetune compare``."""

    tables: Annotated[
        Sequence[str],
        Option(
            "Tables of measurements: the baseline, then those to compare with it; - for standard input.",
            metavar="BASELINE TABLE", argument=True, repeatable=True,
        ),
    ] = field(kw_only=False)  # fmt: skip
    fail_above: Annotated[
        str | float | None,
        Option("End with 5 if a point is slower by more than this with certainty, is missing, or cannot be compared.",
               metavar="SHARE"),
    ] = None  # fmt: skip
    allow_missing: Annotated[bool, Option("--fail-above accepts points that only the baseline has.")] = False
    column: options.Column = ()
