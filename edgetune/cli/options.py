"""Options that several commands share, each defined once."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on standard error but errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Say more; show a traceback on an unexpected error.")]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of everything random; it is recorded.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be measured and how long it may take.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that edgetune did not write.")]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        "-d",
        metavar="NAME",
        help="jetson, nvidia:0, host, twin:orin-agx, recorded:FILE; see edgetune device.",
    ),
]
Modes = Annotated[
    str | None,
    typer.Option(
        "--modes",
        "-m",
        metavar="SPEC",
        help="A preset (MAXN), grid:441, all, ranges (gpu_mhz=318:1300:3), as-found or a file. Default: MAXN.",
    ),
]
BatchSizes = Annotated[
    str | None,
    typer.Option(
        "--batch-sizes",
        "-b",
        metavar="LIST",
        help="Samples per minibatch, e.g. 1,4,16. Default: as exported, else 1; or all of a table.",
    ),
]
Ops = Annotated[
    str | None,
    typer.Option(
        "--ops", metavar="FILE", help="Simulate from this operator table of MODEL, as edgetune roofline ops writes it."
    ),
]
PointTimeout = Annotated[str, typer.Option(metavar="TIME", help="Give a point up after this.")]
CoolTo = Annotated[
    str | None,
    typer.Option("--cool-to", metavar="TEMP", help="Wait before each point until no hotter than this, e.g. 50C."),
]
CoolTimeout = Annotated[str, typer.Option("--cool-timeout", metavar="TIME", help="Measure it anyway after this.")]
Inputs = Annotated[str | None, typer.Option(metavar="FILE", help="A .npz with an array per input.")]
Task = Annotated[str, typer.Option("--task", "-t", metavar="infer|train", help="What the network does.")]
Dim = Annotated[
    list[str] | None, typer.Option("--dim", metavar="NAME=SIZE", help="Size of a symbolic dimension. Repeatable.")
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="THEIRS=OURS",
        help="What a column of your own table holds, e.g. lat=minibatch_ms; note=- leaves it out; task=infer holds for "
        "all rows of a table without that column. Repeatable.",
    ),
]
BatchAxis = Annotated[
    list[str] | None,
    typer.Option(
        "--batch-axis", metavar="INPUT=AXIS", help="Along which axis of an input samples lie; or none. Repeatable."
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision", metavar="NAME", help="What a twin computes in: fp32, fp16, ... Default: the network's own types."
    ),
]

Kind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="The problem: train, infer, train+infer, infer+infer or accuracy. Default: the task of the table.",
    ),
]
PowerBudget = Annotated[str | None, typer.Option(metavar="POWER", help="Mean power at most, e.g. 30W.")]
LatencyBudget = Annotated[str | None, typer.Option(metavar="TIME", help="Every answer within, e.g. 80ms.")]
ArrivalRate = Annotated[str | None, typer.Option(metavar="RATE", help="Requests to keep up with, e.g. 60/s.")]
Objective = Annotated[
    str | None, typer.Option(metavar="NAME", help="throughput, latency, time, energy or energy-delay.")
]
Margin = Annotated[str | None, typer.Option(metavar="SHARE", help="Share of each budget to keep free, e.g. 5%.")]

Convergence = Annotated[
    bool,
    typer.Option("--convergence", help="Train MODEL or proxy:cnn instead: epochs to an accuracy, by batch size."),
]
Dataset = Annotated[
    str | None,
    typer.Option("--dataset", metavar="NAME", help="To train on: shapes, gratings or a .npz of x and y."),
]
TargetAccuracy = Annotated[
    str | None, typer.Option("--target-accuracy", metavar="SHARE", help="Until so many are right, e.g. 90%.")
]
MaxEpochs = Annotated[int | None, typer.Option("--max-epochs", min=1, metavar="N", help="Train so long. Default: 40.")]
Seeds = Annotated[int | None, typer.Option("--seeds", min=1, metavar="N", help="Runs per batch size. Default: 3.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, metavar="N", help="Runs at a time. Default: one per core.")]
Optimizer = Annotated[str | None, typer.Option("--optimizer", metavar="NAME", help="adam (default) or adamw.")]
LearningRate = Annotated[
    float | None,
    typer.Option(
        "--learning-rate", metavar="RATE", help="At batch 32; scaled by the square root of the batch. Default: 0.001."
    ),
]


Root = Annotated[
    str | None,
    typer.Option("--root", metavar="DIR", help="The folder with the sys and proc of the board: a mount, or a fake."),
]
