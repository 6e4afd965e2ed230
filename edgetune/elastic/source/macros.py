"""A macro of CUDA C, as the preprocessor knows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Macro:
    """A ``#define``.

    Args:
        name: What is defined.
        line: Where, from 1.
        parameters: Of a macro that is called; ``None`` of one that is not.
        body: What it stands for, as written.
        file: Where it was defined.
    """

    name: str
    line: int
    parameters: tuple[str, ...] | None
    body: str
    file: str
