"""Draws a run over time: request rate, latency, training throughput, batch size, clocks and power.

All panels share the time. Thin upright lines are plans made anew. What happened and did not change has no panel.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any

from edgetune import limits
from edgetune.artifacts.mode import KNOBS
from edgetune.artifacts.run import Run, RunRow
from edgetune.errors import InputError
from edgetune.plotting.gantt import first_turn, name_rows, turn_notes, zoom_time
from edgetune.plotting.labels import legend_beside, name_in_lines, note_left_out, set_title, title_of
from edgetune.plotting.style import (
    BLACK,
    BLUE,
    COLOURS,
    GREY,
    KNOB_LABELS,
    VERMILLION,
    Figure,
    check_panels,
    new_figure,
    panels_of,
    spread_out,
    time_unit,
)
from edgetune.stages.interleave.power import minibatches
from edgetune.stages.interleave.summary import latency_budget_s, violated
from edgetune.stats import percentile
from edgetune.units import format_si

Panel = Callable[[Any], None]

_WINDOWS = 80
"""About as many windows of time as a panel has room for."""
_MANY = 3000
"""Most requests that are drawn one by one; more are drawn as bands."""
_MOST_TENANTS = 4
"""Tenants of requests with a panel: so many, with clocks and power, are as tall as a page."""
_LAST = 0.5
"""Least length of the last window, as a share of a window."""
_TALLEST_IN = 9.9
_PALE_BLUE = "#BFDBEA"
_LINE_COLOURS = tuple(colour for colour in COLOURS if colour != VERMILLION)
"""Colours of several tenants; vermillion is for budgets."""
_LINES = ("-", "--", ":", "-.")


def timeline_figure(run: Run, *, engine: str | None = None) -> Figure:
    """Return the figure of an engine's first turn over time; ``None`` is the engine of the first row.

    Raises:
        InputError: the run has nothing to draw, or not this engine.
        DeviceError: matplotlib is missing.
    """
    rows = first_turn(run.rows, "engine", engine, of="run")
    check_panels(len(tenants_of(rows, "request")))
    limits.check("figure_lanes", len(tenants_of(rows, "train")), "the figure")
    scale = _Time(max(row.finished_s for row in rows))
    rows, more = _most_late(rows)
    panels = _panels(rows, scale) if scale.end_s > 0 else []
    if not panels:
        raise InputError("the run has nothing to draw over time", "see its rows with edgetune show")
    heights = [height for height, _ in panels]
    with new_figure((8.6, min(0.9 + 1.05 * sum(heights), _TALLEST_IN))) as figure:
        grid = panels_of(figure, len(panels), 1, sharex=True, height_ratios=heights).flatten()
        for axes, (_, panel) in zip(grid, panels, strict=True):
            panel(axes)
            _draw_changes(axes, rows, scale, labels=axes is grid[0])
        grid[-1].set_xlabel(f"time since the run began ({scale.unit})")
        zoom_time(grid[-1])
        grid[-1].set_xlim(0, scale.of(scale.end_s))
        figure.align_ylabels(grid)
        set_title(grid[0], title_of(run.header, f"{rows[0].engine} over time"))
        legend_beside(figure, grid)
        crowd = [f"tenants not drawn: {', '.join(more)} (--view latency compares all)"] if more else []
        remedy = "--view timeline:ENGINE draws one, --view latency compares all"
        note_left_out(figure, [*crowd, *turn_notes(run.rows, rows, "engine", remedy)])
    return figure


def _most_late(rows: list[RunRow]) -> tuple[list[RunRow], list[str]]:
    """Return the rows without those of the tenants that were late least often, of more than a figure can show."""
    late = Counter({tenant: 0 for tenant in tenants_of(rows, "request")})
    late.update(row.tenant or "" for row in rows if row.event == "request" and violated(row))
    more = sorted(tenant for tenant, _ in late.most_common()[_MOST_TENANTS:])
    return [row for row in rows if row.event != "request" or (row.tenant or "") not in more], more


class _Time:
    """The shared axis: its unit, and windows of a round length."""

    def __init__(self, end_s: float) -> None:
        self.end_s = end_s
        self.factor, self.unit = (1 / 60, "min") if end_s > 900 else (1.0, "s") if end_s > 1 else time_unit(end_s)
        steps = (base * 10.0**power for power in range(-4, 6) for base in (1, 2, 5))
        self.window_s = next((step for step in steps if end_s / step <= _WINDOWS), end_s)
        self.edges_s = [number * self.window_s for number in range(int(end_s / self.window_s) + 1)]
        if len(self.edges_s) == 1 or end_s - self.edges_s[-1] > _LAST * self.window_s:
            self.edges_s.append(end_s)
        self.edges_s[-1] = end_s  # a last window too short to tell a rate from belongs to the one before

    def of(self, at_s: float) -> float:
        """Return where a time is on the axis."""
        return self.factor * at_s

    def window(self, at_s: float) -> int:
        """Return the number of the window in which a time is."""
        return min(int(at_s / self.window_s), len(self.edges_s) - 2)

    def draw_steps(self, axes: Any, values: Sequence[float], **style: Any) -> None:
        """Draw a value for each window."""
        axes.plot([*map(self.of, self.edges_s)], [*values, values[-1]], drawstyle="steps-post", **style)


def _panels(rows: list[RunRow], scale: _Time) -> list[tuple[float, Panel]]:
    """Return the panels from the top, each with its relative height."""
    panels: list[tuple[float, Panel]] = []
    asked = _by_tenant(rows, "request")
    if asked:
        came = {tenant: [(row.arrived_s or 0.0, 1) for row in of] for tenant, of in asked.items()}
        panels.append((1.0, partial(_draw_rate, amounts=came, what="asked", scale=scale)))
    panels += [(1.7, partial(_draw_latency, rows=of, scale=scale)) for of in asked.values()]
    steps = _by_tenant(rows, "train")
    if steps:
        learned = {tenant: [(row.finished_s, row.samples or 0) for row in of] for tenant, of in steps.items()}
        panels.append((0.8, partial(_draw_rate, amounts=learned, what="trained", scale=scale)))
    panels += [(0.8, panel) for panel in _setting_panels(rows, scale)]
    if readings := [row for row in rows if row.event == "power" and row.power_w is not None]:
        panels.append((1.2, partial(_draw_power, rows=readings, scale=scale)))
    return panels


def _by_tenant(rows: list[RunRow], event: str) -> dict[str, list[RunRow]]:
    found: dict[str, list[RunRow]] = {tenant: [] for tenant in tenants_of(rows, event)}
    for row in rows:
        if row.event == event:
            found[row.tenant or ""].append(row)
    return found


def _draw_rate(axes: Any, amounts: dict[str, list[tuple[float, int]]], what: str, scale: _Time) -> None:
    """Draw how much was ``asked`` or ``trained`` per second, window by window; amounts come with the time, s."""
    lengths_s = [right - left for left, right in pairwise(scale.edges_s)]
    highest = 0.0
    for number, (tenant, of) in enumerate(amounts.items()):
        sums = [0.0] * len(lengths_s)
        for at_s, amount in of:
            sums[scale.window(at_s)] += amount
        rates = [amount / length_s for amount, length_s in zip(sums, lengths_s, strict=True)]
        highest = max(highest, *rates)
        label = f"{written(tenant)} {what}" if len(amounts) > 1 else None
        scale.draw_steps(axes, rates, **_line_style(number), linewidth=1.2, label=label)
    axes.set_ylim(0, 1.15 * highest or 1.0)
    axes.set_ylabel({"asked": "requests/s", "trained": "trained\nsamples/s"}[what])


def _line_style(number: int) -> dict[str, str]:
    """Return colour and dashes of the line of the tenant with that number."""
    return {"color": _LINE_COLOURS[number % len(_LINE_COLOURS)], "linestyle": _LINES[number % len(_LINES)]}


def _wait_s(row: RunRow) -> float:
    return row.finished_s - (row.arrived_s or 0.0)


def _draw_latency(axes: Any, rows: Sequence[RunRow], scale: _Time) -> None:
    waits_s = [_wait_s(row) for row in rows]
    budgets_s = {budget_s for row in rows if (budget_s := latency_budget_s(row)) is not None}
    factor, unit = time_unit(max([*waits_s, *budgets_s]))
    good = [row for row in rows if not violated(row)]
    late = [row for row in rows if violated(row) and row.status == "ok"]
    lost = [row for row in rows if row.status != "ok"]

    def plot(each: Sequence[RunRow], label: str, **style: Any) -> None:
        times = [scale.of(row.arrived_s or 0.0) for row in each]
        (marks,) = axes.plot(times, [factor * _wait_s(row) for row in each], linestyle="none", label=label, **style)
        name_rows(marks, [_words(row) for row in each])

    if len(good) > _MANY:
        _draw_bands(axes, good, scale, factor)
        label = "of those in time, the\nlongest of each window"
        plot(_worst(good, scale), label, marker=".", markersize=3.0, color=BLUE)
    elif good:
        plot(good, "answered in time", marker=".", markersize=2.4, color=BLUE)
    for each, what, marker, colour in ((late, "late", "x", VERMILLION), (lost, "failed or abandoned", "+", BLACK)):
        style = {"marker": marker, "markersize": 4.5, "color": colour, "zorder": 4}
        if len(each) > _MANY:
            plot(_worst(each, scale), f"{what}: the longest\nof each window", **style)
        elif each:
            plot(each, what, **style)
    for budget_s in sorted(budgets_s):
        axes.axhline(factor * budget_s, color=VERMILLION, linestyle="--", linewidth=1.2, label="due")
    if not spread_out(axes.yaxis, [factor * wait_s for wait_s in waits_s if wait_s > 0], above=300.0):
        axes.set_ylim(0, 1.1 * factor * max([*waits_s, *budgets_s]))
    axes.set_ylabel(f"{written(rows[0].tenant or '')}\nlatency ({unit})".strip())


def _words(row: RunRow) -> str:
    """Return when a request arrived, and what became of it."""
    became = row.status if row.status != "ok" else "late" if violated(row) else "in time"
    parts = [
        f"{row.tenant or 'request'} at {format_si(row.arrived_s or 0.0, 's')}",
        f"{became} after {format_si(_wait_s(row), 's')}",
    ]
    if row.started_s is not None:
        together = "" if row.samples is None else f", {row.samples} together"
        parts.append(f"of these {format_si(row.finished_s - row.started_s, 's')} in its minibatch{together}")
    return "\n".join(parts)


def _worst(rows: Sequence[RunRow], scale: _Time) -> list[RunRow]:
    """Return of each window the row that waited longest."""
    worst = {scale.window(row.arrived_s or 0.0): row for row in sorted(rows, key=_wait_s)}
    return list(worst.values())


def _draw_bands(axes: Any, rows: Sequence[RunRow], scale: _Time, factor: float) -> None:
    """Draw, window by window, the median and where the middle 98 % lie."""
    waits: list[list[float]] = [[] for _ in scale.edges_s[1:]]
    for row in rows:
        waits[scale.window(row.arrived_s or 0.0)].append(factor * _wait_s(row))
    low, middle, high = ([percentile(of, percent) if of else math.nan for of in waits] for percent in (1, 50, 99))
    places = [*map(scale.of, scale.edges_s)]
    axes.fill_between(
        places, [*low, low[-1]], [*high, high[-1]], step="post", color=_PALE_BLUE, linewidth=0,
        label="in time: 1st to 99th\npercentile, median",
    )  # fmt: skip
    scale.draw_steps(axes, middle, color=BLUE, linewidth=1.2)


def _setting_panels(rows: Sequence[RunRow], scale: _Time) -> list[Panel]:
    """Return a panel for batch sizes and one for each knob, of those that changed."""
    panels: list[Panel] = []
    sizes: dict[str, list[tuple[float, float]]] = {}
    for busy in minibatches(rows):
        if busy.batch_size is not None:
            sizes.setdefault(busy.tenant, []).append((busy.start_s, float(busy.batch_size)))
    changing = {tenant: of for tenant, of in sizes.items() if len({size for _, size in of}) > 1}
    if changing:
        panels.append(partial(_draw_settings, series=changing, label="batch size", scale=scale))
    changes = sorted((row for row in rows if row.event in ("plan", "mode")), key=attrgetter("finished_s"))
    for knob in KNOBS:
        values = [(row.finished_s, float(value)) for row in changes if (value := getattr(row, knob)) is not None]
        if len({value for _, value in values}) > 1:
            label = KNOB_LABELS[knob].replace(" (", "\n(")
            panels.append(partial(_draw_settings, series={"": values}, label=label, scale=scale))
    return panels


def _draw_settings(axes: Any, series: dict[str, list[tuple[float, float]]], label: str, scale: _Time) -> None:
    for number, (name, values) in enumerate(sorted(series.items())):
        times, settings = zip(*values, (scale.end_s, values[-1][1]), strict=True)
        axes.plot(
            [scale.of(at_s) for at_s in times], settings, drawstyle="steps-post", linewidth=1.2,
            **_line_style(number) | ({} if name else {"color": BLACK}),
            label=f"{written(name)} batch size" if name and len(series) > 1 else None,
        )  # fmt: skip
    highest = max(value for values in series.values() for _, value in values)
    axes.set_ylim(0, 1.15 * highest)
    axes.set_ylabel(label)


def _draw_power(axes: Any, rows: Sequence[RunRow], scale: _Time) -> None:
    taken = sorted(rows, key=lambda row: row.finished_s)
    times = [scale.of(row.finished_s) for row in taken]
    axes.plot(times, [row.power_w for row in taken], color=BLACK, linewidth=0.9, label="power")
    budgets = [(at, row.power_budget_w) for at, row in zip(times, taken, strict=True) if row.power_budget_w is not None]
    if budgets:
        axes.plot(
            *zip(*budgets, strict=True), drawstyle="steps-post", color=VERMILLION, linestyle="--", linewidth=1.2,
            label="power budget",
        )  # fmt: skip
    axes.set_ylim(0, 1.15 * max([*(row.power_w or 0.0 for row in taken), *(budget_w for _, budget_w in budgets)]))
    axes.set_ylabel("power (W)")


def _draw_changes(axes: Any, rows: Sequence[RunRow], scale: _Time, *, labels: bool) -> None:
    """Mark the times of new plans across a panel."""
    style = {"color": GREY, "linestyle": ":", "linewidth": 0.9, "label": "planned anew" if labels else None}
    for row in rows:
        if row.event in ("plan", "mode") and row.started_s is None and row.finished_s > 0:
            axes.axvline(scale.of(row.finished_s), zorder=0.4, **style)


_NAME_CHARACTERS = 24


def written(tenant: str) -> str:
    """Return a tenant's name as a figure shows it: as it is, in lines of bounded length; ``$`` starts no formula."""
    return name_in_lines(tenant, _NAME_CHARACTERS)


def tenants_of(rows: Sequence[RunRow], event: str) -> list[str]:
    """Return the names of the tenants that have rows of this event, sorted."""
    return sorted({row.tenant or "" for row in rows if row.event == event})
