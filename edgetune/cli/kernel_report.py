"""Prints a kernel timeline: a row per policy and task, comparisons of policies, and limitations of a model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from edgetune.artifacts.plain import plain
from edgetune.cli.cells import cell, si_cell
from edgetune.cli.screen import Screen, print_folded, print_lines, table
from edgetune.stages.elastic.timeline import PolicyFigures, TaskFigures, summarise
from edgetune.units import format_duration

if TYPE_CHECKING:
    from edgetune.artifacts.kernel_timeline import KernelTimeline
    from edgetune.workflows.kernels.plan import KernelRun

_COLUMNS = ("policy", "task", "done>", "p50>", "x solo>", "p99>", "x solo>", "per s>", "missed>", "note")
"""Few enough for a terminal of 80 columns; the rest is in lines below, and all of it in the answer for machines."""


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


def show_kernel_timeline(timeline: KernelTimeline, *, stream: TextIO | None = None) -> None:
    """Print a row per policy and task, how each policy compares with the first, and how busy multiprocessors were."""
    out = stream or sys.stdout
    found = summarise(timeline)
    if not found:
        print_folded(_nothing(timeline), stream=out)
        return
    table(_COLUMNS, [_row(of, each) for of in found for each in of.tasks], stream=out)
    print_lines(stream=out)
    for line in [*_critical(found), *_compared(found), *_launches(found), *_busy(found), *_remarks(timeline, found)]:
        print_folded(line, stream=out)


def report_answer(timeline: KernelTimeline) -> dict[str, Any]:
    """Return the figures for machines: the header, and the figures of every policy."""
    return {"header": plain(timeline.header), "policies": plain(summarise(timeline))}


def _nothing(timeline: KernelTimeline) -> str:
    """Return the line that is printed if no policy ran."""
    alone: dict[str, int] = {}
    for row in timeline.rows:
        if row.event == "request" and row.status == "ok" and row.task is not None:
            alone[row.task] = alone.get(row.task, 0) + 1
    told = ", ".join(f"{count} of {task} alone" for task, count in alone.items())
    return f"no policy ran, so that there is nothing to compare; requests answered: {told or 'none'}"


def _row(of: PolicyFigures, each: TaskFigures) -> tuple[object, ...]:
    notes = [f"{each.failed} failed"] if each.failed else []
    notes += [f"{each.abandoned} left at the end"] if each.abandoned else []
    notes += [] if each.requests else ["no request came"]
    return (
        of.policy, each.task, f"{each.answered}/{each.requests}", si_cell(each.p50_s, "s"), cell(each.p50_x, ".2f"),
        si_cell(each.p99_s, "s"), cell(each.p99_x, ".2f"), f"{each.answers_per_s:.1f}" if each.requests else None,
        each.misses if each.due else None, ", ".join(notes),
    )  # fmt: skip


def _critical(found: Sequence[PolicyFigures]) -> list[str]:
    """Return the critical tasks, and the meaning of the figures that only these have."""
    priorities = {each.task: each.priority for of in found for each in of.tasks if each.priority}
    if not priorities:
        return []
    told = ", ".join(f"{task} (priority {priority})" for task, priority in priorities.items())
    return [f"critical: {told}; x solo: times what it takes alone"]


def _launches(found: Sequence[PolicyFigures]) -> list[str]:
    """Return the number of launches by policy, and how many were of elastic forms."""
    told = []
    for of in found:
        launches, elastic = (sum(getattr(each, what) for each in of.tasks) for what in ("launches", "elastic"))
        told.append(f"{of.policy} {launches}" + (f" ({elastic} of elastic forms)" if elastic else ""))
    return [f"launches: {', '.join(told)}"]


def _compared(found: Sequence[PolicyFigures]) -> list[str]:
    """Compare the answers of every policy with those of the first; return a line each."""
    first = found[0]
    if not first.answers_per_s:
        return []
    lines = []
    for of in found[1:]:
        best, base = _best_effort_per_s(of), _best_effort_per_s(first)
        told = [f"answers x{of.answers_per_s / first.answers_per_s:.3g}"]
        told += [f"of best-effort tasks x{best / base:.3g}"] if base else []
        lines.append(f"{of.policy} beside {first.policy}: {', '.join(told)}")
    return lines


def _best_effort_per_s(of: PolicyFigures) -> float:
    return sum(each.answers_per_s for each in of.tasks if not each.priority)


def _busy(found: Sequence[PolicyFigures]) -> list[str]:
    told = [f"{of.policy} {of.busy:.0%}" for of in found if of.busy is not None]
    return [f"multiprocessors had a block (residency, not occupancy): {', '.join(told)}"] if told else []


def _remarks(timeline: KernelTimeline, found: Sequence[PolicyFigures]) -> list[str]:
    lines = [f"{of.policy}: {each.task} failed: {each.reason}" for of in found for each in of.tasks if each.reason]
    model = timeline.header.conditions.get("model")
    if isinstance(model, dict) and "note" in model:
        lines.append(str(model["note"]))
    return lines
