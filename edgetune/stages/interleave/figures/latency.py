"""Draws latency by engine as box plots under the budget, with the training throughput of each engine.

latency |  --- budget -----------------    samples/s
        |   |            o peak       <>
        |  [=]          -+- p99
        |   |           [=] quarters
        +-managed-------native---------
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from edgetune.artifacts.run import Run, RunRow
from edgetune.errors import InputError
from edgetune.plotting.captions import legend_beside, note_left_out, set_title, title_of
from edgetune.plotting.style import (
    BLACK,
    BLUE,
    GREY,
    MARKERS,
    VERMILLION,
    Figure,
    check_panels,
    new_figure,
    panels_of,
    spread_out,
    time_unit,
)
from edgetune.serving.requests import latencies_s
from edgetune.stages.interleave.figures.chosen import tenants_of, written
from edgetune.stages.interleave.summary import EngineSummary, summarise
from edgetune.stats import percentile
from edgetune.units import format_si

_BOX = 0.16
"""Half the width of a box; engines are 1 apart."""
_WHISKERS = "box: quarters\nwhiskers: 1st and\n99th percentiles"
_BESIDE = 0.3
"""How far right of its box the training throughput stands."""
_APART = 0.1
"""How far the throughputs of several training jobs stand from each other."""


def latency_figure(run: Run) -> Figure:
    """Return box plots of latency per engine, a panel per inference tenant, all turns together.

    Boxes are quarters, whiskers end at the 1st and 99th percentiles, a ring is the largest. Beneath each engine are its
    violations; right of its box is its training throughput, on the axis at the right.

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
    width = 1.4 + max(1.5, 1.15 * len(summaries)) * len(tenants) + 1.9
    with new_figure((width, 3.6)) as figure:
        panels = panels_of(figure, 1, len(tenants)).flatten()
        right = [
            _draw_tenant(axes, run, summaries, tenant, last=tenant == tenants[-1])
            for axes, tenant in zip(panels, tenants, strict=True)
        ]
        figure.suptitle(title_of(run.header, "latency by engine"), x=0.01, ha="left", fontsize=9.5)
        legend_beside(figure, [*panels, *filter(None, right)])
        note_left_out(figure, _left_out(run.rows, summaries, tenants))
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


def _draw_tenant(axes: Any, run: Run, summaries: Sequence[EngineSummary], tenant: str, *, last: bool) -> Any:
    """Draw one tenant's boxes and return the axes of throughput at the right, ``None`` where nothing trained."""
    requests = [row for row in run.rows if row.event == "request" and (row.tenant or "") == tenant]
    of_engines = [latencies_s(row for row in requests if row.engine == summary.engine) for summary in summaries]
    factor, unit = time_unit(max(max(times_s) for times_s in of_engines if times_s))
    boxes = [_box(number, times_s, factor) for number, times_s in enumerate(of_engines) if times_s]
    axes.bxp(
        [box for _, box in boxes], positions=[number for number, _ in boxes], widths=2 * _BOX, showfliers=False,
        patch_artist=True, boxprops={"facecolor": "#d9d9d9", "edgecolor": BLACK, "linewidth": 0.9},
        medianprops={"color": BLACK, "linewidth": 1.8}, whiskerprops={"linewidth": 0.9}, capprops={"linewidth": 0.9},
    )  # fmt: skip
    peaks = [(number, factor * max(times_s)) for number, times_s in enumerate(of_engines) if times_s]
    axes.plot(*zip(*peaks, strict=True), linestyle="none", marker="o", color=BLACK, fillstyle="none", label="peak")
    axes.plot([], [], linestyle="none", label=_WHISKERS)
    found = {of.latency_budget_s for summary in summaries for of in summary.answered if of.tenant == tenant}
    budgets_s = sorted(budget_s for budget_s in found if budget_s is not None)
    for budget_s in budgets_s:
        axes.axhline(factor * budget_s, color=VERMILLION, linestyle="--", linewidth=1.2, label="due")
    lows = [box["whislo"] for _, box in boxes]
    if not spread_out(axes.yaxis, [*lows, *(peak for _, peak in peaks)], above=30.0):
        axes.set_ylim(bottom=0)
    axes.set_xticks(range(len(summaries)), [_engine_words(summary, tenant) for summary in summaries])
    axes.set_xlim(-0.5, len(summaries) - 0.4)
    axes.grid(False, axis="x")
    axes.set_ylabel(f"latency ({unit})")
    due = [f"due in {' or '.join(format_si(budget_s, 's') for budget_s in budgets_s)}"] if budgets_s else []
    set_title(axes, ", ".join(filter(None, [written(tenant), *due])))
    return _draw_training(axes, summaries, last=last)


def _box(number: int, times_s: Sequence[float], factor: float) -> tuple[int, dict[str, Any]]:
    names = {"whislo": 1, "q1": 25, "med": 50, "q3": 75, "whishi": 99}
    return number, {name: factor * percentile(times_s, percent) for name, percent in names.items()}


def _engine_words(summary: EngineSummary, tenant: str) -> str:
    of = next((each for each in summary.answered if each.tenant == tenant), None)
    return summary.engine if of is None else f"{summary.engine}\n{of.violations} of {of.requests}\nlate"


def _draw_training(axes: Any, summaries: Sequence[EngineSummary], *, last: bool) -> Any:
    jobs = sorted({of.tenant for summary in summaries for of in summary.trained})
    if not jobs:
        return None
    right = axes.twinx()
    for index, job in enumerate(jobs):
        spots = [
            (number + _BESIDE + _APART * index, of.samples_per_s)
            for number, summary in enumerate(summaries)
            for of in summary.trained
            if of.tenant == job
        ]
        right.plot(
            *zip(*spots, strict=True), linestyle="none", color=BLUE, marker=MARKERS[(index + 3) % len(MARKERS)],
            markersize=6.5, label=f"{written(job) or 'training'} trains",
        )  # fmt: skip
        for place, rate in spots if len(jobs) == 1 else ():
            right.annotate(
                f"{rate:.3g}" if rate < 1000 else f"{rate:.0f}", (place, rate), xytext=(0, 6),
                textcoords="offset points", ha="center", fontsize=7.0,
                color=BLUE,
            )  # fmt: skip
    right.set_ylim(bottom=0, top=1.25 * max(of.samples_per_s for each in summaries for of in each.trained) or 1.0)
    right.grid(False)
    right.spines["right"].set_visible(True)
    right.tick_params(axis="y", colors=BLUE, labelright=last, right=last)
    right.spines["right"].set_color(GREY)
    if last:
        right.set_ylabel("training throughput (samples/s)", color=BLUE)
    return right
