"""``edgetune roofline``: what a device can do, where a network lies beneath that, and what its operators cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from edgetune.cli import options
from edgetune.cli.default_command import DefaultGroup
from edgetune.cli.options import Root
from edgetune.cli.screen import Screen, answer, print_document
from edgetune.workflows.output import begin_outputs

if TYPE_CHECKING:
    from edgetune.artifacts.ops import OpsTable

Task = Annotated[
    str | None, typer.Option("--task", "-t", metavar="infer|train", help="What the network does. Default: infer.")
]
Train = Annotated[bool, typer.Option("--train", help="Short for --task train.")]

app = typer.Typer(cls=DefaultGroup, rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def roofline(
    ctx: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="An ONNX file, zoo:NAME or llm:CONFIG. Default: peaks alone."),
    ] = None,
    *,
    task: Task = None,
    train: Train = False,
    device: Annotated[
        str | None,
        typer.Option("--device", "-d", metavar="NAME", help="Which one; see edgetune device. Default: auto."),
    ] = None,
    root: Root = None,
    modes: Annotated[
        str | None,
        typer.Option("--modes", "-m", metavar="SPEC", help="Peaks in these; the network in up to 4. Default: MAXN."),
    ] = None,
    batch_sizes: Annotated[
        str | None,
        typer.Option("--batch-sizes", "-b", metavar="LIST", help="Samples per minibatch. Default: as exported or 1."),
    ] = None,
    batch_axis: options.BatchAxis = None,
    inputs: options.Inputs = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            metavar="LIST",
            help="One or several of fp32, tf32, fp16, bf16, fp8, int8. Default: the network's own types.",
        ),
    ] = None,
    dim: options.Dim = None,
    phase: Annotated[
        str | None,
        typer.Option(metavar="prefill|decode", help="Of a language model, this alone. Default: both."),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Tokens to prefill, or cached when decoding: 512,2048. Default: 2048."),
    ] = None,
    peaks: Annotated[
        str | None, typer.Option(metavar="FILE", help="A roofline measured earlier, instead of measuring peaks.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="FILE", help="Times of the network, instead of measuring it.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write the roofline there; - for the pipe.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw it: svg, png, pdf, or html for a browser.")
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(metavar="VIEW", help="Of --plot: roofs (default), batches for intensity, or clocks for peaks."),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Give the plan of least energy at most so much slower, e.g. 5%."),
    ] = None,
    fused: Annotated[bool, typer.Option("--fused", help="Fold element-wise chains into their producer.")] = False,
    layers: Annotated[bool, typer.Option("--layers", help="Time every layer of the network, too.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes of kernels.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Use --peaks of another device; replace any file.")] = False,
    no_measure: Annotated[bool, typer.Option("--no-measure", help="Do not run the network.")] = False,
    seed: options.Seed = 0,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure what a device can do, in time and in energy, and say where a network lies beneath it.

    \b
      edgetune roofline zoo:resnet50 --device twin:orin-agx --batch-sizes 1,16
      edgetune roofline zoo:resnet50 --device twin:orin-agx --precision fp32,fp16 --plot roofs.svg
      edgetune roofline --device host --quick -o host.yaml
      edgetune roofline model.onnx --device host --peaks host.yaml
      edgetune roofline zoo:resnet50 --device twin:orin-agx --tune 5% -o plan.yaml
      edgetune roofline llm:config.json --device twin:orin-agx --precision fp16 --context 512,2048,8192
    """
    begin_outputs(force=force)
    if model is device is None and not (root or peaks or output or dry_run):
        print_document(ctx.get_help())
        return
    from edgetune.cli.roofline_request import RooflineOptions
    from edgetune.cli.run_roofline import run_roofline

    opts = RooflineOptions(
        model, task_of(task, train=train), device or "auto", root, modes, batch_sizes, precision, tuple(dim or ()),
        peaks, profile, output, plot, view, tune, fused=fused, layers=layers, quick=quick, force=force,
        no_measure=no_measure, dry_run=dry_run, json=json, seed=seed, phase=phase, context=context,
        batch_axis=tuple(batch_axis or ()), inputs=inputs,
    )  # fmt: skip
    run_roofline(opts, Screen(quiet, verbose))


@app.command()
def ops(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="An ONNX file, zoo:NAME or llm:CONFIG.", show_default=False)
    ],
    *,
    task: Task = None,
    train: Train = False,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Samples per minibatch. Default: as exported or 1.")
    ] = None,
    batch_axis: options.BatchAxis = None,
    inputs: options.Inputs = None,
    precision: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Store floats as fp32, fp16, bf16, int8. Default: as the network does."),
    ] = None,
    dim: options.Dim = None,
    phase: Annotated[
        str | None, typer.Option(metavar="prefill|decode", help="Of a language model.", show_default=False)
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Tokens to prefill, or cached when decoding. [default: 2048]"),
    ] = None,
    fused: Annotated[
        bool, typer.Option("--fused", help="Fold element-wise chains and BatchNormalization into their producer.")
    ] = False,
    eager: Annotated[
        bool, typer.Option("--eager", help="Take attention, GELU, LSTM and the like apart into kernels.")
    ] = False,
    by: Annotated[str, typer.Option("--by", metavar="op|class|node", help="What to add rows up by.")] = "op",
    strict: Annotated[bool, typer.Option("--strict", help="End with 2 when an operator has no known cost.")] = False,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write the table of every operator there.")
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Print what each operator costs.

    What is accounted for comes first, then totals, then operators. No weights are read and nothing is run, unless
    shapes or loops depend on the data, or a network exported for one batch size is costed at another: then one run
    shows them, or that its answers agree. The file of -o is what --ops of edgetune profile takes; -o - writes it to
    standard output in place of the answer.
    """
    from typing import cast, get_args

    from edgetune.artifacts.ops import By
    from edgetune.choices import choose
    from edgetune.cli.ops_report import ops_answer, show_ops
    from edgetune.cli.phases import with_phase
    from edgetune.workflows.batch_choice import choose_batch_sizes, parse_batch_axes
    from edgetune.workflows.output import Target, check_outputs, choose_target
    from edgetune.workflows.parse_options import parse_dimensions, parse_inputs, parse_precision, parse_task
    from edgetune.workloads.costs import operator_table
    from edgetune.workloads.observed import Feed
    from edgetune.workloads.resolve import resolve

    begin_outputs(force=force)
    kind, grouping = parse_task(task_of(task, train=train)), cast("By", choose(by, get_args(By), what="grouping"))
    width = None if precision is None else parse_precision(precision)
    dimensions, inputs = parse_dimensions(dim or ()), parse_inputs(inputs)
    target = Target(None) if output is None else choose_target(output, output, json=json)
    check_outputs({"-o": target.file}, [model], {"-o": "ops"})
    workload = resolve(model, parse_batch_axes(batch_axis or ()))
    dimensions = with_phase(workload, dimensions, phase, context)
    (size,), batch = choose_batch_sizes(
        workload, [batch_size] if batch_size else [], task=kind, dimensions=dimensions, inputs=inputs, use="costed"
    )
    table = operator_table(
        workload, kind, size, precision=width, dimensions=dimensions, fused=fused, eager=eager, feed=Feed(inputs)
    )
    if strict:
        require_known(table)
    if batch is not None:
        Screen(quiet).info(batch)
    if output is not None:
        target.write(table)
        target.report(Screen(quiet))
    if output == "-":
        return
    answer(ops_answer(table, grouping, output)) if json else show_ops(table, grouping)


def task_of(task: str | None, *, train: bool) -> str:
    """Return the task of ``--task`` and ``--train``; without either, ``infer``.

    Raises:
        InputError: they contradict each other.
    """
    from edgetune.errors import InputError

    if train and task not in (None, "train"):
        raise InputError(f"--train and --task {task} contradict each other", "give one of them")
    return "train" if train else task or "infer"


def require_known(table: OpsTable) -> None:
    """Refuse a table that leaves operators out.

    Raises:
        InputError: it does; they are named.
    """
    from edgetune.artifacts.ops import ledger
    from edgetune.errors import InputError

    unmodelled = next(entry for entry in ledger(table) if entry.ledger == "unmodelled")
    if unmodelled.nodes:
        raise InputError(
            f"{table.workload} has {unmodelled.nodes} nodes without a known cost: {', '.join(unmodelled.ops)}",
            "leave out --strict to see the costs of the others",
        )
