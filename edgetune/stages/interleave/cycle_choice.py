"""Chooses what to run at a rate among all points known: from tables before a run, and from points tried during it.

fits     answers in time and trains between batches      best: most training, and room for what cannot be foreseen
serves   answers in time, trains where a gap happens to be, or not at all
least    neither: what answers most per second, so that as few as possible wait
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.errors import InputError
from edgetune.stages.interleave.cycle import Cycle, CycleGoals, WorkloadPoint, broken, cycle_of
from edgetune.stages.interleave.planner import halves
from edgetune.stats import median, percentile

SAFETY = 1.05
"""Factor on an observed rate that a plan must serve: an estimate from a few hundred requests wavers by this much."""
ROOM = 1.25
"""A plan that keeps up with so many times the rate is preferred: a smaller change is not detected at once, see
``rates.CHANGE``."""
GAIN = 1.05
"""Another plan must train so many times as much to be worth a change where the present one does as well."""

Grade = Literal["fits", "serves", "least"]
_GRADES: tuple[Grade, ...] = ("fits", "serves", "least")


@dataclass(frozen=True, slots=True)
class TenantNames:
    """The tenant that answers, and the one that trains in between, if any.

    Args:
        infer, train: Their names.
        infer_workload, train_workload: Names of their workloads in profile rows.
        train_size: Samples per training minibatch.
    """

    infer: str
    infer_workload: str
    train: str | None = None
    train_workload: str | None = None
    train_size: int | None = None

    def training(self, mode: Mode) -> Point | None:
        """Return the point of the training in a mode; ``None`` where nothing trains."""
        if self.train_workload is None or self.train_size is None:
            return None
        return Point(self.train_workload, "train", self.train_size, mode)


@dataclass(frozen=True, slots=True)
class CycleChoice:
    """A cycle to run.

    Args:
        cycle: Batch size, mode and times; without training where that is to pause.
        grade: How well it serves the rate asked about, see the head of this module.
    """

    cycle: Cycle
    grade: Grade

    @property
    def setting(self) -> tuple[int, Mode, bool]:
        """The settings it needs: batch size, mode, and whether training goes on."""
        return self.cycle.infer.batch_size, self.cycle.infer.mode, self.cycle.train is not None


class CycleChooser:
    """Chooses cycles from the rows known so far.

    Args:
        names: Of the tenants.
        rows: Measured before the run.
        goals: Budgets; its rate does not count.
    """

    def __init__(self, names: TenantNames, rows: Sequence[ProfileRow], goals: CycleGoals) -> None:
        self.goals, self.rows, self._names = goals, list(rows), names
        self._infer: tuple[WorkloadPoint, ...] = ()
        self._train: dict[Mode, WorkloadPoint] = {}
        self._gather()

    def learn(self, *rows: ProfileRow) -> None:
        """Add rows that were just measured; a row replaces an older one of the same point, unless it failed."""
        known = {row.point for row in self.rows if row.status == "ok"}
        fresh = {row.point: row for row in rows if row.status == "ok" or row.point not in known}
        self.rows = [row for row in self.rows if row.point not in fresh] + list(fresh.values())
        self._gather()

    def best(self, rate_per_s: float, present: tuple[int, Mode, bool] | None = None) -> CycleChoice:
        """Return the best cycle at a rate, 1/s.

        Args:
            rate_per_s: As observed.
            present: The setting now; it is kept where no other is clearly better.
        """
        choices = [CycleChoice(cycle, self._grade(cycle)) for cycle in self._cycles(rate_per_s)]
        ranks = [(_GRADES.index(choice.grade), not self._keeps_up(choice.cycle)) for choice in choices]
        highest = min(ranks)
        best = [choice for choice, rank in zip(choices, ranks, strict=True) if rank == highest]
        if best[0].grade == "least":
            return CycleChoice(self.strongest(rate_per_s), "least")
        most = max(_training_per_s(choice.cycle) for choice in best)
        for choice in best:
            if choice.setting == present and most <= GAIN * _training_per_s(choice.cycle):
                return choice
        return max(best, key=lambda choice: (_training_per_s(choice.cycle), -choice.cycle.latency_s))

    def strongest(self, rate_per_s: float | None) -> Cycle:
        """Return the cycle that answers most requests per second within the power budget.

        A minibatch that takes more than half of the latency budget is left aside where there is another: a request that
        just missed one would be late with the next.
        """
        cycles = self._cycles(rate_per_s)
        budget_s = self.goals.latency_budget_s
        within = ([each for each in cycles if each.infer.at_worst_s <= share * budget_s] for share in (0.5, 1.0))
        return max(next(filter(None, within), cycles), key=lambda each: (_answers_per_s(each), each.train is not None))

    def at_most_s(self, point: Point) -> float | None:
        """Return an upper bound of a point's minibatch time, from other points of its network, s.

        Time grows no faster than the batch, and no faster than any clock falls: it is a sum of parts of which each
        follows one of them. ``None`` where nothing is known.
        """
        halves = self._halves(point.task, point.workload)
        sizes = ((half, max(1.0, point.batch_size / half.batch_size)) for half in halves)
        bounds = (half.minibatch_s * larger * _slowed(half.mode, point.mode) for half, larger in sizes)
        return min(bounds, default=None)

    def lags(self, mode: Mode, batch_size: int, rate_per_s: float) -> bool:
        """Return whether a mode cannot keep up: one that is higher in every knob does not, at this batch size."""
        slow = [half for half in self._infer if half.batch_size == batch_size]
        return any(half.minibatch_s > batch_size / rate_per_s and _slowed(mode, half.mode) == 1.0 for half in slow)

    def draws_too_much(self, point: Point) -> bool:
        """Return whether a point is over the power budget: one that is lower in some knob and higher in none is."""
        limit_w = self.goals.power_budget_w
        known = self._infer if point.task == "infer" else self._train.values()
        alike = (half for half in known if half.batch_size == point.batch_size)
        return limit_w is not None and any(
            (half.power_w or 0.0) > limit_w and _slowed(half.mode, point.mode) == 1.0 for half in alike
        )

    def _cycles(self, rate_per_s: float | None) -> list[Cycle]:
        """Return the cycles within the power budget; the most frugal one where none is; all without a budget."""
        found = [cycle_of(half, rate_per_s, self._train[half.mode]) for half in self._infer if half.mode in self._train]
        found += [cycle_of(half, rate_per_s) for half in self._infer]
        limit_w = self.goals.power_budget_w
        if limit_w is None:
            return found
        within = [cycle for cycle in found if cycle.power_w is not None and cycle.power_w <= limit_w]
        return within or [min(found, key=lambda cycle: cycle.power_w or float("inf"))]

    def _grade(self, cycle: Cycle) -> Grade:
        """Return the grade of a cycle at its rate, and at a little more."""
        rate_per_s = None if cycle.rate_per_s is None else SAFETY * cycle.rate_per_s
        more = cycle_of(cycle.infer, rate_per_s, cycle.train)
        short = {each.constraint for each in (*broken(cycle, self.goals), *broken(more, self.goals))}
        if not short and (cycle.train is not None or self._names.train is None):
            return "fits"
        return "serves" if short <= {"room", "step"} else "least"

    def _keeps_up(self, cycle: Cycle) -> bool:
        more = None if cycle.rate_per_s is None else ROOM * cycle.rate_per_s
        return not any(each.constraint == "rate" for each in broken(cycle_of(cycle.infer, more), self.goals))

    def _gather(self) -> None:
        names = self._names
        self._infer = self._halves("infer", names.infer_workload)
        trained = self._halves("train", names.train_workload) if names.train_workload is not None else ()
        self._train = {half.mode: half for half in trained if half.batch_size == names.train_size}

    def _halves(self, task: Task, workload: str) -> tuple[WorkloadPoint, ...]:
        try:
            return halves(self.rows, task, workload=workload)
        except InputError:
            return ()


def _slowed(before: Mode, after: Mode) -> float:
    """Return the largest ratio by which a knob was turned down, at least 1."""
    knobs = after.knobs()
    return max([1.0, *(value / knobs[name] for name, value in before.knobs().items() if name in knobs)])


def _answers_per_s(cycle: Cycle) -> float:
    return cycle.infer.batch_size / cycle.infer.minibatch_s


def _training_per_s(cycle: Cycle) -> float:
    """Return samples trained on per second in all the time that answers leave.

    Not only in whole minibatches between two batches, as the equations of a plan count them: a step may begin wherever
    no answer is late for it, so that time left over is not lost.
    """
    if cycle.train is None:
        return 0.0
    left = max(1 - cycle.infer.minibatch_s / cycle.period_s, 0.0)
    return left * cycle.train.batch_size / cycle.train.minibatch_s


CAUTION = 1.5
"""Training may be slowed down by another mode so many times as much as answering: at a third of the memory's clock it
was 1.35 times (resnet18 beside mobilenet_v2 on the twin of an AGX Orin)."""


@dataclass(slots=True)
class Trial:
    """A point on trial.

    Args:
        batch_size: Of the point.
        rate_per_s: That it has to keep up with.
        from_ns: When it was set.
        urgent: Whether nothing known answers in time: then training is not waited for.
        usual_s: Duration of its minibatches in a mode known before, s; ``None`` where unknown.
        infer_s, train_s: Durations of its minibatches, s, by number.
        power_w: Readings of time that it had to itself, W.
    """

    batch_size: int
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
    """Return the row of a profile that a trial measured; the first minibatch is left out."""
    if len(times_s) < 2:
        return ProfileRow.at(point, None, status="failed", reason=reason or "no minibatch ran")
    steady_s = times_s[1:]
    slow_s = percentile(steady_s, 95)
    return ProfileRow.at(point, median(steady_s), minibatch_p95_s=slow_s, minibatches=len(steady_s), power_w=power_w)
