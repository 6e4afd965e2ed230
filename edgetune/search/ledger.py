"""What a search has measured so far, step by step, and the best of it that keeps every budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.trace import TraceRow
from edgetune.search.problem import judge
from edgetune.search.space import order
from edgetune.search.strategies.strategy import Outcome, Suggestion


@dataclass(frozen=True, slots=True)
class Found:
    """A feasible point: what was suggested, what was measured, how good it is."""

    suggestion: Suggestion
    row: ProfileRow
    objective: float

    def rank(self) -> tuple[float, ...]:
        """Return the sort key of answers, best first: objective, then lower power, then the order of knobs."""
        power_w = self.row.power_w if self.row.power_w is not None else float("inf")
        return (-self.objective, power_w, *order(self.suggestion.point))


@dataclass(slots=True)
class Ledger:
    """What has been measured so far, in order, and the best of it."""

    problem: Problem
    on_step: Callable[[TraceRow], None] | None
    steps: list[TraceRow] = field(default_factory=list)
    outcomes: dict[Point, Outcome] = field(default_factory=dict)
    best: Found | None = None

    def add(
        self,
        suggestion: Suggestion,
        row: ProfileRow,
        *,
        source: Literal["measured", "known"] = "measured",
        strategy_s: float | None = None,
        measurement_s: float | None = None,
    ) -> Outcome:
        """Judge a row, write the step down and return what the strategy is told."""
        point = suggestion.point
        judgement = judge(self.problem, row)
        if judgement.feasible and judgement.objective is not None:
            found = Found(suggestion, row, judgement.objective)
            if self.best is None or found.rank() < self.best.rank():
                self.best = found
        self.outcomes[point] = outcome = Outcome(judgement, *_figures_told(row))
        step = TraceRow(
            step=len(self.steps) + 1,
            workload=point.workload,
            task=point.task,
            batch_size=point.batch_size,
            cpu_cores=point.mode.cpu_cores,
            cpu_mhz=point.mode.cpu_mhz,
            gpu_mhz=point.mode.gpu_mhz,
            mem_mhz=point.mode.mem_mhz,
            power_limit_w=point.mode.power_limit_w,
            source=source,
            minibatch_s=outcome.minibatch_s,
            power_w=outcome.power_w,
            objective=judgement.objective,
            feasible=judgement.feasible,
            best=None if self.best is None else self.best.objective,
            reason=judgement.unknown or suggestion.reason,
            predicted_minibatch_s=suggestion.predicted_minibatch_s,
            predicted_power_w=suggestion.predicted_power_w,
            strategy_s=strategy_s,
            measurement_s=measurement_s,
        )
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)
        return outcome


def _figures_told(row: ProfileRow) -> tuple[float | None, float | None]:
    """Return time and power as told to strategies: ``None`` for anything that is not a measurement."""
    if row.status != "ok" or row.minibatch_s is None or not _positive(row.minibatch_s):
        return None, None
    power_w = row.power_w if row.power_w is not None and _positive(row.power_w) else None
    return float(row.minibatch_s), None if power_w is None else float(power_w)


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0
