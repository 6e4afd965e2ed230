"""Chooses what to run at a rate among all known points.

fits     answers in time and trains between batches      best: most training, and room for what cannot be foreseen
serves   answers in time, trains where a gap happens to be, or not at all
least    neither: what answers most per second, so that as few as possible wait
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.errors import InputError
from edgetune.stages.interleave.cycle import Cycle, CycleGoals, WorkloadPoint, broken, cycle_of
from edgetune.stages.interleave.planner import halves

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
    """Chooses cycles from known rows.

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

    def learn(self, row: ProfileRow) -> None:
        """Replace the row of a point."""
        self.rows = [*(each for each in self.rows if each.point != row.point), row]
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

    def strongest(self, rate_per_s: float) -> Cycle:
        """Return the cycle that answers most requests per second within the power budget.

        A minibatch that takes more than half of the latency budget is left aside where there is another: a request that
        just missed one would be late with the next.
        """
        cycles = self._cycles(rate_per_s)
        budget_s = self.goals.latency_budget_s
        within = ([each for each in cycles if each.infer.cautious_s <= share * budget_s] for share in (0.5, 1.0))
        return max(next(filter(None, within), cycles), key=lambda each: (_answers_per_s(each), each.train is not None))

    def _cycles(self, rate_per_s: float) -> list[Cycle]:
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
