"""The operating point of a measured language model: phase, context and sizes, as its table states them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.ops import OpsTable


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One pass of a language model.

    Args:
        phase: ``prefill``, ``decode``, or ``extend`` for several tokens on a cache.
        context: Tokens of a sequence at hand: those of a prefill, else those in the cache.
        tokens: New tokens of all sequences together.
        weights_bytes: What the weights take in memory.
        cache_bytes: What keys and values take after the pass.
    """

    phase: str
    context: int
    tokens: int
    weights_bytes: int
    cache_bytes: int

    def __str__(self) -> str:
        return f"{self.phase} {self.context}"


def operating_point(table: OpsTable) -> OperatingPoint | None:
    """Return the pass that a table costs; ``None`` where it is of no language model, or of an earlier version."""
    found: dict[str, Any] = dict(table.header.conditions)
    if table.task != "infer" or "phase" not in found or not all(isinstance(found.get(key), int) for key in _FACTS):
        return None
    return OperatingPoint(str(found["phase"]), *(found[key] for key in _FACTS))


_FACTS = ("context", "tokens", "weights_bytes", "cache_bytes")
