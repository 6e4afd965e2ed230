"""The options of ``edgetune search`` and ``search evaluate``."""

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Annotated

from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class
from edgetune.workflows.profile.options import PointOptions, ServerOptions

FAMILIES = ("train", "infer", "train+infer", "infer+infer", "dynamic")
"""Families of problems that ``search evaluate`` replays."""

_asked, _file = partial(Option, group="Problem"), partial(Option, group="Files")
_table = partial(Option, metavar="TABLE", argument=True, repeatable=True)


@options_class
class ProblemOptions:
    """The options of the problem, as written; an option overrides the file of ``--problem``."""

    kind: Annotated[
        str | None,
        _asked(
            "The problem: train, infer, train+infer, infer+infer or accuracy. Default: the task of the table.",
            metavar="KIND",
        ),
    ] = None
    power_budget: Annotated[str | float | None, _asked("Mean power at most, e.g. 30W.", metavar="POWER")] = None
    power_peak_budget: Annotated[
        str | float | None, _asked("Highest power sample at most, e.g. 35W.", metavar="POWER")
    ] = None  # fmt: skip
    latency_budget: Annotated[
        str | float | None, _asked("Longest latency of a request, e.g. 80ms.", metavar="TIME")
    ] = None
    ttft_budget: Annotated[
        str | float | None, _asked("Longest time to the first token (p95) of a server, e.g. 500ms.", metavar="TIME")
    ] = None
    token_budget: Annotated[
        str | float | None, _asked("Longest time of a further token (p95) of a server, e.g. 50ms.", metavar="TIME")
    ] = None
    memory_budget: Annotated[
        str | float | None, _asked("Most memory of the processes of a point, e.g. 2GiB.", metavar="SIZE")
    ] = None
    arrival_rate: Annotated[str | float | None, _asked("Request rate to serve, e.g. 60/s.", metavar="RATE")] = None
    objective: Annotated[
        str | None,
        _asked(
            "What to optimise: throughput, continuous-throughput, latency, time, energy, energy-delay or "
            "tokens-per-joule.",
            metavar="NAME",
        ),
    ] = None  # fmt: skip
    margin: Annotated[
        str | float | None, _asked("Share of each budget to keep free, e.g. 5%.", metavar="SHARE")
    ] = None  # fmt: skip
    problem: Annotated[
        str | None, _asked("Read the problem from a YAML file or a plan; options override it.", metavar="FILE")
    ] = None  # fmt: skip
    background: Annotated[
        str | None, _asked("The second network, without a deadline: its name, or a MODEL.", metavar="NAME")
    ] = None  # fmt: skip
    background_batch: Annotated[
        int | None, _asked("Samples per minibatch of the second network.", metavar="N", least=1)
    ] = None  # fmt: skip
    convergence: Annotated[
        str | None, _asked("Table of epochs to the target accuracy, for kind accuracy.", metavar="FILE")
    ] = None  # fmt: skip
    noise_scale: Annotated[
        float | None,
        _asked("Noise scale of the gradients, in samples, instead of --convergence: see help python.", metavar="N"),
    ] = None  # fmt: skip


@options_class
class StrategyOptions:
    """The options of the strategy and its limits."""

    strategy: Annotated[
        str | None,
        Option(
            "roofline, pareto, gmd, als, staircase, random, nn, tpe, gp or exhaustive. Default: exhaustive for a "
            "table, else roofline.",
            metavar="NAME",
        ),
    ] = None
    max_points: Annotated[
        int | None, Option("Most points to measure. Default: the strategy's own.", metavar="N", least=0)
    ] = None  # fmt: skip
    time_budget: Annotated[str | float | None, Option("Stop measuring after this, e.g. 10m.", metavar="TIME")] = None
    power_noise: Annotated[
        str | float | None,
        Option(
            "Scatter of power readings; the winner is measured again until it is surely within budget. "
            "Default: 1.5% on a live sensor, 0% from a table or a model.",
            metavar="SHARE",
        ),
    ] = None


@options_class
class SearchOptions(ServerOptions, PointOptions, StrategyOptions, ProblemOptions):
    """The options of ``edgetune search``."""

    sources: Annotated[
        Sequence[str],
        _table(
            "A profile (Parquet or CSV), or several of one device; - for standard input (the default); or a MODEL to "
            "measure with --device, or a program: -- ./app."
        ),
    ] = field(default=(), kw_only=False)
    workload: Annotated[
        str | None, _asked("Which network, when the table has several.", metavar="NAME")
    ] = None  # fmt: skip
    task: Annotated[str | None, _asked("Task of a MODEL.", ("--task", "-t"), metavar="infer|train")] = None
    batch_sizes: Annotated[
        str | Sequence[int] | None,
        _asked("Batch sizes to choose from, e.g. 1,4,16.", ("--batch-sizes", "-b"), metavar="LIST"),
    ] = None
    batch_axis: options.BatchAxis = ()
    device: Annotated[
        str | None, Option("Measure a MODEL live on this device.", ("--device", "-d"), "Where", "NAME")
    ] = None  # fmt: skip
    root: options.Root = None
    modes: options.Modes = None
    column: options.Column = ()
    ops: options.Ops = None
    known: Annotated[str | None, _file("An earlier profile, whose points are not measured again.", metavar="FILE")] = (
        None
    )
    like: Annotated[
        Sequence[str],
        _file(
            "A profile of another network on this device, as prior knowledge. Repeatable.",
            metavar="FILE", repeatable=True,
        ),
    ] = ()  # fmt: skip
    output: Annotated[
        str | None, _file("Write the plan to FILE. Default: print it.", ("-o", "--output"), metavar="FILE")
    ] = None
    top: Annotated[
        int | None, Option("Show the N best points, and why each lost.", (), "Output", "N", least=1)
    ] = None  # fmt: skip
    trace: Annotated[str | None, _file("Write every step of the search to FILE.", metavar="FILE")] = None
    points: Annotated[
        str | None, _file("Keep measured points in FILE; points in it are not measured again.", metavar="FILE")
    ] = None  # fmt: skip
    plot: Annotated[
        str | None, _file("Draw the measured points and the answer: .svg, .png, .pdf or .html.", metavar="FILE")
    ] = None  # fmt: skip
    force: options.Force = False

    def for_network(self) -> list[str]:
        """Return the given options that apply only to a network."""
        named = ("device", "root", "cool_to", "modes", "dim", "batch_axis", "precision", "ops", "inputs")
        of_server = ("prompt_tokens", "output_tokens", "prompts", "arrivals")
        given = [f"--{name.replace('_', '-')}" for name in (*named, *of_server) if getattr(self, name)]
        given += ["--model"] if self.served_model else []
        return [*given, *(["--point-timeout"] if self.point_timeout != options.POINT_TIMEOUT else [])]


@options_class
class EvaluationOptions:
    """The options of ``edgetune search evaluate``."""

    tables: Annotated[Sequence[str], _table("Profiles with every point measured; - for standard input.")] = field(
        kw_only=False
    )
    family: Annotated[
        str | None,
        _asked("train, infer, train+infer, infer+infer or dynamic. Default: the task of the tables.", metavar="NAME"),
    ] = None
    grid: Annotated[
        str | None,
        _asked(
            "Problems of the Fulcrum study, or scaled to each table. Default: the study's for its networks on an Orin "
            "AGX.",
            metavar="fulcrum|auto",
        ),
    ] = None
    sample: Annotated[
        int | None,
        _asked(
            "Replay N solvable problems, spread over workloads and power budgets. "
            "Default: 5000 where a strategy searches for each, else all.",
            metavar="N", least=1,
        ),
    ] = None  # fmt: skip
    everything: Annotated[bool, _asked("Replay every problem.", ("--all",))] = False
    arrivals: Annotated[
        str | None,
        _asked("Arrivals to replay, for family dynamic: a file, poisson or bursty (60/s).", metavar="FILE"),
    ] = None  # fmt: skip
    scale: Annotated[str | float | None, _asked("Scale the arrivals to this mean rate, e.g. 60/s.", metavar="RATE")] = (
        None
    )
    power_budget: Annotated[str | float, _asked("Power budget of dynamic problems.", metavar="POWER")] = "40W"
    latency_budget: Annotated[str | float, _asked("Latency budget of dynamic problems.", metavar="TIME")] = "100ms"
    strategies: Annotated[
        str, Option("Strategies to compare, e.g. roofline,gmd,random:250.", metavar="NAME[:POINTS],...")
    ] = "roofline,random:250"  # fmt: skip
    seeds: Annotated[int, Option("Repeat with N seeds, from 0.", metavar="N", least=1)] = 1
    noise: Annotated[
        str | float, Option("Noise added to every measured time, e.g. 3%; power gets half of it.", metavar="SHARE")
    ] = "0%"
    jobs: Annotated[
        int | None, Option("Parallel processes. Default: one per processor.", metavar="N", least=1)
    ] = None  # fmt: skip
    output: Annotated[
        str | None, _file("File of the problems. Default: evaluation.parquet.", ("-o", "--output"), metavar="FILE")
    ] = None  # fmt: skip
    force: options.Force = False
    by: Annotated[
        str, Option("Print a row per strategy, or for each workload too.", (), "Output", "strategy|workload")
    ] = "strategy"  # fmt: skip
