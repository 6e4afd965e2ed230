"""One marker of a search's figures: a point as it was measured and judged, whatever made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.trace import TraceRow
from edgetune.search.problem import Judgement, Violation

PointStatus = Literal["within", "over", "late", "unknown", "failed"]
"""Within all budgets; over the power budget; over another one; cannot be judged; not measured."""


@dataclass(frozen=True, slots=True)
class SearchPoint:
    """One measured point, of two workloads one pair, as figures show it.

    Args:
        point: Mode and batch size, of the urgent workload where there are two.
        steps: The steps that measured it, ascending; of a pair those of both halves; none for a row of a table.
        objective: Larger is better, as in the trace; ``None`` where it cannot be told.
        power_w: Mean over its readings; of a pair the larger half's; ``None`` when not measured.
        status: What became of it.
        known: Measured before the search.
        trades: Breaks no constraint but that on power, so that it is part of the choice between power and objective.
        second: What decides between equal objectives, larger is better.
    """

    point: Point
    steps: tuple[int, ...]
    objective: float | None
    power_w: float | None
    status: PointStatus
    known: bool = False
    trades: bool = True
    second: float = 0.0


def search_point_of(row: ProfileRow, judgement: Judgement, steps: tuple[int, ...]) -> SearchPoint:
    """Return the marker of a measured and judged point."""
    broken = {violation.constraint for violation in judgement.violations}
    status: PointStatus = "unknown"
    if row.minibatch_s is None or row.status != "ok":
        status = "failed"
    elif judgement.feasible is not None:
        status = "within" if judgement.feasible else (broken_by(judgement.violations) or "over")
    return SearchPoint(
        row.point,
        steps,
        judgement.objective,
        row.power_w,
        status,
        trades=broken <= {"power"},
        second=judgement.second,
    )


def broken_by(violations: Sequence[Violation]) -> PointStatus | None:
    """Return which kind of budget is broken, power before the others; ``None`` without any."""
    if not violations:
        return None
    return "over" if any(violation.constraint == "power" for violation in violations) else "late"


def mean_of(rows: Sequence[TraceRow]) -> ProfileRow:
    """Return the mean of the readings of one point, without those that failed."""
    fine = [row for row in rows if row.minibatch_s]
    if not fine:
        return replace(rows[-1].row, status="failed")
    powers = [row.power_w for row in fine if row.power_w is not None]
    return replace(
        fine[-1].row,
        minibatch_s=fmean(row.minibatch_s or 0.0 for row in fine),
        power_w=fmean(powers) if len(powers) == len(fine) else None,
    )


def point_of(row: TraceRow) -> Point:
    """Return what a step measured."""
    return row.row.point
