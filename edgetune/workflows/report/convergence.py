"""A table of training runs in a report: epochs to an accuracy by batch size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgetune.plotting.page import SectionWriter
from edgetune.units import format_duration
from edgetune.workflows.cells import cell

if TYPE_CHECKING:
    from edgetune.artifacts.convergence import Convergence, ConvergenceRow


def convergence_section(table: Convergence, out: SectionWriter) -> None:
    """Write a row per batch size, below the facts that all runs share."""
    rows = table.rows
    if not rows:
        out.note("no rows")
        return
    groups: dict[tuple[object, ...], list[ConvergenceRow]] = {}
    for row in rows:
        groups.setdefault((row.workload, row.dataset, row.target_accuracy, row.batch_size), []).append(row)
    for task in dict.fromkeys(key[:3] for key in groups):
        own = {key[3]: runs for key, runs in groups.items() if key[:3] == task}
        aim = "" if task[2] is None else f", until {task[2]:g}"
        out.note(f"{task[0]} on {task[1] or 'unnamed data'}{aim}")
        means = {size: _mean(runs) for size, runs in own.items()}
        least = min((mean for mean in means.values() if mean is not None), default=None)
        out.table(
            ("batch>", "rate>", "reached>", "epochs>", "from-to>", "ratio>", "best accuracy>", "took>"),
            [_line(size, runs, means[size], least) for size, runs in own.items()],
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
