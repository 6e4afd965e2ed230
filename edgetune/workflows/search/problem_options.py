"""The problem as written on the command line: budgets with units, a file of them, epochs from a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast, get_args

from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.units import parse_power_w, parse_rate_per_s, parse_share, parse_time_s

if TYPE_CHECKING:
    from edgetune.artifacts.convergence import Epochs
    from edgetune.artifacts.problem import Problem, ProblemKind


@dataclass(frozen=True, slots=True)
class ProblemOptions:
    """What was asked of the answer, as written; ``None`` where nothing was.

    ``file`` is what ``--problem`` holds: what is written on the command line goes before it.
    """

    kind: str | None = None
    power: str | None = None
    latency: str | None = None
    rate: str | None = None
    objective: str | None = None
    margin: str | None = None
    background: str | None = None
    background_batch: int | None = None
    convergence: str | None = None
    file: Problem | None = None

    @property
    def second(self) -> str | None:
        """The second network, when either says."""
        return self.background or (None if self.file is None else self.file.background)

    @property
    def second_batch(self) -> int | None:
        """Its batch size, when either says."""
        return self.background_batch or (None if self.file is None else self.file.background_batch_size)


def read_file(path: str | None) -> Problem | None:
    """Return the problem in the file of ``--problem``, when one is given."""
    if path is None:
        return None
    from edgetune.artifacts.problem import read_problem

    return read_problem(path)


def check_kind(kind: str | None) -> None:
    """Refuse a kind of problem that there is not; the nearest is named."""
    if kind is not None:
        from edgetune.artifacts.problem import ProblemKind

        choose(kind, get_args(ProblemKind), what="kind of problem")


def problem_of(
    budgets: ProblemOptions, kind: str, *, background: str | None = None, epochs: Epochs | None = None
) -> Problem:
    """Return the problem in base units.

    Args:
        budgets: As written.
        kind: The kind of problem, from the words or from what the table holds.
        background: Name of the second workload where it is not the one written.
        epochs: What ``--convergence`` says, see ``epochs_asked``.

    Raises:
        InputError: a quantity without its unit, not a number, not above zero, or an unknown objective.
    """
    from edgetune.artifacts.problem import Objective, Problem

    if budgets.objective is not None:
        choose(budgets.objective, get_args(Objective), what="objective")
    given: dict[str, Any] = {
        "power_budget_w": budgets.power and parse_power_w(budgets.power, what="--power-budget"),
        "latency_budget_s": budgets.latency and parse_time_s(budgets.latency, what="--latency-budget"),
        "arrival_rate_per_s": budgets.rate and parse_rate_per_s(budgets.rate, what="--arrival-rate"),
        "objective": budgets.objective,
        "margin": budgets.margin and parse_share(budgets.margin, what="--margin"),
        "background": background or budgets.background,
        "background_batch_size": budgets.background_batch,
        "epochs_to_target": epochs and tuple(sorted(epochs.by_batch.items())),
    }
    base = budgets.file or Problem(cast("ProblemKind", kind))
    stated = {name: value for name, value in given.items() if value is not None}
    return replace(base, kind=cast("ProblemKind", kind), **stated)


def epochs_asked(budgets: ProblemOptions, kind: str) -> Epochs | None:
    """Return what the table of ``--convergence`` says, when one is given.

    Raises:
        InputError: the problem does not ask for accuracy, or the table cannot be read or reaches no target.
    """
    from edgetune.artifacts.convergence import epochs_of
    from edgetune.artifacts.io import read_convergence

    if budgets.convergence is None:
        return None
    if kind != "accuracy":
        raise InputError(f"--convergence: a problem of kind {kind} does not ask for accuracy", "--kind accuracy")
    return epochs_of(read_convergence(budgets.convergence), name=budgets.convergence)
