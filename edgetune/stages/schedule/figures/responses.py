"""Responses by policy: boxes, a panel for each job, and a note of requests without an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from edgetune import limits
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.errors import InputError
from edgetune.plotting.boxes import box_grid, draw_boxes
from edgetune.plotting.captions import legend_beside, note_left_out, plain_text, set_title, title_of
from edgetune.plotting.style import VERMILLION, Figure, new_figure, panels_of, scale_axis, time_unit
from edgetune.serving.requests import latencies_s
from edgetune.units import format_si

_LONGEST = 36


def responses_figure(timeline: Timeline) -> Figure:
    """Return box plots of responses per policy, a panel per job, all turns together.

    Raises:
        InputError: no request was answered.
        DeviceError: matplotlib is missing.
    """
    jobs = jobs_of(timeline.rows)
    if not latencies_s(row for row in timeline.rows if row.event == "request"):
        raise InputError("the timeline has no answered request to draw", "see its figures with edgetune show")
    policies = list(dict.fromkeys(row.policy for row in timeline.rows))
    limits.check("figure_lanes", len(policies), "the figure")
    panels: list[str | None] = [*jobs]
    notes = _unanswered(timeline.rows, policies)
    grid = box_grid(len(panels), len(policies))
    if grid is None:
        panels, grid = [None], box_grid(1, len(policies))
        notes.append(f"{len(jobs)} jobs are in one panel: a panel for each would not be readable")
    assert grid is not None
    lines, columns, size = grid
    with new_figure(size) as figure:
        drawn = panels_of(figure, lines, columns).flatten()
        for axes, job in zip(drawn, panels, strict=False):
            _draw_panel(axes, timeline, policies, job)
        for axes in drawn[len(panels) :]:
            axes.set_axis_off()
        figure.suptitle(title_of(timeline.header, "responses by policy"), x=0.01, ha="left", fontsize=9.5)
        legend_beside(figure, drawn)
        note_left_out(figure, notes)
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
    factor, unit = time_unit(max((max(times) for times in by_policy.values() if times), default=1.0))
    scaled = {policy: [factor * time_s for time_s in times] for policy, times in by_policy.items()}
    draw_boxes(axes, scaled, none="none answered")
    due_s = {round(row.deadline_s - row.arrived_s, 9) for row in rows if row.deadline_s and row.arrived_s is not None}
    for each_s in sorted(due_s):
        axes.axvline(factor * each_s, color=VERMILLION, linestyle="--", linewidth=1.2, label="due")
    values = [*(value for times in scaled.values() for value in times), *(factor * each_s for each_s in due_s)]
    scale_axis(axes.xaxis, f"response ({unit})", values, above=30.0)
    set_title(axes, "all jobs" if job is None else plain_text(job, _LONGEST))


def jobs_of(rows: Sequence[TimelineRow]) -> list[str]:
    """Return the names of the jobs that requests belong to, in the order of arrival."""
    requests = sorted((row for row in rows if row.event == "request"), key=lambda row: row.arrived_s or 0.0)
    return list(dict.fromkeys(row.job or "" for row in requests))
