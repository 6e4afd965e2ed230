"""A tuning problem: an objective and budgets, also as a YAML file.

Budgets on columns of a profile: what a measured value must not exceed. A further budget is one row of the table,
its field of ``Problem``, and its option in ``workflows.search.options``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from edgetune.artifacts.columns import PositiveFloat, PositiveInt, Share
from edgetune.artifacts.document import STRICT, validated
from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.errors import InputError
from edgetune.units import format_bytes, format_si, parse_bytes, parse_power_w, parse_time_s

ProblemKind = Literal["train", "infer", "train+infer", "infer+infer", "accuracy"]
Objective = Literal[
    "throughput", "continuous-throughput", "latency", "energy", "energy-delay", "time", "tokens-per-joule"
]


@dataclass(frozen=True, slots=True)
class Problem:
    """The problem a search solves and a plan answers.

    Args:
        kind: One of the five kinds of problems.
        power_budget_w: Mean power must not exceed it, W.
        latency_budget_s: Peak latency of a request must not exceed it, s.
        arrival_rate_per_s: Required rate of requests, 1/s.
        objective: The quantity to optimise; ``None`` takes the kind's default.
        margin: Share of each budget kept free, 0 to 1 (0.05 keeps 5 %).
        background: Name of the workload without a deadline, of two; ``None`` if the points have only one candidate.
        background_batch_size: Its samples per minibatch; ``None`` if the points have only one value.
        epochs_to_target: Batch size and epochs until the target accuracy, for ``accuracy``; only ratios matter.
        ttft_budget_s: Time to the first token of a server's answers at most, 95th percentile, s.
        token_budget_s: Time of each further token at most, 95th percentile, s.
        power_peak_budget_w: Highest power sample must not exceed it, W.
        memory_budget_bytes: Most memory that the processes of a point may have resident, bytes.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = STRICT

    kind: ProblemKind
    power_budget_w: PositiveFloat | None = None
    latency_budget_s: PositiveFloat | None = None
    arrival_rate_per_s: PositiveFloat | None = None
    objective: Objective | None = None
    margin: Share = 0.0
    background: str | None = None
    background_batch_size: PositiveInt | None = None
    epochs_to_target: tuple[tuple[PositiveInt, PositiveFloat], ...] = ()
    ttft_budget_s: PositiveFloat | None = None
    token_budget_s: PositiveFloat | None = None
    memory_budget_bytes: PositiveFloat | None = None
    power_peak_budget_w: PositiveFloat | None = None


def read_problem(source: str) -> Problem:
    """Return the problem in a file with the keys under ``problem`` in a plan, or in a whole plan.

    Raises:
        InputError: the file is unreadable or not a mapping, a key is unknown, or a value is impossible.
    """
    name = name_of(source)
    try:
        text = read_source(source).decode()
    except UnicodeDecodeError:
        raise InputError(f"{name} is not a text file", "give it YAML, e.g. power_budget_w: 30") from None
    document = load_yaml(text, name=name)
    if isinstance(document, dict) and isinstance(document.get("problem"), dict):
        document = document["problem"]
    return problem_of(document, name=name)


def problem_of(document: Any, *, name: str) -> Problem:
    """Return the validated problem of a parsed document; ``epochs_to_target`` may be a mapping from batch sizes."""
    if not isinstance(document, dict):
        message = f"{name} is not a problem: it holds {type(document).__name__}, not keys and values"
        raise InputError(message, "e.g. kind: train and power_budget_w: 30")
    epochs = document.get("epochs_to_target")
    if isinstance(epochs, dict):
        document = {**document, "epochs_to_target": [[size, value] for size, value in epochs.items()]}
    return validated(document, Problem, name=name, example="see the problem of a plan that `edgetune search` writes")


@dataclass(frozen=True, slots=True)
class ColumnBudget:
    """A budget on a column.

    Args:
        name: Its name as a constraint, and in its option: ``power_peak`` is ``--power-peak-budget``.
        field: Its field of ``Problem``; unit as that of the column.
        columns: The columns of a profile that it limits: of a row the first that has a value.
        words: What a point does, ``{}`` for the value.
        parse: Reads the option.
        show: Writes a value for people.
        written_in: Unit in which a hint gives the option, and its factor.
    """

    name: str
    field: str
    columns: tuple[str, ...]
    words: str
    parse: Callable[..., float]
    show: Callable[[float], str]
    written_in: tuple[str, float]

    @property
    def option(self) -> str:
        """The option of the terminal."""
        return f"--{self.name.replace('_', '-')}-budget"

    def limit(self, problem: Any) -> float | None:
        """Return the budget of a problem less its margin; ``None`` without one."""
        budget = getattr(problem, self.field)
        return None if budget is None else budget * (1 - problem.margin)

    def value(self, row: ProfileRow) -> float | None:
        """Return the value of a row; ``None`` if it was not measured."""
        return next((value for column in self.columns if (value := getattr(row, column)) is not None), None)


_seconds, _watts = partial(format_si, unit="s"), partial(format_si, unit="W")
_TABLE = (
    ColumnBudget(
        "ttft", "ttft_budget_s", ("ttft_p95_s", "ttft_s"), "sends the first token within {}",
        parse_time_s, _seconds, ("ms", 1e3),
    ),
    ColumnBudget(
        "token", "token_budget_s", ("token_p95_s", "token_s"), "sends a further token within {}",
        parse_time_s, _seconds, ("ms", 1e3),
    ),
    ColumnBudget(
        "memory", "memory_budget_bytes", ("memory_peak_bytes",), "stays within {} of memory",
        parse_bytes, format_bytes, ("MiB", 2**-20),
    ),
    ColumnBudget(
        "power_peak", "power_peak_budget_w", ("power_peak_w",), "stays within {} at its peak",
        parse_power_w, _watts, ("W", 1.0),
    ),
)  # fmt: skip

COLUMN_BUDGETS: Mapping[str, ColumnBudget] = {budget.name: budget for budget in _TABLE}
"""The budgets by name."""


def asked_budgets(problem: Any) -> list[ColumnBudget]:
    """Return the budgets on columns that a problem states."""
    return [budget for budget in _TABLE if getattr(problem, budget.field) is not None]
