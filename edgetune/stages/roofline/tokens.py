"""Bounds of a language model by measured roofs: most tokens per second, least joules per token.

    prefill N   a prompt of N tokens at once: many FLOP for each weight read, and the time to the first token
    decode N    one token after N: every weight and the whole cache are read for it

    decode, bound by memory:    tokens/s <= samples * bytes_per_s / (weights + samples * cache of a sequence)

These are bounds, not measurements: a runtime also launches kernels, and few of its kernels reach a roof. A runtime that
fuses operators moves fewer bytes than the operators one by one, so that its activations may take less; weights and
cache, which are most of what decoding moves, are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.stages.roofline.placement import Placement


@dataclass(frozen=True, slots=True)
class TokenBound:
    """The bounds of a roof at one operating point.

    Args:
        name: The point, e.g. ``decode 2048``.
        phase, context, tokens: See ``OperatingPoint``.
        batch_size: Sequences.
        pass_s: Least time of the pass, each layer at its own bound, s.
        first_token_s: The same where it is that of the first token, after a prefill; else ``None``.
        tokens_per_s: At most, of all sequences together.
        token_j: Energy of a token at least, J; ``None`` without energy constants.
        measured_tokens_per_s: As measured; ``None`` where the network was not run.
        weights_bytes, cache_bytes: See ``OperatingPoint``.
        memory_bytes: What the device has; ``None`` where that is not known.
        fits: Whether weights and cache fit into it, activations not counted; ``None`` where that is not known.
    """

    name: str
    phase: str
    context: int
    tokens: int
    batch_size: int
    pass_s: float
    first_token_s: float | None
    tokens_per_s: float
    token_j: float | None
    measured_tokens_per_s: float | None
    weights_bytes: int
    cache_bytes: int
    memory_bytes: int | None
    fits: bool | None


def token_bound(placement: Placement, *, memory_bytes: int | None = None) -> TokenBound | None:
    """Return the bounds by the roof of a placement; ``None`` for a network other than a language model.

    Args:
        placement: One pass beneath the roof.
        memory_bytes: Memory of the device, where that is known.
    """
    point = placement.point
    if point is None or not point.tokens or not placement.layers_s:
        return None
    needed = point.weights_bytes + point.cache_bytes
    return TokenBound(
        name=str(point), phase=point.phase, context=point.context, tokens=point.tokens,
        batch_size=placement.batch_size, pass_s=placement.layers_s,
        first_token_s=placement.layers_s if point.phase == "prefill" else None,
        tokens_per_s=point.tokens / placement.layers_s,
        token_j=None if placement.layers_j is None else placement.layers_j / point.tokens,
        measured_tokens_per_s=point.tokens / placement.measured_s if placement.measured_s else None,
        weights_bytes=point.weights_bytes, cache_bytes=point.cache_bytes, memory_bytes=memory_bytes,
        fits=None if memory_bytes is None else needed <= memory_bytes,
    )  # fmt: skip
