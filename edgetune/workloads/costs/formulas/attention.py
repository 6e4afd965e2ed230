"""Attention as one operator: scores of every query with its visible keys, softmax, weighted sum of values.

Scores are not written to memory: each operator has the cost of the fused kernel of runtimes, which reads Q, K and V
once and writes the result. If an exporter writes the two products and the softmax as separate nodes, each node has its
own cost. Source: T. Dao et al., FlashAttention, arXiv:2205.14135.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.artifacts.ops import OpClass
from edgetune.errors import InputError
from edgetune.workloads.costs.formulas.pointwise import SOFTMAX_FLOPS
from edgetune.workloads.costs.node import Cost, GraphTensor, OperatorNode, Parts, present, total_bytes

ROTARY_FLOPS = 3
"""Per element: times the cosine, its partner times the sine, and the sum. Source: J. Su et al., arXiv:2104.09864."""
SCALE_FLOPS = 1
MASK_FLOPS = 1
"""Per score: the product with 1 / sqrt(head size), and the sum with a mask or bias where there is one."""
_CLASS: OpClass = "gemm"


@dataclass(frozen=True, slots=True)
class Heads:
    """The sizes of one attention.

    Args:
        samples: Sequences in the minibatch.
        heads: Query heads.
        kv_heads: Heads of keys and values, each shared by ``heads / kv_heads`` query heads.
        queries: New tokens of each sequence.
        past: Keys before the first query's own.
        cached: Keys and values that are read from the cache.
        fresh: Keys and values that are computed, and appended to the cache if the operator returns it.
        key_size, value_size: Elements of a key and of a value of one head.
    """

    samples: int
    heads: int
    kv_heads: int
    queries: int
    past: int
    cached: int
    fresh: int
    key_size: int
    value_size: int

    @property
    def keys(self) -> int:
        """Keys including those of the cache."""
        return self.cached + self.fresh


def visible_pairs(queries: int, keys: int, past: int, *, causal: bool, window: int = 0) -> int:
    """Return the number of (query, key) pairs of one head that are multiplied.

    Without a mask these are all pairs. With a causal mask a query sees the ``past`` keys, those of earlier queries and
    its own; with a sliding window only the last ``window`` of those.

    Args:
        queries: New tokens.
        keys: Number of keys.
        past: Keys before the first query's own.
        causal: Whether a query sees only keys up to its own.
        window: Most keys a query sees; 0 for all.
    """
    most = min(window or keys, keys)
    if not causal:
        return queries * most
    growing = min(max(most - past, 0), queries)  # queries that see one key more than the one before
    return growing * past + growing * (growing + 1) // 2 + (queries - growing) * most


def attention(node: OperatorNode) -> Cost:
    """``Attention`` of opset 23 on: Q, K and V as 4-D (heads apart) or 3-D tensors, a cache, grouped heads.

    See ``_attend``. Source: ONNX Attention.
    """
    query, key, value = node.x, node.input(1), node.input(2)
    past_key = node.optional(4)
    heads = _count(node, query, "q_num_heads")
    kv_heads = _count(node, key, "kv_num_heads")
    queries, fresh = query.dims[-2], key.dims[-2]
    past = past_key.dims[2] if past_key is not None else 0
    offset = fresh - queries if node.optional(6) is not None else past  # the cache is K itself, filled to the end
    size, value_size = (t.dims[3] if len(t.dims) == 4 else t.dims[2] // kv_heads for t in (key, value))
    sizes = Heads(query.dims[0], heads, kv_heads, queries, offset, past, fresh, size, value_size)
    left, causal = int(node.attributes.get("left_window_size", -1)), bool(node.attributes.get("is_causal", 0))
    window = left + 1 if left >= 0 else 0
    return _attend(node, sizes, [query, key, value], node.optional(3), past_key, causal=causal, window=window)


def multi_head_attention(node: OperatorNode) -> Cost:
    """``com.microsoft.MultiHeadAttention``: query, key and value of N x S x hidden, or packed into one, with a cache.

    Source: ONNX Runtime's ContribOperators.md. See ``_attend``.
    """
    query, key, value = node.x, node.optional(1), node.optional(2)
    heads = _positive(node, "num_heads")
    packed = len(query.dims) == 5  # N x S x heads x 3 x size
    size = query.dims[-1] if packed else query.dims[2] // heads
    queries, fresh = query.dims[1], query.dims[1]
    value_size = size
    if key is not None:
        fresh = key.dims[1] if len(key.dims) != 4 else key.dims[2]
    if value is not None:
        value_size = value.dims[3] if len(value.dims) == 4 else value.dims[2] // heads
    past_key = node.optional(6)
    past = past_key.dims[2] if past_key is not None else 0
    sizes = Heads(query.dims[0], heads, heads, queries, past, past, fresh, size, value_size)
    reads, mask = [query, key, value, node.optional(3)], node.optional(4) or node.optional(5)
    return _attend(node, sizes, reads, mask, past_key, causal=bool(node.attributes.get("unidirectional", 0)))


def grouped_query_attention(node: OperatorNode) -> Cost:
    """``com.microsoft.GroupQueryAttention``: causal, with a cache, fewer heads of keys than of queries, maybe rotated.

    A cache whose present has the shape of its past is a buffer, taken as full. Source: ONNX Runtime's
    ContribOperators.md. See ``_attend``.
    """
    query, key, value, past_key = node.x, node.optional(1), node.optional(2), node.optional(3)
    heads, kv_heads = _positive(node, "num_heads"), _positive(node, "kv_num_heads")
    shared = heads + 2 * kv_heads if key is None else heads
    size = query.dims[2] // shared
    queries = query.dims[1]
    past = past_key.dims[2] if past_key is not None else 0
    present = node.outputs[1] if len(node.outputs) > 1 else None
    if present is not None and present.shape is not None and past and present.dims[2] == past:
        past -= min(queries, past)
    sizes = Heads(query.dims[0], heads, kv_heads, queries, past, past, queries, size, size)
    window, biased = max(int(node.attributes.get("local_window_size", -1)), 0), node.optional(10) is not None
    cost = _attend(node, sizes, [query, key, value], None, past_key, causal=True, window=window, biased=biased)
    rotated = query.dims[0] * queries * (heads + kv_heads) * size if node.attributes.get("do_rotary", 0) else 0
    return cost.plus(flops_other=ROTARY_FLOPS * rotated)


def packed_attention(node: OperatorNode) -> Cost:
    """``com.microsoft.Attention`` and ``QAttention``: the projections to Q, K and V and the attention in one operator.

    MACs = N S Hin (Hq + Hk + Hv) for the projections, then ``_attend``; two kernels. Source: ONNX Runtime's
    ContribOperators.md.
    """
    x, weight, bias = node.x, node.input(1), node.optional(2)
    heads = _positive(node, "num_heads")
    widths = node.attributes.get("qkv_hidden_sizes") or (weight.dims[1] // 3,) * 3
    quantised = node.op == "QAttention"
    past = node.optional(8 if quantised else 4)
    mask = node.optional(5 if quantised else 3)
    samples, queries = x.dims[0], x.dims[1]
    before = past.dims[3] if past is not None else 0
    size, value_size = widths[0] // heads, widths[2] // heads
    sizes = Heads(samples, heads, heads, queries, before, before, queries, size, value_size)
    projected = samples * queries * sum(widths)
    projected_bytes = projected * node.y.item_bytes
    causal = bool(node.attributes.get("unidirectional", 0))
    cost = _attend(node, sizes, [x, weight, bias], mask, past, causal=causal)
    return cost.plus(
        macs=projected * x.dims[2], flops_other=projected if bias is not None else 0, bytes_read=projected_bytes,
        bytes_written=projected_bytes, kernels=1,
    )  # fmt: skip


def rotary_embedding(node: OperatorNode) -> Cost:
    """Rotary position embedding: ``ROTARY_FLOPS`` per element; of the tables of angles a row per token is read."""
    x = node.x
    tokens = x.dims[0] * x.dims[-2]
    beside = [tensor for tensor in present(node.inputs[1:]) if tensor.dims]
    rows_bytes = sum(min(tensor.size_bytes, tokens * tensor.dims[-1] * tensor.item_bytes) for tensor in beside)
    return Cost(
        "elementwise",
        flops_other=ROTARY_FLOPS * x.elements,
        bytes_read=x.size_bytes + rows_bytes,
        bytes_written=node.y.size_bytes,
    )


def _attend(
    node: OperatorNode, sizes: Heads, operands: Sequence[GraphTensor | None], mask: GraphTensor | None,
    cache: GraphTensor | None, *, causal: bool, window: int = 0, biased: bool = False,
) -> Cost:  # fmt: skip
    """Return the cost of one attention.

    MACs = N heads P (key size + value size) over the P pairs a query head multiplies, ``visible_pairs``.
    Others = N heads P (``SOFTMAX_FLOPS`` + scale [+ mask]).
    Bytes = all operands and the mask once, the keys and values of the cache that are inside the window, the result, and
    what is appended to the cache: the present cache is the past one grown in place, never copied.
    """
    reads, masked = [*operands, mask], biased or mask is not None
    pairs = visible_pairs(sizes.queries, sizes.keys, sizes.past, causal=causal, window=window)
    scores = sizes.samples * sizes.heads * pairs
    per_key_bytes = sizes.samples * sizes.kv_heads * (sizes.key_size + sizes.value_size) * (cache or node.y).item_bytes
    outside = max(sizes.keys - (window + sizes.queries - 1), 0) if window else 0
    cached_bytes = max(sizes.cached - outside, 0) * per_key_bytes
    # separate kernels write scores, scaled, masked and normalised ones, of every query and key, also those hidden
    steps, scores_bytes = 3 + masked, sizes.samples * sizes.heads * sizes.queries * sizes.keys * node.y.item_bytes
    appended = sizes.fresh if len(node.outputs) > 1 and node.outputs[1] is not None else 0
    return Cost(
        _CLASS,
        macs=scores * (sizes.key_size + sizes.value_size),
        flops_other=scores * (SOFTMAX_FLOPS + SCALE_FLOPS + MASK_FLOPS * masked),
        bytes_read=total_bytes(reads) + cached_bytes,
        bytes_written=node.y.size_bytes + appended * per_key_bytes,
        weight_bytes=total_bytes(tensor for tensor in present(reads) if tensor.constant),
        parts=Parts(steps * scores_bytes, steps * scores_bytes, steps),
    )


def _count(node: OperatorNode, tensor: GraphTensor, attribute: str) -> int:
    """Return the number of heads: the second of four dimensions, or the attribute if heads are packed."""
    return tensor.dims[1] if len(tensor.dims) == 4 else _positive(node, attribute)


def _positive(node: OperatorNode, attribute: str) -> int:
    count = int(node.attributes.get(attribute, 0))
    if count < 1:
        raise InputError(
            f"node {node.name!r} ({node.op}) has no {attribute}", "the model is malformed; export it again"
        )
    return count
