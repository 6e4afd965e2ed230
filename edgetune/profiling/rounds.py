"""What changed between the rounds of a sweep: whether the board was the same at its end as at its beginning.

One visit says how sure its own figure is while nothing changes. Between two visits to the same point, minutes apart,
the board has warmed up, a fan has started or another program has: that shows only here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import SAME
from edgetune.profiling.options import ProfileOptions
from edgetune.stats import median


@dataclass(frozen=True, slots=True)
class PointChange:
    """How far the rounds of one point are apart: the widest difference as a share of their median.

    Args:
        minibatch_s: Of the time of a minibatch.
        power_w: Of the mean power; ``None`` where fewer than two rounds have it.
        explained: Whether the 95 % intervals of all rounds have a time in common.
    """

    minibatch_s: float
    power_w: float | None
    explained: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of all points that were measured in two rounds or more."""

    points: tuple[PointChange, ...]

    def plain(self) -> dict[str, Any]:
        """Return the median and the largest change of time and power, for the header."""
        power = [point.power_w for point in self.points if point.power_w is not None]
        return {
            "change_minibatch_s": _summary([point.minibatch_s for point in self.points]),
            "change_power_w": _summary(power) if power else None,
        }


def between_rounds(rows: Sequence[ProfileRow]) -> Changes | None:
    """Return what changed between the rounds of each point; ``None`` when no point has two that are measurements."""
    rounds: dict[Point, list[ProfileRow]] = {}
    for row in rows:
        if row.status == "ok" and row.round is not None:
            rounds.setdefault(row.point, []).append(row)
    found = tuple(_change(own) for own in rounds.values() if len(own) > 1)
    return Changes(found) if found else None


def disagreements(changes: Changes | None, options: ProfileOptions) -> tuple[DataWarning, ...]:
    """Return the caution that rounds differ by more than their intervals explain and than the target allows.

    Power has no interval of its own: there, more than boards repeat to (``SAME``) counts.
    """
    if changes is None:
        return ()
    apart = [
        point
        for point in changes.points
        if (point.minibatch_s > options.target_ci and not point.explained) or (point.power_w or 0.0) > SAME
    ]
    if not apart:
        return ()
    numbers: dict[str, float] = {"points": len(apart), "points_compared": len(changes.points)}
    for name, summary in changes.plain().items():
        numbers |= {f"{name}_{which}": value for which, value in (summary or {}).items()}
    advice = "the board changed between rounds: cool it (--cool-to), let it warm up first, or see what else runs on it"
    return (DataWarning("rounds-disagree", advice, numbers),)


def _change(rounds: Sequence[ProfileRow]) -> PointChange:
    times_s = [row.minibatch_s for row in rounds if row.minibatch_s is not None]
    powers_w = [row.power_w for row in rounds if row.power_w is not None]
    lows = [row.minibatch_ci95_low_s for row in rounds if row.minibatch_ci95_low_s is not None]
    highs = [row.minibatch_ci95_high_s for row in rounds if row.minibatch_ci95_high_s is not None]
    known = len(lows) == len(highs) == len(rounds)  # too few minibatches have no interval: then nothing is explained
    return PointChange(
        _spread(times_s), _spread(powers_w) if len(powers_w) > 1 else None, known and max(lows) <= min(highs)
    )


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / median(values)


def _summary(shares: Sequence[float]) -> dict[str, float]:
    return {"median": median(shares), "max": max(shares)}
