"""A point on trial during a run: what its minibatches took, of real work, and what that makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.stats import median, percentile

CAUTION = 1.5
"""Training may be slowed down by another mode so many times as much as answering: at a third of the memory's clock it
was 1.35 times (resnet18 beside mobilenet_v2 on the twin of an AGX Orin)."""


@dataclass(slots=True)
class Trial:
    """A point on trial.

    Args:
        batch_size, mode: What is tried.
        rate_per_s: That it has to keep up with.
        from_ns: When it was set.
        urgent: Whether nothing known answers in time: then training is not waited for.
        usual_s: What its minibatches would take in a mode known before; ``None`` where that is not known.
        infer_s, train_s: What its minibatches took, s, by number.
        power_w: Readings of time that it had to itself, W.
    """

    batch_size: int
    mode: Mode
    rate_per_s: float
    from_ns: int
    urgent: bool
    usual_s: float | None = None
    infer_s: dict[int, float] = field(default_factory=dict)
    train_s: dict[int, float] = field(default_factory=dict)
    power_w: list[float] = field(default_factory=list)

    def slowness(self) -> float | None:
        """Return how much slower it is than a mode known before, cautiously; ``None`` before three minibatches."""
        if self.usual_s is None or len(self.infer_s) < 3:
            return None
        return CAUTION * max(list(self.infer_s.values())[1:]) / self.usual_s

    def lags(self) -> bool:
        """Return whether two minibatches say that it cannot keep up."""
        times_s = list(self.infer_s.values())[1:]
        return len(times_s) >= 2 and min(times_s) > self.batch_size / self.rate_per_s


def row_of(point: Point, times_s: list[float], power_w: float | None, reason: str | None) -> ProfileRow:
    """Return what a try tells of a point as a row of a profile; the first minibatch is left out."""
    row = ProfileRow(point.workload, point.task, point.batch_size, None, status="failed", **knobs_of(point.mode))
    if len(times_s) < 2:
        return replace(row, reason=reason or "no minibatch ran")
    steady_s = times_s[1:]
    slow_s = percentile(steady_s, 95)
    row = replace(row, status="ok", minibatch_s=median(steady_s), minibatch_p95_s=slow_s, minibatches=len(steady_s))
    return replace(row, power_w=power_w)


def knobs_of(mode: Mode) -> Mapping[str, Any]:
    """Return the knobs of a mode as columns of a row."""
    return mode.settings()
