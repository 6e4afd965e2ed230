"""What a run of a language model is, as its operator table remembers it: how many tokens, on how many, in what memory.

A decoder exported to ONNX with a key-value cache has inputs called past or cache, each of samples x heads x tokens x
elements, beside integers of samples x tokens, the first of which are the new tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.workloads.costs.decoder import Pass
from edgetune.workloads.costs.node import FLOAT_BYTES, FLOAT_PRECISIONS, GraphTensor, OperatorNode
from edgetune.workloads.dimensions import data_inputs, input_specs
from edgetune.workloads.llm import Decoder

if TYPE_CHECKING:
    import onnx

_CACHE_WORDS = ("past", "cache")
_CACHE_AXIS = -2
"""Of a cache, the axis along which it grows. Source: Hugging Face Optimum and onnxruntime-genai write it so."""
_CACHE_RANK = 3
_TOKENS_RANK = 2


def decoder_conditions(decoder: Decoder, run: Pass, nodes: Sequence[OperatorNode], precision: str) -> dict[str, object]:
    """Return what a run of a configured model is: phase, context and new tokens, and bytes of weights and cache.

    ``context`` is the tokens at hand: those of a prefill, else those whose keys and values are in the cache.
    """
    return {
        "dimensions": {"tokens": run.tokens, "past": run.past},
        **_run(run),
        "weights_bytes": stored_bytes([tensor for node in nodes for tensor in node.inputs if tensor is not None]),
        "cache_bytes": cache_bytes(decoder, run, precision),
    }


def _run(run: Pass) -> dict[str, object]:
    context = run.tokens if run.phase == "prefill" else run.past
    return {"phase": run.phase, "context": context, "tokens": run.samples * run.tokens}


def stored_bytes(tensors: Sequence[GraphTensor]) -> int:
    """Return the bytes of the weights among tensors, one that is used twice once."""
    return sum({tensor.name: tensor.size_bytes for tensor in tensors if tensor.constant}.values())


def cache_bytes(decoder: Decoder, run: Pass, precision: str) -> int:
    """Return the bytes of keys and values after a run: one of each per layer, key head and token that is still seen."""
    kept = min(run.past + run.tokens, decoder.window or run.past + run.tokens)
    elements = 2 * decoder.layers * run.samples * decoder.kv_heads * kept * decoder.head_size
    return elements * FLOAT_PRECISIONS[precision][1]


def graph_conditions(
    model: onnx.ModelProto, parameters: Sequence[GraphTensor], precision: str | None = None
) -> dict[str, object]:
    """Return the same of a decoder in ONNX whose dimensions are fixed; nothing for another network.

    Args:
        model: The decoder.
        parameters: Its weights, as they are stored.
        precision: How its cache is stored where it is of floats; without it as the graph declares.
    """
    specs = input_specs(model)
    ids = [shape for _, shape, dtype in specs if dtype in ("int64", "int32") and len(shape) == _TOKENS_RANK]
    caches = [(name, shape, dtype) for name, shape, dtype in specs if is_cache(name, len(shape))]
    if not ids or not caches:
        return {}
    samples, new = ids[0]
    grown = [each for each in caches if "encoder" not in each[0].lower()]  # a translator's cache of what it reads stays
    past = grown[0][1][_CACHE_AXIS] if grown else 0
    kept = 0
    for name, shape, dtype in caches:
        more = 0 if "encoder" in name.lower() else new
        token = math.prod(shape[:_CACHE_AXIS]) * shape[-1]
        stored = FLOAT_BYTES.get(dtype, 1) if precision is None else FLOAT_PRECISIONS[precision][1]
        kept += (shape[_CACHE_AXIS] + more) * token * (stored if "float" in dtype else 1)
    weights = sum(tensor.size_bytes for tensor in parameters)
    return {**_run(Pass(samples, new, past)), "weights_bytes": weights, "cache_bytes": kept}


def is_cache(name: str, rank: int) -> bool:
    """Whether an input is a key-value cache, by its name and number of dimensions."""
    return rank >= _CACHE_RANK and any(word in name.lower() for word in _CACHE_WORDS)


@dataclass(frozen=True, slots=True)
class Lengths:
    """The open dimensions of a decoder that say how long its sequences are, by name.

    Args:
        new: New tokens of a sequence.
        past: Tokens in its cache.
        total: Both together, where an input (a mask) has a name of its own for that.
    """

    new: str
    past: str
    total: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """All of them."""
        return frozenset((self.new, self.past, *self.total))

    def sizes(self, new: int, past: int) -> dict[str, int]:
        """Return the size of each."""
        return {self.new: new, self.past: past} | dict.fromkeys(self.total, new + past)


def open_lengths(model: onnx.ModelProto) -> Lengths | None:
    """Return the lengths that an ONNX decoder leaves open; ``None`` where it is none, or they have no names."""
    past = ""
    firsts: list[str] = []
    masks: list[str] = []
    for value in data_inputs(model):
        dims = value.type.tensor_type.shape.dim
        if is_cache(value.name, len(dims)):
            past = past or next((dim.dim_param for dim in dims[1:] if dim.dim_param), "")
        elif len(dims) == _TOKENS_RANK and dims[1].dim_param:
            (masks if "mask" in value.name.lower() else firsts).append(dims[1].dim_param)
    new = firsts[0] if firsts else ""
    if not past or not new or "+" in past + new or past == new:
        return None
    return Lengths(new, past, tuple(dict.fromkeys(m for m in masks if "+" not in m and m not in (new, past))))
