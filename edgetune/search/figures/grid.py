"""The grid of modes on paper: which knobs are the axes of which panel, and where in a cell each step stands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgetune.artifacts.profile import Point
from edgetune.drawing import KNOB_LABELS
from edgetune.search.figures.paired import is_background
from edgetune.search.figures.point import PointStatus
from edgetune.search.space import AXES, Background, axis_of_names, value_of

STEP = "step"
_BACKGROUND = -1.0
"""Stands for the batch size of the background workload, which is not searched; below every batch size."""
_LARGEST_PT = 13.0
_SMALLEST_PT = 2.5
_FILLED = 0.82
"""Share of a cell in which steps stand; the rest keeps cells apart."""


@dataclass(frozen=True, slots=True)
class TrajectoryPoint:
    """A measured point on the way of a search.

    Args:
        point: What was measured.
        step: The first step that measured it.
        status: What became of it.
        known: Whether it was measured before the search.
        numbered: Whether its step is written and joined to the next such.
    """

    point: Point
    step: int
    status: PointStatus
    known: bool
    numbered: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """The settings of each axis, ascending, and the panels: which axis is across and which upwards.

    ``names`` are those of the modes, where only names tell them apart; settings of such an axis are places among them.
    """

    values: Mapping[str, tuple[float, ...]]
    panels: tuple[tuple[str, str], ...]
    background: Background | None
    names: tuple[str, ...] = ()

    def place(self, visit: TrajectoryPoint, axis: str) -> int:
        """Return the place of a point among the settings of an axis."""
        value = float(visit.step) if axis == STEP else _value(visit.point, axis, self.background, self.names)
        return self.values[axis].index(value)

    def label(self, axis: str) -> str:
        """Return the name of an axis with its unit."""
        if axis == "batch_size" and self.background is not None:
            return "workload and batch size (samples)"
        return axis if axis == STEP else KNOB_LABELS[axis]

    def written(self, axis: str, place: int) -> str:
        """Return the setting at a place, as beside its tick; of two workloads a batch size with its workload."""
        value = self.values[axis][place]
        if axis == "power_mode":
            return self.names[int(value)]
        if axis == "batch_size" and self.background is not None:
            second = "train" if self.background.task == "train" else "second"
            return f"{second} batch {self.background.batch_size}" if value == _BACKGROUND else f"infer batch {value:g}"
        if value == _BACKGROUND and axis != STEP:
            return "as found"
        return f"{value:.0f}" if value >= 100 else f"{value:g}"


def grid_of(
    visited: Sequence[Point], offered: Iterable[Point], background: Background | None, visits: Sequence[TrajectoryPoint]
) -> Grid:
    """Return the grid: an axis for each knob (and the batch size) that varies among points visited or offered."""
    points = [*visited, *offered]
    named = axis_of_names(points)
    names, axes = ((), AXES) if named is None else (named.labels, (*AXES, named.name))
    values = {name: tuple(sorted({_value(point, name, background, names) for point in points})) for name in axes}
    values[STEP] = tuple(float(visit.step) for visit in visits) or (1.0,)
    varied = [name for name in axes if len(values[name]) > 1]
    if len(varied) < 2:
        alone = [*varied, *(name for name in ("gpu_mhz", *AXES) if value_of(visited[0], name) is not None)]
        return Grid(values, ((alone[0], STEP),), background, names)
    across = max(varied, key=lambda name: (name != "batch_size", len(values[name]), name == "gpu_mhz"))
    return Grid(values, tuple((across, name) for name in varied if name != across), background, names)


def positions(
    grid: Grid, across: str, up: str, visits: Sequence[TrajectoryPoint], paper_pt: tuple[float, float]
) -> tuple[dict[int, tuple[float, float]], float]:
    """Return where each step stands in a panel, by step, and the diameter of markers that fit side by side, points."""
    cells: dict[tuple[int, int], list[int]] = {}
    for visit in visits:
        cells.setdefault((grid.place(visit, across), grid.place(visit, up)), []).append(visit.step)
    wide_pt, high_pt = paper_pt[0] / len(grid.values[across]), paper_pt[1] / len(grid.values[up])
    fullest = max(map(len, cells.values()), default=1)
    columns = _columns(fullest, wide_pt / high_pt)
    lines = math.ceil(fullest / columns)
    found: dict[int, tuple[float, float]] = {}
    for (x, y), steps in cells.items():
        wide = min(columns, len(steps))
        high = math.ceil(len(steps) / wide)
        for index, step in enumerate(steps):
            line, column = divmod(index, wide)
            right = _FILLED * (column - (wide - 1) / 2) / columns
            below = _FILLED * (line - (high - 1) / 2) / lines
            found[step] = (x + right, y - below)
    size_pt = 0.9 * _FILLED * min(wide_pt / columns, high_pt / lines)
    return found, min(max(size_pt, _SMALLEST_PT), _LARGEST_PT)


def _columns(count: int, aspect: float) -> int:
    """Return in how many columns so many markers are largest in a cell of this width over height."""
    return max(range(1, count + 1), key=lambda columns: min(aspect / columns, 1 / math.ceil(count / columns)))


def _value(point: Point, axis: str, background: Background | None, names: Sequence[str]) -> float:
    if axis == "power_mode":
        return float(names.index(point.mode.power_mode or ""))
    if axis == "batch_size" and is_background(background, point):
        return _BACKGROUND
    value = value_of(point, axis)
    return _BACKGROUND if value is None else float(value)
