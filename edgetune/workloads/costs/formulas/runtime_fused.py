"""ONNX Runtime's own operators, which its optimiser and its quantiser write: several ONNX operators in one kernel.

Each costs the work of its parts and the traffic of one kernel. Attention is in ``attention``. Source of inputs and
meaning: ONNX Runtime's ContribOperators.md.
"""

from collections.abc import Mapping
from dataclasses import replace

from edgetune.artifacts.ops import OpClass
from edgetune.workloads.costs.formulas import linear, pointwise
from edgetune.workloads.costs.node import Cost, OperatorNode, present, streamed, total_bytes

DEQUANTISE = pointwise.ELEMENTWISE_FLOPS["DequantizeLinear"]
QUANTISE = pointwise.ELEMENTWISE_FLOPS["QuantizeLinear"]
FAST_GELU_FLOPS = pointwise.TANH_FLOPS + 7
"""x/2 (1 + tanh(x (a + b x x))): square, times b, plus a, times x, tanh, plus 1, times x, halve."""
QUICK_GELU_FLOPS = pointwise.SIGMOID_FLOPS + 2
"""x sigmoid(1.702 x)."""

FUSED_FLOPS: Mapping[str, int] = {
    "Gelu": pointwise.GELU_FLOPS,
    "BiasGelu": pointwise.GELU_FLOPS + 1,
    "FastGelu": FAST_GELU_FLOPS,
    "QuickGelu": QUICK_GELU_FLOPS,
    "BiasAdd": 2,  # bias and skip
    "QLinearAdd": 2 * DEQUANTISE + 1 + QUANTISE,
    "QLinearMul": 2 * DEQUANTISE + 1 + QUANTISE,
    "QLinearSigmoid": DEQUANTISE + pointwise.SIGMOID_FLOPS + QUANTISE,
    "QLinearLeakyRelu": DEQUANTISE + 2 + QUANTISE,
    "QLinearConcat": DEQUANTISE + QUANTISE,
    "BiasSoftmax": pointwise.SOFTMAX_FLOPS + 1,
    "QLinearSoftmax": DEQUANTISE + pointwise.SOFTMAX_FLOPS + QUANTISE,
}
"""FLOP per output element."""
_ACTIVATIONS: Mapping[str, int] = {"Relu": 1, "Sigmoid": 4, "Tanh": 5, "LeakyRelu": 2, "Clip": 2}
"""FLOP per output of the activations that ONNX Runtime folds into a product; another counts one."""


def elementwise(node: OperatorNode) -> Cost:
    """All inputs read once, the first output written once, ``FUSED_FLOPS`` per output element."""
    kind: OpClass = "normalisation" if node.op in ("BiasSoftmax", "QLinearSoftmax") else "elementwise"
    return streamed(_only_first(node), kind, flops_other=FUSED_FLOPS[node.op] * node.y.elements)


def skip_layer_norm(node: OperatorNode) -> Cost:
    """Sum of a residual, maybe a bias, and its layer or RMS norm; the sum is written if it is an output.

    The sum is the fourth output; mean and deviation, the second and third, are for training and not counted.
    """
    simplified = node.op == "SkipSimplifiedLayerNormalization"
    biased = node.optional(3 if simplified else 4) is not None
    per_element = (pointwise.RMS_NORM_FLOPS if simplified else pointwise.LAYER_NORM_FLOPS) + 1 + biased
    cost = streamed(_only_first(node), "normalisation", flops_other=per_element * node.x.elements)
    summed = node.x.size_bytes if len(node.outputs) > 3 and node.outputs[3] is not None else 0
    return cost.plus(bytes_written=summed)


def embed_layer_norm(node: OperatorNode) -> Cost:
    """Rows of up to three embedding tables added and normalised: only the rows gathered are read."""
    tables = len(present(node.inputs[2:5]))
    rows_bytes = node.y.size_bytes * tables
    return Cost(
        "gather",
        flops_other=(pointwise.LAYER_NORM_FLOPS + tables - 1) * node.y.elements,
        bytes_read=rows_bytes + total_bytes((*node.inputs[:2], *node.inputs[5:])),
        bytes_written=node.y.size_bytes,
        weight_bytes=rows_bytes + total_bytes(node.inputs[5:7]),
    )


def group_norm(node: OperatorNode) -> Cost:
    """Group normalisation (``GroupNorm``), maybe of a sum with a residual (``SkipGroupNorm``), maybe then SiLU."""
    skip = node.op == "SkipGroupNorm"
    activated = (pointwise.SIGMOID_FLOPS + 1) if node.attributes.get("activation", 0) else 0
    per_element = pointwise.LAYER_NORM_FLOPS + activated + (skip + (node.optional(4) is not None) if skip else 0)
    cost = streamed(_only_first(node), "normalisation", flops_other=per_element * node.x.elements)
    summed = node.x.size_bytes if skip and len(node.outputs) > 1 and node.outputs[1] is not None else 0
    return cost.plus(bytes_written=summed)


def fused_conv(node: OperatorNode) -> Cost:
    """Convolution, sum with a residual and activation (``FusedConv``): MACs as ``conv``."""
    return _activated(node, linear.conv(node), summed=node.optional(3) is not None)


def fused_gemm(node: OperatorNode) -> Cost:
    """Matrix product with bias and activation (``FusedGemm``)."""
    return _activated(node, linear.gemm(node), summed=False)


def fused_matmul(node: OperatorNode) -> Cost:
    """Matrix product of transposed operands, scaled (``FusedMatMul``): MACs as ``matmul``, transposes are strides."""
    inner = node.x.dims[-2] if node.attributes.get("transA", 0) and len(node.x.dims) > 1 else node.x.dims[-1]
    scaled = node.attributes.get("alpha", 1.0) != 1.0
    return linear.product(node, "gemm", inner, node.y.dims[-1], per_output=scaled)


def qgemm(node: OperatorNode) -> Cost:
    """Quantised matrix product with bias (``QGemm``): outputs are scaled, and rounded if they stay quantised."""
    inner = node.x.dims[0] if node.attributes.get("transA", 0) else node.x.dims[1]
    requantised = linear.REQUANTISE_FLOPS if node.optional(7) is not None else 1
    per_output = requantised + (node.optional(6) is not None)
    return linear.product(node, "gemm", inner, node.y.dims[1], per_output=per_output)


def dynamic_matmul(node: OperatorNode) -> Cost:
    """Product with 8-bit weights whose result is scaled back to floats.

    ``DynamicQuantizeMatMul`` quantises its input on the way, ``MatMulIntegerToFloat`` is given it quantised.
    """
    dynamic = node.op == "DynamicQuantizeMatMul"
    biased = node.optional(4 if dynamic else 6) is not None
    cost = linear.matmul(node)
    quantised = pointwise.ELEMENTWISE_FLOPS["DynamicQuantizeLinear"] * node.x.elements if dynamic else 0
    return replace(cost, flops_other=quantised + node.y.elements * (1 + biased))


def quantised_pooling(node: OperatorNode) -> Cost:
    """Average pooling of integers: as of floats, then each output is scaled, rounded and shifted."""
    pooled = pointwise.pooling if node.op == "QLinearAveragePool" else pointwise.global_pooling
    cost = pooled(replace(node, inputs=node.inputs[:1]))
    return cost.plus(flops_other=linear.REQUANTISE_FLOPS * node.y.elements)


def gather_packed(node: OperatorNode) -> Cost:
    """Rows of a table of a few bits per element (``GatherBlockQuantized``): read packed with their scales, unpacked."""
    bits, block = int(node.attributes.get("bits", 4)), int(node.attributes.get("block_size", 128))
    elements, scale = node.y.elements, node.input(2)
    packed_bytes = -(-elements * bits // 8) + -(-elements // block) * scale.item_bytes
    return Cost(
        "gather",
        flops_other=DEQUANTISE * elements,
        bytes_read=packed_bytes + node.input(1).size_bytes,
        bytes_written=node.y.size_bytes,
        weight_bytes=packed_bytes if node.x.constant else 0,
    )


def bias_dropout(node: OperatorNode) -> Cost:
    """Bias, residual and dropout; at inference a sum (``BiasDropout``)."""
    reads = present(node.inputs[:3])
    sums = len(reads) - 1
    return streamed(_only_first(node), "elementwise", reads=reads, flops_other=sums * node.y.elements)


def _activated(node: OperatorNode, cost: Cost, *, summed: bool) -> Cost:
    name = str(node.attributes.get("activation", ""))
    per_output = (_ACTIVATIONS.get(name, 1) if name else 0) + summed
    return cost.plus(flops_other=per_output * node.y.elements)


def _only_first(node: OperatorNode) -> OperatorNode:
    """Return the node with its first output alone, without masks and statistics of unknown shape."""
    return replace(node, outputs=node.outputs[:1])
