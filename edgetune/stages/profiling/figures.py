"""Figure of a profile: power against speed, and the modes that no other beats.

Each marker is one measured point. The front joins the points than which no other is both faster and thriftier, in
steps, because between two measured modes there is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from edgetune.artifacts.mode import KNOBS
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.artifacts.repeats import one_per_point
from edgetune.errors import InputError
from edgetune.plotting.captions import legend_beside, note_left_out, set_title
from edgetune.plotting.style import (
    BLACK,
    KNOB_LABELS,
    Figure,
    new_figure,
    pareto_front,
    series_style,
    spread_out,
    time_unit,
)
from edgetune.stats import median

_MOST_PANELS = 6
_FEW = 6
"""Values of a knob up to which each has a tick of its own."""
_MANY = 60
"""Markers of a panel from which they are drawn small and translucent."""


def profile_figure(profile: Profile) -> Figure:
    """Return the figure of a profile: power against speed, or without power time against the knob that matters.

    One panel per network and task. Speed is the time per minibatch where a panel has one batch size, else throughput,
    because the minibatches of different sizes cannot be compared by their time.

    Raises:
        InputError: nothing measured to draw, or more panels than can be read.
        DeviceError: matplotlib is missing.
    """
    panels: dict[tuple[str, str], list[ProfileRow]] = {}
    for row in _measured(profile.rows):
        panels.setdefault((row.workload, row.task), []).append(row)
    if not panels:
        raise InputError("the profile has no measured point to draw", "see the reason column with edgetune show")
    if len(panels) > _MOST_PANELS:
        raise InputError(
            f"{len(panels)} networks and tasks are more than one figure can show", "draw a table with fewer of them"
        )
    sizes = sorted({row.batch_size for rows in panels.values() for row in rows})
    columns = min(len(panels), 2)
    lines = -(-len(panels) // columns)
    with new_figure((3.6 + 3.4 * columns, 0.6 + 3.4 * lines)) as figure:
        grid = figure.subplots(lines, columns, squeeze=False).flatten()
        for axes, ((workload, task), rows) in zip(grid, panels.items(), strict=False):
            left_out = _draw(axes, rows, sizes)
            note = f" ({left_out} without power left out)" if left_out else ""
            head = _title(profile) if axes is grid[0] else ""
            shown = len(rows) - left_out
            points = f"{shown} point{'s' * (shown != 1)}"
            set_title(axes, head, f"{workload} {task}, {points}{note}")
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        legend_beside(figure, grid, [_label(size) for size in sizes])
        note_left_out(figure, _not_measured(profile.rows))
    return figure


def _not_measured(rows: Sequence[ProfileRow]) -> list[str]:
    """Return a note on the number of points without a measurement, by status."""
    last = one_per_point(rows).rows
    lost = Counter(row.status for row in last if not (row.status == "ok" and row.minibatch_s))
    told = ", ".join(f"{count} {status}" for status, count in lost.items())
    return [f"{lost.total()} of {len(last)} points are not drawn: {told}"] if lost else []


def _measured(rows: Sequence[ProfileRow]) -> list[ProfileRow]:
    """Return one row per point that was measured; what failed or throttled was not."""
    return [row for row in one_per_point(rows).rows if row.status == "ok" and row.minibatch_s]


def _title(profile: Profile) -> str:
    devices = sorted({row.device for row in profile.rows if row.device})
    device = ", ".join(devices) or str(profile.header.conditions.get("device", "an unnamed device"))
    return f"SIMULATED: {device}" if profile.header.simulated else device


def _draw(axes: Any, rows: Sequence[ProfileRow], sizes: Sequence[int]) -> int:
    """Draw one panel and return how many rows could not be shown in it; ``sizes`` are the batch sizes of all panels."""
    powered = [row for row in rows if row.power_w is not None]
    if powered:
        _draw_power(axes, powered, sizes)
        return len(rows) - len(powered)
    _draw_time(axes, rows, sizes)
    return 0


def _draw_power(axes: Any, rows: Sequence[ProfileRow], sizes: Sequence[int]) -> None:
    """Draw power against throughput or time, and the front."""
    by_time = len({row.batch_size for row in rows}) == 1
    factor, unit = time_unit(max(row.minibatch_s or 0.0 for row in rows))

    def speed(row: ProfileRow) -> float:
        time_s = row.minibatch_s or 0.0
        return time_s * factor if by_time else row.batch_size / time_s

    many = len(rows) > _MANY
    for size in sizes:
        chosen = [row for row in rows if row.batch_size == size]
        if chosen:
            axes.scatter(
                [speed(row) for row in chosen], [row.power_w for row in chosen], label=_label(size),
                s=14 if many else 34, alpha=0.55 if many else 0.9, linewidths=0, **series_style(sizes.index(size)),
            )  # fmt: skip
    sign = 1.0 if by_time else -1.0  # throughput is to be large: its negative is to be small
    front = [(sign * x, y) for x, y in pareto_front((sign * speed(row), row.power_w or 0.0) for row in rows)]
    xs, ys = zip(*front, strict=True)
    axes.plot(
        xs, ys, color=BLACK, linewidth=1.0, marker="o", markersize=3.2, markerfacecolor="none", markeredgewidth=0.7,
        drawstyle="steps-post", label="Pareto front",
    )  # fmt: skip
    axes.set_xlabel(f"minibatch time ({unit})" if by_time else "throughput (samples/s)")
    axes.set_ylabel("mean power (W)")
    axes.set_ylim(bottom=0)
    spread_out(axes.xaxis, [speed(row) for row in rows])


def _draw_time(axes: Any, rows: Sequence[ProfileRow], sizes: Sequence[int]) -> None:
    """Draw time against the knob that matters most, else against the batch size."""
    knob, alone, many = *_main_knob(rows), len(rows) > _MANY
    factor, unit = time_unit(max(row.minibatch_s or 0.0 for row in rows))
    for size in (None,) if knob == "batch_size" else sizes:
        chosen = [row for row in rows if size in (None, row.batch_size) and getattr(row, knob) is not None]
        chosen.sort(key=lambda row: float(getattr(row, knob)))
        if chosen:
            axes.errorbar(
                [getattr(row, knob) for row in chosen], [factor * (row.minibatch_s or 0.0) for row in chosen],
                yerr=None if many else _interval(chosen, factor),
                label="median, 95 % interval" if size is None else _label(size),
                linestyle="-" if alone else "none", linewidth=1.0, capsize=2.5, markersize=3.5 if many else 5.0,
                **series_style(0 if size is None else sizes.index(size)),
            )  # fmt: skip
    axes.set_xlabel(KNOB_LABELS[knob])
    axes.set_ylabel(f"minibatch time ({unit})")
    shown = sorted({getattr(row, knob) for row in rows} - {None})
    if knob == "batch_size":
        spread_out(axes.xaxis, shown, base=2.0)
    if len(shown) <= _FEW:
        axes.set_xticks(shown, [f"{value:g}" for value in shown])
    if not spread_out(axes.yaxis, [factor * (row.minibatch_s or 0.0) for row in rows]):
        axes.set_ylim(bottom=0)


def _label(size: int) -> str:
    return f"batch size {size}"


def _main_knob(rows: Sequence[ProfileRow]) -> tuple[str, bool]:
    """Return the knob over whose values the median time differs most, and whether no other knob varies.

    Without a knob that varies it is ``batch_size``.
    """
    spreads: dict[str, float] = {}
    for knob in KNOBS:
        times_s: dict[float, list[float]] = {}
        for row in rows:
            if getattr(row, knob) is not None:
                times_s.setdefault(getattr(row, knob), []).append(row.minibatch_s or 0.0)
        if len(times_s) > 1:
            medians = [median(found) for found in times_s.values()]
            spreads[knob] = max(medians) / min(medians)
    return (max(spreads, key=lambda knob: spreads[knob]), len(spreads) == 1) if spreads else ("batch_size", True)


def _interval(rows: Sequence[ProfileRow], factor: float) -> list[list[float]] | None:
    """Return how far each 95 % interval reaches below and above its median; ``None`` when one is not known."""
    below, above = [], []
    for row in rows:
        if row.minibatch_ci95_low_s is None or row.minibatch_ci95_high_s is None or row.minibatch_s is None:
            return None
        below.append(max(factor * (row.minibatch_s - row.minibatch_ci95_low_s), 0.0))
        above.append(max(factor * (row.minibatch_ci95_high_s - row.minibatch_s), 0.0))
    return [below, above]
