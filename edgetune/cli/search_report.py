"""Prints the estimate of ``edgetune search``, its plan, and the comparison of the answer with baselines.

Prints the progress and the result of ``edgetune search evaluate``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import yaml

from edgetune.artifacts import io
from edgetune.artifacts.document import present
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Profile
from edgetune.artifacts.yaml_document import plain
from edgetune.cli.plot import draw_finished
from edgetune.cli.progress import print_over
from edgetune.cli.screen import SIMULATED, Screen, answer, print_document, print_folded, print_lines, table
from edgetune.plotting.page import is_page
from edgetune.plotting.style import Figure
from edgetune.stages.search.figures.front import front_figure
from edgetune.units import format_duration, format_si
from edgetune.workflows.report.plan import ranked_table
from edgetune.workflows.report.report import Found, page_of
from edgetune.workflows.reporting import SimulationLabel
from edgetune.workflows.search.problem_options import describe_plan
from edgetune.workflows.search.training_notes import describe_training

if TYPE_CHECKING:
    from edgetune.artifacts.evaluation import Evaluation
    from edgetune.artifacts.trace import Trace
    from edgetune.cli.command import Terminal
    from edgetune.stages.search.answer import RankedPoint
    from edgetune.stages.search.evaluation.runner import EvaluationProgress
    from edgetune.workflows.output import Target
    from edgetune.workflows.search.options import EvaluationOptions, SearchOptions
    from edgetune.workflows.search.run import SearchAnswer
    from edgetune.workflows.search.strategy_choice import SearchEstimate


def report(found: SearchAnswer, opts: SearchOptions, terminal: Terminal) -> None:
    """Draw what was measured, compare an answer of time to accuracy with baselines, and print the plan."""
    screen = terminal.screen
    try:
        if found.trace is not None:
            _draw(found, opts, screen)
            if found.plan is not None and found.problem.kind == "accuracy":
                for line in describe_training(found):
                    screen.info(line)
        if found.top and not screen.quiet:
            table(*ranked_table(found.top), stream=sys.stderr)
    finally:
        if found.plan is not None:
            print_plan(found.plan, opts.output, json=terminal.json, top=found.top)


def print_plan(plan: Plan, output: str | None, *, json: bool, top: Sequence[RankedPoint] = ()) -> None:
    """Print the plan, unless it goes to a file and no JSON answer is requested; JSON has the best points too."""
    document = plan.to_bytes().decode()
    if json:
        answer({**yaml.safe_load(document), **({"top": [present(plain(each)) for each in top]} if top else {})})
    elif output in (None, "-"):
        print_document(document)


def give(plan: Plan, output: str | None, screen: Screen, *, json: bool) -> None:
    """Print the plan, or write it to its file, and report what was found."""
    print_plan(plan, output, json=json)
    if output is not None and output != "-":
        io.write(plan, output)
        screen.info(f"wrote {output}")
    screen.info(describe_plan(plan))


def _draw(found: SearchAnswer, opts: SearchOptions, screen: Screen) -> None:
    """Draw the front that the search found, before the true one of a table."""
    trace = found.trace
    assert trace is not None
    again = None if opts.trace is None else f"edgetune show {opts.trace} --plot {opts.plot} --view front"
    draw_finished(lambda: _drawing(found, trace, opts), opts.plot, screen, again)


def _drawing(found: SearchAnswer, trace: Trace, opts: SearchOptions) -> Figure | bytes:
    """Return the front, or the page of plan, trace and table where the name of the file asks for one."""
    rows = found.candidates.rows if found.candidates.free else ()
    if not is_page(str(opts.plot)):
        return front_figure(trace, plan=found.plan, table_rows=rows)
    shown = [Found(opts.output or "plan", found.plan)] if found.plan is not None else []
    table = Profile(trace.header, tuple(rows))
    return page_of([*shown, Found(opts.trace or "trace", trace)], beside=[table] if rows else []).data()


def report_plan(estimate: SearchEstimate, terminal: Terminal) -> None:
    """Print the most points a search measures, and the time and energy they may take."""
    time, energy, expected = estimate.duration_s, estimate.energy_j, estimate.expected
    SimulationLabel(estimate.simulated, Screen()).announce()
    if terminal.json:
        figures = {"offered": estimate.offered, "points": estimate.points, "duration_s": time, "energy_j": energy}
        answer({**figures, "strategy": estimate.strategy, "what": estimate.described})
        return
    cost = "looked up, not measured"
    if expected is not None:
        takes = "unknown" if time is None else f"about {format_duration(time)}"
        draws = "unknown" if energy is None else f"about {format_si(energy, 'J')}"
        cost = f"time {takes}, energy {draws} ({expected.basis})"
    who = "there is no time for a strategy" if estimate.strategy is None else f"by {estimate.strategy}"
    points = f"at most {estimate.points} of {estimate.offered} points of {estimate.described}"
    print_folded(f"{points}, {who}; {cost}")


_REPORT_EVERY_S = 20.0


def progress_reporter(screen: Screen) -> Callable[[EvaluationProgress], None] | None:
    """Return a function that reports progress and time left at intervals; on a terminal it overwrites its line."""
    if screen.quiet:
        return None
    terminal = sys.stderr.isatty()
    last_s = time.monotonic()

    def show(progress: EvaluationProgress) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        ended = progress.done == progress.total
        if terminal and (ended or now_s - last_s > 0.2):
            print_over(_line(progress), last=ended)
        elif not terminal and not ended and now_s - last_s > _REPORT_EVERY_S:
            screen.info(_line(progress))
        else:
            return
        last_s = now_s

    return show


def _line(progress: EvaluationProgress) -> str:
    done = f"{progress.done:,} of {progress.total:,} searches"
    return done if progress.left_s is None else f"{done}, about {format_duration(float(f'{progress.left_s:.2g}'))} left"


def report_evaluation(evaluation: Evaluation, target: Target, opts: EvaluationOptions, terminal: Terminal) -> None:
    """Print the figures, unless standard output carries the table, and draw the figure asked for."""
    from edgetune.cli.plot import draw_kept
    from edgetune.cli.sections import TextSection
    from edgetune.workflows.report import evaluation as figures

    if terminal.json:
        answer(figures.answer(evaluation, opts.by))
    elif target.path is not None:
        if evaluation.header.simulated:
            print_lines(SIMULATED)
        figures.evaluation_section(evaluation, TextSection(), opts.by)
    draw_kept(evaluation, opts.plot, terminal.screen, view=None, file=target.file)
