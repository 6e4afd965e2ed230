"""Figure of a profile: power against time per sample, and the modes that no other beats.

Each marker is one measured point. The front joins the points than which no other is both faster and thriftier, in
steps, because between two measured modes there is none.

Figure of a soak: time, power, temperature and clocks over the minutes that a point was kept running.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from edgetune.artifacts.mode import KNOBS
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.artifacts.repeats import one_per_point, point_key
from edgetune.errors import InputError
from edgetune.plotting.front import LEGEND, Place, draw_front, front_of, label_front, mode_label, ordered, scale_front
from edgetune.plotting.gantt import name_rows, zoom_time
from edgetune.plotting.labels import Label, legend_beside, note_left_out, set_title
from edgetune.plotting.style import (
    BLACK,
    KNOB_LABELS,
    Figure,
    new_figure,
    scale_axis,
    series_style,
    spread_out,
    time_unit,
)
from edgetune.stages.profiling.soak import clocks_of, soak_sentence
from edgetune.stats import median

_MOST_PANELS = 12
_FEW = 6
"""Values of a knob up to which each has a tick of its own."""
_MANY = 60
"""Markers of a panel from which they are drawn small and translucent."""


def profile_figure(profile: Profile) -> Figure:
    """Return the figure of a profile: power against time, or without power time against the knob that matters.

    One panel per network and task, of many the first few. Time is that of a sample, which batch sizes have in common.

    Raises:
        InputError: nothing measured to draw.
        DeviceError: matplotlib is missing.
    """
    panels: dict[tuple[str, str], list[ProfileRow]] = {}
    for row in _measured(profile.rows):
        panels.setdefault((row.workload, row.task), []).append(row)
    if not panels:
        raise InputError("the profile has no measured point to draw", "see the reason column with edgetune show")
    shown, more = list(panels.items())[:_MOST_PANELS], list(panels)[_MOST_PANELS:]
    notes = _not_measured(profile.rows)
    notes += [f"not drawn: {', '.join(map(' '.join, more))} (draw a table with fewer of them)"] if more else []
    sizes = sorted({row.batch_size for _, rows in shown for row in rows})
    place_of = {point_key(row.point): place for place, row in enumerate(profile.rows) if row.status == "ok"}
    columns = next(count for most, count in ((1, 1), (4, 2), (9, 3), (_MOST_PANELS, 4)) if len(shown) <= most)
    lines = -(-len(shown) // columns)
    with new_figure((3.6 + 3.4 * columns, 0.6 + 3.1 * lines)) as figure:
        grid = figure.subplots(lines, columns, squeeze=False).flatten()
        labels: dict[Any, list[Label]] = {}
        fronts: dict[Any, list[Place]] = {}
        for axes, ((workload, task), rows) in zip(grid, shown, strict=False):
            powered = [row for row in rows if row.power_w is not None]
            rows_of = [place_of[point_key(row.point)] for row in powered or rows]
            if powered:
                labels[axes], fronts[axes] = _draw_power(axes, powered, sizes, rows_of)
            else:
                notes += _draw_time(axes, rows, sizes, rows_of)
            left_out = len(rows) - len(powered) if powered else 0
            note = f" ({left_out} without power left out)" if left_out else ""
            head = _title(profile) if axes is grid[0] else ""
            points = f"{len(rows_of)} point{'s' * (len(rows_of) != 1)}"
            set_title(axes, head, f"{workload} {task}, {points}{note}")
        for axes in grid[len(shown) :]:
            axes.set_axis_off()
        grid[0].plot([], [], linestyle="none", label=LEGEND if fronts else "")
        legend_beside(figure, grid, [_label(size) for size in sizes])
        note_left_out(figure, notes)
        label_front(figure, labels, fronts, list(dict.fromkeys(notes)))
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


def _draw_power(
    axes: Any, rows: Sequence[ProfileRow], sizes: Sequence[int], rows_of: Sequence[int]
) -> tuple[list[Label], list[Place]]:
    """Draw power against time per sample, and the front; return all points, with the modes of the front, and the front.

    Args:
        axes: The panel.
        rows: With power.
        sizes: Batch sizes of all panels.
        rows_of: The place of each row in the profile.
    """
    factor, unit = time_unit(max((row.minibatch_s or 0.0) / row.batch_size for row in rows))
    places = [(factor * (row.minibatch_s or 0.0) / row.batch_size, row.power_w or 0.0) for row in rows]
    many = len(rows) > _MANY
    for size in sizes:
        chosen = [number for number, row in enumerate(rows) if row.batch_size == size]
        if chosen:
            marks = axes.scatter(
                *zip(*(places[number] for number in chosen), strict=True), label=_label(size),
                s=14 if many else 34, alpha=0.55 if many else 0.9, linewidths=0, **series_style(sizes.index(size)),
            )  # fmt: skip
            name_rows(marks, [rows_of[number] for number in chosen])
    front = front_of(places)
    draw_front(
        axes, front, color=BLACK, linewidth=1.0, marker="o", markersize=3.2, markerfacecolor="none",
        markeredgewidth=0.7, label="Pareto front",
    )  # fmt: skip
    scale_front(axes, f"time per sample ({unit})", places)
    named = {place: row for place, row in zip(places, rows, strict=True)}
    labels = [Label(*place, 2.0, mode_label(named[place].mode.short(), named[place].batch_size))
              for place in ordered(front)]  # fmt: skip
    return labels + [Label(*place, 2.0) for place in named if place not in set(front)], front


def _draw_time(axes: Any, rows: Sequence[ProfileRow], sizes: Sequence[int], rows_of: Sequence[int]) -> list[str]:
    """Draw time against the knob that matters most, else against the batch size; return what is left out."""
    knob, alone, many = *_main_knob(rows), len(rows) > _MANY
    factor, unit = time_unit(max(row.minibatch_s or 0.0 for row in rows))
    for size in (None,) if knob == "batch_size" else sizes:
        pairs = zip(rows, rows_of, strict=True)
        found = [(row, at) for row, at in pairs if size in (None, row.batch_size) and getattr(row, knob) is not None]
        found.sort(key=lambda pair: float(getattr(pair[0], knob)))
        chosen = [row for row, _ in found]
        if chosen:
            drawn = axes.errorbar(
                [getattr(row, knob) for row in chosen], [factor * (row.minibatch_s or 0.0) for row in chosen],
                yerr=None if many else _interval(chosen, factor),
                label="median, 95 % interval" if size is None else _label(size),
                linestyle="-" if alone else "none", linewidth=1.0, capsize=2.5, markersize=3.5 if many else 5.0,
                **series_style(0 if size is None else sizes.index(size)),
            )  # fmt: skip
            name_rows(drawn.lines[0], [at for _, at in found])
    axes.set_xlabel(KNOB_LABELS[knob])
    shown = sorted({getattr(row, knob) for row in rows} - {None})
    if knob == "batch_size":
        spread_out(axes.xaxis, shown, base=2.0)
    if len(shown) <= _FEW:
        axes.set_xticks(shown, [f"{value:g}" for value in shown])
    tops = [row.minibatch_ci95_high_s or 0.0 for row in rows if not many]
    times_s = [row.minibatch_s or 0.0 for row in rows]
    scale_axis(
        axes.yaxis, f"minibatch time ({unit})", [factor * time_s for time_s in (*times_s, max([*tops, *times_s]))]
    )
    return ["95 % intervals are not drawn: there are too many points"] if many else []


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


_BINS = 200
"""Medians drawn of times and power: a line of 100,000 minibatches shows its outliers only."""
_MOST_ROWS = 6

Line: TypeAlias = list[tuple[float, float]]
"""Time, s, and value."""


def soak_figure(profile: Profile) -> Figure:
    """Return the figure of the soaks of a profile: a panel for each quantity, a line for each row.

    Raises:
        InputError: no row was soaked, or more than can be told apart.
        DeviceError: matplotlib is missing.
    """
    rows = [row for row in profile.rows if row.look_s and row.times_s]
    if not rows:
        raise InputError("the profile has no soak to draw", "measure one: edgetune profile ... --soak 10m")
    if len(rows) > _MOST_ROWS:
        raise InputError(f"{len(rows)} soaks are more than one figure can show", "draw a table with fewer of them")
    scale, time_name = (1 / 60, "minutes") if max(sum(row.times_s or ()) for row in rows) >= 300 else (1.0, "s")
    factor, unit = time_unit(max(row.minibatch_s or 0.0 for row in rows))
    panels = {
        f"minibatch ({unit})": [_times(row, factor) for row in rows],
        "power (W)": [_power(row) for row in rows],
        "temperature (°C)": [_line(row, row.look_temp_c) for row in rows],
    }
    for name in dict.fromkeys(name for row in rows for name in row.look_clocks or ()):
        panels[f"{name} (MHz)"] = [_line(row, clocks_of(row).get(name)) for row in rows]
    panels = {label: lines for label, lines in panels.items() if any(lines)}
    with new_figure((7.5, 0.9 + 1.5 * len(panels))) as figure:
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False).flatten()
        for axes, (label, lines) in zip(grid, panels.items(), strict=True):
            for place, (row, line) in enumerate(zip(rows, lines, strict=True)):
                drawn = [(time_s * scale, value) for time_s, value in line]
                if drawn:
                    style = {"color": series_style(place)["color"], "label": _name(row)}
                    axes.plot(*zip(*drawn, strict=True), linewidth=1, **style)
                    (marks,) = axes.plot(*zip(*drawn, strict=True), linestyle="none", marker=".", markersize=2, **style)
                    name_rows(
                        marks, [f"{_name(row)}\nat {at:.3g} {time_name}\n{label}: {value:.4g}" for at, value in drawn]
                    )
            axes.set_ylabel(label)
            axes.ticklabel_format(axis="y", useOffset=False)
        grid[-1].set_xlabel(f"time ({time_name})")
        zoom_time(grid[-1])
        found = soak_sentence(rows[0]) if len(rows) == 1 else None
        set_title(grid[0], _name(rows[0]) if found else "", found or "")
        if len(rows) > 1:
            legend_beside(figure, grid)
    return figure


def _name(row: ProfileRow) -> str:
    return f"{row.workload} {row.task} batch {row.batch_size}" + (f" [{row.mode}]" if row.mode.settings() else "")


def _times(row: ProfileRow, factor: float) -> Line:
    """Return the times of minibatches, in the unit of ``factor``, when they ended."""
    times_s = row.times_s or ()
    return _binned([(end_s, factor * each_s) for end_s, each_s in zip(accumulate(times_s), times_s, strict=True)])


def _power(row: ProfileRow) -> Line:
    return _binned([(sample.time_s, round(sample.power_w, 3)) for sample in row.power_trace or ()])


def _binned(line: Line) -> Line:
    """Return the medians of runs of equally many values, at the time of the last of each."""
    edges = sorted({len(line) * place // _BINS for place in range(_BINS + 1)})
    return [(line[high - 1][0], median([value for _, value in line[low:high]])) for low, high in pairwise(edges)]


def _line(row: ProfileRow, values: Sequence[float] | None) -> Line:
    return [] if values is None else list(zip(row.look_s or (), values, strict=True))
