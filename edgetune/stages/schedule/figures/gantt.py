"""The tasks of each worker over time, above the memory that was held under the budget.

    worker 0  [//load//][ execute ][ execute  ]
    worker 1       [//load//////]  [//load//]
    memory    - - - - - - - - - - - - - - - - -  budget
              ___/----\\____/-------\\__________

Bars have the colour of their network; loads are pale and hatched. Bars that would be narrower than a line are drawn as
one with their neighbours, and of held memory the most is drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from edgetune import limits
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.errors import InputError
from edgetune.plotting.gantt import (
    Bar,
    Span,
    draw_bars,
    first_turn,
    lane_inches,
    longest_note,
    merged,
    name_lanes,
    name_time,
    names_of,
    thinned,
    turn_notes,
)
from edgetune.plotting.labels import legend_beside, name_in_lines, note_left_out, set_title, title_of
from edgetune.plotting.style import BLACK, BLUE, COLOURS, GREY, VERMILLION, Figure, new_figure

_NAME_CHARACTERS = 20
_MORE_COLOURS = ("#8C564B", "#4B4B9F", "#7A7A00", "#7F7F7F")
"""Behind those of Okabe and Ito, for scenarios of up to ten networks."""


def colours_of(timeline: Timeline) -> dict[str, str]:
    """Return a colour for each network: the same in all figures of a timeline."""
    names = sorted({row.network for row in timeline.rows if row.network is not None})
    known = (*COLOURS, *_MORE_COLOURS)
    return {name: known[place % len(known)] for place, name in enumerate(names)}


_HATCHED = 1 / 120
"""Width from which hatching can be seen as such."""
_PALE = 0.62
"""Share of a colour's distance to white by which a load is paler."""
_MIB = 2.0**20


TaskKind = tuple[str, str, bool]
"""Of a bar: ``load`` or ``execute``, the network, whether it failed."""


def gantt_figure(
    timeline: Timeline, *, policy: str | None = None, from_s: float | None = None, to_s: float | None = None
) -> Figure:
    """Return the Gantt charts of the first turns of policies, each above its memory.

    Args:
        timeline: The timeline.
        policy: The policy; ``None`` takes all, one below the other.
        from_s, to_s: Which part of it, s since the turn began.

    Raises:
        InputError: the timeline lacks the policy, or no task ran in that part.
        DeviceError: matplotlib is missing.
    """
    names: Sequence[str | None] = [policy] if policy is not None else names_of(timeline.rows, "policy")
    turns = [_turn(timeline, name, from_s, to_s) for name in names or [None]]
    drawn = [turn for turn in turns if turn.bars or turn.killed is not None]
    if not drawn:
        when = f" from {turns[0].span.begin_s:g} to {turns[0].span.end_s:g} s" if from_s or to_s else ""
        raise InputError(f"no task ran{when}, so there is nothing to draw", "see the figures with edgetune show")
    lanes = [_workers(turn.bars) for turn in drawn]
    limits.check("figure_lanes", sum(lanes), "the figure")
    limits.check("figure_lanes", len({bar.kind[1] for turn in drawn for bar in turn.bars}), "the figure")
    heights = [height for count in lanes for height in (0.35 + lane_inches(count) * count, 1.5)]
    with new_figure((8.6, 0.6 + 0.3 * len(drawn) + sum(heights))) as figure:
        axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        for turn, above, below in zip(drawn, axes[::2], axes[1::2], strict=True):
            above.sharex(below)
            above.tick_params(labelbottom=False)
            _draw_turn(above, below, turn, timeline, first=turn is drawn[0])
        legend_beside(figure, axes)
        idle = [f"no task of {turn.rows[0].policy} ran" for turn in turns if turn not in drawn]
        notes = [note for turn in drawn for note in _left_out(timeline, turn, several=policy is None)]
        note_left_out(figure, [*idle, *notes])
    return figure


@dataclass(frozen=True, slots=True)
class _Turn:
    """The first turn of a policy: its rows, bars, and drawn part; where it was killed, when and what it held, bytes."""

    rows: Sequence[TimelineRow]
    bars: Sequence[Bar[TaskKind]]
    span: Span
    whole_s: float
    killed: tuple[float, int | None] | None

    @property
    def is_part(self) -> bool:
        return self.span.end_s - self.span.begin_s < self.whole_s


def _turn(timeline: Timeline, policy: str | None, from_s: float | None, to_s: float | None) -> _Turn:
    rows = first_turn(timeline.rows, "policy", policy, of="timeline")
    conditions = timeline.header.conditions.get("policies", {}).get(rows[0].policy, ())
    told = conditions[0].get("killed") if conditions else None
    killed = None if told is None else (float(told["at_s"]), told.get("bytes"))
    whole_s = max(row.finished_s for row in rows) if killed is None else 1.02 * killed[0] or 1e-3
    span = Span(from_s or 0.0, whole_s if to_s is None else to_s)
    place_of = {id(row): place for place, row in enumerate(timeline.rows)}
    return _Turn(rows, bars_of(rows, span, place_of), span, whole_s, killed)


def _draw_turn(above: Any, below: Any, turn: _Turn, timeline: Timeline, *, first: bool) -> None:
    """Draw what ran and what was held, and where the kernel killed it."""
    span, words = turn.span, f"{turn.rows[0].policy}, what ran and what was held"
    _draw_bars(above, turn.bars, colours_of(timeline), span)
    _draw_memory(below, turn, timeline.header.conditions.get("limit_bytes"))
    name_time(below, span)
    which = f"from {span.begin_s:.4g} to {span.end_s:.4g} of {turn.whole_s:.4g} s" if turn.is_part else ""
    set_title(above, title_of(timeline.header, words) if first else words, which)
    if turn.killed is not None and turn.killed[0] <= span.end_s:
        at = span.unit[0] * turn.killed[0]
        for axes in (above, below):
            axes.axvline(at, color=VERMILLION, linewidth=1.4, linestyle="-.", zorder=3, label="killed")


def _left_out(timeline: Timeline, turn: _Turn, *, several: bool) -> list[str]:
    """Return notes on the omissions of a chart: turns, and in a part of the time the longest request."""
    rows, name = turn.rows, turn.rows[0].policy
    alike = [row for row in timeline.rows if row.policy == name] if several else timeline.rows
    notes = turn_notes(alike, rows, "policy", "--view gantt draws all")
    requests = [row for row in rows if row.event == "request" and row.arrived_s is not None] if turn.is_part else []
    notes += longest_note(requests, "job")
    return [f"{name}: {note}" for note in notes] if len(alike) < len(timeline.rows) else notes


def bars_of(
    rows: Iterable[TimelineRow], span: Span, place_of: Mapping[int, int] = MappingProxyType({})
) -> list[Bar[TaskKind]]:
    """Return the bars of a part of a turn, a lane for each worker; see ``plotting.gantt.merged``.

    ``place_of`` has the place of each row in the artifact, by identity.
    """
    bars: list[Bar[TaskKind]] = [
        Bar(
            row.worker, (row.event, row.network or "", row.status == "failed"), row.started_s, row.finished_s,
            place_of.get(id(row)),
        )
        for row in rows
        if row.event in ("load", "execute") and row.worker is not None and row.started_s is not None
    ]  # fmt: skip
    return thinned(merged(bars, span), span)


def _draw_bars(axes: Any, bars: Sequence[Bar[TaskKind]], colours: dict[str, str], span: Span) -> None:
    factor, _ = span.unit
    hatched_s = _HATCHED * (span.end_s - span.begin_s)

    def style(bar: Bar[TaskKind]) -> dict[str, Any]:
        """An execution is full; a load is pale and, where one can see it, hatched."""
        event, network, failed = bar.kind
        colour, load = colours[network], event == "load"
        return {
            "facecolor": _pale(colour) if load else colour,
            "edgecolor": VERMILLION if failed else colour,
            "linewidth": 1.6 if failed else 0.3,
            "hatch": "////" if load and bar.length_s >= hatched_s else None,
        }

    draw_bars(axes, bars, factor, place=lambda worker: -worker, style=style)
    for network in sorted({bar.kind[1] for bar in bars}):
        axes.barh([0], [0], color=colours[network], label=name_in_lines(network, _NAME_CHARACTERS))
    if any(event == "load" for event, *_ in (bar.kind for bar in bars)):
        axes.barh([0], [0], facecolor="white", edgecolor=BLACK, hatch="////", linewidth=0.5, label="load")
    if any(bar.kind[2] for bar in bars):
        axes.barh([0], [0], facecolor="white", edgecolor=VERMILLION, linewidth=1.6, label="failed")
    workers = _workers(bars)
    name_lanes(axes, [f"worker {worker}" for worker in range(workers)], every=-(-workers // 40))


def _workers(bars: Sequence[Bar[TaskKind]]) -> int:
    return 1 + max((int(bar.lane) for bar in bars), default=0)


def _pale(colour: str) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return tuple(part + _PALE * (1 - part) for part in to_rgb(colour))


def _draw_memory(axes: Any, turn: _Turn, limit_bytes: int | None) -> None:
    rows, span, (factor, _) = turn.rows, turn.span, turn.span.unit
    held = [
        (row.finished_s if row.started_s is None or row.event == "unload" else row.started_s, row.held_bytes)
        for row in rows
        if row.held_bytes is not None
    ]
    resident = [(row.finished_s, row.resident_bytes) for row in rows if row.resident_bytes is not None]
    swapped = [(row.finished_s, row.swap_bytes) for row in rows if row.swap_bytes]
    budget = [(row.finished_s, row.budget_bytes) for row in rows if row.budget_bytes is not None]
    limit = [(span.begin_s, limit_bytes)] if resident and limit_bytes else []
    end_s = span.end_s if turn.killed is None else min(span.end_s, turn.killed[0])
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
            axes.plot([*times, factor * end_s], [*values, values[-1]], drawstyle="steps-post", **style)
            highest = max(highest, *values)
    if turn.killed is not None and turn.killed[1] is not None and turn.killed[0] <= span.end_s:
        highest = max(highest, turn.killed[1] / _MIB)
        axes.plot([factor * turn.killed[0]], [turn.killed[1] / _MIB], color=VERMILLION, marker="X", markersize=8,
                  linestyle="none", clip_on=False, zorder=4, label="held when killed")  # fmt: skip
    axes.set_ylim(0, 1.12 * highest or 1.0)
    axes.set_ylabel("memory (MiB)")


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
