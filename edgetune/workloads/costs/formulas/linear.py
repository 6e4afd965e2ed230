"""Convolutions, matrix products and recurrent layers: operators whose work is multiply-accumulates.

A recurrent layer is a matrix product per time step whose weights do not stay on the chip.
"""

import math

from edgetune.artifacts.ops import OpClass
from edgetune.errors import InputError
from edgetune.workloads.costs.formulas.pointwise import ELEMENTWISE_FLOPS, SIGMOID_FLOPS, TANH_FLOPS
from edgetune.workloads.costs.node import UNMODELLED, Cost, GraphTensor, OperatorNode, Parts, streamed, total_bytes

REQUANTISE_FLOPS = 3
"""Per output of a quantised product: scale, round and add the zero point."""
DEQUANTISE_FLOPS = 2
"""Per packed weight: subtract the zero point and multiply."""


def conv(node: OperatorNode) -> Cost:
    """Convolution over a batch of images, grouped or not.

    W = N Cout Hout Wout (2 Cin/g K K + 1[bias]);
    Q = D (N Cin Hin Win + Cout Cin/g K K + Cout[bias] + N Cout Hout Wout).
    Source: definition of convolution, each tensor moved once.
    One kernel: cuDNN adds the bias in its epilogue. Of a ``QLinearConv`` each output is then scaled, rounded and
    shifted; ``ConvInteger`` accumulates integers in 32 bits, without.
    """
    quantised = node.op == "QLinearConv"
    weight, op_class = node.input(3 if quantised else 1), _class_of(int(node.attributes.get("group", 1)), node.x)
    biased = node.op != "ConvInteger" and node.optional(8 if quantised else 2) is not None
    return product(
        node, op_class, math.prod(weight.dims[1:]), weight.dims[0],
        per_output=biased + REQUANTISE_FLOPS * quantised, channels=weight.dims[1],
    )  # fmt: skip


def product(
    node: OperatorNode, op_class: OpClass, inner: int, columns: int, *, per_output: int = 0, channels: int | None = None
) -> Cost:
    """Return the cost of a product.

    Args:
        node: The operator; its tensors are moved once each.
        op_class: Class of the operator.
        inner: Multiply-accumulates per output.
        columns: Output channels.
        per_output: Further FLOP per output.
        channels: Input channels, ``inner`` by default.
    """
    outputs = node.y.elements
    return streamed(
        node, op_class, macs=outputs * inner, flops_other=outputs * per_output,
        channels_in=inner if channels is None else channels, channels_out=columns,
    )  # fmt: skip


def _class_of(group: int, x: GraphTensor) -> OpClass:
    """Return ``depthwise`` if each group has one channel: no reuse across channels, so another roof."""
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


def gemm(node: OperatorNode) -> Cost:
    """Matrix product with bias, Y = alpha A' B' + beta C.

    W = 2 M N K + M N [C] + M N [alpha not 1] + M N [beta not 1 and C]; Q = D (M K + K N + size of C + M N).
    Transposes are strides, not work. Source: ONNX Gemm; BLAS.
    """
    a, bias = node.x, node.optional(2)
    inner = a.dims[0] if node.attributes.get("transA", 0) else a.dims[1]
    scaled = node.attributes.get("alpha", 1.0) != 1.0
    bias_scaled = bias is not None and node.attributes.get("beta", 1.0) != 1.0
    return product(node, "gemm", inner, node.y.dims[1], per_output=(bias is not None) + scaled + bias_scaled)


def matmul(node: OperatorNode) -> Cost:
    """Matrix product with numpy broadcasting (``MatMul``, ``MatMulInteger``).

    MACs = (elements of the output) x K, with K the last dimension of A, whichever operand is broadcast.
    Source: numpy.matmul; each output is an inner product of length K. Of a ``QLinearMatMul`` each output is then
    scaled, rounded and shifted.
    """
    quantised = node.op == "QLinearMatMul"
    a, b = node.x.dims, node.input(3 if quantised else 1).dims
    if not a or not b:
        raise InputError(f"node {node.name!r} multiplies a scalar as a matrix", "the model is malformed; export again")
    return product(node, "gemm", a[-1], b[-1] if len(b) > 1 else 1, per_output=REQUANTISE_FLOPS * quantised)


def einsum(node: OperatorNode) -> Cost:
    """Einstein sum of one or two operands: MACs = product of the sizes of all indices that occur, those of ``...`` too.

    One operand sums or permutes: no MACs, an addition per element read. Three or more operands depend on the order
    chosen and are left unmodelled. Source: definition of the Einstein summation.
    """
    equation = str(node.attributes.get("equation", "")).replace(" ", "")
    terms = equation.split("->")[0].split(",")
    operands = node.reads
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
    """Return an index per dimension; dimensions of ``...`` are counted from the right, as in broadcasting."""
    before, dots, after = term.partition("...")
    covered = rank - len(before) - len(after) if dots else 0
    return [*before, *(f"...{covered - place}" for place in range(covered)), *after]


def matmul_nbits(node: OperatorNode) -> Cost:
    """Product with weights of a few bits, a scale for each group of them (``com.microsoft.MatMulNBits``).

    MACs as ``matmul`` with the N x K of its attributes; others = ``DEQUANTISE_FLOPS`` N K, for every weight is unpacked
    on its way to the product, and a sum per output with a bias. The packed weights, scales and zero points are read.
    """
    inner, width = int(node.attributes["K"]), int(node.attributes["N"])
    cost = product(node, "gemm", inner, width, per_output=node.optional(5) is not None)
    return cost.plus(flops_other=DEQUANTISE_FLOPS * inner * width)


KERNELS_PER_LAYER = 1
"""The input projection of all time steps is one product."""
KERNELS_PER_STEP = 2
"""Each step launches the recurrent product and one kernel of gates."""

LSTM_UNIT_FLOPS = 3 * SIGMOID_FLOPS + 2 * TANH_FLOPS + 4
"""Three gates and two tanh per unit, c' = f c + i g (3) and h = o tanh(c') (1)."""
GRU_UNIT_FLOPS = 2 * SIGMOID_FLOPS + TANH_FLOPS + 5
"""Two gates and a tanh per unit, r times the recurrent term (1) and h' = (1 - z) n + z h (4)."""
RNN_UNIT_FLOPS = TANH_FLOPS


_GATES = {"LSTM": (4, LSTM_UNIT_FLOPS), "GRU": (3, GRU_UNIT_FLOPS), "RNN": (1, RNN_UNIT_FLOPS)}
"""Gates, and FLOP of a unit beside the products."""


def quantised_lstm(node: OperatorNode) -> Cost:
    """``com.microsoft.DynamicQuantizeLSTM``: as an LSTM, weights 8-bit and transposed, inputs quantised."""
    cost = recurrent(node)
    states = math.prod(node.y.dims)
    quantised = ELEMENTWISE_FLOPS["DynamicQuantizeLinear"] * (node.x.elements + states)
    return cost.plus(flops_other=quantised)


def recurrent(node: OperatorNode) -> Cost:
    """A recurrent layer of ``d`` directions, T steps, N samples, I inputs and H units (``LSTM``, ``GRU``, ``RNN``).

    MACs = d T N gates H (I + H). Others = d T N H (gates x (1 join + 2 [biases]) + unit_flops).
    Bytes read = X + states + d (gates H I + biases) + T d gates H H: the input projection of all steps is one
    product that reads its weights once; the recurrent weights are read again at every step, since each step waits for
    the one before and they do not stay on the chip. Written: all outputs, and the input projection is written
    once and read once (2 d T N gates H).
    Kernels = d (1 + 2 T): the projection, then a product and a kernel of gates per step.
    Source: the structure of cuDNN's and PyTorch's layers (J. Appleyard et al., arXiv:1604.01946).
    """
    gates, unit_flops = _GATES.get(node.op, _GATES["LSTM"])
    x, weight, recurrence, bias = node.x, node.input(1), node.input(2), node.optional(3)
    batch_first = bool(node.attributes.get("layout", 0))
    samples, steps = (x.dims[0], x.dims[1]) if batch_first else (x.dims[1], x.dims[0])
    inner = 2 if node.op in _GATES else 1  # ONNX stores d x (gates H) x I, quantised weights are transposed
    directions, units, inputs = weight.dims[0], recurrence.dims[inner], weight.dims[inner]
    per_unit = directions * steps * samples * units
    projection_bytes = per_unit * gates * x.item_bytes
    weight_bytes = total_bytes((weight, bias)) + steps * recurrence.size_bytes
    return Cost(
        "rnn",
        macs=per_unit * gates * (inputs + units),
        flops_other=per_unit * (gates * (3 if bias is not None else 1) + unit_flops),
        bytes_read=x.size_bytes + weight_bytes + projection_bytes + total_bytes(node.inputs[5:7]),
        bytes_written=projection_bytes + total_bytes(node.outputs),
        weight_bytes=weight_bytes,
        channels_in=inputs,
        channels_out=units,
        kernels=directions * (KERNELS_PER_LAYER + KERNELS_PER_STEP * steps),
        parts=_parts(gates, per_unit * x.item_bytes, directions * steps, biased=bias is not None),
    )


_STATE_READS, _STATE_WRITES, _STATE_KERNELS = 9, 4, 5
"""Of a unit's state, by kernels of their own: f c, i g, their sum, its tanh and o times that in an LSTM; r times a
product, 1 - z, two products and their sum in a GRU. The state that is handed on is counted as the output."""


def _parts(gates: int, unit_bytes: int, steps: int, *, biased: bool) -> Parts:
    """Return the additional cost if every sum, bias, activation and product of a step is a separate kernel.

    Args:
        gates: Products of each unit.
        unit_bytes: Bytes of one value of every unit, sample, step and direction.
        steps: Steps of all directions.
        biased: Whether two biases are added.
    """
    states = gates > 1
    joined = 1 + 2 * biased + 1  # the recurrent product is read, then every sum, to be activated
    return Parts(
        (gates * joined + states * _STATE_READS) * unit_bytes,
        (gates * (joined + 1) + states * _STATE_WRITES) * unit_bytes,
        steps * (2 * biased + gates + states * _STATE_KERNELS),
    )
