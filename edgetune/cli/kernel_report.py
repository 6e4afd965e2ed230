"""Prints a kernel timeline: a row per policy and task, comparisons of policies, and limitations of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.cli.screen import Screen
from edgetune.units import format_duration

if TYPE_CHECKING:
    from edgetune.workflows.kernels.plan import KernelRun


def report_plan(plan: KernelRun, screen: Screen) -> None:
    """Print the tasks, policies and durations of a planned run."""
    for task in plan.tasks:
        blocks = [call.logical.blocks for call in task.network.calls]
        kernels = "1 kernel" if len(blocks) == 1 else f"{len(blocks)} kernels"
        size = f"{min(blocks)} to {max(blocks)}" if min(blocks) < max(blocks) else f"{max(blocks)}"
        due = "" if task.deadline_s is None else f", due after {format_duration(task.deadline_s)}"
        kind = f"critical, priority {task.priority}" if task.critical else "best effort"
        screen.info(f"{task.name}: {task.network.name}, {kernels} of {size} blocks; {task.arrivals}; {kind}{due}")
    alone = sum(task.critical for task in plan.tasks)
    runs = f"{', '.join(plan.policies)}; {alone} critical task{'' if alone == 1 else 's'} alone before"
    screen.info(f"{plan.gpu.name}, {plan.gpu.sm_count} multiprocessors, {format_duration(plan.duration_s)}: {runs}")
