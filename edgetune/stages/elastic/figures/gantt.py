"""Which task's blocks were on which multiprocessor when, above when its requests came and were answered.

    detect  |---|      |---|        requests, from arrival to answer
    SM 0    [dd][ss   ][dd][s ]
    SM 1    [dd]   [s ][dd]

Bars have the colour of their task; where blocks of several tasks share a multiprocessor, its lane is divided. Unless
another part is asked for, the figure shows the surroundings of one urgent request. Bars too narrow to see are drawn as
one with their neighbours, or a little wider than they are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from edgetune import limits
from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.errors import InputError
from edgetune.plotting.gantt import (
    Bar,
    Span,
    draw_bars,
    first_turn,
    longest_note,
    merged,
    name_lanes,
    name_time,
    names_of,
    turn_notes,
)
from edgetune.plotting.labels import legend_beside, name_in_lines, note_left_out, set_title, title_of
from edgetune.plotting.style import COLOURS, Figure, new_figure
from edgetune.stages.elastic.policies.simple import SOLO
from edgetune.stages.elastic.timeline import told_sms

_LANE_INCHES = {16: 0.2, 40: 0.12}
"""Height of a multiprocessor's lane, where there are no more than so many; of more, what a page has room for."""
_PAGE_INCHES = 7.0
_NAME_CHARACTERS = 20
_MOST_NOTES = 4
"""Tasks of each of which the longest request is told; of more, the longest of all."""


def gantt_figure(
    timeline: KernelTimeline, *, policy: str | None = None, from_s: float | None = None, to_s: float | None = None
) -> Figure:
    """Return the chart of multiprocessors in a policy's first turn, its requests above.

    Args:
        timeline: What happened.
        policy: Which policy; ``None`` takes the first in the file that is not ``solo``.
        from_s, to_s: Which part of it, s since the turn began. Without both, a request of the most urgent task and as
            long again before and after it.

    Raises:
        InputError: it has not this policy, or no block left a record of where it was then.
        DeviceError: matplotlib is missing.
    """
    shared = next((each for each in names_of(timeline.rows, "policy") if each != SOLO), None)
    rows = first_turn(timeline.rows, "policy", policy or shared, of="timeline")
    requests = [row for row in rows if row.event == "request" and row.arrived_s is not None]
    whole_s = max(row.finished_s for row in rows)
    told = timeline.header.conditions
    priority = {each.get("name"): each.get("priority", 0) for each in told.get("tasks", ())}
    tasks = sorted(names_of(rows, "task"), key=lambda task: -priority.get(task, 0))
    kept_s = max((row.finished_s for row in rows if row.event == "residency"), default=whole_s)
    whole = from_s is None and to_s is None
    span = _part(requests, next(iter(tasks), None), kept_s) if whole else Span(from_s or 0.0, to_s or whole_s)
    bars = bars_of(rows, span, {id(row): place for place, row in enumerate(timeline.rows)})
    if not bars:
        raise InputError(
            f"no record says where blocks were from {span.begin_s:.4g} to {span.end_s:.4g} s",
            "a real run records blocks only where it is asked to; see the figures with edgetune show",
        )
    colours = {task: COLOURS[place % len(COLOURS)] for place, task in enumerate(tasks)}
    sms: int = max(told_sms(told), *(bar.lane[0] + 1 for bar in bars))
    limits.check("figure_lanes", max(sms, len(tasks)), "the figure")
    lanes = sms * next((inches for most, inches in _LANE_INCHES.items() if sms <= most), _PAGE_INCHES / sms)
    above = min(0.3 * len(tasks), 1.9) + 0.2
    with new_figure((8.6, 1.1 + above + lanes)) as figure:
        top, below = figure.subplots(2, 1, sharex=True, height_ratios=(above, lanes))
        factor, unit = span.unit
        seen = [row for row in requests if row.finished_s > span.begin_s and (row.arrived_s or 0.0) < span.end_s]
        _draw_requests(top, seen, tasks, colours, factor)
        visible = [replace(bar, end_s=max(bar.end_s, bar.start_s + span.least_s)) for bar in bars]  # a pixel at least
        _draw_lanes(below, visible, colours, sms, factor)
        name_time(below, span, ", simulated (model)" if timeline.header.simulated else "")
        shown_s = span.end_s - span.begin_s
        from_to = [_written(factor * each_s, factor * shown_s) for each_s in (span.begin_s, span.end_s, whole_s)]
        part = shown_s < whole_s
        which = "from {} to {} of {} {}".format(*from_to, unit) if part else ""
        set_title(top, title_of(timeline.header, f"{rows[0].policy}, blocks per SM"), which)
        legend_beside(figure, (below, top))
        note_left_out(figure, _left_out(timeline, rows, requests if part else ()))
    return figure


def _left_out(
    timeline: KernelTimeline, rows: Sequence[KernelTimelineRow], requests: Sequence[KernelTimelineRow]
) -> list[str]:
    """Return what a chart of these rows leaves out: policies, turns, and of these requests the longest of each task."""
    notes = turn_notes(timeline.rows, rows, "policy", "--view gantt:POLICY draws one")
    tasks = names_of(requests, "task")
    few = [[row for row in requests if row.task == task] for task in tasks]
    return notes + [
        note for of in (few if len(tasks) <= _MOST_NOTES else [requests]) for note in longest_note(of, "task")
    ]


def _written(value: float, span: float) -> str:
    """Return a number to about a hundredth of a span, without an exponent."""
    text = f"{value:.{max(0, 2 - math.floor(math.log10(span)))}f}"
    return text.rstrip("0").removesuffix(".") if "." in text else text


def _part(requests: Sequence[KernelTimelineRow], urgent: str | None, kept_s: float) -> Span:
    """Return the part of a run with one request, as long again before it and after it; all of a run without one.

    Args:
        requests: Of the run.
        urgent: Whose request is wanted, from the middle of the run.
        kept_s: Until when it was kept where blocks were, s.
    """
    of = [row for row in requests if row.task == urgent and row.status == "ok" and row.finished_s <= kept_s]
    if not of:
        return Span(0.0, kept_s)
    middle = of[len(of) // 2]
    arrived_s = middle.arrived_s or 0.0
    took_s = middle.finished_s - arrived_s
    return Span(max(arrived_s - took_s, 0.0), min(middle.finished_s + took_s, kept_s))


def bars_of(
    rows: Sequence[KernelTimelineRow], span: Span, place_of: Mapping[int, int] = MappingProxyType({})
) -> list[Bar[str]]:
    """Return the bars of a part of a turn; a lane is a multiprocessor and a task, the kind is the task.

    ``place_of`` has the place of each row in the artifact, by identity.
    """
    bars = [
        Bar((row.sm, row.task or ""), row.task or "", row.started_s, row.finished_s, place_of.get(id(row)))
        for row in rows
        if row.event == "residency" and row.sm is not None and row.started_s is not None
    ]
    return merged(bars, span, join_wide=True)


def _draw_requests(
    axes: Any, requests: Sequence[KernelTimelineRow], tasks: Sequence[str], colours: dict[str, str], factor: float
) -> None:
    for place, task in enumerate(tasks):
        of = [row for row in requests if row.task == task]
        starts = [factor * (row.arrived_s or 0.0) for row in of]
        ends = [factor * row.finished_s for row in of]
        axes.hlines([-place] * len(of), starts, ends, color=colours[task], linewidth=3.0)
        axes.plot(starts, [-place] * len(of), linestyle="none", marker="|", markersize=8, color=colours[task])
    name_lanes(axes, [name_in_lines(task, _NAME_CHARACTERS) for task in tasks], every=-(-len(tasks) // 14))


def _draw_lanes(axes: Any, bars: Sequence[Bar[str]], colours: dict[str, str], sms: int, factor: float) -> None:
    """Draw a lane per multiprocessor; the tasks that have blocks there lie beside each other in it."""
    tasks = [task for task in colours if any(bar.kind == task for bar in bars)]
    height = 0.86 / len(tasks)

    def place(lane: tuple[int, str]) -> float:
        return 0.43 - lane[0] - height * (tasks.index(lane[1]) + 0.5)

    def style(bar: Bar[str]) -> dict[str, Any]:
        return {"color": colours[bar.kind], "linewidth": 0, "label": name_in_lines(bar.kind, _NAME_CHARACTERS)}

    draw_bars(
        axes, sorted(bars, key=lambda bar: tasks.index(bar.kind)), factor, place=place, style=style, height=height
    )
    name_lanes(axes, [f"SM {sm}" for sm in range(sms)], beside=0.5, every=1 if sms <= 16 else 4 if sms <= 40 else 12)
