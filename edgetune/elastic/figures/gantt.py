"""Which task's blocks were on which multiprocessor when, above when its requests came and were answered.

    detect  |---|      |---|        requests, from arrival to answer
    SM 0    [dd][ss   ][dd][s ]
    SM 1    [dd]   [s ][dd]

Bars have the colour of their task; where blocks of several tasks shared a multiprocessor, its lane is divided. Of a
run the surroundings of one urgent request are drawn, unless another part is asked for; bars too narrow to see are
drawn as one with their neighbours, or a little wider than they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgetune import limits
from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.elastic.solo import SOLO
from edgetune.errors import InputError
from edgetune.plotting.captions import (
    chosen_of,
    legend_beside,
    longest_words,
    name_in_lines,
    not_drawn,
    note_left_out,
    set_title,
    title_words,
)
from edgetune.plotting.style import COLOURS, styled, time_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NARROWEST = 1 / 1200
"""Of the width of the figure: about a pixel of a screen."""
_LANE_INCHES = {16: 0.2, 40: 0.12}
"""Height of a multiprocessor's lane, where there are no more than so many; of more, what a page has room for."""
_PAGE_INCHES = 7.0
_NAME_CHARACTERS = 20


@dataclass(frozen=True, slots=True)
class BlockBar:
    """Blocks of one task on one multiprocessor, without a pause that could be seen, s."""

    task: str
    sm: int
    start_s: float
    end_s: float


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
    rows = _first_turn(timeline, policy)
    requests = [row for row in rows if row.event == "request" and row.arrived_s is not None]
    whole_s = max(row.finished_s for row in rows)
    tasks = _by_priority(list(dict.fromkeys(row.task for row in rows if row.task is not None)), timeline)
    kept_s = max((row.finished_s for row in rows if row.event == "residency"), default=whole_s)
    whole = from_s is None and to_s is None
    begin_s, end_s = _part(requests, next(iter(tasks), None), kept_s) if whole else (from_s or 0.0, to_s or whole_s)
    bars = bars_of(rows, begin_s, end_s)
    if not bars:
        raise InputError(
            f"no record says where blocks were from {begin_s:.4g} to {end_s:.4g} s",
            "a real run records blocks only where it is asked to; see the figures with edgetune show",
        )
    colours = {task: COLOURS[place % len(COLOURS)] for place, task in enumerate(tasks)}
    sms = _sm_count(timeline, bars)
    limits.check("figure_lanes", max(sms, len(tasks)), "the figure")
    with styled():
        from matplotlib.figure import Figure

        lanes = sms * next((inches for most, inches in _LANE_INCHES.items() if sms <= most), _PAGE_INCHES / sms)
        above = 0.3 * len(tasks) + 0.2
        figure = Figure(figsize=(8.6, 1.1 + above + lanes), layout="constrained")
        top, below = figure.subplots(2, 1, sharex=True, height_ratios=(above, lanes))
        factor, unit = time_unit(end_s - begin_s)
        seen = [row for row in requests if row.finished_s > begin_s and (row.arrived_s or 0.0) < end_s]
        _draw_requests(top, seen, tasks, colours, factor)
        _draw_lanes(below, _seen(bars, _NARROWEST * (end_s - begin_s)), colours, sms, factor)
        below.set_xlim(factor * begin_s, factor * end_s)
        label = f"time since the run began ({unit})"
        below.set_xlabel(f"{label}, simulated (model)" if timeline.header.simulated else label)
        part = end_s - begin_s < whole_s
        from_to = [_written(factor * each_s, factor * (end_s - begin_s)) for each_s in (begin_s, end_s, whole_s)]
        which = "from {} to {} of {} {}".format(*from_to, unit) if part else ""
        set_title(top, _title(timeline, rows[0].policy), which)
        legend_beside(figure, (below, top))
        note_left_out(figure, _left_out(timeline, rows, requests if part else ()))
    return figure


def _left_out(
    timeline: KernelTimeline, rows: Sequence[KernelTimelineRow], requests: Sequence[KernelTimelineRow]
) -> list[str]:
    """Return what a chart of these rows leaves out: policies, turns, and of these requests the longest of each task."""
    policies, chosen = list(dict.fromkeys(row.policy for row in timeline.rows)), rows[0].policy
    turns = len({row.turn for row in timeline.rows if row.policy == chosen})
    notes = not_drawn("policy", chosen, policies, turns, "--view gantt:POLICY draws one")
    for task in dict.fromkeys(row.task for row in requests):
        of = (row for row in requests if row.task == task)
        longest = max(of, key=lambda row: row.finished_s - (row.arrived_s or 0.0))
        notes.append(longest_words(task or "", longest.arrived_s or 0.0, longest.finished_s))
    return notes


def _written(value: float, span: float) -> str:
    """Return a number to about a hundredth of a span, without an exponent."""
    text = f"{value:.{max(0, 2 - math.floor(math.log10(span)))}f}"
    return text.rstrip("0").removesuffix(".") if "." in text else text


def _title(timeline: KernelTimeline, policy: str) -> str:
    simulated = timeline.header.simulated
    return title_words(f"{policy}, blocks per SM", simulated=simulated, device=timeline.header.conditions.get("device"))


def _first_turn(timeline: KernelTimeline, policy: str | None) -> list[KernelTimelineRow]:
    policies = list(dict.fromkeys(row.policy for row in timeline.rows))
    wanted = policy or next((each for each in policies if each != SOLO), None)
    chosen = chosen_of(
        policies, wanted, nothing="the timeline has no rows to draw", lacks="the timeline has no policy", there="it has"
    )
    rows = [row for row in timeline.rows if row.policy == chosen]
    first = min(row.turn for row in rows)
    return [row for row in rows if row.turn == first]


def _part(requests: Sequence[KernelTimelineRow], urgent: str | None, kept_s: float) -> tuple[float, float]:
    """Return the part of a run with one request, as long again before it and after it; all of a run without one.

    Args:
        requests: Of the run.
        urgent: Whose request is wanted, from the middle of the run.
        kept_s: Until when it was kept where blocks were, s.
    """
    of = [row for row in requests if row.task == urgent and row.status == "ok" and row.finished_s <= kept_s]
    if not of:
        return 0.0, kept_s
    middle = of[len(of) // 2]
    arrived_s = middle.arrived_s or 0.0
    took_s = middle.finished_s - arrived_s
    return max(arrived_s - took_s, 0.0), min(middle.finished_s + took_s, kept_s)


def _by_priority(tasks: Sequence[str], timeline: KernelTimeline) -> list[str]:
    told = timeline.header.conditions.get("tasks", ())
    priority = {each.get("name"): each.get("priority", 0) for each in told}
    return sorted(tasks, key=lambda task: -priority.get(task, 0))


def _sm_count(timeline: KernelTimeline, bars: Sequence[BlockBar]) -> int:
    gpu = timeline.header.conditions.get("gpu")
    said = gpu.get("sm_count") if isinstance(gpu, dict) else None
    seen = max(bar.sm for bar in bars) + 1
    return max(said, seen) if isinstance(said, int) else seen


def bars_of(rows: Sequence[KernelTimelineRow], begin_s: float, end_s: float) -> list[BlockBar]:
    """Return the bars of a part of a turn, those of a task as one where no pause between them could be seen."""
    least_s = _NARROWEST * (end_s - begin_s)
    found: list[BlockBar] = []
    last: dict[tuple[str, int], int] = {}
    """By task and multiprocessor, the place of its last bar."""
    spans = [
        (row.started_s, row.finished_s, row.task or "", row.sm)
        for row in rows
        if row.event == "residency" and row.sm is not None and row.started_s is not None
        and row.finished_s > begin_s and row.started_s < end_s
    ]  # fmt: skip
    for start_s, finish_s, task, sm in sorted(spans):
        place = last.get((task, sm))
        if place is not None and start_s - found[place].end_s < least_s:
            found[place] = BlockBar(task, sm, found[place].start_s, max(finish_s, found[place].end_s))
        else:
            last[task, sm] = len(found)
            found.append(BlockBar(task, sm, start_s, finish_s))
    return found


def _seen(bars: Sequence[BlockBar], least_s: float) -> list[BlockBar]:
    """Return bars none of which is narrower than a pixel: of narrower ones only those are drawn that meet one."""
    return [replace(bar, end_s=max(bar.end_s, bar.start_s + least_s)) for bar in bars]


def _draw_requests(
    axes: Any, requests: Sequence[KernelTimelineRow], tasks: Sequence[str], colours: dict[str, str], factor: float
) -> None:
    for place, task in enumerate(tasks):
        of = [row for row in requests if row.task == task]
        starts = [factor * (row.arrived_s or 0.0) for row in of]
        ends = [factor * row.finished_s for row in of]
        axes.hlines([-place] * len(of), starts, ends, color=colours[task], linewidth=3.0)
        axes.plot(starts, [-place] * len(of), linestyle="none", marker="|", markersize=8, color=colours[task])
    axes.set_yticks([-place for place in range(len(tasks))], [name_in_lines(task, _NAME_CHARACTERS) for task in tasks])
    axes.set_ylim(0.6 - len(tasks), 0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")


def _draw_lanes(axes: Any, bars: Sequence[BlockBar], colours: dict[str, str], sms: int, factor: float) -> None:
    """Draw a lane per multiprocessor; the tasks that have blocks there lie beside each other in it."""
    tasks = [task for task in colours if any(bar.task == task for bar in bars)]
    height = 0.86 / len(tasks)
    for place, task in enumerate(tasks):
        of = [bar for bar in bars if bar.task == task]
        centres = [-bar.sm + 0.43 - height * (place + 0.5) for bar in of]
        widths = [factor * (bar.end_s - bar.start_s) for bar in of]
        axes.barh(
            centres, widths, left=[factor * bar.start_s for bar in of], height=height, color=colours[task],
            linewidth=0, label=name_in_lines(task, _NAME_CHARACTERS),
        )  # fmt: skip
    step = 1 if sms <= 16 else 4 if sms <= 40 else 12
    shown = range(0, sms, step)
    axes.set_yticks([-sm for sm in shown], [f"SM {sm}" for sm in shown])
    axes.set_ylim(0.5 - sms, 0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
