"""Draws latency by engine as boxes, a panel for each tenant, and beside them the training throughput of each engine.

managed  |--[ | x ]---| o  |due   0 of 599 late    |      <>
native   |----[ |  x ]-----|---o  9 of 599 late    |  <>
         +------------------ latency               +-------- samples/s
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from edgetune.artifacts.run import Run, RunRow
from edgetune.errors import InputError
from edgetune.plotting.front import box_grid, draw_boxes
from edgetune.plotting.labels import legend_beside, note_left_out, plain_text, set_title, title_of
from edgetune.plotting.style import (
    VERMILLION,
    Figure,
    check_panels,
    new_figure,
    panels_of,
    scale_axis,
    series_style,
    time_unit,
)
from edgetune.serving.requests import latencies_s
from edgetune.stages.interleave.figures.timeline import tenants_of, written
from edgetune.stages.interleave.summary import EngineSummary, summarise
from edgetune.units import format_si

_LONGEST = 28


def latency_figure(run: Run) -> Figure:
    """Return boxes of latency per engine, a panel per inference tenant, all turns together; see ``plotting.boxes``.

    Beside each box are its violations; the last panel has the training throughput. Of more tenants than can be read,
    the first few are drawn.

    Raises:
        InputError: no request was answered.
        DeviceError: matplotlib is missing.
    """
    asked = tenants_of(run.rows, "request")
    check_panels(len(asked))
    summaries = summarise(run)
    tenants = [
        tenant
        for tenant in asked
        if any(of.tenant == tenant and of.answered for summary in summaries for of in summary.answered)
    ]
    if not tenants:
        raise InputError("the run has no answered request to draw", "see its rows with edgetune show")
    trains = any(summary.trained for summary in summaries)
    drawn = list(tenants)
    while (grid := box_grid(len(drawn) + trains, len(summaries))) is None:
        drawn.pop()
    lines, columns, size = grid
    with new_figure(size) as figure:
        panels = panels_of(figure, lines, columns).flatten()
        for axes, tenant in zip(panels, drawn, strict=False):
            _draw_tenant(axes, run, summaries, tenant)
        if trains:
            _draw_training(panels[len(drawn)], summaries)
        for axes in panels[len(drawn) + trains :]:
            axes.set_axis_off()
        figure.suptitle(title_of(run.header, "latency by engine"), x=0.01, ha="left", fontsize=9.5)
        legend_beside(figure, panels)
        more = tenants[len(drawn) :]
        crowd = [f"not drawn, because more panels would not be readable: {', '.join(more)}"] if more else []
        note_left_out(figure, [*crowd, *_left_out(run.rows, summaries, tenants)])
    return figure


def _left_out(rows: Sequence[RunRow], summaries: Sequence[EngineSummary], tenants: Sequence[str]) -> list[str]:
    """Return notes of the workloads without a panel, and of the requests that were not answered."""
    silent = [tenant for tenant in tenants_of(rows, "request") if tenant not in tenants]
    notes = [f"not drawn, because no request of theirs was answered: {', '.join(silent)}"] if silent else []
    lost = [row for row in rows if row.event == "request" and row.status != "ok"]
    if lost:
        counts = Counter(row.engine for row in lost)
        told = ", ".join(f"{counts[each.engine]} of {each.engine}" for each in summaries if counts[each.engine])
        longest_s = max(row.finished_s - (row.arrived_s or 0.0) for row in lost)
        notes.append(
            f"requests without an answer are not drawn: {told}; the longest waited {format_si(longest_s, 's')}"
        )
    return notes


def _draw_tenant(axes: Any, run: Run, summaries: Sequence[EngineSummary], tenant: str) -> None:
    requests = [row for row in run.rows if row.event == "request" and (row.tenant or "") == tenant]
    times_s = {each.engine: latencies_s(row for row in requests if row.engine == each.engine) for each in summaries}
    factor, unit = time_unit(max(max(of) for of in times_s.values() if of))
    scaled = {engine: [factor * time_s for time_s in of] for engine, of in times_s.items()}
    draw_boxes(axes, scaled, [_late(summary, tenant) for summary in summaries], none="none answered")
    found = {of.latency_budget_s for summary in summaries for of in summary.answered if of.tenant == tenant}
    budgets_s = sorted(budget_s for budget_s in found if budget_s is not None)
    for budget_s in budgets_s:
        axes.axvline(factor * budget_s, color=VERMILLION, linestyle="--", linewidth=1.2, label="due")
    values = [*(value for of in scaled.values() for value in of), *(factor * budget_s for budget_s in budgets_s)]
    scale_axis(axes.xaxis, f"latency ({unit})", values, above=30.0)
    due = [f"due in {' or '.join(format_si(budget_s, 's') for budget_s in budgets_s)}"] if budgets_s else []
    set_title(axes, ", ".join(filter(None, [plain_text(tenant, _LONGEST), *due])))


def _late(summary: EngineSummary, tenant: str) -> str:
    of = next((each for each in summary.answered if each.tenant == tenant), None)
    return "" if of is None else f"{of.violations} of\n{of.requests} late"


def _draw_training(axes: Any, summaries: Sequence[EngineSummary]) -> None:
    """Draw the training throughput of each job by engine, in the rows of the boxes."""
    jobs = sorted({of.tenant for summary in summaries for of in summary.trained})
    draw_boxes(axes, {summary.engine: () for summary in summaries}, none="")
    for index, job in enumerate(jobs):
        spots = [
            (of.samples_per_s, len(summaries) - 1 - number)
            for number, summary in enumerate(summaries) for of in summary.trained if of.tenant == job
        ]  # fmt: skip
        axes.plot(*zip(*spots, strict=True), linestyle="none", markersize=6.5,
                  label=f"{written(job) or 'training'} trains", **series_style(index + 2))  # fmt: skip
    rates = [of.samples_per_s for summary in summaries for of in summary.trained]
    scale_axis(axes.xaxis, "training throughput (samples/s)", rates, above=1e9)
    set_title(axes, "training")
