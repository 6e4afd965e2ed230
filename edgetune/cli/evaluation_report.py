"""Prints the progress and the result of ``edgetune search evaluate``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgetune.cli.console import print_over
from edgetune.cli.screen import SIMULATED, Screen, answer, print_lines
from edgetune.units import format_duration

if TYPE_CHECKING:
    from edgetune.artifacts.evaluation import Evaluation
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
