"""What a wrong proxy costs: choose by the epochs of one task, pay by those of another.

                 chosen by A    chosen by B
    truth is A       0 %           4.1 %
    truth is B      1.7 %            0 %

Only the ratios between batch sizes matter, so tasks of very different length can stand for each other; this says how
well. Rows are the truth, columns the proxy. A figure is the time (or energy) to accuracy of what the proxy chose over
that of the best choice, less one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetune.artifacts.problem import Objective
from edgetune.artifacts.profile import ProfileRow
from edgetune.search.accuracy import Comparison, TrainingChoice, accuracy_problem, choice_of, compare, optimum


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The matrix of what a proxy loses.

    Args:
        chosen: By proxy: its choice, at its own epochs.
        truth: By target: the best choice beside its baselines.
        lost: By (target, proxy): share lost, 0 for a perfect proxy; ``None`` where the batch size chosen never reaches
            the target.
    """

    chosen: Mapping[str, TrainingChoice]
    truth: Mapping[str, Comparison]
    lost: Mapping[tuple[str, str], float | None]

    def of_proxy(self, proxy: str) -> list[float | None]:
        """Return what a proxy loses on every other target."""
        return [lost for (target, name), lost in self.lost.items() if name == proxy != target]


def sensitivity(
    rows: Sequence[ProfileRow],
    epochs: Mapping[str, Mapping[int, float]],
    *,
    power_budget_w: float | None = None,
    objective: Objective = "time",
    margin: float = 0.0,
) -> Sensitivity:
    """Return what each task loses when its choice is made by each other's epochs.

    Args:
        rows: The profile: time, and power where there is a budget, by batch size and mode.
        epochs: Epochs until the target by batch size, by task.
        power_budget_w: Mean power at most, W.
        objective: ``time`` or ``energy``.
        margin: Share of the budget kept free.

    Raises:
        InputError, InfeasibleError: see ``accuracy.optimum``.
    """
    problems = {
        name: accuracy_problem(own, power_budget_w=power_budget_w, objective=objective, margin=margin)
        for name, own in epochs.items()
    }
    chosen = {name: optimum(problem, rows) for name, problem in problems.items()}
    truth = {name: compare(problem, rows) for name, problem in problems.items()}
    lost: dict[tuple[str, str], float | None] = {}
    for target, problem in problems.items():
        best = _cost(truth[target].answer, objective)
        for proxy, choice in chosen.items():
            reaches = choice.row.batch_size in epochs[target]
            paid = _cost(choice_of(problem, choice.row), objective) if reaches else None
            lost[target, proxy] = None if paid is None else paid / best - 1
    return Sensitivity(chosen, truth, lost)


def _cost(choice: TrainingChoice, objective: Objective) -> float:
    if objective == "time":
        return choice.time_s
    energy_j = choice.energy_j or 0.0
    return energy_j if objective == "energy" else energy_j * choice.time_s
