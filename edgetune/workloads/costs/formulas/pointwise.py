"""Element-wise operators, normalisations, reductions and pooling: little work per byte.

One FLOP per elementary operation of the textbook definition: add, multiply, divide, compare, exp, log, square root
and the like count one each. These constants only colour ``flops_other``; MACs never depend on them.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from edgetune.workloads.costs.node import ZERO, Cost, OperatorNode, Parts, streamed

SIGMOID_FLOPS = 4
"""1 / (1 + exp(-x)): negate, exp, add, divide."""
TANH_FLOPS = 5
"""(e - 1) / (e + 1) with e = exp(2 x): multiply, exp, subtract, add, divide."""
ERF_FLOPS = 17
"""Abramowitz and Stegun 7.1.26: |x|, t = 1/(1 + p x) in 3, five-term Horner in 9, exp(-x x) in 3, final product 1."""
GELU_FLOPS = ERF_FLOPS + 4
"""x/2 (1 + erf(x / sqrt 2)): scale, erf, add, two products."""

ELEMENTWISE_FLOPS: Mapping[str, int] = {
    # one elementary operation per output element
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod", "Pow", "BitShift"), 1),
    **dict.fromkeys(("And", "Or", "Xor", "Not", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"), 1),
    **dict.fromkeys(("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Where", "IsNaN", "IsInf"), 1),
    **dict.fromkeys(("Abs", "Neg", "Ceil", "Floor", "Round", "Sign", "Reciprocal", "Sqrt", "Exp", "Log"), 1),
    **dict.fromkeys(("Sin", "Cos", "Tan", "Asin", "Acos", "Atan"), 1),
    **dict.fromkeys(("Sinh", "Cosh"), 4),  # exp, reciprocal, add, halve
    **dict.fromkeys(("Asinh", "Acosh", "Atanh"), 5),  # logarithm of a sum with a square root
    "Relu": 1,
    "ThresholdedRelu": 1,
    "LeakyRelu": 2,  # compare, multiply
    "PRelu": 2,
    "Clip": 2,  # two comparisons
    "Elu": 4,  # compare, exp, subtract, multiply
    "Celu": 5,
    "Selu": 5,
    "Shrink": 2,
    "Sigmoid": SIGMOID_FLOPS,
    "Tanh": TANH_FLOPS,
    "Softplus": 3,  # exp, add, log
    "Softsign": 3,  # |x|, add, divide
    "Erf": ERF_FLOPS,
    "HardSigmoid": 4,  # multiply, add, two comparisons
    "HardSwish": 5,  # HardSigmoid and a product
    "Silu": SIGMOID_FLOPS + 1,
    "Swish": SIGMOID_FLOPS + 1,
    "SwiGLU": SIGMOID_FLOPS + 2,
    "Mish": 3 + TANH_FLOPS + 1,  # x tanh(softplus(x))
    "Gelu": GELU_FLOPS,
    "Cast": 0,
    "CastLike": 0,
    "QuantizeLinear": 5,  # divide, round, add zero point, two comparisons
    "DequantizeLinear": 2,  # subtract zero point, multiply
    "DynamicQuantizeLinear": 7,  # minimum and maximum first, then as QuantizeLinear
}
"""FLOP per output element of element-wise operators."""

SOFTMAX_FLOPS = 5
"""Per element: maximum, subtract, exp, sum, divide (or subtract the logarithm)."""
LAYER_NORM_FLOPS = 7
"""Per element: sum, subtract mean, square, sum, times 1/sigma, times gamma, plus beta."""
RMS_NORM_FLOPS = 4
"""Per element: square, sum, times 1/rms, times gamma."""
BATCH_NORM_FLOPS = 2
"""Per element: one product and one sum, with the per-channel scale and shift made of the running statistics."""
BATCH_NORM_STATISTICS_FLOPS = 4
"""Per element, training only: sum for the mean; subtract, square, sum for the variance."""
DROPOUT_FLOPS = 3
"""Per element, training only: draw and compare, scale, mask."""


def elementwise(node: OperatorNode) -> Cost:
    """An operator that does the same to every element: all inputs read once, the output written once, one kernel.

    W = c x (elements of the output), c from ``ELEMENTWISE_FLOPS``. An input that is broadcast is read once.
    """
    cost = streamed(node, "elementwise", flops_other=ELEMENTWISE_FLOPS[node.op] * node.y.elements)
    if node.op not in _PARTS:
        return cost
    reads, writes = _PARTS[node.op]
    return replace(cost, parts=Parts((reads - 1) * node.y.size_bytes, (writes - 1) * node.y.size_bytes, writes - 1))


_PARTS: Mapping[str, tuple[int, int]] = {
    "Gelu": (6, 5),  # x / sqrt 2, erf, + 1, x times that, halved
    "Silu": (3, 2),  # sigmoid, x times that
    "Swish": (3, 2),
    "HardSwish": (3, 2),
    "Mish": (4, 3),  # softplus, tanh, x times that
}
"""Reads and writes of the tensor by activations whose parts are kernels of their own; as many kernels as writes."""


def variadic(node: OperatorNode) -> Cost:
    """``Sum``, ``Max``, ``Min``, ``Mean`` of n tensors: n - 1 operations per output element, n for ``Mean``."""
    count = len(node.reads) - (node.op != "Mean")
    return streamed(node, "elementwise", flops_other=count * node.y.elements)


def batch_norm(node: OperatorNode) -> Cost:
    """Batch normalisation, one kernel.

    Inference: ``BATCH_NORM_FLOPS`` per element, input read once. Training: statistics first, so
    ``BATCH_NORM_STATISTICS_FLOPS`` more and the input is read twice.
    """
    training = node.training or trains(node)
    reads = [*node.inputs, node.x] if training else node.inputs
    flops = BATCH_NORM_FLOPS + (BATCH_NORM_STATISTICS_FLOPS if training else 0)
    return streamed(node, "normalisation", reads=reads, flops_other=flops * node.x.elements)


def trains(node: OperatorNode) -> bool:
    """Return whether a batch normalisation was exported in training mode, in which it returns the statistics, too."""
    return node.op == "BatchNormalization" and bool(node.attributes.get("training_mode") or len(node.makes) > 1)


NORM_FLOPS: Mapping[str, int] = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), SOFTMAX_FLOPS),
    **dict.fromkeys(("LayerNormalization", "GroupNormalization", "InstanceNormalization"), LAYER_NORM_FLOPS),
    "MeanVarianceNormalization": LAYER_NORM_FLOPS,
    **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization", "LpNormalization"), RMS_NORM_FLOPS),
}
"""FLOP per element of normalisations of one kernel."""


def normalisation(node: OperatorNode) -> Cost:
    """Softmax or its logarithm, or a layer, group, instance, root-mean-square or Lp norm: read and written once."""
    return streamed(node, "normalisation", flops_other=NORM_FLOPS[node.op] * node.x.elements)


def local_response_norm(node: OperatorNode) -> Cost:
    """Local response normalisation over ``size`` channels.

    W = (size + 4) per element: a square, size - 1 sums, multiply, add, power, divide. Source: ONNX LRN.
    """
    size = int(node.attributes.get("size", 5))
    return streamed(node, "normalisation", flops_other=(size + 4) * node.x.elements)


REDUCTION_FLOPS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ArgMax", "ArgMin"), (1, 0)),
    **dict.fromkeys(("CumSum", "CumProd"), (1, 0)),
    "ReduceMean": (1, 1),
    "ReduceL1": (2, 0),
    "ReduceL2": (2, 1),
    "ReduceSumSquare": (2, 0),
    "ReduceLogSum": (1, 1),
    "ReduceLogSumExp": (4, 2),
}
"""FLOP per input element, and per output element at the end (division, root or logarithm)."""


def reduction(node: OperatorNode) -> Cost:
    """A reduction along axes: input read once, the smaller output written once, FLOP from ``REDUCTION_FLOPS``."""
    per_input, per_output = REDUCTION_FLOPS[node.op]
    flops = per_input * node.x.elements + per_output * node.y.elements
    return streamed(node, "reduction", reads=[node.x], flops_other=flops)


def pooling(node: OperatorNode) -> Cost:
    """Maximum, average or Lp pooling: W = (elements of the output) x (window [+ 1 for the average's division]).

    The input is read once: overlapping windows hit the cache.
    """
    window = math.prod(int(size) for size in node.attributes.get("kernel_shape", ()))
    return streamed(node, "pooling", flops_other=(window + (node.op != "MaxPool")) * node.y.elements)


def global_pooling(node: OperatorNode) -> Cost:
    """Pooling over the whole image: an operation per input element, and a division per output for the average."""
    flops = node.x.elements + (node.y.elements if node.op != "GlobalMaxPool" else 0)
    return streamed(node, "pooling", flops_other=flops)


def cross_entropy(node: OperatorNode) -> Cost:
    """Softmax and the negative logarithm at the label (``SoftmaxCrossEntropyLoss``): ``SOFTMAX_FLOPS`` per element."""
    labels = node.input(1)
    return streamed(node, "normalisation", flops_other=SOFTMAX_FLOPS * node.x.elements + 2 * labels.elements)


def negative_log_likelihood(node: OperatorNode) -> Cost:
    """One value per label picked, weighed and summed (``NegativeLogLikelihoodLoss``): only what is picked is read."""
    labels, weights = node.input(1), node.optional(2)
    picked = labels.elements * node.x.item_bytes
    return Cost(
        "gather",
        flops_other=(1 + (weights is not None)) * labels.elements,
        bytes_read=labels.size_bytes + picked * (1 + (weights is not None)),
        bytes_written=node.y.size_bytes,
    )


def dropout(node: OperatorNode) -> Cost:
    """Dropout: nothing at inference; in training ``DROPOUT_FLOPS`` per element, and a mask of one byte each is kept."""
    if not node.training:
        return ZERO
    plain = streamed(node, "elementwise", reads=[node.x], flops_other=DROPOUT_FLOPS * node.x.elements)
    mask_bytes = 0 if len(node.outputs) > 1 and node.outputs[1] is not None else node.x.elements
    return replace(plain, weight_bytes=0).plus(bytes_written=mask_bytes)
