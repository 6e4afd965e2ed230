"""What figures of a search have in common: scales and budgets, titles, markers, and numbers beside markers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.trace import Trace
from edgetune.plotting.style import BLUE, GREY, PURPLE, VERMILLION, time_unit
from edgetune.search.figures.points import PointStatus, SearchPoint
from edgetune.search.problem import PAIRS, objective_of
from edgetune.units import format_si

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Scale:
    """How objectives, which are all to be large, are shown: as people know them, in a unit that suits.

    Args:
        label: Of the axis, with the unit.
        unit: The unit; empty where there is none.
        factor: From the objective, or from one over it, to what is shown.
        inverse: Whether one over the objective is shown: time per sample instead of samples per time.
        less_is_better: Which end of the axis is the good one.
    """

    label: str
    unit: str
    factor: float
    inverse: bool
    less_is_better: bool

    def shown(self, objective: float) -> float:
        """Return the value to show; infinite for a throughput of nothing."""
        if self.inverse and objective <= 0:
            return math.inf
        return self.factor / objective if self.inverse else self.factor * objective

    def written(self, shown: float) -> str:
        """Return a shown value with its unit, for a text."""
        return format_si(shown, "s") if self.unit == "s" else f"{shown:.3g} {self.unit}".rstrip()


def scale_of(problem: Problem | None, objectives: Sequence[float]) -> Scale:
    """Return how to show these objectives, larger-is-better numbers as a trace has them.

    Throughput of one workload becomes time per sample, so that the good corner of time against power is the lower
    left one; of two workloads it is the background's, and stays throughput, for it may be 0.
    """
    if problem is None:
        return Scale("objective (larger is better)", "", 1.0, inverse=False, less_is_better=False)
    objective, largest = objective_of(problem), max(map(abs, objectives), default=1.0)
    if problem.kind in PAIRS:
        return Scale("background throughput (samples/s)", "samples/s", 1.0, inverse=False, less_is_better=False)
    if objective == "throughput":
        factor, unit = time_unit(1 / min((value for value in objectives if value > 0), default=1.0))
        return Scale(f"time per sample ({unit})", unit, factor, inverse=True, less_is_better=True)
    target = "to the target accuracy, per sample of the data set" if problem.kind == "accuracy" else "per sample"
    if objective in ("energy", "energy-delay"):
        unit = "J" if objective == "energy" else "J s"
        return Scale(f"{objective} {target} ({unit})", unit, -1.0, inverse=False, less_is_better=True)
    factor, unit = time_unit(largest)
    what = "peak latency" if objective == "latency" else f"time {target}"
    return Scale(f"{what} ({unit})", unit, -factor, inverse=False, less_is_better=True)


def budgets_shown(problem: Problem | None, scale: Scale) -> tuple[list[float], list[float]]:
    """Return the budgets on the objective's axis and on that of power, as shown: none or one each.

    A latency budget is on the objective's axis only where latency is the objective.
    """
    if problem is None:
        return [], []
    by_latency = problem.latency_budget_s is not None and objective_of(problem) == "latency"
    across = [-scale.factor * (problem.latency_budget_s or 0.0)] if by_latency else []
    return across, [] if problem.power_budget_w is None else [problem.power_budget_w]


def draw_budgets(axes: Any, problem: Problem | None, scale: Scale) -> None:
    """Draw the power budget across, the latency budget upright where latency is shown, and what margins leave."""
    across, up = budgets_shown(problem, scale)
    margin = 0.0 if problem is None else problem.margin
    for value in up:
        draw_budget(axes.axhline, value, margin, f"{value:g} W")
    for value in across:
        draw_budget(axes.axvline, value, margin, scale.written(value))


def draw_budget(line: Any, value: float, margin: float, written: str) -> None:
    """Draw a budget with ``axes.axhline`` or ``axes.axvline``, and what the margin leaves of it."""
    style = {"color": VERMILLION, "linewidth": 1.1, "zorder": 1.5}
    line(value, linestyle="--", label=f"budget {written}", **style)
    if margin:
        line(value * (1 - margin), linestyle=":", label=f"less {100 * margin:g} % margin", **style)


def title_of(trace: Trace) -> tuple[str, str]:
    """Return the two lines over a figure: where and whether simulated; how, what and how many points."""
    facts, rows = trace.header.conditions, trace.rows
    measured, known = (sum(row.source == source for row in rows) for source in ("measured", "known"))
    how = f"{facts['strategy']}: " if "strategy" in facts else ""
    where = str(facts.get("device") or "")
    head = f"SIMULATED: {where}" if trace.header.simulated else where
    what = " and ".join(dict.fromkeys(f"{row.workload} {row.task}" for row in rows))
    also = f", {known} known" if known else ""
    return head, f"{how}{what}, {measured} point{'s' * (measured != 1)} measured{also}"


def answer_lines(answer: SearchPoint) -> list[str]:
    """Return what a legend says of the answer: its steps, its mode and its batch size."""
    steps = ", ".join(map(str, answer.steps))
    mode = str(answer.point.mode).split(", ")
    return [f"answer, step{'s' * (len(answer.steps) > 1)} {steps}:", *mode, f"batch {answer.point.batch_size}"]


STANDINGS: Mapping[PointStatus, tuple[str, str, str]] = {
    "within": ("within budget", BLUE, "o"),
    "over": ("over the power budget", VERMILLION, "s"),
    "late": ("misses latency, rate or room", PURPLE, "D"),
    "unknown": ("cannot be judged", GREY, "h"),
    "failed": ("failed", GREY, "X"),
}
"""Label, colour and marker by what became of a point; all markers have room for a number inside."""

_LEGEND_PT2 = 34.0
_DIAMOND = 0.7
"""What a diamond's area takes to look as large as the other markers."""


def draw_markers(axes: Any, points: Iterable[tuple[PointStatus, bool, tuple[float, float]]], area_pt2: float) -> None:
    """Draw points given as what became of them, whether they were known before, and their place."""
    groups: dict[tuple[PointStatus, bool], list[tuple[float, float]]] = {}
    for status, known, place in points:
        groups.setdefault((status, known), []).append(place)
    for status, (label, colour, marker) in STANDINGS.items():
        for known in (False, True):
            if (status, known) not in groups:
                continue
            face = {"facecolors": "none", "edgecolors": colour} if known else {"color": colour, "linewidths": 0}
            area = area_pt2 * (_DIAMOND if marker == "D" else 1.0)
            axes.scatter(*zip(*groups[status, known], strict=True), s=area, marker=marker, zorder=3, **face)
            axes.scatter(
                [], [], s=_LEGEND_PT2, marker=marker, label=f"{label}, known before" if known else label, **face
            )


FONT_PT = 7.5
_DIGIT_PT = 0.64 * FONT_PT
"""Width of a digit of DejaVu Sans."""
_HEIGHT_PT = 0.76 * FONT_PT
_RINGS_PT = (0.0, 7.0, 14.0, 22.0, 32.0)
"""How much farther than side by side a number may move away from its marker; a thin line then leads to it."""
_DIRECTIONS = ((0.7, 1.0), (1.0, 0.0), (0.7, -1.0), (0.0, 1.0), (0.0, -1.0), (-0.7, 1.0), (-1.0, 0.0), (-0.7, -1.0))
"""Where a number may stand, the best first; its own marker ends where either share is 1."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker that must stay visible: its place in the units of the axes, its radius, and the number it gets."""

    x: float
    y: float
    radius_pt: float
    number: str = ""


def write_numbers(figure: Figure, axes: Any, marks: Sequence[Mark]) -> None:
    """Write the number of each marker beside it; earlier ones choose first, and one without room is left out.

    Axes limits must be final, for places are sought on paper.
    """
    if not marks:
        return
    figure.draw_without_rendering()
    to_pt = 72.0 / figure.dpi
    frame = axes.get_window_extent()
    inside: Box = (frame.x0 * to_pt, frame.y0 * to_pt, frame.x1 * to_pt, frame.y1 * to_pt)
    centres = [tuple(to_pt * axes.transData.transform((mark.x, mark.y))) for mark in marks]
    taken: list[Box] = [
        (x - mark.radius_pt, y - mark.radius_pt, x + mark.radius_pt, y + mark.radius_pt)
        for mark, (x, y) in zip(marks, centres, strict=True)
    ]
    for mark, centre in zip(marks, centres, strict=True):
        found = _place(centre, mark.number, mark.radius_pt, inside, taken) if mark.number else None
        if found is not None:
            box, offset, leads = found
            taken.append(box)
            _write(axes, mark, offset, leads=leads)


def _place(
    at: tuple[float, float], text: str, radius_pt: float, inside: Box, taken: Sequence[Box]
) -> tuple[Box, tuple[float, float], bool] | None:
    """Return the nearest free box, its centre relative to the marker, in points, and whether a line leads there."""
    wide, high = _DIGIT_PT * len(text) / 2, _HEIGHT_PT / 2
    for ring in _RINGS_PT:
        for right, above in _DIRECTIONS:
            across, up = right * (radius_pt + wide + 1.0 + ring), above * (radius_pt + high + 1.0 + ring)
            x, y = at[0] + across, at[1] + up
            box = (x - wide - 0.8, y - high - 0.8, x + wide + 0.8, y + high + 0.8)
            if _within(box, inside) and not any(_overlap(box, other) for other in taken):
                return box, (across, up), ring > 0
    return None


def _write(axes: Any, mark: Mark, offset: tuple[float, float], *, leads: bool) -> None:
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-", "color": "#555555", "linewidth": 0.5, "shrinkA": 1.0, "shrinkB": mark.radius_pt}
    written = axes.annotate(
        mark.number, (mark.x, mark.y), xytext=offset, textcoords="offset points", ha="center", va="center_baseline",
        fontsize=FONT_PT, color="#222222", zorder=6, arrowprops=line if leads else None,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )  # fmt: skip
    written.set_in_layout(False)


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _within(box: Box, frame: Box) -> bool:
    return frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
