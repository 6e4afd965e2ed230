"""A problem in a YAML file: what people write once and search for on every board."""

from __future__ import annotations

from typing import Any

from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.plan_document import refuse_impossible, refuse_unknown, validated
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.errors import InputError


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
    refuse_unknown(document, Problem, (), name=name)
    refuse_impossible(document, (), name=name)
    epochs = document.get("epochs_to_target")
    if isinstance(epochs, dict):
        document = {**document, "epochs_to_target": [[size, value] for size, value in epochs.items()]}
    return validated(document, Problem, name=name, example="see the problem of a plan that `edgetune search` writes")
