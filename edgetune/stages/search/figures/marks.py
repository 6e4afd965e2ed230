"""Shared parts of the figures of a search: scales and budgets, titles and markers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.plan import Plan
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.trace import Trace
from edgetune.plotting.rows import name_rows
from edgetune.plotting.style import BLUE, GREY, PURPLE, VERMILLION, time_unit
from edgetune.stages.search.figures.points import PointStatus, SearchPoint
from edgetune.stages.search.problem import PAIRS, objective_of
from edgetune.units import format_si


@dataclass(frozen=True, slots=True)
class Scale:
    """The display of objectives (larger is better) as familiar quantities in a suitable unit.

    Args:
        label: Label of the axis, with the unit.
        unit: The unit; may be empty.
        factor: Factor from the objective, or its inverse, to the shown value.
        inverse: Whether the inverse of the objective is shown: time per sample instead of samples per time.
        less_is_better: Whether smaller shown values are better.
    """

    label: str
    unit: str
    factor: float
    inverse: bool
    less_is_better: bool

    def shown(self, objective: float) -> float:
        """Return the value to show; infinite for a throughput of zero."""
        if self.inverse and objective <= 0:
            return math.inf
        return self.factor / objective if self.inverse else self.factor * objective

    def written(self, shown: float) -> str:
        """Return a shown value with its unit, for a text."""
        return format_si(shown, "s") if self.unit == "s" else f"{shown:.3g} {self.unit}".rstrip()


def scale_of(problem: Problem | None, objectives: Sequence[float]) -> Scale:
    """Return the scale for these objectives of a trace, which are larger-is-better numbers.

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
    if objective == "tokens-per-joule":
        return Scale("energy per output token (J)", "J", 1.0, inverse=True, less_is_better=True)
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
    """Draw the power budget as a horizontal line, a shown latency budget as a vertical one, and both less margins."""
    across, up = budgets_shown(problem, scale)
    margin = 0.0 if problem is None else problem.margin
    for value in up:
        draw_budget(axes.axhline, value, margin, f"{value:g} W")
    for value in across:
        draw_budget(axes.axvline, value, margin, scale.written(value))


def draw_budget(line: Any, value: float, margin: float, written: str) -> None:
    """Draw a budget with ``axes.axhline`` or ``axes.axvline``, and the budget less its margin."""
    style = {"color": VERMILLION, "linewidth": 1.1, "zorder": 1.5}
    line(value, linestyle="--", label=f"budget {written}", **style)
    if margin:
        line(value * (1 - margin), linestyle=":", label=f"less {100 * margin:g} % margin", **style)


def title_of(trace: Trace, plan: Plan | None = None) -> tuple[str, str]:
    """Return the two lines over a figure: device and whether simulated; strategy, problem and number of points.

    Of a search whose steps are not at hand, the plan says how it was made.
    """
    facts, rows = trace.header.conditions, trace.rows
    measured, known = (sum(row.source == source for row in rows) for source in ("measured", "known"))
    how = f"{facts['strategy']}: " if "strategy" in facts else ""
    where = str(facts.get("device") or "")
    head = f"SIMULATED: {where}" if trace.header.simulated else where
    what = " and ".join(dict.fromkeys(f"{row.workload} {row.task}" for row in rows))
    also = f", {known} known" if known else ""
    if plan is not None and measured < plan.search.points_measured:
        how, measured = f"{plan.search.strategy}: ", plan.search.points_measured
        also = ", of which the answer alone is drawn"
    return head, f"{how}{what}, {measured} point{'s' * (measured != 1)} measured{also}"


def answer_lines(answer: SearchPoint) -> list[str]:
    """Return the legend of the answer: its steps, its mode and its batch size."""
    steps = f", step{'s' * (len(answer.steps) > 1)} {', '.join(map(str, answer.steps))}" if any(answer.steps) else ""
    mode = str(answer.point.mode).split(", ")
    return [f"answer{steps}:", *mode, f"batch {answer.point.batch_size}"]


STANDINGS: Mapping[PointStatus, tuple[str, str, str]] = {
    "within": ("within budget", BLUE, "o"),
    "over": ("over the power budget", VERMILLION, "s"),
    "late": ("misses latency, rate or room", PURPLE, "D"),
    "unknown": ("cannot be judged", GREY, "h"),
    "failed": ("failed", GREY, "X"),
}
"""Label, colour and marker by the status of a point; all markers have room for a number inside."""

_LEGEND_PT2 = 34.0
_DIAMOND = 0.7
"""Factor on a diamond's area that makes it look as large as the other markers."""


def draw_markers(
    axes: Any, points: Iterable[tuple[PointStatus, bool, tuple[float, float], int]], area_pt2: float
) -> None:
    """Draw points, each given by its status, whether it was known before, its place, and its row of the trace."""
    groups: dict[tuple[PointStatus, bool], list[tuple[tuple[float, float], int]]] = {}
    for status, known, place, row in points:
        groups.setdefault((status, known), []).append((place, row))
    for status, (label, colour, marker) in STANDINGS.items():
        for known in (False, True):
            if (status, known) not in groups:
                continue
            places, rows = zip(*groups[status, known], strict=True)
            face = {"facecolors": "none", "edgecolors": colour} if known else {"color": colour, "linewidths": 0}
            area = area_pt2 * (_DIAMOND if marker == "D" else 1.0)
            name_rows(axes.scatter(*zip(*places, strict=True), s=area, marker=marker, zorder=3, **face), rows)
            axes.scatter(
                [], [], s=_LEGEND_PT2, marker=marker, label=f"{label}, known before" if known else label, **face
            )
