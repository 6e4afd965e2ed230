"""Convolutions and matrix products: operators whose work is multiply-accumulates."""

from __future__ import annotations

import math

from edgetune.artifacts.ops import OpClass
from edgetune.errors import InputError
from edgetune.workloads.costs.node import UNMODELLED, Cost, GraphTensor, OperatorNode, streamed

REQUANTISE_FLOPS = 3
"""Scale, round and add the zero point: what a quantised product does to each output after accumulating."""
DEQUANTISE_FLOPS = 2
"""Subtract the zero point and multiply: what a packed weight takes before it is a number."""


def conv(node: OperatorNode) -> Cost:
    """Convolution over a batch of images, grouped or not.

    W = N Cout Hout Wout (2 Cin/g K K + 1[bias]);
    Q = D (N Cin Hin Win + Cout Cin/g K K + Cout[bias] + N Cout Hout Wout).
    Source: definition of convolution, each tensor moved once.
    One kernel: cuDNN adds the bias in its epilogue.
    """
    return _convolution(node, node.x, node.input(1), node.optional(2))


def _convolution(
    node: OperatorNode, x: GraphTensor, weight: GraphTensor, bias: GraphTensor | None, requantise: int = 0
) -> Cost:
    per_output = math.prod(weight.dims[1:])
    outputs = node.y.elements
    group = int(node.attributes.get("group", 1))
    return streamed(
        node,
        _class_of(group, x),
        macs=outputs * per_output,
        flops_other=outputs * ((bias is not None) + requantise),
        channels_in=weight.dims[1],
        channels_out=weight.dims[0],
    )


def _class_of(group: int, x: GraphTensor) -> OpClass:
    """Return ``depthwise`` where each group sees one channel: no reuse across channels, so another roof."""
    if len(x.dims) < 3:
        raise InputError(f"tensor {x.name!r} is no image or sequence: {x}", "the model is malformed; export it again")
    return "depthwise" if group == x.dims[1] > 1 else "conv"


def conv_transpose(node: OperatorNode) -> Cost:
    """Transposed convolution: every input element is scattered through the whole kernel.

    W = N Cin Hin Win (2 Cout/g K K) + N Cout Hout Wout [bias]; bytes as for a convolution.
    Source: it is the gradient of a convolution with respect to its input, hence the same products.
    """
    weight = node.input(1)
    group = int(node.attributes.get("group", 1))
    return streamed(
        node,
        _class_of(group, node.x),
        macs=node.x.elements * math.prod(weight.dims[1:]),
        flops_other=node.y.elements if node.optional(2) is not None else 0,
        channels_in=weight.dims[0] // group,
        channels_out=weight.dims[1] * group,
    )


def conv_integer(node: OperatorNode) -> Cost:
    """Convolution of integers accumulated in 32 bits (``ConvInteger``): MACs as ``conv``, no requantisation."""
    return _convolution(node, node.x, node.input(1), None)


def qlinear_conv(node: OperatorNode) -> Cost:
    """Quantised convolution (``QLinearConv``): MACs as ``conv``, then each output is scaled, rounded and shifted."""
    return _convolution(node, node.x, node.input(3), node.optional(8), REQUANTISE_FLOPS)


def gemm(node: OperatorNode) -> Cost:
    """Matrix product with bias, Y = alpha A' B' + beta C.

    W = 2 M N K + M N [C] + M N [alpha not 1] + M N [beta not 1 and C]; Q = D (M K + K N + size of C + M N).
    Transposes are strides, not work. Source: ONNX Gemm; BLAS.
    """
    a, bias = node.x, node.optional(2)
    inner = a.dims[0] if node.attributes.get("transA", 0) else a.dims[1]
    outputs = node.y.elements
    scaled = node.attributes.get("alpha", 1.0) != 1.0
    bias_scaled = bias is not None and node.attributes.get("beta", 1.0) != 1.0
    return streamed(
        node,
        "gemm",
        macs=outputs * inner,
        flops_other=outputs * ((bias is not None) + scaled + bias_scaled),
        channels_in=inner,
        channels_out=node.y.dims[1],
    )


def matmul(node: OperatorNode) -> Cost:
    """Matrix product with numpy broadcasting (``MatMul``, ``MatMulInteger``).

    MACs = (elements of the output) x K, with K the last dimension of A, whichever operand is broadcast.
    Source: numpy.matmul; each output is an inner product of length K.
    """
    return _product(node, node.x, node.input(1))


def qlinear_matmul(node: OperatorNode) -> Cost:
    """Quantised matrix product: MACs as ``matmul``, then each output is scaled, rounded and shifted."""
    return _product(node, node.x, node.input(3), REQUANTISE_FLOPS)


def _product(node: OperatorNode, a: GraphTensor, b: GraphTensor, requantise: int = 0) -> Cost:
    if not a.dims or not b.dims:
        raise InputError(f"node {node.name!r} multiplies a scalar as a matrix", "the model is malformed; export again")
    inner = a.dims[-1]
    return streamed(
        node,
        "gemm",
        macs=node.y.elements * inner,
        flops_other=node.y.elements * requantise,
        channels_in=inner,
        channels_out=b.dims[-1] if len(b.dims) > 1 else 1,
    )


def einsum(node: OperatorNode) -> Cost:
    """Einstein sum of one or two operands: MACs = product of the sizes of all indices that occur, those of ``...`` too.

    One operand sums or permutes: no MACs, an addition per element read. Three or more operands depend on the order
    chosen and are left unmodelled. Source: definition of the Einstein summation.
    """
    equation = str(node.attributes.get("equation", "")).replace(" ", "")
    terms = equation.split("->")[0].split(",")
    operands = [tensor for tensor in node.inputs if tensor is not None]
    if len(terms) != len(operands) or len(operands) > 2:
        return UNMODELLED
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, operands, strict=True):
        for index, size in zip(_spelled_out(term, len(tensor.dims)), tensor.dims, strict=True):
            sizes[index] = max(sizes.get(index, 1), size)  # an operand of size 1 is broadcast
    if len(operands) == 1:
        return streamed(node, "reduction", flops_other=node.x.elements - node.y.elements)
    return streamed(node, "gemm", macs=math.prod(sizes.values()))


def _spelled_out(term: str, rank: int) -> list[str]:
    """Return an index per dimension; those that ``...`` stands for are counted from the right, as broadcasting does."""
    before, dots, after = term.partition("...")
    covered = rank - len(before) - len(after) if dots else 0
    return [*before, *(f"...{covered - place}" for place in range(covered)), *after]


def matmul_nbits(node: OperatorNode) -> Cost:
    """Product with weights of a few bits, a scale for each group of them (``com.microsoft.MatMulNBits``).

    MACs as ``matmul`` with the N x K of its attributes; others = ``DEQUANTISE_FLOPS`` N K, for every weight is unpacked
    on its way to the product, and a sum per output with a bias. The packed weights, scales and zero points are read.
    """
    inner, width = int(node.attributes["K"]), int(node.attributes["N"])
    outputs = node.y.elements
    return streamed(
        node,
        "gemm",
        macs=outputs * inner,
        flops_other=DEQUANTISE_FLOPS * inner * width + (outputs if node.optional(5) is not None else 0),
        channels_in=inner,
        channels_out=width,
    )
