"""Objectives as people know them, and the budgets drawn on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.problem import Problem
from edgetune.drawing import VERMILLION, time_unit
from edgetune.search.problem import PAIRS, objective_of
from edgetune.units import format_si


@dataclass(frozen=True, slots=True)
class Scale:
    """How objectives, which are all to be large, are shown: as people know them, in a unit that suits.

    Args:
        label: Of the axis, with the unit.
        factor: From the objective, or from one over it, to what is shown.
        inverse: Whether one over the objective is shown: time per sample instead of samples per time.
        less_is_better: Which end of the axis is the good one.
    """

    label: str
    factor: float
    inverse: bool
    less_is_better: bool

    def shown(self, objective: float) -> float:
        """Return the value to show; infinite for a throughput of nothing."""
        if self.inverse and objective <= 0:
            return math.inf
        return self.factor / objective if self.inverse else self.factor * objective


def scale_of(problem: Problem | None, objectives: Sequence[float]) -> Scale:
    """Return how to show these objectives, larger-is-better numbers as a trace has them.

    Throughput of one workload becomes time per sample, so that the good corner of time against power is the lower
    left one; of two workloads it is the background's, and stays throughput, for it may be 0.
    """
    if problem is None:
        return Scale("objective (larger is better)", 1.0, inverse=False, less_is_better=False)
    objective, largest = objective_of(problem), max(map(abs, objectives), default=1.0)
    if problem.kind in PAIRS:
        return Scale("background throughput (samples/s)", 1.0, inverse=False, less_is_better=False)
    if objective == "throughput":
        factor, unit = time_unit(1 / min((value for value in objectives if value > 0), default=1.0))
        return Scale(f"time per sample ({unit})", factor, inverse=True, less_is_better=True)
    target = "to the target accuracy, per sample of the data set" if problem.kind == "accuracy" else "per sample"
    if objective in ("energy", "energy-delay"):
        unit = "J" if objective == "energy" else "J s"
        return Scale(f"{objective} {target} ({unit})", -1.0, inverse=False, less_is_better=True)
    factor, unit = time_unit(largest)
    what = "peak latency" if objective == "latency" else f"time {target}"
    return Scale(f"{what} ({unit})", -factor, inverse=False, less_is_better=True)


def draw_budgets(axes: Any, problem: Problem | None, scale: Scale) -> list[float]:
    """Draw the power budget across, the latency budget upright where latency is shown; return the latency budgets."""
    if problem is None:
        return []
    if problem.power_budget_w is not None:
        _budget(axes.axhline, problem.power_budget_w, 1.0, problem.margin, f"{problem.power_budget_w:g} W")
    if problem.latency_budget_s is None or objective_of(problem) != "latency" or problem.kind in PAIRS:
        return []
    written = format_si(problem.latency_budget_s, "s")
    _budget(axes.axvline, problem.latency_budget_s, -scale.factor, problem.margin, written)
    return [-scale.factor * problem.latency_budget_s]


def _budget(line: Any, value: float, factor: float, margin: float, written: str) -> None:
    """Draw a budget, and what the margin leaves of it."""
    style = {"color": VERMILLION, "linewidth": 1.1, "zorder": 1.5}
    line(factor * value, linestyle="--", label=f"budget {written}", **style)
    if margin:
        line(factor * value * (1 - margin), linestyle=":", label=f"less {100 * margin:g} % margin", **style)
