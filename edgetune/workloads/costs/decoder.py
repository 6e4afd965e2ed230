"""A language model's two operating points as operators: many tokens at once (prefill), or one on a cache (decode).

Each layer is the operators that an inference engine runs, with attention as one operator over the key-value cache;
their costs are the formulas that any ONNX file gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgetune.errors import InputError
from edgetune.workloads.costs.node import FLOAT_PRECISIONS, GraphTensor, OperatorNode
from edgetune.workloads.llm import Decoder

ID_BYTES = 8
"""Token numbers are stored as int64, as exporters do."""
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
    """Return the run that the dimensions ``tokens`` and ``past`` describe: one is enough.

    ``tokens`` alone is prefill, ``past`` alone is decoding one token.

    Raises:
        InputError: neither is given, or another.
    """
    for name in dimensions:
        if name not in ("tokens", "past"):
            raise InputError(f"a language model has no dimension {name!r}", "its dimensions are tokens and past")
    if not dimensions:
        raise InputError(
            "how long the sequence is has not been said",
            "--dim tokens=2048 (prefill of so many), or --dim past=2048 (one token after so many)",
        )
    return Pass(samples, dimensions.get("tokens", 1), dimensions.get("past", 0))


def decoder_nodes(decoder: Decoder, run: Pass, precision: str) -> tuple[OperatorNode, ...]:
    """Return the operators of one run, in order.

    Logits are made for the last new token of each sequence only, which is what generation needs.

    Args:
        decoder: The model.
        run: How many tokens, on how long a cache.
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
    """Writes nodes one after the other; each method returns the tensor that the next one reads."""

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
        mixed = self._add(
            f"{name}.attention",
            "Attention",
            (query, key, value, None, *caches),
            query.dims,
            *grown,
            q_num_heads=decoder.heads,
            kv_num_heads=decoder.kv_heads,
            is_causal=1,
            left_window_size=decoder.window - 1,
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
        """Write a product with a weight, which is packed where weights are quantised."""
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
