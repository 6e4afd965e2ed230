"""The options of ``edgetune search``, ``search evaluate`` and ``search sensitivity``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from edgetune.workflows import options
from edgetune.workflows.options import Option

FAMILIES = ("train", "infer", "train+infer", "infer+infer", "dynamic", "accuracy")
"""Families of problems that ``search evaluate`` replays."""
PowerBudget = Annotated[str | float | None, Option("Mean power at most, e.g. 30W.", (), "Problem", "POWER")]
Margin = Annotated[str | float | None, Option("Share of each budget to keep free, e.g. 5%.", (), "Problem", "SHARE")]


@dataclass(frozen=True, kw_only=True)
class ProblemOptions:
    """What is asked of the answer, as written; an option goes before what the file of ``--problem`` says."""

    kind: Annotated[
        str | None,
        Option(
            "The problem: train, infer, train+infer, infer+infer or accuracy. Default: the task of the table.",
            (),
            "Problem",
            "KIND",
        ),
    ] = None
    power_budget: PowerBudget = None
    latency_budget: Annotated[str | float | None, Option("Every answer within, e.g. 80ms.", (), "Problem", "TIME")] = (
        None
    )
    arrival_rate: Annotated[
        str | float | None, Option("Requests to keep up with, e.g. 60/s.", (), "Problem", "RATE")
    ] = None
    objective: Annotated[
        str | None, Option("throughput, latency, time, energy or energy-delay.", (), "Problem", "NAME")
    ] = None
    margin: Margin = None
    problem: Annotated[
        str | None, Option("Read the problem from YAML, or from a plan; options go first.", (), "Problem", "FILE")
    ] = None
    background: Annotated[
        str | None,
        Option("The second network, without a deadline: its name, or a MODEL.", (), "Problem", "NAME"),
    ] = None
    background_batch: Annotated[
        int | None, Option("Samples per minibatch of the second network.", (), "Problem", "N", least=1)
    ] = None
    convergence: Annotated[
        str | None,
        Option("Epochs to the target accuracy by batch size, for accuracy.", (), "Problem", "FILE"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SearchOptions(ProblemOptions):
    """The options of ``edgetune search``."""

    sources: Annotated[
        Sequence[str],
        Option(
            "A profile (Parquet or CSV), or several of one device; - for standard input (the default); or a MODEL to "
            "measure.",
            metavar="TABLE",
            argument=True,
            repeatable=True,
        ),
    ] = field(default=(), kw_only=False)
    workload: Annotated[str | None, Option("Which network, when the table has several.", (), "Problem", "NAME")] = None
    task: Annotated[str | None, Option("Of a MODEL.", ("--task", "-t"), "Problem", "infer|train")] = None
    batch_sizes: Annotated[
        str | Sequence[int] | None, Option("To choose from, e.g. 1,4,16.", ("--batch-sizes", "-b"), "Problem", "LIST")
    ] = None
    dim: options.Dim = ()
    batch_axis: options.BatchAxis = ()
    device: Annotated[
        str | None, Option("Measure a MODEL live on this device.", ("--device", "-d"), "Where", "NAME")
    ] = None
    root: options.Root = None
    modes: options.Modes = None
    strategy: Annotated[
        str | None,
        Option(
            "roofline (the default), pareto, gmd, als, staircase, binary, random, nn, tpe, gp, exhaustive; "
            "or auto: what fits the time there is.",
            metavar="NAME",
        ),
    ] = None
    max_points: Annotated[
        int | None, Option("Most points to measure. Default: the strategy's own.", metavar="N", least=0)
    ] = None
    time_budget: Annotated[str | float | None, Option("Stop measuring after this, e.g. 10m.", metavar="TIME")] = None
    reusable: Annotated[
        bool, Option("Spend the points on every budget, for budgets will change (pareto).", ("--reusable",))
    ] = False
    power_noise: Annotated[
        str | float | None,
        Option(
            "How much power readings waver; the winner is measured again until it is surely within budget. "
            "Default: 1.5% on a live sensor, 0% from a table or a model.",
            metavar="SHARE",
        ),
    ] = None
    precision: options.Precision = None
    point_timeout: options.PointTimeout = options.POINT_TIMEOUT
    cool_to: options.CoolTo = None
    cool_timeout: options.CoolTimeout = options.COOL_TIMEOUT
    seed: options.Seed = 0
    column: options.Column = ()
    ops: options.Ops = None
    inputs: options.Inputs = None
    known: Annotated[
        str | None, Option("A profile measured earlier: its points cost nothing.", (), "Files", "FILE")
    ] = None
    like: Annotated[
        Sequence[str],
        Option(
            "A profile of another network on this device, as a first guess. Repeatable.",
            (),
            "Files",
            "FILE",
            repeatable=True,
        ),
    ] = ()
    roofline: Annotated[
        str | None, Option("The device's roofline, as a first guess with the network's cost.", (), "Files", "FILE")
    ] = None
    output: Annotated[str | None, Option("The plan. Default: print it.", ("-o", "--output"), "Files", "FILE")] = None
    trace: Annotated[str | None, Option("Write every step of the search there.", (), "Files", "FILE")] = None
    points: Annotated[
        str | None, Option("Keep what is measured there; what it holds already costs nothing.", (), "Files", "FILE")
    ] = None
    plot: Annotated[
        str | None, Option("Draw what was measured and the answer: svg, png or pdf.", (), "Files", "FILE")
    ] = None
    force: options.Force = False

    def for_network(self) -> list[str]:
        """Return the options given that only make sense with a network."""
        named = ("device", "root", "cool_to", "modes", "dim", "batch_axis", "precision", "ops", "inputs")
        given = [f"--{name.replace('_', '-')}" for name in named if getattr(self, name)]
        return [*given, *(["--point-timeout"] if self.point_timeout != options.POINT_TIMEOUT else [])]


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """The options of ``edgetune search evaluate``."""

    tables: Annotated[
        Sequence[str],
        Option("Profiles with every point measured; - for one.", metavar="TABLE", argument=True, repeatable=True),
    ] = field(kw_only=False)
    family: Annotated[
        str | None,
        Option(
            "train, infer, train+infer, infer+infer, dynamic or accuracy. Default: the task of the tables.",
            (),
            "Problem",
            "NAME",
        ),
    ] = None
    grid: Annotated[
        str | None,
        Option(
            "Problems of the Fulcrum study, or scaled to each table. Default: the study's for its networks on an Orin "
            "AGX.",
            (),
            "Problem",
            "fulcrum|auto",
        ),
    ] = None
    sample: Annotated[
        int | None,
        Option(
            "Replay N solvable problems, spread over workloads and power budgets. "
            "Default: 5000 where a strategy searches for each, else all.",
            (),
            "Problem",
            "N",
            least=1,
        ),
    ] = None
    everything: Annotated[bool, Option("Replay every problem.", ("--all",), "Problem")] = False
    arrivals: Annotated[
        str | None, Option("Requests to replay, for dynamic. Default: Poisson, 60/s.", (), "Problem", "FILE")
    ] = None
    scale: Annotated[
        str | float | None, Option("Scale the requests to this mean, e.g. 60/s.", (), "Problem", "RATE")
    ] = None
    power_budget: Annotated[str | float, Option("Of dynamic problems.", (), "Problem", "POWER")] = "40W"
    latency_budget: Annotated[str | float, Option("Of dynamic problems.", (), "Problem", "TIME")] = "100ms"
    convergence: Annotated[
        Sequence[str],
        Option("Epochs to the target by batch size, for accuracy. Repeatable.", (), "Problem", "FILE", repeatable=True),
    ] = ()
    strategies: Annotated[str, Option("Whom to judge, e.g. roofline,gmd,random:250.", metavar="NAME[:POINTS],...")] = (
        "roofline,random:250"
    )
    seeds: Annotated[int, Option("Repeat with so many seeds, from 0.", metavar="N", least=1)] = 1
    noise: Annotated[
        str | float, Option("Deviation of every measured time; powers have half of it. E.g. 3%.", metavar="SHARE")
    ] = "0%"
    tie: Annotated[str | float, Option("Excess that is none: noise of the tables, e.g. 3%.", metavar="SHARE")] = "0%"
    jobs: Annotated[
        int | None, Option("Processes. Default: as many as there are processors.", metavar="N", least=1)
    ] = None
    output: Annotated[
        str | None, Option("A row per problem. Default: evaluation.parquet.", ("-o", "--output"), "Files", "FILE")
    ] = None
    plot: Annotated[
        str | None, Option("Draw the excess of each strategy: .svg, .png or .pdf.", (), "Files", "FIGURE")
    ] = None
    force: options.Force = False
    by: Annotated[
        str, Option("Print a row per strategy, or for each workload too.", (), "Output", "strategy|workload")
    ] = "strategy"


@dataclass(frozen=True, kw_only=True)
class SensitivityOptions:
    """The options of ``edgetune search sensitivity``."""

    profile: Annotated[str, Option("Training rows by batch size and mode.", metavar="PROFILE", argument=True)] = field(
        kw_only=False
    )
    tables: Annotated[
        Sequence[str], Option("More convergence tables.", metavar="TABLE", argument=True, repeatable=True)
    ] = field(default=(), kw_only=False)
    convergence: Annotated[
        Sequence[str], Option("A convergence table. Repeatable.", (), "Problem", "TABLE", repeatable=True)
    ] = ()
    power_budget: PowerBudget = None
    margin: Margin = None
    objective: Annotated[str, Option("time, energy or energy-delay.", (), "Problem", "NAME")] = "time"
    workload: Annotated[str | None, Option("Which network, when the profile has several.", (), "Problem", "NAME")] = (
        None
    )
