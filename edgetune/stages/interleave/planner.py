"""How many requests to answer together, and how much to train between two batches: from measurements.

The mean time of a minibatch decides how much fits, its 95th percentile, where it is known, whether a request is late;
and headroom is left beside.

Chooses what to run at a rate among all known points.

fits     answers in time and trains between batches      best: most training, and room for what cannot be foreseen
serves   answers in time, trains where a gap happens to be, or not at all
least    neither: what answers most per second, so that as few as possible wait
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.artifacts.repeats import late_minibatch_s, mean_minibatch_s
from edgetune.errors import InputError
from edgetune.stages.interleave.backend import Inference, Tenant, Training
from edgetune.stages.interleave.cycle import (
    Cycle,
    CycleGoals,
    WorkloadPoint,
    broken,
    cycle_of,
    cycles_of,
    explain_infeasible,
)


def best_cycle(
    infer: Sequence[WorkloadPoint], train: Sequence[WorkloadPoint], goals: CycleGoals, *, best_effort: bool = False
) -> Cycle:
    """Return the best cycle of measured halves in the same mode.

    Most training first, then the lowest latency; where the rate is unknown, most answers per second.

    Args:
        infer: The inference at the batch sizes and modes measured; not empty.
        train: The training likewise; empty where nothing trains.
        goals: The problem.
        best_effort: Return the least bad cycle where none is feasible: one that answers in time, if any does, and of
            those the one whose worst excess is the smallest.

    Raises:
        InfeasibleError: none is feasible; the nearest feasible rate and latency budget are named.
        InputError: there is a power budget and no power was measured, or both were not measured in the same mode.
    """
    cycles = _cycles(infer, train, goals)
    feasible = [cycle for cycle in cycles if not broken(cycle, goals)]
    if feasible:
        return max(feasible, key=lambda cycle: _goodness(cycle, goals))
    if best_effort:
        return min(cycles, key=lambda cycle: (*_badness(cycle, goals), *(-good for good in _goodness(cycle, goals))))
    raise explain_infeasible(cycles, goals)


def _cycles(infer: Sequence[WorkloadPoint], train: Sequence[WorkloadPoint], goals: CycleGoals) -> list[Cycle]:
    pairs: list[tuple[WorkloadPoint, WorkloadPoint | None]] = [(i, t) for i in infer for t in train if i.mode == t.mode]
    if not train:
        pairs = [(half, None) for half in infer]
    if not pairs:
        message = f"{infer[0].workload} and {train[0].workload} were measured in no mode that is the same"
        raise InputError(message, "measure both in one mode, or name the batch sizes instead of a table")
    cycles = [cycle for inference, training in pairs for cycle in cycles_of(inference, training, goals)]
    if goals.power_budget_w is None:
        return cycles
    known = [cycle for cycle in cycles if cycle.power_w is not None]
    if not known:
        raise InputError("there is a power budget, and no power was measured", "measure with a power sensor")
    return known


def _goodness(cycle: Cycle, goals: CycleGoals) -> tuple[float, float]:
    trained = cycle.continuous_per_s(goals.latency_budget_s) if goals.continuous else cycle.throughput_per_s
    first = cycle.infer.batch_size / cycle.infer.minibatch_s if cycle.rate_per_s is None else trained
    return first, -cycle.latency_s


def _badness(cycle: Cycle, goals: CycleGoals) -> tuple[bool, float]:
    """Return whether answers would be late without any training, and by how much the worst constraint is exceeded."""
    found = broken(cycle, goals)
    late = any(each.constraint in ("rate", "latency") for each in found)
    return late, max((each.value / each.limit for each in found), default=0.0)


def halves(rows: Iterable[ProfileRow], task: Task, *, workload: str | None = None) -> tuple[WorkloadPoint, ...]:
    """Return the measured points of one workload; of several visits to a point, the slowest and hungriest.

    Args:
        rows: Of one or several tables; rows that are no measurements are passed over.
        task: Which half.
        workload: Its name; ``None`` where there is but one.

    Raises:
        InputError: there is no such workload, or several where none was named.
    """
    measured = [row for row in rows if row.task == task and row.status == "ok" and row.minibatch_s is not None]
    names = sorted({row.workload for row in measured})
    if workload is None and len(names) > 1:
        raise InputError(f"several networks {task} in the table: {', '.join(names)}", "name the network to plan for")
    fitting = [row for row in measured if workload in (None, row.workload)]
    if not fitting:
        there = f"it has {task} of {', '.join(names)}" if names else f"it has no {task} that was measured"
        raise InputError(f"the table has no measurement of {workload or task}", there)
    found: dict[tuple[str, int, Mode], WorkloadPoint] = {}
    for row in fitting:
        figures = mean_minibatch_s(row) or 0.0, row.power_w, row.mode, cautious_s(row)
        half = WorkloadPoint(row.workload, row.batch_size, *figures, trains=task == "train")
        key = (row.workload, row.batch_size, row.mode)
        found[key] = half if key not in found else _worse(half, found[key])
    return tuple(found.values())


def cautious_s(row: ProfileRow) -> float:
    """Return the cautious minibatch time of a point, s: the 95th percentile, at least the mean and its interval."""
    times_s = (mean_minibatch_s(row), row.minibatch_ci95_high_s, late_minibatch_s(row))
    return max(float(time_s) for time_s in times_s if time_s is not None)


def _worse(one: WorkloadPoint, other: WorkloadPoint) -> WorkloadPoint:
    powers = [half.power_w for half in (one, other) if half.power_w is not None]
    return replace(
        one,
        minibatch_s=max(one.minibatch_s, other.minibatch_s),
        power_w=max(powers, default=None),
        late_s=max(one.cautious_s, other.cautious_s),
    )


def refuse_other(plan: Plan, *, device: str) -> None:
    """Refuse a plan that was made for another device; one that does not say for which is let pass.

    Raises:
        InputError: they differ.
    """
    made_for = plan.header.conditions.get("device")
    if made_for is not None and made_for != device:
        message = f"the plan was made for {made_for}, and this is {device}"
        raise InputError(message, f"search on this device, or name that one: --device {made_for}")


def tenants_of(cycle: Cycle, goals: CycleGoals) -> tuple[Tenant, ...]:
    """Return the tenants of a cycle, with cautious times: a policy begins only what ends in time."""
    half = cycle.infer
    answers = Inference(
        half.workload, half.batch_size, goals.latency_budget_s, cycle.rate_per_s, minibatch_s=half.cautious_s
    )
    if cycle.train is None:
        return (answers,)
    task: Task = "train" if cycle.train.trains else "infer"
    name = cycle.train.workload if cycle.train.workload != half.workload else f"{half.workload}-{task}"
    return answers, Training(name, cycle.train.batch_size, cycle.train.cautious_s, task=task)


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
        with_room = [broken(cycle_of(choice.cycle.infer, ROOM * rate_per_s), self.goals) for choice in choices]
        ranks = [
            (_GRADES.index(choice.grade), any(each.constraint == "rate" for each in more))
            for choice, more in zip(choices, with_room, strict=True)
        ]
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
        return max(
            next(filter(None, within), cycles),
            key=lambda each: (each.infer.batch_size / each.infer.minibatch_s, each.train is not None),
        )

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


def _training_per_s(cycle: Cycle) -> float:
    """Return samples trained on per second in all the time that answers leave.

    Not only in whole minibatches between two batches, as the equations of a plan count them: a step may begin wherever
    no answer is late for it, so that time left over is not lost.
    """
    if cycle.train is None:
        return 0.0
    left = max(1 - cycle.infer.minibatch_s / cycle.period_s, 0.0)
    return left * cycle.train.batch_size / cycle.train.minibatch_s
