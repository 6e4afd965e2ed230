"""A language model's operating point from the words of the command line: ``--phase decode --context 2048``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgetune.cli.choices import choose
from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.workloads.workload import Workload

PHASES = ("prefill", "decode")
_CONTEXT = 2048
"""Tokens where --context is not said: the sequence length that Llama's first models were trained with."""


def with_phase(
    workload: Workload, dimensions: Mapping[str, int], phase: str | None, context: int | None
) -> dict[str, int]:
    """Return the dimensions with those that ``--phase`` and ``--context`` stand for.

    Raises:
        InputError: another phase, one for what is no language model, or both it and --dim.
    """
    if workload.kind != "llm":
        if phase is not None or context is not None:
            raise InputError(
                f"--phase and --context are for llm: configurations, which {workload.reference} is not",
                "an ONNX decoder takes its lengths by --dim, e.g. --dim sequence=1 --dim past_sequence=2048",
            )
        return dict(dimensions)
    if phase is None and context is None and dimensions:
        return dict(dimensions)
    if dimensions:
        raise InputError("--phase and --context say what --dim would", "give one or the other")
    if phase is None:
        raise InputError("the phase is not said", "--phase prefill (all tokens at once), or --phase decode (the next)")
    length = _CONTEXT if context is None else context
    return {"tokens" if choose(phase, PHASES, what="phase") == "prefill" else "past": length}
