"""Prints the plan and the results of ``edgetune profile --convergence``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from edgetune.cli.screen import answer, print_folded, print_lines
from edgetune.errors import ExitCode, InputError, PartialError
from edgetune.workflows.output import Target

if TYPE_CHECKING:
    from edgetune.artifacts.convergence import Convergence
    from edgetune.cli.command import Terminal
    from edgetune.workflows.profile.convergence import TrainingRequest


def report_convergence_plan(request: TrainingRequest, terminal: Terminal) -> None:
    """Print the planned runs, and the most minibatches they take."""
    proxy, tasks, jobs = request.proxy, request.tasks, request.jobs
    samples, options = len(proxy.dataset.x), proxy.options
    sizes, seeds = (list(dict.fromkeys(values)) for values in zip(*tasks, strict=True))
    minibatches = sum(samples // size * options.max_epochs for size, _ in tasks)
    if terminal.json:
        answer(
            {
                "workload": proxy.workload.name,
                "dataset": proxy.dataset.name,
                "target_accuracy": options.target_accuracy,
                "max_epochs": options.max_epochs,
                "batch_sizes": sizes,
                "seeds": seeds,
                "runs": len(tasks),
                "jobs": jobs,
                "minibatches_at_most": minibatches,
                "duration_s": None,
            }
        )
        return
    until = f"until {options.target_accuracy:.1%} are right, for {options.max_epochs} epochs at most"
    print_lines(f"{proxy.workload.name} on {samples} samples of {proxy.dataset.name}, {until}")
    print_lines(f"batch sizes {', '.join(map(str, sizes))}; seeds {', '.join(map(str, seeds))}")
    summary = (
        f"{len(tasks)} runs, {jobs} at a time; {minibatches} minibatches at most; "
        "time unknown (how many it takes is what is measured)"
    )
    print_folded(summary)


def report_convergence(runs: Convergence, target: Target, terminal: Terminal) -> None:
    """Show the epochs by batch size on standard error, or answer in JSON; end with 5 when runs failed.

    Raises:
        PartialError: no batch size reached the target; the table is written all the same.
    """
    from edgetune.artifacts.convergence import epochs_of
    from edgetune.artifacts.plain import plain
    from edgetune.cli.sections import TextSection
    from edgetune.workflows.report.convergence import convergence_section

    if terminal.json:
        answer({"file": str(target.path or "-"), **plain(runs)})
    if not terminal.screen.quiet:
        convergence_section(runs, TextSection(sys.stderr))
    failed = sum(row.status == "failed" for row in runs.rows)
    if failed:
        terminal.screen.info(f"{failed} of {len(runs.rows)} runs failed")
        raise typer.Exit(ExitCode.PARTIAL)
    name = str(target.path or "the table")
    try:
        epochs_of(runs, name=name)
    except InputError as error:
        raise PartialError(error.message, f"{name} is written all the same; {error.hint}") from None
