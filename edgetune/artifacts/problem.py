"""A tuning problem: what is to be as good as possible, within which budgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ProblemKind = Literal["train", "infer", "train+infer", "infer+infer", "accuracy"]
Objective = Literal["throughput", "latency", "energy", "energy-delay", "time"]


@dataclass(frozen=True, slots=True)
class Problem:
    """The problem a search solves and a plan answers.

    Args:
        kind: Which problem of the five.
        power_budget_w: Mean power must not exceed it, W.
        latency_budget_s: Peak latency of a request must not exceed it, s.
        arrival_rate_per_s: Requests per second that must be kept up with.
        objective: What is optimised; ``None`` takes the kind's own.
        margin: Share of each budget kept free, 0 to 1 (0.05 keeps 5 %).
        background: Of two workloads, the name of the one without a deadline; ``None`` where the points leave no choice.
        background_batch_size: Its samples per minibatch; ``None`` where the points leave no choice.
        epochs_to_target: Batch size and epochs until the target accuracy, for ``accuracy``; only ratios matter.
    """

    kind: ProblemKind
    power_budget_w: float | None = None
    latency_budget_s: float | None = None
    arrival_rate_per_s: float | None = None
    objective: Objective | None = None
    margin: float = 0.0
    background: str | None = None
    background_batch_size: int | None = None
    epochs_to_target: tuple[tuple[int, float], ...] = ()
