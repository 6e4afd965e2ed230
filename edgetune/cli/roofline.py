"""``edgetune roofline``: what a device can do, where a network lies beneath that, and what its operators cost."""

from typing import Any

import typer

from edgetune.cli.app import LazyApp
from edgetune.cli.command import DefaultGroup, PlanningTerminal, Terminal, command
from edgetune.cli.screen import answer, print_document
from edgetune.workflows.roofline.options import OpsOptions, RooflineOptions

app = LazyApp(DefaultGroup)

_MOST_ROWS = 15
"""Most rows of a table: the slowest layers, that cover most of the time of every network of the zoo."""


_USUAL = ("task", "batch_sizes", "device", "modes", "precision", "peaks", "tune", "layers", "quick", "output", "plot")


@command(app, default=True, usual=_USUAL)
def roofline(opts: RooflineOptions, terminal: PlanningTerminal, ctx: typer.Context) -> None:
    """Measure the peaks of a device, in time and in energy, and say what bounds a network on it.

    \b
      edgetune roofline zoo:resnet50 --device twin:orin-agx --batch-sizes 1,16
      edgetune roofline zoo:resnet50 --device twin:orin-agx \\
        --precision fp32,fp16 --plot roofs.svg
      edgetune roofline --device host --quick -o host.yaml
      edgetune roofline model.onnx --device host --peaks host.yaml
      edgetune roofline zoo:resnet50 --device twin:orin-agx --tune 5% -o plan.yaml
      edgetune roofline llm:config.json --device twin:orin-agx \\
        --precision fp16 --context 512,2048,8192
    """
    if opts.model is opts.device is None and not (opts.root or opts.peaks or opts.output or terminal.dry_run):
        print_document(ctx.get_help())
        return
    from edgetune.workflows.roofline import roofline as workflow

    if terminal.dry_run:
        _plan(workflow.plan_roofline(opts, terminal.screen), terminal)
    elif opts.tune is not None:
        _tune(opts, terminal)
    else:
        _place(opts, terminal)


def _plan(estimate: Any, terminal: PlanningTerminal) -> None:
    from edgetune.artifacts.yaml_document import plain
    from edgetune.cli.sections import TextSection
    from edgetune.workflows.roofline.sections import plan_section

    if terminal.json:
        answer({name: value for name, value in plain(estimate).items() if name != "precisions"})
    else:
        plan_section(estimate, TextSection())


def _place(opts: RooflineOptions, terminal: Terminal) -> None:
    from edgetune.cli.plot import draw_finished
    from edgetune.cli.sections import TextSection
    from edgetune.plotting.page import is_page
    from edgetune.workflows.roofline.roofline import roofline as measure
    from edgetune.workflows.roofline.sections import answer_of, placed_figure, placed_page, placed_sections

    found, target = measure(opts, terminal.screen)
    try:
        if target is not None:
            target.write(found[0].roofline)
            target.report(terminal.screen)
        draw = placed_page if is_page(str(opts.plot)) else placed_figure
        draw_finished(lambda: draw(found), opts.plot, terminal.screen, None)
    finally:  # measuring took minutes, and a full disk is no reason to keep silent
        if opts.output != "-" and terminal.json:
            answer(answer_of(found))
        elif opts.output != "-":
            placed_sections(found, TextSection(most=_MOST_ROWS, more="--json prints all"))


def _tune(opts: RooflineOptions, terminal: Terminal) -> None:
    from edgetune.artifacts import io
    from edgetune.cli.search import print_plan
    from edgetune.workflows.output import wrote
    from edgetune.workflows.roofline.roofline import tune
    from edgetune.workflows.search.problem_options import describe_plan

    plan, summary = tune(opts, terminal.screen)
    print_plan(plan, opts.output, json=terminal.json)
    if opts.output not in (None, "-"):
        io.write(plan, str(opts.output))
        terminal.screen.info(wrote(str(opts.output)))
    terminal.screen.info(describe_plan(plan))
    terminal.screen.info(summary)


@command(app)
def ops(opts: OpsOptions, terminal: Terminal) -> None:
    """Print what each operator costs.

    What is accounted for comes first, then totals, then operators. No weights are read and nothing is run, unless
    shapes or loops depend on the data, or a network exported for one batch size is costed at another: then one run
    shows them, or that its answers agree. The file of -o is what --ops of edgetune profile takes; -o - writes it to
    standard output in place of the answer.
    """
    from typing import cast, get_args

    from edgetune.artifacts.ops import By
    from edgetune.choices import choose
    from edgetune.cli.sections import TextSection
    from edgetune.workflows.report.tables import ops_answer, ops_section
    from edgetune.workflows.roofline.request import ops as workflow

    grouping = cast("By", choose(opts.by, get_args(By), what="grouping"))
    table = workflow(opts, terminal.screen)
    if opts.output == "-":
        return
    if terminal.json:
        answer(ops_answer(table, grouping, opts.output))
    else:
        ops_section(table, TextSection(), grouping)
