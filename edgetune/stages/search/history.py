"""The measurements of a search so far, step by step, and the best point that keeps every budget."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Literal

from edgetune.artifacts.mode import SETTINGS
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import late_minibatch_s, mean_minibatch_s
from edgetune.artifacts.trace import TraceRow
from edgetune.stages.search.problem import (
    Half,
    Judgement,
    could_be_confirmed,
    figures_of,
    half_violations,
    is_confirmed,
    judge,
    judge_pair,
    late_of,
    pair_power_w,
)
from edgetune.stages.search.space import Space, order
from edgetune.stages.search.strategy import PointResult, Suggestion

MOST_READINGS = 10
"""Most readings of one point. At 1.5 % scatter they confirm a point 0.9 % below the budget; twice as near needs 40."""

Source = Literal["measured", "known"]


@dataclass(frozen=True, slots=True)
class JudgedPoint:
    """A measured point: its suggestion, its row (the mean of its readings) and its judgement.

    ``background`` is the row of the second workload in the same mode, where there are two. ``confirmed`` says that
    its power is within the budget with its interval, not only as read.
    """

    suggestion: Suggestion
    row: ProfileRow
    judgement: Judgement
    background: ProfileRow | None = None
    confirmed: bool = True

    @property
    def objective(self) -> float:
        """The objective, larger is better."""
        assert self.judgement.objective is not None
        return self.judgement.objective

    def rank(self) -> tuple[float, ...]:
        """Return the sort key of answers, best first: objective, tie-breaker, lower power, the order of knobs."""
        rows = [self.row] if self.background is None else [self.row, self.background]
        power_w = max(float("inf") if row.power_w is None else row.power_w for row in rows)
        return (-self.objective, -self.judgement.second, power_w, *order(self.row.point))


@dataclass(slots=True)
class SearchHistory:
    """The measurements so far, in order, and the best of them.

    Args:
        problem: Judges.
        space: The offered points; with a background workload its halves are judged together.
        on_step: Called with every step.
        power_noise: Relative standard deviation of one power reading; 0 where a reading repeats exactly.
    """

    problem: Problem
    space: Space
    on_step: Callable[[TraceRow], None] | None = None
    power_noise: float = 0.0
    steps: list[TraceRow] = field(default_factory=list)
    outcomes: dict[Point, PointResult] = field(default_factory=dict)
    readings: dict[Point, list[ProfileRow]] = field(default_factory=dict)
    best: JudgedPoint | None = None
    _found: dict[Point, JudgedPoint] = field(default_factory=dict)
    _by_mode: dict[Point, list[Point]] = field(default_factory=dict)
    _suggestions: dict[Point, Suggestion] = field(default_factory=dict)

    def add(
        self, suggestion: Suggestion, row: ProfileRow, *, source: Source = "measured", **spent_s: float
    ) -> PointResult:
        """Judge a row, record the step and return the result for the strategy.

        Args:
            suggestion: The strategy's suggestion.
            row: The measured row.
            source: Whether it was measured now or earlier.
            spent_s: ``strategy_s`` and ``measurement_s`` of the trace, s.
        """
        point = suggestion.point
        again = point in self.readings
        if _is_measurement(row) or not again:
            self.readings[point] = [*self.readings.get(point, ()), row]
            self._suggestions.setdefault(point, suggestion)
        alone = self.space.background is None
        judgement = (self._note(point) or judge(self.problem, self.row(point))) if alone else self._judge_pairs(point)
        if again:
            self.best = min((f for f in self._found.values() if f.confirmed), key=JudgedPoint.rank, default=None)
        self.outcomes[point] = result = PointResult(judgement, *figures_of(self.row(point)), late_of(self.row(point)))
        self._record(suggestion, row, judgement, source, spent_s)
        return result

    def row(self, point: Point) -> ProfileRow:
        """Return the row of a measured point: the mean of its readings."""
        rows = self.readings[point]
        return rows[0] if len(rows) == 1 else mean_of(rows)

    def judged(self) -> list[PointResult]:
        """Return the result of every point; for two workloads of every complete pair, or of the halves without any."""
        whole = []
        for found in self.judged_points():
            if found.background is not None:
                urgent, background = half_of(found.row), half_of(found.background)
                whole.append(
                    PointResult(found.judgement, urgent.minibatch_s, pair_power_w(urgent, background), urgent.late_s)
                )
        return whole or list(self.outcomes.values())

    def judged_points(self) -> Iterator[JudgedPoint]:
        """Yield every point that was measured successfully, feasible or not; of two workloads every complete pair."""
        points = sorted(self.readings, key=order) if self.space.background is None else self.space.points
        return (found for point in points if (found := self._judged(point)) is not None)

    def doubtful(self, points_left: int) -> Point | None:
        """Return the point to measure again: the best one whose power is not surely within the budget.

        ``None`` if no point is better than the confirmed one, or none could be confirmed with the remaining points.
        """
        if not self.power_noise:
            return None
        better = [
            f for f in self._found.values() if not f.confirmed and (self.best is None or f.rank() < self.best.rank())
        ]
        for found in sorted(better, key=JudgedPoint.rank):
            rows = [found.row] if found.background is None else [found.row, found.background]
            unsure = [row.point for row in rows if not self._sure(row)]
            if all(self._could(point, points_left // len(unsure)) for point in unsure):
                return unsure[0]
        return None

    def _sure(self, row: ProfileRow) -> bool:
        return is_confirmed(self.problem, row.power_w, len(self.readings[row.point]), self.power_noise)

    def _could(self, point: Point, more: int) -> bool:
        readings = len(self.readings[point])
        more = min(more, MOST_READINGS - readings)
        return could_be_confirmed(self.problem, self.row(point).power_w, readings, more, self.power_noise)

    def _judge_pairs(self, point: Point) -> Judgement:
        """Judge a half together with the other half; of several pairs that it completes, return the best judgement."""
        row, partner = self.row(point), self.space.partner(point)
        is_urgent = point in self.space.levels
        if is_urgent and point not in self._by_mode.get(partner, ()):
            self._by_mode.setdefault(partner, []).append(point)
        if not _is_measurement(row):
            return judge(self.problem, row)
        pairs = [point] if is_urgent else []
        if point == partner:  # the background's half, which the urgent one's may be as well
            pairs = self._by_mode.get(partner, [])
        judged = [judgement for urgent in pairs if (judgement := self._note(urgent)) is not None]
        if judged:
            return max(judged, key=lambda j: (bool(j.feasible), j.objective or 0.0, j.second))
        half = half_of(row)
        broken = (
            half_violations(self.problem, urgent=half) if is_urgent else half_violations(self.problem, background=half)
        )
        return Judgement(None, False if broken else None, tuple(broken))

    def _judged(self, point: Point) -> JudgedPoint | None:
        """Return a point with its judgement; ``None`` while it, or a half of two workloads, has no measurement."""
        halves = [point] if self.space.background is None else [point, self.space.partner(point)]
        if not all(half in self.readings for half in halves):
            return None
        rows = [self.row(half) for half in halves]
        if not all(map(_is_measurement, rows)):
            return None
        row, background = rows[0], rows[1] if len(rows) > 1 else None
        if background is None:
            judgement = judge(self.problem, row)
        else:
            judgement = judge_pair(self.problem, half_of(row), half_of(background))
        sure = all(map(self._sure, rows))
        return JudgedPoint(self._suggestions[point], row, judgement, background, confirmed=sure)

    def _note(self, point: Point) -> Judgement | None:
        """Judge a point, remember it if it is feasible, and return its judgement; ``None`` as in ``_judged``."""
        found = self._judged(point)
        if found is None:
            return None
        self._found.pop(point, None)
        if found.judgement.feasible and found.judgement.objective is not None:
            self._found[point] = found
            if found.confirmed and (self.best is None or found.rank() < self.best.rank()):
                self.best = found
        return found.judgement

    def _record(
        self, suggestion: Suggestion, row: ProfileRow, judgement: Judgement, source: Source, spent_s: Mapping[str, Any]
    ) -> None:
        point, (minibatch_s, power_w) = suggestion.point, figures_of(row)
        settings: dict[str, Any] = {name: getattr(point.mode, name) for name in SETTINGS}
        step = TraceRow(
            step=len(self.steps) + 1,
            workload=point.workload,
            task=point.task,
            batch_size=point.batch_size,
            **settings,
            source=source,
            minibatch_s=minibatch_s,
            power_w=power_w,
            objective=judgement.objective,
            feasible=judgement.feasible,
            best=None if self.best is None else self.best.objective,
            reason=judgement.unknown or (None if _is_measurement(row) else row.reason) or suggestion.reason,
            predicted_minibatch_s=suggestion.predicted_minibatch_s,
            predicted_power_w=suggestion.predicted_power_w,
            minibatch_p95_s=None if minibatch_s is None else late_of(row),
            **spent_s,
        )
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)


def mean_of(rows: Sequence[ProfileRow]) -> ProfileRow:
    """Return the mean of the readings of one point, and the highest peak of power.

    A figure that one of the readings lacks is ``None``.
    """
    powers = [row.power_w for row in rows if row.power_w is not None]
    peaks = [row.power_peak_w for row in rows if row.power_peak_w is not None]
    energies = [row.energy_j for row in rows if row.energy_j is not None]
    return replace(
        rows[-1],
        minibatch_s=fmean(row.minibatch_s or 0.0 for row in rows),
        minibatch_mean_s=fmean(mean_minibatch_s(row) or 0.0 for row in rows),
        minibatch_p95_s=fmean(late_minibatch_s(row) or 0.0 for row in rows),
        times_s=None,
        power_w=fmean(powers) if len(powers) == len(rows) else None,
        power_peak_w=max(peaks) if len(peaks) == len(rows) else None,
        energy_j=fmean(energies) if len(energies) == len(rows) else None,
    )


def half_of(row: ProfileRow) -> Half:
    """Return the figures of a measured row that count for two workloads."""
    minibatch_s, power_w = figures_of(row)
    assert minibatch_s is not None
    return Half(row.batch_size, minibatch_s, power_w, late_of(row))


def usable(problem: Problem, space: Space, rows: Sequence[ProfileRow], *, repeated: bool) -> list[ProfileRow]:
    """Return the rows of offered points that can be judged; of several rows of a point the last (``repeated``: all)."""
    known: dict[Point, list[ProfileRow]] = {}
    halves = space.halves if rows else ()  # of two workloads dear to make
    for row in rows:
        if row.point in halves:
            if space.background is None:
                fine = judge(problem, row).feasible is not None
            else:
                fine = _is_measurement(row) and (problem.power_budget_w is None or figures_of(row)[1] is not None)
            if fine:
                known[row.point] = [*(known.get(row.point, ()) if repeated else ()), row]
    return [row for point in sorted(known, key=order) for row in known[point]]


def _is_measurement(row: ProfileRow) -> bool:
    return figures_of(row)[0] is not None
