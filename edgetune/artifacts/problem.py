"""A tuning problem: what is optimised within which budgets; also as a YAML file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from edgetune.artifacts.columns import PositiveFloat, PositiveInt, Share
from edgetune.artifacts.document import check, validated
from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.errors import InputError

ProblemKind = Literal["train", "infer", "train+infer", "infer+infer", "accuracy"]
Objective = Literal["throughput", "latency", "energy", "energy-delay", "time"]


@dataclass(frozen=True, slots=True)
class Problem:
    """The problem a search solves and a plan answers.

    Args:
        kind: Which problem of the five.
        power_budget_w: Mean power must not exceed it, W.
        latency_budget_s: Peak latency of a request must not exceed it, s.
        arrival_rate_per_s: Requests per second that must be kept up with.
        objective: What is optimised; ``None`` takes the kind's own.
        margin: Share of each budget kept free, 0 to 1 (0.05 keeps 5 %).
        background: Of two workloads, the name of the one without a deadline; ``None`` where the points leave no choice.
        background_batch_size: Its samples per minibatch; ``None`` where the points leave no choice.
        epochs_to_target: Batch size and epochs until the target accuracy, for ``accuracy``; only ratios matter.
    """

    kind: ProblemKind
    power_budget_w: PositiveFloat | None = None
    latency_budget_s: PositiveFloat | None = None
    arrival_rate_per_s: PositiveFloat | None = None
    objective: Objective | None = None
    margin: Share = 0.0
    background: str | None = None
    background_batch_size: PositiveInt | None = None
    epochs_to_target: tuple[tuple[PositiveInt, PositiveFloat], ...] = ()


def read_problem(source: str) -> Problem:
    """Return the problem in a file: its keys are those under ``problem`` in a plan; a whole plan will do as well.

    Raises:
        InputError: unreadable, not a mapping, an unknown key (the nearest known one is named), an impossible value.
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
    check(document, Problem, (), name=name)
    epochs = document.get("epochs_to_target")
    if isinstance(epochs, dict):
        document = {**document, "epochs_to_target": [[size, value] for size, value in epochs.items()]}
    return validated(document, Problem, name=name, example="see the problem of a plan that `edgetune search` writes")
