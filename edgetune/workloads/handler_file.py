"""Code of the user around an inference: a Python file with ``inputs`` and ``outputs``, both optional.

    def inputs(request, line):            -> {"image": array of one sample}, without the dimension of the batch
    def outputs(request, line, arrays):   arrays: {"logits": array of this sample}

``request`` counts the requests from 0; ``line`` is the text of a request that came from outside, else ``None``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.errors import InputError
from edgetune.workloads.python_file import blame, load_file

CONTRACT = "a handler file defines inputs(request, line), outputs(request, line, arrays), or both"


@dataclass(frozen=True, slots=True)
class HandlerFile:
    """The functions of a handler file; what it raises is told with the place in the file."""

    inputs: Callable[..., Any] | None
    outputs: Callable[..., Any] | None


def open_handler(path: Path) -> HandlerFile:
    """Execute the file, once per process, and return its functions.

    Raises:
        InputError: it cannot be loaded, or defines neither. The functions raise it likewise.
    """
    module = load_file(path, CONTRACT)
    found = {name: getattr(module, name, None) for name in ("inputs", "outputs")}
    if not any(callable(function) for function in found.values()):
        raise InputError(f"{path} defines neither inputs(request, line) nor outputs(request, line, arrays)", CONTRACT)
    return HandlerFile(**{name: _guarded(path, name, function) for name, function in found.items()})


def _guarded(path: Path, name: str, function: object) -> Callable[..., Any] | None:
    if not callable(function):
        return None

    def guarded(*arguments: object) -> Any:
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:
            raise blame(path, f"{name}()", error, CONTRACT) from None

    return guarded
