"""What each worker did when, above what was held meanwhile, under the budget.

    worker 0  [//load//][ execute ][ execute  ]
    worker 1       [//load//////]  [//load//]
    memory    - - - - - - - - - - - - - - - - -  budget
              ___/----\\____/-------\\__________

Bars have the colour of their network; loads are pale and hatched. Of a long run a part from its middle is drawn. Bars
that would be narrower than a line are drawn as one with their neighbours, and of what is held one sees the most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgetune import limits
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.errors import InputError
from edgetune.plotting.captions import legend_beside, longest_words, not_drawn, note_left_out, set_title
from edgetune.plotting.style import BLACK, BLUE, GREY, VERMILLION, styled, time_unit
from edgetune.schedule.figures.chosen import colours_of, first_turn, title_of, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NARROWEST = 1 / 1200
"""Of the width of the figure: about a pixel of a screen."""
_HATCHED = 1 / 120
"""Width from which hatching can be seen as such."""
_PALE = 0.62
"""How much of a colour's distance to white a load has lost."""
_MIB = 2.0**20
_MOST_BARS = 400
"""Above which a figure would be stripes, so that a part of the time is drawn."""
_PART_BARS = 160
"""How many a part has: about a line between two of them in every twentieth of an inch."""


@dataclass(frozen=True, slots=True)
class TaskBar:
    """Tasks of one network and kind on one worker, one right after another, s."""

    worker: int
    event: str
    network: str
    start_s: float
    end_s: float
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a turn that a figure shows, s, and the unit in which its axis is written."""

    begin_s: float
    end_s: float

    @property
    def least_s(self) -> float:
        """What is too short to be seen."""
        return _NARROWEST * (self.end_s - self.begin_s)

    @property
    def unit(self) -> tuple[float, str]:
        """Factor from seconds, and the name."""
        return time_unit(self.end_s - self.begin_s)


def gantt_figure(
    timeline: Timeline, *, policy: str | None = None, from_s: float | None = None, to_s: float | None = None
) -> Figure:
    """Return the Gantt chart of a policy's first turn above its memory.

    Args:
        timeline: What happened.
        policy: Which policy; ``None`` takes the first in the file.
        from_s, to_s: Which part of it, s since the turn began. Without both, all of a short run, else some of its
            middle.

    Raises:
        InputError: it has not this policy, or nothing ran then.
        DeviceError: matplotlib is missing.
    """
    rows = first_turn(timeline, policy)
    whole_s = max(row.finished_s for row in rows)
    span = Span(from_s or 0.0, whole_s if to_s is None else to_s)
    bars = bars_of(rows, span)
    if len(bars) > _MOST_BARS and from_s is to_s is None:
        span = middle_of(bars)
        bars = bars_of(rows, span)
    if not bars:
        when = f" from {span.begin_s:g} to {span.end_s:g} s" if from_s or to_s else ""
        raise InputError(f"no task ran{when}, so there is nothing to draw", "see the figures with edgetune show")
    workers = max(bar.worker for bar in bars) + 1
    limits.check("figure_lanes", max(workers, len({bar.network for bar in bars})), "the figure")
    with styled():
        from matplotlib.figure import Figure

        lanes, memory = 0.35 + 0.34 * workers, 1.5
        figure = Figure(figsize=(8.6, 0.9 + lanes + memory), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(lanes, memory))
        factor, unit = span.unit
        _draw_bars(above, bars, colours_of(timeline), span)
        _draw_memory(below, rows, span, timeline.header.conditions.get("limit_bytes"))
        below.set_xlim(factor * span.begin_s, factor * span.end_s)
        below.set_xlabel(f"time since the run began ({unit})")
        part = span.end_s - span.begin_s < whole_s
        which = f"from {span.begin_s:.4g} to {span.end_s:.4g} of {whole_s:.4g} s" if part else ""
        set_title(above, title_of(timeline, f"{rows[0].policy}, what ran and what was held"), which)
        legend_beside(figure, (above, below))
        note_left_out(figure, _left_out(timeline, rows, part=part))
    return figure


def _left_out(timeline: Timeline, rows: Sequence[TimelineRow], *, part: bool) -> list[str]:
    """Return what a chart of these rows leaves out: policies, turns, and in a part of the time the longest request."""
    policies, chosen = list(dict.fromkeys(row.policy for row in timeline.rows)), rows[0].policy
    turns = len({row.turn for row in timeline.rows if row.policy == chosen})
    notes = not_drawn("policy", chosen, policies, turns, "--view gantt:POLICY draws one, --view responses compares all")
    requests = [row for row in rows if row.event == "request" and row.arrived_s is not None] if part else []
    if requests:
        longest = max(requests, key=lambda row: row.finished_s - (row.arrived_s or 0.0))
        notes.append(longest_words(longest.job or "", longest.arrived_s or 0.0, longest.finished_s))
    return notes


def bars_of(rows: Iterable[TimelineRow], span: Span) -> list[TaskBar]:
    """Return the bars of a part of a turn, merged where they would be too narrow to tell apart."""
    found: list[TaskBar] = []
    last: dict[int, int] = {}
    """By worker, the place of its last bar."""
    tasks = [
        TaskBar(row.worker, row.event, row.network or "", row.started_s, row.finished_s, row.status == "failed")
        for row in rows
        if row.event in ("load", "execute") and row.worker is not None and row.started_s is not None
    ]
    for bar in sorted(tasks, key=lambda bar: bar.start_s):
        if bar.end_s <= span.begin_s or bar.start_s >= span.end_s:
            continue
        place = last.get(bar.worker)
        if place is not None and _one(found[place], bar, span.least_s):
            found[place] = replace(found[place], end_s=bar.end_s)
        else:
            last[bar.worker] = len(found)
            found.append(bar)
    return _thinned(found, span)


def _thinned(bars: Sequence[TaskBar], span: Span) -> list[TaskBar]:
    """Return the bars, of those that lie together within a line the one that most of it is."""
    wide = [bar for bar in bars if bar.end_s - bar.start_s >= span.least_s]
    lines: dict[tuple[int, int], list[TaskBar]] = {}
    for bar in bars:
        if bar.end_s - bar.start_s < span.least_s:
            lines.setdefault((bar.worker, int((bar.start_s - span.begin_s) / span.least_s)), []).append(bar)
    for together in lines.values():
        shares: dict[tuple[str, str, bool], float] = {}
        for bar in together:
            kind = (bar.event, bar.network, bar.failed)
            shares[kind] = shares.get(kind, 0.0) + bar.end_s - bar.start_s
        event, network, failed = max(shares, key=shares.__getitem__)
        wide.append(TaskBar(together[0].worker, event, network, together[0].start_s, together[-1].end_s, failed))
    return sorted(wide, key=lambda bar: bar.start_s)


def middle_of(bars: Sequence[TaskBar]) -> Span:
    """Return the part of the time in which the bars in the middle are."""
    first = max(len(bars) - _PART_BARS, 0) // 2
    some = sorted(bars, key=lambda bar: bar.start_s)[first : first + _PART_BARS]
    return Span(some[0].start_s, max(bar.end_s for bar in some))


def _one(before: TaskBar, bar: TaskBar, least_s: float) -> bool:
    """Return whether two bars that follow each other are drawn as one."""
    same = (before.event, before.network, before.failed) == (bar.event, bar.network, bar.failed)
    narrow = min(before.end_s - before.start_s, bar.end_s - bar.start_s) < least_s
    return same and narrow and bar.start_s - before.end_s < least_s


def _draw_bars(axes: Any, bars: Sequence[TaskBar], colours: dict[str, str], span: Span) -> None:
    factor, _ = span.unit
    seen_s = _HATCHED * (span.end_s - span.begin_s)
    kinds: dict[tuple[str, str, bool, bool], list[TaskBar]] = {}
    for bar in bars:
        wide = bar.end_s - bar.start_s >= seen_s
        kinds.setdefault((bar.event, bar.network, wide, bar.failed), []).append(bar)
    for (event, network, wide, failed), of in kinds.items():
        style = _style(event, colours[network], wide=wide, failed=failed)
        places = [-bar.worker for bar in of]
        widths = [factor * (bar.end_s - bar.start_s) for bar in of]
        axes.barh(places, widths, left=[factor * bar.start_s for bar in of], height=0.8, zorder=3, **style)
    for network in sorted({bar.network for bar in bars}):
        axes.barh([0], [0], color=colours[network], label=written(network))
    if any(bar.event == "load" for bar in bars):
        axes.barh([0], [0], facecolor="white", edgecolor=BLACK, hatch="////", linewidth=0.5, label="load")
    if any(bar.failed for bar in bars):
        axes.barh([0], [0], facecolor="white", edgecolor=VERMILLION, linewidth=1.6, label="failed")
    workers = max(bar.worker for bar in bars) + 1
    axes.set_yticks([-worker for worker in range(workers)], [f"worker {worker}" for worker in range(workers)])
    axes.set_ylim(0.6 - workers, 0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")


def _style(event: str, colour: str, *, wide: bool, failed: bool) -> dict[str, Any]:
    """Return how a bar is drawn: an execution full, a load pale and, where one can see it, hatched."""
    edge = VERMILLION if failed else colour
    style: dict[str, Any] = {"facecolor": colour, "edgecolor": edge, "linewidth": 1.6 if failed else 0.3}
    if event == "load":
        style |= {"facecolor": _pale(colour)} | ({"hatch": "////"} if wide else {})
    return style


def _pale(colour: str) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return tuple(part + _PALE * (1 - part) for part in to_rgb(colour))


def _draw_memory(axes: Any, rows: Sequence[TimelineRow], span: Span, limit_bytes: int | None) -> None:
    factor, _ = span.unit
    held = [(_since_s(row), row.held_bytes) for row in rows if row.held_bytes is not None]
    resident = [(row.finished_s, row.resident_bytes) for row in rows if row.resident_bytes is not None]
    swapped = [(row.finished_s, row.swap_bytes) for row in rows if row.swap_bytes]
    budget = [(row.finished_s, row.budget_bytes) for row in rows if row.budget_bytes is not None]
    limit = [(span.begin_s, limit_bytes)] if resident and limit_bytes else []
    highest = 0.0
    for points, style in (
        (held, {"color": BLUE, "linewidth": 1.0, "label": "held, by the runtime"}),
        (resident, {"color": BLACK, "linewidth": 0.9, "label": "in memory, measured"}),
        (swapped, {"color": GREY, "linewidth": 0.9, "linestyle": ":", "label": "swapped out"}),
        (budget, {"color": VERMILLION, "linewidth": 1.2, "linestyle": "--", "label": "budget of tasks"}),
        (limit, {"color": BLACK, "linewidth": 1.2, "linestyle": "--", "label": "limit of all"}),
    ):
        seen = highest_per_slot(sorted(points), span)
        if seen:
            times = [factor * at_s for at_s, _ in seen]
            values = [value / _MIB for _, value in seen]
            axes.plot([*times, factor * span.end_s], [*values, values[-1]], drawstyle="steps-post", **style)
            highest = max(highest, *values)
    axes.set_ylim(0, 1.12 * highest or 1.0)
    axes.set_ylabel("memory (MiB)")


def _since_s(row: TimelineRow) -> float:
    """Return since when what a row says is held was held, s."""
    return row.finished_s if row.started_s is None or row.event == "unload" else row.started_s


def highest_per_slot(points: Sequence[tuple[float, int]], span: Span) -> list[tuple[float, int]]:
    """Return the points of a part of a curve; of those too near to tell apart, the highest.

    What held when the part began is its first point.
    """
    found: list[tuple[float, int]] = []
    for at_s, value in points:
        if at_s > span.end_s:
            break
        if at_s <= span.begin_s:
            found = [(span.begin_s, value)]
        elif found and at_s - found[-1][0] < span.least_s:
            found[-1] = (found[-1][0], max(found[-1][1], value))
        else:
            found.append((at_s, value))
    return found
