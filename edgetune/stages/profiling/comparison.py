"""Compares two tables of measured points: joins the points, and gives each ratio with its interval and a verdict.

The sample of a point is its raw times, or the figures of its rounds (``--interleave-repeats``) where it has several;
its ratio has the interval of Welch's test. What changes between two runs, minutes or a process apart, no single run
shows; without rounds, the ratios of many points show it: what they scatter beyond their intervals is added to these. So
it is only certain that a point differs where it differs more than the others do; that all points differ alike, their
mean shows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import variance

from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import energy_per_minibatch_j, point_key, rows_by_point, standing, together
from edgetune.devices.cpu import BUSY_SHARE
from edgetune.stages.profiling.ratio import (
    MANY_RATIOS,
    Estimate,
    Ratio,
    estimate_of_interval,
    estimate_of_mean,
    estimate_of_times,
    excess_scatter,
    mean_ratio,
    ratio_of,
    slowed_by,
    widened,
)
from edgetune.stats import median

FIGURES: Mapping[str, tuple[str, str]] = {
    "time": ("faster", "slower"),
    "power": ("less", "more"),
    "energy": ("less", "more"),
}
"""What is compared, and the verdicts below and above a ratio of 1."""
CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class PointComparison:
    """One point in two tables.

    Args:
        point: As in the baseline.
        before_s, after_s: Median minibatch times, s.
        ratios: The other table's figures relative to the baseline's, by name in ``FIGURES``; their intervals include
            what other processes may have changed.
        disturbed: What other processes took, which widens the intervals; ``None`` for nothing that counts.
    """

    point: Point
    before_s: float
    after_s: float
    ratios: Mapping[str, Ratio]
    disturbed: str | None = None

    def verdict(self, figure: str = "time") -> str:
        """Return the verdict on a figure."""
        return verdict(self.ratios.get(figure), figure)


@dataclass(frozen=True, slots=True)
class Joined:
    """The points of two tables.

    Args:
        points: Those measured in both.
        only_before, only_after: Points in one table only.
        failed: Points of the baseline that the other table has without a measurement, with the reason.
        rounds: Whether every point has several rounds in both tables.
        scatter: By figure, the scatter of the ratios that the intervals include, a share; empty with rounds.
    """

    points: tuple[PointComparison, ...]
    only_before: tuple[Point, ...]
    only_after: tuple[Point, ...]
    failed: tuple[str, ...]
    rounds: bool
    scatter: Mapping[str, float]

    @property
    def quiet(self) -> tuple[PointComparison, ...]:
        """The points that no other process disturbed."""
        return tuple(each for each in self.points if each.disturbed is None)

    def overall(self, figure: str = "time", *, disturbed: bool = False) -> Ratio | None:
        """Return the geometric mean of a figure's ratios over the quiet points; ``disturbed`` takes any if none is."""
        points = self.quiet or (self.points if disturbed else ())
        return mean_ratio([each.ratios[figure] for each in points if figure in each.ratios], alike=bool(self.quiet))


def verdict(ratio: Ratio | None, figure: str = "time") -> str:
    """Return what a ratio says: ``faster``, ``slower`` or ``cannot tell``."""
    differs = 0 if ratio is None else ratio.differs
    return CANNOT_TELL if not differs else FIGURES[figure][differs > 0]


def join(before: Sequence[ProfileRow], after: Sequence[ProfileRow], *, any_power: bool = True) -> Joined:
    """Compare the points that two tables share.

    A workload's name counts unless each table has a single workload.

    Args:
        before: Rows of the baseline.
        after: Rows of the other table.
        any_power: Whether power and energy are comparable.
    """
    renamed = all(len({row.workload for row in rows}) == 1 for rows in (before, after))
    ours, theirs = (
        {point_key(own[0].point)[renamed:]: standing(own) for own in rows_by_point(rows).values()}
        for rows in (before, after)
    )
    measured, others = (
        {key: rows for key, rows in of.items() if rows[-1].status == "ok" and rows[-1].minibatch_s}
        for of in (ours, theirs)
    )
    figures = [figure for figure in FIGURES if any_power or figure == "time"]
    pairs = [(rows, others[key]) for key, rows in measured.items() if key in others]
    points = [compare_rows(before, after, figures) for before, after in pairs]
    rounds = bool(pairs) and all(_have_rounds(*pair) for pair in pairs)
    scatter = {} if rounds else {figure: _between_points(points, figure) for figure in figures}
    return Joined(
        points=tuple(_scattered(each, scatter) for each in points),
        only_before=tuple(rows[-1].point for key, rows in measured.items() if key not in theirs),
        only_after=tuple(rows[-1].point for key, rows in others.items() if key not in measured),
        failed=tuple(f"{rows[-1].point}: {theirs[key][-1].reason or theirs[key][-1].status}"
                     for key, rows in measured.items() if key in theirs and key not in others),
        rounds=rounds,
        scatter={figure: found for figure, found in scatter.items() if found},
    )  # fmt: skip


def _have_rounds(before: Sequence[ProfileRow], after: Sequence[ProfileRow]) -> bool:
    return min(len(before), len(after)) > 1


def compare_rows(
    before: Sequence[ProfileRow], after: Sequence[ProfileRow], figures: Sequence[str] = ("time",)
) -> PointComparison:
    """Compare the rounds of a point, or its only row, with those of another; all are measurements."""
    ours, theirs = together(before), together(after)
    ratios = {}
    for figure in figures:
        estimates = [_estimate(rows, figure) for rows in (before, after)]
        if estimates[0] is not None and estimates[1] is not None:
            ratios[figure] = ratio_of(estimates[0], estimates[1])
    assert ours.minibatch_s is not None
    assert theirs.minibatch_s is not None
    shares, disturbed = _disturbances(ours, theirs, rounds=_have_rounds(before, after))
    ratios = {figure: slowed_by(ratio, *shares) for figure, ratio in ratios.items()}
    return PointComparison(before[-1].point, ours.minibatch_s, theirs.minibatch_s, ratios, disturbed)


def _between_points(points: Sequence[PointComparison], figure: str) -> float:
    """Return by how much the ratios of the points scatter beyond their intervals; 0 with too few of them."""
    ratios = [each.ratios[figure] for each in points if not each.disturbed and figure in each.ratios]
    return excess_scatter(ratios) if len(ratios) >= MANY_RATIOS else 0.0


def _scattered(point: PointComparison, scatter: Mapping[str, float]) -> PointComparison:
    ratios = {figure: widened(ratio, scatter.get(figure, 0.0)) for figure, ratio in point.ratios.items()}
    return replace(point, ratios=ratios)


def _disturbances(ours: ProfileRow, theirs: ProfileRow, *, rounds: bool) -> tuple[tuple[float, float], str | None]:
    """Return the shares of the CPUs that others took from each measurement of a point, as far as they count, in words.

    One run does not show how much a busy machine changes; rounds do, while the others use as much in both tables: then
    the difference of the two shares counts.
    """
    before, after = (row.others_cpu_share or 0.0 for row in (ours, theirs))
    common = min(before, after) if rounds else 0.0
    counted = before - common, after - common
    if max(counted) < BUSY_SHARE:
        return (0.0, 0.0), None
    remedy = "" if rounds else "; stop them, or measure rounds with --interleave-repeats"
    return counted, f"other processes used {before:.0%} of the CPUs before and {after:.0%} after{remedy}"


def _value(row: ProfileRow, figure: str) -> float | None:
    value = {"time": row.minibatch_s, "power": row.power_w, "energy": energy_per_minibatch_j(row)}[figure]
    return value if value else None


def _estimate(rows: Sequence[ProfileRow], figure: str) -> Estimate | None:
    """Return a figure of a point, with the error that its rounds show, or its only run."""
    values = [value for row in rows if (value := _value(row, figure)) is not None]
    if not values:
        return None
    if len(values) > 1:
        return Estimate(median(values), variance(map(math.log, values)), len(values), len(values) - 1)
    within = _within(rows[-1], figure, values[0]) if len(rows) == 1 else None
    return Estimate(values[0]) if within is None else replace(within, value=values[0])


def _within(row: ProfileRow, figure: str, value: float) -> Estimate | None:
    """Return a figure of one run with the error that this run shows."""
    if figure == "power":
        from_s = row.power_from_s or 0.0
        readings = [sample.power_w for sample in row.power_trace or () if sample.time_s > from_s]
        return estimate_of_mean(readings[: row.power_samples])
    if figure == "energy":
        power, time = _within(row, "power", 0.0), _within(row, "time", row.minibatch_s or 0.0)
        if power is None or time is None or power.variance is None or time.variance is None:
            return None
        both = power.variance / power.count + time.variance / time.count
        return Estimate(value, both, 1.0, min(power.freedom, time.freedom))
    timed = () if row.is_mean else (row.times_s or ())[row.warmups or 0 :]
    if (found := estimate_of_times(timed)) is not None:
        return found
    low, high = row.minibatch_ci95_low_s, row.minibatch_ci95_high_s
    return None if low is None or high is None else estimate_of_interval(value, low, high, row.minibatches)
