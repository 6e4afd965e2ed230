"""A tuning problem: an objective and budgets, also as a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from edgetune.artifacts.columns import PositiveFloat, PositiveInt, Share
from edgetune.artifacts.document import STRICT, validated
from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.errors import InputError

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
