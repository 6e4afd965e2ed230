"""Draws a few cycles minibatch by minibatch: requests fill a batch and are answered; training runs in between.

requests  | |  ||  | | |   ||
answers            [8]           [8]
trains    [16][16]    [16][16]
idle                          //
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgetune import limits
from edgetune.artifacts.run import Run, RunRow
from edgetune.errors import InputError
from edgetune.plotting.captions import legend_beside, note_left_out, set_title, title_of
from edgetune.plotting.gantt import Bar, Kind, draw_bars, name_lanes
from edgetune.plotting.rows import name_rows
from edgetune.plotting.style import BLACK, BLUE, GREY, VERMILLION, Figure, new_figure, time_unit
from edgetune.plotting.turns import first_turn
from edgetune.stages.interleave.cycle import Cycle
from edgetune.stages.interleave.device_use import Busy, minibatches
from edgetune.stages.interleave.explain import parts_of
from edgetune.stages.interleave.figures.chosen import left_out, written
from edgetune.units import format_si

CYCLES = 3
"""Batches of requests that a figure shows."""
AFTER = 0.1
"""Time shown after the last batch, as a share of the time of all."""
_NARROWEST = 1 / 500
"""Of the width of the figure, which is about as many times as wide as a line."""
_LOWER = 0.07
_TRAINING = "#F5C26B"
"""A pale orange: light in grey print, where the blue of answers is dark."""
_DIGIT_SHARE = 0.013
"""Width of a digit as a share of the figure: a number that would not fit into its bar is left out."""
_IDLE = {"facecolor": "white", "edgecolor": GREY, "hatch": "////", "linewidth": 0.6}
_BAR = 0.66
_LANES = {"asked": "{} requests", "answers": "{} answers", "trains": "{} trains", "idle": "idle"}
"""The name of a lane, with that of its tenant."""
_MOST_TENANTS = 8
_MOST_WORDS = 60
"""Most bars of a lane that carry a number; on more it is unreadable."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A batch of requests: when they came, when the first was due, when they were answered together; s."""

    tenant: str
    arrivals_s: tuple[float, ...]
    start_s: float
    end_s: float
    due_s: float | None = None


@dataclass(frozen=True, slots=True)
class Cycles:
    """What to draw, s: batches of requests, the minibatches on the device, and from when to when."""

    batches: Sequence[Filled]
    busy: Sequence[Busy]
    from_s: float
    to_s: float


def cycle_figure(run: Run, *, engine: str | None = None) -> Figure:
    """Return a few cycles from the middle of an engine's first turn.

    Raises:
        InputError: the run did not have this engine, or nothing ran in it.
        DeviceError: matplotlib is missing.
    """
    rows = first_turn(run.rows, "engine", engine, of="run")
    cycles, more = _few_tenants(cycles_of(rows))
    if cycles.to_s <= cycles.from_s:
        raise InputError("no minibatch took any time, so there is no cycle to draw", "see the rows with edgetune show")
    figure = draw_cycles(cycles, title_of(run.header, f"{rows[0].engine}, from {cycles.from_s:.4g} s"))
    crowd = [f"tenants not drawn: {', '.join(more)}"] if more else []
    note_left_out(figure, [*crowd, *left_out(run, rows, "cycle", part=True)])
    return figure


def _few_tenants(cycles: Cycles) -> tuple[Cycles, list[str]]:
    """Return the cycles with as many answering tenants as a figure can show, and the others."""
    tenants = list(dict.fromkeys([batch.tenant for batch in cycles.batches]))
    more = sorted(tenants[_MOST_TENANTS:])
    batches = [batch for batch in cycles.batches if batch.tenant not in more]
    busy = [each for each in cycles.busy if each.tenant not in more or not each.answers]
    return replace(cycles, batches=batches, busy=busy), more


def cycles_of(rows: Sequence[RunRow]) -> Cycles:
    """Return some cycles from the middle of one turn; without requests, as many training minibatches.

    Raises:
        InputError: no minibatch ran.
    """
    busy = minibatches(rows)
    if not busy:
        raise InputError("no minibatch ran, so there is no cycle to draw", "see the rows with edgetune show")
    batches = _batches(rows)
    if not batches:
        middle = busy[max(len(busy) // 2 - CYCLES, 0) :][: 2 * CYCLES]
        return Cycles((), middle, middle[0].start_s, max(each.end_s for each in middle))
    often = max({of.tenant for of in batches}, key=lambda tenant: sum(of.tenant == tenant for of in batches))
    measure = [of for of in batches if of.tenant == often]
    first = min(len(measure) // 2, max(len(measure) - CYCLES, 0))
    chosen = measure[first : first + CYCLES]
    from_s, end_s = chosen[0].arrivals_s[0], max(of.end_s for of in chosen)
    return _shown(batches, busy, from_s, end_s)


def _shown(batches: Sequence[Filled], busy: Sequence[Busy], from_s: float, end_s: float) -> Cycles:
    """Return the batches and minibatches that are seen from a time until shortly after another, s."""
    to_s = end_s + AFTER * (end_s - from_s)
    return Cycles(
        [of for of in batches if of.end_s > from_s and of.arrivals_s[0] < to_s],
        [each for each in busy if each.end_s > from_s and each.start_s < to_s], from_s, to_s,
    )  # fmt: skip


def _batches(rows: Sequence[RunRow]) -> list[Filled]:
    together: dict[tuple[str, int | None, float], list[RunRow]] = {}
    for row in rows:
        if row.event == "request" and row.started_s is not None:
            together.setdefault((row.tenant or "", row.minibatch, row.started_s), []).append(row)
    found = [
        Filled(
            tenant,
            tuple(sorted(row.arrived_s for row in of if row.arrived_s is not None)),
            start_s,
            of[0].finished_s,
            min((row.deadline_s for row in of if row.deadline_s is not None), default=None),
        )
        for (tenant, _, start_s), of in together.items()
    ]
    return sorted((of for of in found if of.arrivals_s), key=lambda of: of.start_s)


def draw_cycles(cycles: Cycles, *title: str) -> Figure:
    """Return the figure of cycles, measured or planned, under the lines of a title.

    Raises:
        DeviceError: matplotlib is missing.
    """
    asking = {of.tenant for of in cycles.batches}
    answering = sorted(asking | {each.tenant for each in cycles.busy if each.answers})
    lanes = [(what, name) for name in answering for what in ("asked", "answers") if what == "answers" or name in asking]
    lanes += [("trains", name) for name in sorted({each.tenant for each in cycles.busy if not each.answers})]
    lanes.append(("idle", ""))
    limits.check("figure_lanes", len(lanes), "the figure")
    factor, unit = time_unit(cycles.to_s - cycles.from_s)
    with new_figure((8.2, 1.2 + 0.46 * len(lanes))) as figure:
        axes = figure.subplots()
        heights = {lane: float(-number) for number, lane in enumerate(lanes)}
        for number, batch in enumerate(cycles.batches):
            lower = _LOWER * (number % 2)  # neighbours may be due after each other's answers
            _draw_batch(axes, batch, heights, lambda at_s: factor * (at_s - cycles.from_s), lower)
        bars = [_bar(cycles, each, each.start_s, each.end_s) for each in cycles.busy]
        draw_bars(axes, bars, factor, place=heights.__getitem__, style=_style, height=_BAR, words=_words)
        _number_bars(axes, bars, heights, factor, cycles.to_s - cycles.from_s)
        idle = [_bar(cycles, None, *span_s) for span_s in _idle(cycles)]
        draw_bars(axes, idle, factor, place=heights.__getitem__, style=lambda _: _IDLE, height=_BAR, words=_words)
        name_lanes(axes, [_LANES[what].format(written(name)) for what, name in lanes])
        axes.set_xlim(0, factor * (cycles.to_s - cycles.from_s))
        axes.set_xlabel(f"time ({unit})")
        axes.plot([], [], linestyle="none", label="numbers: samples")
        set_title(axes, *title)
        legend_beside(figure, [axes])
    return figure


def _bar(cycles: Cycles, busy: Kind, start_s: float, end_s: float) -> Bar[Kind]:
    """Return the bar of a minibatch, or of idle time where ``busy`` is ``None``."""
    lane = ("answers" if busy.answers else "trains", busy.tenant) if isinstance(busy, Busy) else ("idle", "")
    return Bar(lane, busy, start_s - cycles.from_s, end_s - cycles.from_s)


def _draw_batch(axes: Any, batch: Filled, heights: Any, place: Any, lower: float) -> None:
    """Draw requests as ticks, joined to the minibatch that answered them, and when the first of them was due."""
    asked, answered = heights["asked", batch.tenant], heights["answers", batch.tenant]
    times = [place(at_s) for at_s in batch.arrivals_s]
    ticks = axes.vlines(times, asked - 0.3, asked + 0.3, color=BLACK, linewidth=0.9)
    name_rows(
        ticks, [f"request to {batch.tenant}\nanswered {format_si(batch.end_s - at_s, 's')} later" for at_s in
                batch.arrivals_s],
    )  # fmt: skip
    start = place(batch.start_s)
    axes.fill([times[0], times[-1], start], [asked - 0.3, asked - 0.3, answered + 0.36], color="#e6e6e6", zorder=0.5)
    axes.plot([times[0], start], [asked - 0.3, answered + 0.36], color=GREY, linewidth=0.6, zorder=0.6)
    if batch.due_s is not None:
        _draw_due(axes, place(batch.end_s), place(batch.due_s), answered - 0.39 - lower)


def _draw_due(axes: Any, end: float, due: float, height: float) -> None:
    """Draw how long before its oldest request was due a batch was answered, or how long after."""
    late = due < end
    axes.plot(
        [end, due], [height, height], color=VERMILLION, linewidth=2.4 if late else 1.0, solid_capstyle="butt",
        label="oldest request late by" if late else "left until the oldest\nrequest is due", zorder=4,
    )  # fmt: skip
    axes.plot([due, due], [height - 0.06, height + 0.22], color=VERMILLION, linewidth=1.2, zorder=4)


def _style(bar: Bar[Busy]) -> dict[str, Any]:
    return {"facecolor": BLUE if bar.kind.answers else _TRAINING, "edgecolor": BLACK, "linewidth": 0.5}


def _words(bar: Bar[Kind]) -> str:
    """Return what runs, of how many samples and how long."""
    busy, took = bar.kind, format_si(bar.length_s, "s")
    if not isinstance(busy, Busy):
        return f"idle for {took}"
    samples = "" if busy.samples is None else f" {busy.samples} samples"
    return f"{busy.tenant} {'answers' if busy.answers else 'trains'}{samples}\nin {took}"


def _number_bars(
    axes: Any, bars: Sequence[Bar[Busy]], heights: Mapping[tuple[str, str], float], factor: float, whole_s: float
) -> None:
    """Write the number of samples of each minibatch into its bar, where it fits."""
    for bar in bars if len(bars) <= _MOST_WORDS else ():
        samples = bar.kind.samples
        inside = bar.start_s >= 0 and bar.end_s <= whole_s
        if samples is not None and inside and bar.length_s >= _DIGIT_SHARE * len(str(samples)) * whole_s:
            axes.text(
                factor * (bar.start_s + bar.length_s / 2), heights[bar.lane], str(samples), ha="center",
                va="center_baseline", fontsize=7.0, color="white" if bar.kind.answers else BLACK, clip_on=True,
            )  # fmt: skip


def _idle(cycles: Cycles) -> list[tuple[float, float]]:
    """Return the idle spans of the device, s; without those too short to be seen."""
    gaps, free_s = [], cycles.from_s
    least_s = _NARROWEST * (cycles.to_s - cycles.from_s)
    for each in sorted(cycles.busy, key=lambda busy: busy.start_s):
        if each.start_s - free_s > least_s:
            gaps.append((free_s, each.start_s))
        free_s = max(free_s, each.end_s)
    return [*gaps, (free_s, cycles.to_s)] if free_s < cycles.to_s else gaps


def planned_figure(cycle: Cycle, latency_budget_s: float | None = None, *, simulated: bool = False) -> Figure:
    """Return some cycles as planned.

    Args:
        cycle: What happens between one full batch and the next.
        latency_budget_s: Every request is due this long after it arrived, s; ``None`` shows no deadlines.
        simulated: Whether its times are of a model, which the title then says.

    Raises:
        InputError: the rate of requests is unknown.
        DeviceError: matplotlib is missing.
    """
    cycles = planned_cycles(cycle, latency_budget_s)
    mode = str(cycle.infer.mode) if cycle.infer.mode.settings() else ""
    title = f"planned: a cycle of {format_si(cycle.period_s, 's')} at {cycle.rate_per_s:g} requests/s"
    return draw_cycles(cycles, f"SIMULATED: {title}" if simulated else title, mode)


def planned_cycles(cycle: Cycle, latency_budget_s: float | None = None) -> Cycles:
    """Return some cycles as planned, the first batch full at 0 s; arguments as above.

    Raises:
        InputError: the rate of requests is unknown.
    """
    if cycle.rate_per_s is None:
        raise InputError("a cycle has no length where the rate of requests is unknown", "give an arrival rate")
    batches, busy = [], []
    infer, train = cycle.infer, cycle.train
    from_s = -cycle.fill_s
    for number in range(-1, CYCLES + 1):  # of the cycles before and after, one sees the ends
        full_s = number * cycle.period_s
        first_s = full_s + from_s
        arrivals_s = tuple(first_s + position / cycle.rate_per_s for position in range(cycle.together))
        due_s = None if latency_budget_s is None else first_s + latency_budget_s
        batches.append(Filled(infer.workload, arrivals_s, full_s, full_s + infer.minibatch_s, due_s))
        for part in parts_of(cycle):
            begin_s, end_s = full_s + part.begin_s, full_s + part.begin_s + part.duration_s
            if part.what == "infer":
                busy.append(Busy(infer.workload, True, begin_s, end_s, cycle.together, cycle.together))
            elif part.what == "train" and train is not None:
                busy.append(Busy(train.workload, False, begin_s, end_s, train.batch_size, train.batch_size))
    return _shown(batches, busy, from_s, (CYCLES - 1) * cycle.period_s + infer.minibatch_s)
