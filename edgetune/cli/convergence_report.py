"""Prints the plan and the results of ``edgetune profile --convergence``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import typer

from edgetune.cli.cells import cell
from edgetune.cli.screen import answer, print_folded, print_lines, table
from edgetune.errors import ExitCode, InputError, PartialError
from edgetune.units import format_duration
from edgetune.workflows.output import Target

if TYPE_CHECKING:
    from edgetune.artifacts.convergence import Convergence, ConvergenceRow
    from edgetune.cli.command import Terminal
    from edgetune.workflows.profile.convergence import TrainingRequest


def report_plan(request: TrainingRequest, terminal: Terminal) -> None:
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


def report(runs: Convergence, target: Target, terminal: Terminal) -> None:
    """Show the epochs by batch size on standard error, or answer in JSON; end with 5 when runs failed.

    Raises:
        PartialError: no batch size reached the target; the table is written all the same.
    """
    from edgetune.artifacts.convergence import epochs_of
    from edgetune.artifacts.plain import plain

    if terminal.json:
        answer({"file": str(target.path or "-"), **plain(runs)})
    if not terminal.screen.quiet:
        show_runs(runs.rows, stream=sys.stderr)
    failed = sum(row.status == "failed" for row in runs.rows)
    if failed:
        terminal.screen.info(f"{failed} of {len(runs.rows)} runs failed")
        raise typer.Exit(ExitCode.PARTIAL)
    name = str(target.path or "the table")
    try:
        epochs_of(runs, name=name)
    except InputError as error:
        raise PartialError(error.message, f"{name} is written all the same; {error.hint}") from None


def show_runs(rows: Sequence[ConvergenceRow], *, stream: TextIO | None = None) -> None:
    """Print a row per batch size, below the facts that all runs share."""
    out = stream or sys.stdout
    if not rows:
        print_lines("no rows", stream=out)
        return
    groups: dict[tuple[object, ...], list[ConvergenceRow]] = {}
    for row in rows:
        groups.setdefault((row.workload, row.dataset, row.target_accuracy, row.batch_size), []).append(row)
    for task in dict.fromkeys(key[:3] for key in groups):
        own = {key[3]: runs for key, runs in groups.items() if key[:3] == task}
        aim = "" if task[2] is None else f", until {task[2]:g}"
        print_folded(f"{task[0]} on {task[1] or 'unnamed data'}{aim}", stream=out)
        means = {size: _mean(runs) for size, runs in own.items()}
        least = min((mean for mean in means.values() if mean is not None), default=None)
        table(
            ("batch>", "rate>", "reached>", "epochs>", "from-to>", "ratio>", "best accuracy>", "took>"),
            [_line(size, runs, means[size], least) for size, runs in own.items()],
            stream=out,
        )


def _mean(runs: Sequence[ConvergenceRow]) -> float | None:
    """Return the mean epochs of the runs that reached the target, where most did."""
    reached = [row.epochs for row in runs if row.epochs is not None]
    counted = [row for row in runs if row.status != "failed"]
    return sum(reached) / len(reached) if 2 * len(reached) > len(counted) else None


def _line(size: object, runs: Sequence[ConvergenceRow], mean: float | None, least: float | None) -> tuple[object, ...]:
    reached = sorted(row.epochs for row in runs if row.epochs is not None)
    accuracies = [row.accuracy for row in runs if row.accuracy is not None]
    took = [row.duration_s for row in runs if row.duration_s is not None]
    rate = runs[0].learning_rate
    return (
        size, cell(rate, ".3g"), f"{len(reached)}/{len(runs)}",
        cell(mean, ".3g"), f"{reached[0]:.3g}-{reached[-1]:.3g}" if reached else None,
        None if mean is None or least is None else f"{mean / least:.2f}",
        f"{max(accuracies):.1%}" if accuracies else None, format_duration(sum(took)) if took else None,
    )  # fmt: skip
