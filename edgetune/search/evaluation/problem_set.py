"""Many problems of one kind as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetune.artifacts.problem import Problem, ProblemKind
from edgetune.search.evaluation.measured import Array, Rows


@dataclass(frozen=True, slots=True, eq=False)
class ProblemSet:
    """Problems that differ in their budgets and arrival rates only, by number; NaN where there is no budget.

    Args:
        kind: Of all of them.
        power_budget_w, latency_budget_s, arrival_rate_per_s: Of each, shape (problems,).
        background, background_batch_size: The second of two workloads.
        epochs_to_target: See ``Problem``.
    """

    kind: ProblemKind
    power_budget_w: Array
    latency_budget_s: Array
    arrival_rate_per_s: Array
    background: str | None = None
    background_batch_size: int | None = None
    epochs_to_target: tuple[tuple[int, float], ...] = ()

    def __len__(self) -> int:
        return len(self.power_budget_w)

    def problem(self, number: int) -> Problem:
        """Return the problem with that number."""
        return Problem(
            self.kind,
            _known(self.power_budget_w[number]),
            _known(self.latency_budget_s[number]),
            _known(self.arrival_rate_per_s[number]),
            background=self.background,
            background_batch_size=self.background_batch_size,
            epochs_to_target=self.epochs_to_target,
        )

    def unbounded(self) -> Problem:
        """Return a problem of this kind that every point solves: no budgets, requests that hardly ever come."""
        rate = None if np.isnan(self.arrival_rate_per_s).all() else 1e-6
        return Problem(
            self.kind,
            arrival_rate_per_s=rate,
            background=self.background,
            background_batch_size=self.background_batch_size,
            epochs_to_target=self.epochs_to_target,
        )

    def take(self, numbers: Rows) -> ProblemSet:
        """Return the problems with these numbers, renumbered."""
        return ProblemSet(
            self.kind,
            self.power_budget_w[numbers],
            self.latency_budget_s[numbers],
            self.arrival_rate_per_s[numbers],
            self.background,
            self.background_batch_size,
            self.epochs_to_target,
        )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
