"""A kernel timeline in a report: answers by policy and task, comparisons of policies, limitations of a model, lanes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.yaml_document import plain
from edgetune.plotting.page import SectionWriter
from edgetune.stages.elastic.bound import NOTE
from edgetune.stages.elastic.timeline import PolicyFigures, TaskFigures, summarise
from edgetune.workflows.figures import draw_view
from edgetune.workflows.report.sections import cell, si_cell

if TYPE_CHECKING:
    from edgetune.artifacts.kernel_timeline import KernelTimeline

_COLUMNS = ("policy", "task", "done>", "p50>", "x solo>", "p99>", "x solo>", "per s>", "missed>", "note")
"""Few enough for a terminal of 80 columns; the rest is in lines below, and all of it in the answer for machines."""


def kernel_timeline_section(timeline: KernelTimeline, out: SectionWriter) -> None:
    """Write a row per policy and task, how each policy compares with the first, and how busy multiprocessors were."""
    found = summarise(timeline)
    if not found:
        out.note(_nothing(timeline))
        return
    out.table(_COLUMNS, [_row(of, each) for of in found for each in of.tasks])
    out.space()
    for line in [*_figures(found), *_bounds(timeline), *_remarks(timeline, found)]:
        out.note(line)
    for policy in dict.fromkeys(of.policy for of in found):
        draw = partial(draw_view, "kernel_timeline.gantt", timeline, policy=policy)
        out.figure(draw, f"{policy} over time")


def answer(timeline: KernelTimeline) -> dict[str, Any]:
    """Return the figures for machines: the header, and the figures of every policy."""
    return {"header": plain(timeline.header), "policies": plain(summarise(timeline))}


def _nothing(timeline: KernelTimeline) -> str:
    """Return the line that is printed if no policy ran."""
    alone = Counter(row.task for row in timeline.rows if row.event == "request" and row.status == "ok")
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


def _figures(found: Sequence[PolicyFigures]) -> Iterator[str]:
    """Yield the critical tasks, how each policy compares with the first, and what each launched and kept busy."""
    priorities = {each.task: each.priority for of in found for each in of.tasks if each.priority}
    if priorities:
        told = ", ".join(f"{task} (priority {priority})" for task, priority in priorities.items())
        yield f"critical: {told}; x solo: times what it takes alone"
    first, *others = found
    best_effort_per_s = [sum(each.answers_per_s for each in of.tasks if not each.priority) for of in found]
    for of, best_per_s in zip(others, best_effort_per_s[1:], strict=True) if first.answers_per_s else ():
        line = f"{of.policy} beside {first.policy}: answers x{of.answers_per_s / first.answers_per_s:.3g}"
        base_per_s = best_effort_per_s[0]
        yield line + (f", of best-effort tasks x{best_per_s / base_per_s:.3g}" if base_per_s else "")
    launched = []
    for of in found:
        launches, forms = (sum(getattr(each, what) for each in of.tasks) for what in ("launches", "elastic"))
        launched.append(f"{of.policy} {launches}" + f" ({forms} of elastic forms)" * (forms > 0))
    yield f"launches: {', '.join(launched)}"
    if told := ", ".join(f"{of.policy} {of.busy:.0%}" for of in found if of.busy is not None):
        yield f"multiprocessors had a block (residency, not occupancy): {told}"


def _bounds(timeline: KernelTimeline) -> list[str]:
    """Return the worst case of the critical task by each policy that has one, beside the slowest request, as told."""
    told = timeline.header.conditions.get("bounds")
    found = told.items() if isinstance(told, dict) else ()
    said = [(policy, each.get("said")) for policy, each in found if isinstance(each, dict)]
    lines = [f"worst case by {policy}: {words}" for policy, words in said if words]
    return [*lines, NOTE] if lines else []


def _remarks(timeline: KernelTimeline, found: Sequence[PolicyFigures]) -> list[str]:
    lines = [f"{of.policy}: {each.task} failed: {each.reason}" for of in found for each in of.tasks if each.reason]
    model = timeline.header.conditions.get("model")
    if isinstance(model, dict) and "note" in model:
        lines.append(str(model["note"]))
    return lines
