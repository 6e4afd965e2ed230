"""``edgetune search``: the best power mode and batch size within budgets, from a table or live on a device."""

import sys
from typing import TYPE_CHECKING, Any

from edgetune.cli.app import LazyApp
from edgetune.cli.command import DefaultGroup, PlanningTerminal, Terminal, command
from edgetune.cli.screen import SIMULATED, answer, print_document, print_lines
from edgetune.workflows.search.options import EvaluationOptions, SearchOptions

if TYPE_CHECKING:
    from edgetune.artifacts.evaluation import Evaluation
    from edgetune.artifacts.plan import Plan
    from edgetune.workflows.output import Target
    from edgetune.workflows.search.run import SearchAnswer
    from edgetune.workflows.search.strategy_choice import SearchEstimate

app = LazyApp(DefaultGroup)


_USUAL = (
    "kind", "power_budget", "latency_budget", "arrival_rate", "objective", "task", "batch_sizes", "device", "modes",
    "strategy", "output",
)  # fmt: skip


@command(app, default=True, usual=_USUAL)
def search(opts: SearchOptions, terminal: PlanningTerminal) -> None:
    """Find the best power mode and batch size within budgets, and print a plan.

    A table answers from all of its points; live, a search measures few:

    \b
      edgetune search table.csv --power-budget 30W
      edgetune search zoo:resnet18 --task train --batch-sizes 16 \\
        --device twin:orin-agx --modes grid:441 --power-budget 30W
      edgetune search infer.parquet train.parquet --kind train+infer \\
        --power-budget 30W --latency-budget 500ms --arrival-rate 60/s
    """
    from edgetune.workflows.search import run as workflow

    if terminal.dry_run:
        _report_plan(workflow.plan_search(opts, terminal.screen), terminal)
        return
    workflow.search(opts, terminal.screen, lambda found: _report(found, opts, terminal))


def _report(found: "SearchAnswer", opts: SearchOptions, terminal: Terminal) -> None:
    """Draw what was measured, print what stands beside the plan, and the plan."""
    from edgetune.artifacts.document import present
    from edgetune.artifacts.yaml_document import plain
    from edgetune.cli.plot import draw_finished
    from edgetune.cli.sections import TextSection
    from edgetune.workflows.search.sections import drawing_of, search_section

    try:
        again = None if opts.trace is None else f"edgetune show {opts.trace} --plot {opts.plot} --view front"
        draw_finished(lambda: drawing_of(found, opts), opts.plot, terminal.screen, again)
        if not terminal.quiet:
            search_section(found, TextSection(sys.stderr))
    finally:
        if found.plan is not None:
            top = {"top": [present(plain(each)) for each in found.top]} if found.top else {}
            print_plan(found.plan, opts.output, json=terminal.json, **top)


def print_plan(plan: "Plan", output: str | None, *, json: bool, **more: Any) -> None:
    """Print the plan, unless it goes to a file and no JSON answer is requested, which has ``more``."""
    import yaml

    document = plan.to_bytes().decode()
    if json:
        answer({**yaml.safe_load(document), **more})
    elif output in (None, "-"):
        print_document(document)


def _report_plan(estimate: "SearchEstimate", terminal: Terminal) -> None:
    """Print the most points a search measures, and the time and energy they may take."""
    from edgetune.cli.sections import TextSection
    from edgetune.workflows.search.sections import estimate_section

    if estimate.simulated:
        terminal.screen.simulated()
    if not terminal.json:
        estimate_section(estimate, TextSection())
        return
    time, energy = (0.0, 0.0) if (cost := estimate.expected) is None else (cost.duration_s, cost.energy_j)
    figures = {"offered": estimate.offered, "points": estimate.points, "duration_s": time, "energy_j": energy}
    answer({**figures, "strategy": estimate.strategy, "what": estimate.described})


@command(
    app, short_help="Compare strategies with the best answers of measured tables.",
    usual=("family", "strategies", "sample", "seeds", "noise", "by", "output"),
)  # fmt: skip
def evaluate(opts: EvaluationOptions, terminal: Terminal) -> None:
    """Replay a family of problems against tables and hold each strategy's answers against the best there is.

    \b
      edgetune search evaluate train-*.parquet --family train \\
        --strategies roofline:10,gmd,random:250

    Strategies that ignore budgets while they measure (random, nn, als, pareto) measure once and answer every problem
    from that; all others search for each problem anew. gmd-study, als-study, nn-study and random-study are as a study
    prints them, and measure once but for the first.
    """
    from edgetune.cli.sections import TextSection
    from edgetune.workflows.report import evaluation as figures
    from edgetune.workflows.search.evaluate import evaluate as workflow

    def report(evaluation: "Evaluation", target: "Target") -> None:
        if terminal.json:
            answer(figures.answer(evaluation, opts.by))
        elif target.path is not None:
            if evaluation.header.simulated:
                print_lines(SIMULATED)
            figures.evaluation_section(evaluation, TextSection(), opts.by)

    workflow(opts, terminal.screen, report)
