"""Operators of language models in prefill and decode, and the conditions of a run for the operator table.

A decoder processes many tokens at once (prefill), or one token with a cache (decode). Its operators are those of an
inference engine, with attention as one operator over the key-value cache; the cost formulas are those of ONNX files.

The conditions of a run are its new tokens, its cached tokens, and the bytes of weights and cache. A decoder exported to
ONNX with a key-value cache has inputs called past or cache, of samples x heads x tokens x elements, and integer inputs
of samples x tokens, the first of which are the new tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgetune.errors import InputError
from edgetune.workloads.costs.node import FLOAT_BYTES, FLOAT_PRECISIONS, GraphTensor, OperatorNode
from edgetune.workloads.dimensions import data_inputs, input_specs
from edgetune.workloads.lazy import onnx
from edgetune.workloads.llm import Decoder

ID_BYTES = 8
"""Token ids are int64, as exporters write them."""
SCALE_BYTES = 2
"""A group of quantised weights has a half-precision scale. Source: GPTQ, AWQ and GGUF's Q4_0 alike."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One run of the decoder.

    Args:
        samples: Sequences in the minibatch.
        tokens: New tokens of each.
        past: Tokens of each whose keys and values are in the cache.
    """

    samples: int
    tokens: int
    past: int

    @property
    def phase(self) -> str:
        """``decode`` for one token on a cache, ``prefill`` for the first tokens, ``extend`` for more on a cache."""
        if self.past == 0:
            return "prefill"
        return "decode" if self.tokens == 1 else "extend"


def pass_of(samples: int, dimensions: Mapping[str, int]) -> Pass:
    """Return the run described by the dimensions ``tokens`` and ``past``, one of which may be left out.

    ``tokens`` alone is prefill, ``past`` alone is decoding one token.

    Raises:
        InputError: neither is given, or another dimension is.
    """
    for name in dimensions:
        if name not in ("tokens", "past"):
            raise InputError(f"a language model has no dimension {name!r}", "its dimensions are tokens and past")
    if not dimensions:
        raise InputError(
            "the length of the sequence is not given",
            "--dim tokens=2048 (prefill of so many), or --dim past=2048 (one token after so many)",
        )
    return Pass(samples, dimensions.get("tokens", 1), dimensions.get("past", 0))


def decoder_nodes(decoder: Decoder, run: Pass, precision: str) -> tuple[OperatorNode, ...]:
    """Return the operators of one run, in order.

    Logits are computed for the last new token of each sequence only, as generation needs them.

    Args:
        decoder: The model.
        run: Numbers of samples, new tokens and cached tokens.
        precision: Storage of weights, activations and cache.

    Raises:
        InputError: an unknown precision, or more tokens than there are learned positions.
    """
    if precision not in FLOAT_PRECISIONS:
        raise InputError(f"unknown precision {precision!r}", f"known: {', '.join(FLOAT_PRECISIONS)}")
    if decoder.positions and run.tokens + run.past > decoder.positions:
        raise InputError(
            f"the model has {decoder.positions} positions, {run.tokens + run.past} are asked for",
            "ask for a shorter context",
        )
    writer = _Writer(decoder, run, precision)
    stream = writer.embedding()
    for layer in range(decoder.layers):
        stream = writer.layer(f"layers.{layer}", stream)
    writer.head(stream)
    return tuple(writer.nodes)


@dataclass(slots=True)
class _Writer:
    """Writes the nodes in order; each method returns the tensor that the next one reads."""

    decoder: Decoder
    run: Pass
    precision: str
    nodes: list[OperatorNode] = field(default_factory=list)

    def embedding(self) -> GraphTensor:
        decoder, run = self.decoder, self.run
        table = self._weight("embedding", decoder.vocab, decoder.hidden)
        ids = GraphTensor("input_ids", (run.samples, run.tokens), "int64", ID_BYTES)
        stream = self._add("embed", "Gather", (table, ids), (*ids.dims, decoder.hidden))
        if decoder.positions:
            rows = self._weight("positions", decoder.positions, decoder.hidden)
            where = GraphTensor("position_ids", ids.shape, "int64", ID_BYTES)
            learned = self._add("embed_positions", "Gather", (rows, where), stream.dims)
            stream = self._add("add_positions", "Add", (stream, learned), stream.dims)
        return stream

    def layer(self, name: str, stream: GraphTensor) -> GraphTensor:
        normed = self._norm(f"{name}.attention_norm", stream)
        attended = self._attention(name, normed)
        if self.decoder.norms == 1:  # attention and feed-forward network read the same normalised stream
            both = self._add(f"{name}.add", "Add", (attended, self._feed_forward(name, normed)), stream.dims)
            return self._add(f"{name}.residual", "Add", (stream, both), stream.dims)
        stream = self._add(f"{name}.attention_residual", "Add", (stream, attended), stream.dims)
        fed = self._feed_forward(name, self._norm(f"{name}.ffn_norm", stream))
        return self._add(f"{name}.ffn_residual", "Add", (stream, fed), stream.dims)

    def head(self, stream: GraphTensor) -> None:
        decoder, run = self.decoder, self.run
        normed = self._norm("final_norm", stream)
        last = self._add("last_token", "Slice", (normed,), (run.samples, decoder.hidden))
        weight = self._weight("embedding" if decoder.tied else "lm_head", decoder.vocab, decoder.hidden)
        bias = (self._weight("lm_head.bias", decoder.vocab),) if decoder.head_bias else ()
        self._add("lm_head", "Gemm", (last, weight, *bias), (run.samples, decoder.vocab), transB=1)

    def _attention(self, name: str, x: GraphTensor) -> GraphTensor:
        decoder, run = self.decoder, self.run
        size = decoder.head_size
        query = self._product(f"{name}.q_proj", x, decoder.heads * size, decoder.qkv_bias)
        key = self._product(f"{name}.k_proj", x, decoder.kv_heads * size, decoder.qkv_bias)
        value = self._product(f"{name}.v_proj", x, decoder.kv_heads * size, decoder.qkv_bias)
        if decoder.qk_norm:
            query, key = self._norm(f"{name}.q_norm", query, size), self._norm(f"{name}.k_norm", key, size)
        if decoder.rotary:
            query = self._add(f"{name}.q_rotary", "RotaryEmbedding", (query,), query.dims)
            key = self._add(f"{name}.k_rotary", "RotaryEmbedding", (key,), key.dims)
        heads = (run.samples, decoder.kv_heads)
        caches = [self._tensor(f"{name}.past_{part}", (*heads, run.past, size)) for part in ("key", "value")]
        grown = [self._tensor(f"{name}.{part}", (*heads, run.past + run.tokens, size)) for part in ("key", "value")]
        settings: dict[str, Any] = {"q_num_heads": decoder.heads, "kv_num_heads": decoder.kv_heads, "is_causal": 1}
        operands = (query, key, value, None, *caches)
        mixed = self._add(
            f"{name}.attention",
            "Attention",
            operands,
            query.dims,
            *grown,
            left_window_size=decoder.window - 1,
            **settings,
        )
        return self._product(f"{name}.o_proj", mixed, decoder.hidden, decoder.out_bias)

    def _feed_forward(self, name: str, x: GraphTensor) -> GraphTensor:
        decoder = self.decoder
        up = self._product(f"{name}.up_proj", x, decoder.ffn, decoder.ffn_bias)
        if decoder.gated:
            gate = self._product(f"{name}.gate_proj", x, decoder.ffn, decoder.ffn_bias)
            gate = self._add(f"{name}.activation", decoder.activation, (gate,), gate.dims)
            up = self._add(f"{name}.gate", "Mul", (gate, up), up.dims)
        else:
            up = self._add(f"{name}.activation", decoder.activation, (up,), up.dims)
        return self._product(f"{name}.down_proj", up, decoder.hidden, decoder.ffn_bias)

    def _norm(self, name: str, x: GraphTensor, width: int | None = None) -> GraphTensor:
        width = width or self.decoder.hidden
        weights = [self._weight(f"{name}.weight", width)]
        if self.decoder.norm == "layer":
            weights.append(self._weight(f"{name}.bias", width))
        op = "LayerNormalization" if self.decoder.norm == "layer" else "RMSNormalization"
        return self._add(name, op, (x, *weights), x.dims)

    def _product(self, name: str, x: GraphTensor, width: int, biased: bool) -> GraphTensor:
        """Write a product with a weight, which is packed if weights are quantised."""
        decoder, inner = self.decoder, x.dims[-1]
        shape = (*x.dims[:-1], width)
        bias = self._weight(f"{name}.bias", width) if biased else None
        if not decoder.weight_bits:
            flat = GraphTensor(x.name, (x.elements // inner, inner), x.dtype, x.item_bytes)
            made = self._add(
                name, "Gemm", (flat, self._weight(f"{name}.weight", width, inner), bias),
                (flat.dims[0], width), transB=1,
            )  # fmt: skip
            return GraphTensor(made.name, shape, made.dtype, made.item_bytes)
        groups = -(-inner // decoder.group)
        packed_bytes = -(-decoder.group * decoder.weight_bits // 8)
        packed = GraphTensor(f"{name}.weight", (width, groups, packed_bytes), "uint8", 1, constant=True)
        scales = GraphTensor(f"{name}.scales", (width, groups), "float16", SCALE_BYTES, constant=True)
        return self._add(
            name, "MatMulNBits", (x, packed, scales, None, None, bias), shape, domain="com.microsoft",
            K=inner, N=width, bits=decoder.weight_bits, block_size=decoder.group,
        )  # fmt: skip

    def _weight(self, name: str, *shape: int) -> GraphTensor:
        return GraphTensor(name, shape, *FLOAT_PRECISIONS[self.precision], constant=True)

    def _tensor(self, name: str, shape: tuple[int, ...]) -> GraphTensor:
        return GraphTensor(name, shape, *FLOAT_PRECISIONS[self.precision])

    def _add(
        self, name: str, op: str, inputs: tuple[GraphTensor | None, ...], shape: tuple[int, ...], *more: GraphTensor,
        domain: str = "", **attributes: Any,
    ) -> GraphTensor:  # fmt: skip
        output = self._tensor(f"{name}.out", shape)
        self.nodes.append(OperatorNode(name, op, inputs, (output, *more), attributes, domain=domain))
        return output


_CACHE_WORDS = ("past", "cache")
_CACHE_AXIS = -2
"""Axis along which a cache grows. Source: exports of Hugging Face Optimum and onnxruntime-genai."""
_CACHE_RANK = 3
_TOKENS_RANK = 2


def decoder_conditions(decoder: Decoder, run: Pass, nodes: Sequence[OperatorNode], precision: str) -> dict[str, object]:
    """Return the conditions of a run of a configured model: phase, context, new tokens, bytes of weights and cache.

    ``context`` is the number of new tokens in prefill, otherwise the number of cached tokens.
    """
    weights = {tensor.name: tensor.size_bytes for node in nodes for tensor in node.reads if tensor.constant}
    kept = min(run.past + run.tokens, decoder.window or run.past + run.tokens)
    elements = 2 * decoder.layers * run.samples * decoder.kv_heads * kept * decoder.head_size
    return {
        "dimensions": {"tokens": run.tokens, "past": run.past},
        **_run(run),
        "weights_bytes": sum(weights.values()),
        "cache_bytes": elements * FLOAT_PRECISIONS[precision][1],  # keys and values of every layer, head and token
    }


def _run(run: Pass) -> dict[str, object]:
    context = run.tokens if run.phase == "prefill" else run.past
    return {"phase": run.phase, "context": context, "tokens": run.samples * run.tokens}


def graph_conditions(
    model: onnx.ModelProto, parameters: Sequence[GraphTensor], precision: str | None = None
) -> dict[str, object]:
    """Return the conditions of an ONNX decoder with fixed dimensions; empty for another network.

    Args:
        model: The decoder.
        parameters: Its weights as stored.
        precision: Storage of a floating-point cache; ``None`` for the type that the graph declares.
    """
    specs = input_specs(model)
    ids = [shape for _, shape, dtype in specs if dtype in ("int64", "int32") and len(shape) == _TOKENS_RANK]
    caches = [(name, shape, dtype) for name, shape, dtype in specs if is_cache(name, len(shape))]
    if not ids or not caches:
        return {}
    samples, new = ids[0]
    grown = [each for each in caches if "encoder" not in each[0].lower()]  # the cross-attention cache does not grow
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
    """Return whether an input is a key-value cache, judged by its name and rank."""
    return rank >= _CACHE_RANK and any(word in name.lower() for word in _CACHE_WORDS)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Names of the open dimensions that are sequence lengths of a decoder.

    Args:
        new: Name for the new tokens of a sequence.
        past: Name for the tokens in its cache.
        total: Names for the sum of both, as masks may have.
    """

    new: str
    past: str
    total: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """All names."""
        return frozenset((self.new, self.past, *self.total))

    def sizes(self, new: int, past: int) -> dict[str, int]:
        """Return the size of each dimension by name."""
        return {self.new: new, self.past: past} | dict.fromkeys(self.total, new + past)


def open_lengths(model: onnx.ModelProto) -> Lengths | None:
    """Return the open lengths of an ONNX decoder; ``None`` for another network or for lengths without names."""
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
