"""``edgetune search``: the best power mode and batch size within budgets, from a table or live on a device."""

from edgetune.cli.app import LazyApp
from edgetune.cli.command import DefaultGroup, PlanningTerminal, Terminal, command
from edgetune.workflows.search.options import EvaluationOptions, SearchOptions

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
    from edgetune.cli.search_report import report, report_plan
    from edgetune.workflows.search import run as workflow

    if terminal.dry_run:
        report_plan(workflow.plan_search(opts, terminal.screen), terminal)
        return
    workflow.search(opts, terminal.screen, lambda answer: report(answer, opts, terminal))


@command(
    app, short_help="Compare strategies with the best answers of measured tables.",
    usual=("family", "strategies", "sample", "seeds", "noise", "by", "output", "plot"),
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
    from edgetune.cli.search_report import progress_reporter, report_evaluation
    from edgetune.workflows.search import evaluate as workflow

    workflow.evaluate(
        opts,
        terminal.screen,
        progress_reporter(terminal.screen),
        lambda made, target: report_evaluation(made, target, opts, terminal),
    )
