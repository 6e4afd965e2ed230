"""Prints the result of ``edgetune search evaluate``: a row of figures per strategy."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgetune.cli.screen import SIMULATED, Screen, answer, print_lines, print_over, table
from edgetune.stages.search.evaluation.results import Merit, excess_named, merits, solvable_problems
from edgetune.units import format_duration, format_si

if TYPE_CHECKING:
    from edgetune.artifacts.evaluation import Evaluation, EvaluationRun
    from edgetune.cli.command import Terminal
    from edgetune.stages.search.evaluation.runner import EvaluationProgress
    from edgetune.workflows.output import Target
    from edgetune.workflows.search.options import EvaluationOptions

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
    left = format_duration(float(f"{progress.left_s:.2g}"))
    return f"{progress.done:,} of {progress.total:,} searches, about {left} left"


def report(evaluation: Evaluation, target: Target, opts: EvaluationOptions, terminal: Terminal) -> None:
    """Print the figures, unless standard output carries the table, and draw the figure asked for."""
    from edgetune.cli.plot import draw_kept

    if terminal.json:
        answer(evaluation_answer(evaluation, opts.by))
    elif target.path is not None:
        if evaluation.header.simulated:
            print_lines(SIMULATED)
        show_evaluation(evaluation, opts.by)
    draw_kept(evaluation, opts.plot, terminal.screen, view=None, file=target.file)


def show_evaluation(evaluation: Evaluation, by: str = "strategy") -> None:
    """Print the figures of each strategy; with ``by`` ``workload``, those of each workload too."""
    runs = evaluation.runs
    if not runs:
        print_lines("nothing was replayed")
        return
    timed = not all(math.isnan(value) for run in runs for value in run.measurement_s[:1])
    columns = ["strategy", *(["workload"] if by == "workload" else []), "solved %>", "over>", "mean>", "95 % CI>"]
    columns += ["p90>", "p99>", "worst>", "points>", *([] if timed else ["to 3/1 %>"]), "own>"]
    columns += ["measuring>", "of all %>"] if timed else []
    excess = excess_named(runs[0].family)
    count = f"{solvable_problems(runs):,} solvable problems"
    print_lines(f"{runs[0].family}, {count}: {excess}, of the solved; over: answers over budget")
    until = "" if timed else "; to 3/1 %: points until half the problems are that near the best"
    print_lines(f"mean to worst in %; CI: of the mean{until}")
    table(columns, [_cells(names, merit, timed, evaluation.header.conditions) for names, merit in _rows(runs, by)])


def evaluation_answer(evaluation: Evaluation, by: str = "strategy") -> dict[str, Any]:
    """Return the figures for machines: shares and seconds; ``None`` for an unknown one."""
    results = []
    for names, merit in _rows(evaluation.runs, by):
        figures = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in dataclasses.asdict(merit).items()
        }
        del figures["name"]
        results.append(dict(zip(("strategy", "workload"), names, strict=False)) | figures)
    return {"simulated": evaluation.header.simulated, **dict(evaluation.header.conditions), "results": results}


def _rows(runs: Sequence[EvaluationRun], by: str) -> list[tuple[tuple[str, ...], Merit]]:
    whole: list[tuple[tuple[str, ...], Merit]] = [
        ((merit.name,), merit) for merit in merits(runs, lambda run: run.contender)
    ]
    if by == "strategy":
        return whole
    found: list[tuple[tuple[str, ...], Merit]] = []
    for (name,), merit in whole:
        of_it = [run for run in runs if run.contender == name]
        each = merits(of_it, lambda run: run.label)
        found += [((name, part.name), part) for part in each]
        found += [((name, "all"), merit)] if len(each) > 1 else []
    return found


def _cells(names: tuple[str, ...], merit: Merit, timed: bool, conditions: Mapping[str, Any]) -> list[object]:
    mean, low, high, *others = map(
        _per_cent, (merit.mean, merit.mean_low, merit.mean_high, merit.p90, merit.p99, merit.worst)
    )
    shares = [mean, "-" if low == "-" else f"{low}-{high}", *others]
    own = "-" if math.isnan(merit.strategy_s) else format_si(float(f"{merit.strategy_s:.2g}"), "s")
    points = "-" if math.isnan(merit.points) else f"{merit.points:.3g}"
    until = [_until(merit.points_to_3_percent, merit.points_to_1_percent)]
    cells = [*names, _solved(merit), merit.violations, *shares, points, *([] if timed else until), own]
    if timed:
        whole_s = float(conditions.get("window_s", math.nan)) * merit.problems
        spent = "-" if math.isnan(merit.measurement_s) else format_duration(merit.measurement_s)
        cells += [spent, _per_cent(merit.measurement_s / whole_s)]
    return cells


def _until(*counts: float) -> str:
    return "/".join("-" if math.isnan(count) else f"{count:g}" for count in counts)


def _solved(merit: Merit) -> str:
    if not merit.solvable:
        return "-"
    return "100" if merit.solved == merit.solvable else f"{merit.solved_percent:.2f}"


def _per_cent(share: float) -> str:
    """Return a share in per cent: two decimals, none from 100 on."""
    if math.isnan(share):
        return "-"
    return f"{100 * share:.2f}" if share < 1 else f"{100 * share:.0f}"
