"""Figure of a soak: time, power, temperature and clocks over the minutes that a point was kept running."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias

from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.errors import InputError
from edgetune.plotting.captions import legend_beside, set_title
from edgetune.plotting.rows import name_rows
from edgetune.plotting.style import Figure, new_figure, series_style, time_unit
from edgetune.plotting.time_zoom import zoom_time
from edgetune.stages.profiling.soak import clocks_of, soak_sentence, soak_summary
from edgetune.stats import median

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
        found = soak_summary(rows[0]) if len(rows) == 1 else None
        set_title(grid[0], _name(rows[0]) if found else "", soak_sentence(found) if found else "")
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
