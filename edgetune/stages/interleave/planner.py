"""How many requests to answer together, and how much to train between two batches: from measurements.

The mean time of a minibatch decides how much fits, its 95th percentile, where it is known, whether a request is late;
and headroom is left beside.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import ProfileRow, Task
from edgetune.artifacts.row_figures import late_minibatch_s, mean_minibatch_s
from edgetune.errors import InputError
from edgetune.stages.interleave.cycle import Cycle, CycleGoals, WorkloadPoint, broken, cycles_of
from edgetune.stages.interleave.explain import explain_infeasible
from edgetune.stages.interleave.tenants import Inference, Tenant, Training


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
