"""Responses by policy: boxes, means, the longest, and a note of requests without an answer.

response |   O    O        O  longest
         |   |    |
         |   o    |        o  mean
         |  [=]  [=]      [=] quarters, whiskers to the 1st and 99th percentiles
         +--bulk--masa----
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from edgetune import limits
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.errors import InputError
from edgetune.plotting.captions import legend_beside, note_left_out, set_title, title_of
from edgetune.plotting.style import BLACK, BLUE, VERMILLION, Figure, new_figure, spread_out, time_unit
from edgetune.serving.requests import latencies_s
from edgetune.stages.schedule.figures.gantt import written
from edgetune.units import format_si

_MOST_PANELS = 4
"""Jobs above which a panel for each would not be read: all are in one then."""


def responses_figure(timeline: Timeline) -> Figure:
    """Return box plots of responses per policy, a panel per job, all turns together.

    Raises:
        InputError: no request was answered.
        DeviceError: matplotlib is missing.
    """
    jobs = jobs_of(timeline.rows)
    if not latencies_s(row for row in timeline.rows if row.event == "request"):
        raise InputError("the timeline has no answered request to draw", "see its figures with edgetune show")
    panels: list[str | None] = [*jobs] if len(jobs) <= _MOST_PANELS else [None]
    policies = list(dict.fromkeys(row.policy for row in timeline.rows))
    limits.check("figure_lanes", len(policies), "the figure")
    width = 2.2 + max(1.6, 0.75 * len(policies)) * len(panels)
    with new_figure((width, 3.6)) as figure:
        grid = figure.subplots(1, len(panels), squeeze=False).flatten()
        for axes, job in zip(grid, panels, strict=True):
            _draw_panel(axes, timeline, policies, job)
        figure.suptitle(title_of(timeline.header, "responses by policy"), x=0.01, ha="left", fontsize=9.5)
        legend_beside(figure, grid)
        note_left_out(figure, _unanswered(timeline.rows, policies))
    return figure


def _unanswered(rows: Sequence[TimelineRow], policies: Sequence[str]) -> list[str]:
    """Return the note of how many requests have no response, by policy, and how long the longest of them waited."""
    lost = [row for row in rows if row.event == "request" and row.status != "ok"]
    if not lost:
        return []
    count = Counter(row.policy for row in rows if row.event == "request")
    counts = Counter(row.policy for row in lost)
    told = ", ".join(f"{counts[policy]} of {count[policy]} of {policy}" for policy in policies if counts[policy])
    longest_s = max(row.finished_s - (row.arrived_s or 0.0) for row in lost)
    return [f"requests without an answer are not drawn: {told}; the longest waited {format_si(longest_s, 's')}"]


def _draw_panel(axes: Any, timeline: Timeline, policies: list[str], job: str | None) -> None:
    rows = [row for row in timeline.rows if row.event == "request" and (job is None or (row.job or "") == job)]
    by_policy = {policy: latencies_s(row for row in rows if row.policy == policy) for policy in policies}
    shown = {place: times for place, times in enumerate(by_policy.values()) if times}
    factor, unit = time_unit(max((max(times) for times in shown.values()), default=1.0))
    scaled = [[factor * time_s for time_s in times] for times in shown.values()]
    if scaled:
        axes.boxplot(
        scaled, positions=list(shown), widths=0.5, whis=(1, 99), showfliers=False, patch_artist=True,
        boxprops={"facecolor": "#d9d9d9", "edgecolor": BLACK, "linewidth": 0.9},
        medianprops={"color": BLACK, "linewidth": 1.8}, whiskerprops={"linewidth": 0.9}, capprops={"linewidth": 0.9},
    )  # fmt: skip
    means = [sum(times) / len(times) for times in scaled]
    axes.plot(list(shown), means, linestyle="none", marker="o", markersize=4.5, color=BLUE, label="mean")
    longest = [max(times) for times in scaled]
    axes.plot(
        list(shown), longest, linestyle="none", marker="o", markersize=5.5, color=BLACK, fillstyle="none",
        label="longest",
    )  # fmt: skip
    for place in sorted(set(range(len(policies))) - set(shown)):
        axes.text(
            place, 0.5, "none answered", transform=axes.get_xaxis_transform(), rotation=90, ha="center", va="center",
            fontsize=7.0, color=VERMILLION,
        )  # fmt: skip
    axes.plot([], [], linestyle="none", label="box: quarters\nwhiskers: 1st and\n99th percentiles")
    due_s = {round(row.deadline_s - row.arrived_s, 9) for row in rows if row.deadline_s and row.arrived_s is not None}
    for each_s in sorted(due_s):
        axes.axhline(factor * each_s, color=VERMILLION, linestyle="--", linewidth=1.2, label="due")
    if not spread_out(axes.yaxis, [value for times in scaled for value in times], above=30.0):
        axes.set_ylim(bottom=0)
    axes.set_xticks(range(len(policies)), list(policies), rotation=30 if len(policies) > 3 else 0)
    axes.set_xlim(-0.6, len(policies) - 0.4)
    axes.grid(False, axis="x")
    axes.set_ylabel(f"response ({unit})")
    set_title(axes, "all jobs" if job is None else written(job))


def jobs_of(rows: Sequence[TimelineRow]) -> list[str]:
    """Return the names of the jobs that requests belong to, in the order of arrival."""
    requests = sorted((row for row in rows if row.event == "request"), key=lambda row: row.arrived_s or 0.0)
    return list(dict.fromkeys(row.job or "" for row in requests))
