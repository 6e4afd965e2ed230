"""Recurrent layers: a matrix product per time step whose weights do not stay on the chip."""

from __future__ import annotations

import math
from dataclasses import replace

from edgetune.workloads.costs.formulas.pointwise import ELEMENTWISE_FLOPS, SIGMOID_FLOPS, TANH_FLOPS
from edgetune.workloads.costs.node import Cost, OperatorNode, Parts

KERNELS_PER_LAYER = 1
"""The input projection of all time steps is one product."""
KERNELS_PER_STEP = 2
"""Each step launches the recurrent product and one kernel of gates."""

LSTM_UNIT_FLOPS = 3 * SIGMOID_FLOPS + 2 * TANH_FLOPS + 4
"""Three gates and two tanh per unit, c' = f c + i g (3) and h = o tanh(c') (1)."""
GRU_UNIT_FLOPS = 2 * SIGMOID_FLOPS + TANH_FLOPS + 5
"""Two gates and a tanh per unit, r times the recurrent term (1) and h' = (1 - z) n + z h (4)."""
RNN_UNIT_FLOPS = TANH_FLOPS


def lstm(node: OperatorNode) -> Cost:
    """Long short-term memory, one layer, one or two directions (``LSTM``): four gates. See ``_recurrent``."""
    return _recurrent(node, gates=4, unit_flops=LSTM_UNIT_FLOPS)


def quantised_lstm(node: OperatorNode) -> Cost:
    """``com.microsoft.DynamicQuantizeLSTM``: as ``lstm``, weights 8-bit and transposed, inputs quantised."""
    cost = _recurrent(node, gates=4, unit_flops=LSTM_UNIT_FLOPS, transposed=True)
    states = math.prod(node.y.dims)
    quantised = ELEMENTWISE_FLOPS["DynamicQuantizeLinear"] * (node.x.elements + states)
    return replace(cost, flops_other=cost.flops_other + quantised)


def gru(node: OperatorNode) -> Cost:
    """Gated recurrent unit, one layer, one or two directions (``GRU``): three gates. See ``_recurrent``."""
    return _recurrent(node, gates=3, unit_flops=GRU_UNIT_FLOPS)


def rnn(node: OperatorNode) -> Cost:
    """Elman network, one layer, one or two directions (``RNN``): one gate. See ``_recurrent``."""
    return _recurrent(node, gates=1, unit_flops=RNN_UNIT_FLOPS)


def _recurrent(node: OperatorNode, *, gates: int, unit_flops: int, transposed: bool = False) -> Cost:
    """Return the cost of a recurrent layer of ``d`` directions, T steps, N samples, I inputs and H units.

    MACs = d T N gates H (I + H). Others = d T N H (gates x (1 join + 2 [biases]) + unit_flops).
    Bytes read = X + states + d (gates H I + biases) + T d gates H H: the input projection of all steps is one
    product that reads its weights once; the recurrent weights are read again at every step, since each step waits for
    the one before and they do not stay on the chip. Written: all outputs, and the input projection is written
    once and read once (2 d T N gates H).
    Kernels = d (1 + 2 T): the projection, then a product and a kernel of gates per step.
    Source: the structure of cuDNN's and PyTorch's layers (J. Appleyard et al., arXiv:1604.01946).
    """
    x, weight, recurrent, bias = node.x, node.input(1), node.input(2), node.optional(3)
    batch_first = bool(node.attributes.get("layout", 0))
    samples, steps = (x.dims[0], x.dims[1]) if batch_first else (x.dims[1], x.dims[0])
    inner = 1 if transposed else 2  # ONNX stores d x (gates H) x I
    directions, units, inputs = weight.dims[0], recurrent.dims[inner], weight.dims[inner]
    per_unit = directions * steps * samples * units
    projection_bytes = per_unit * gates * x.item_bytes
    fixed = [tensor for tensor in (weight, bias) if tensor is not None]
    states = [tensor for tensor in node.inputs[5:7] if tensor is not None]
    weight_bytes = sum(tensor.size_bytes for tensor in fixed) + steps * recurrent.size_bytes
    return Cost(
        "rnn",
        macs=per_unit * gates * (inputs + units),
        flops_other=per_unit * (gates * (3 if bias is not None else 1) + unit_flops),
        bytes_read=x.size_bytes + weight_bytes + projection_bytes + sum(state.size_bytes for state in states),
        bytes_written=projection_bytes + sum(tensor.size_bytes for tensor in node.outputs if tensor is not None),
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
    """Return what each step moves and launches more where every sum, bias, activation and product is a kernel.

    Args:
        gates: Products of each unit.
        unit_bytes: One value of every unit, sample, step and direction.
        steps: Of all directions.
        biased: Whether two biases are added.
    """
    states = gates > 1
    joined = 1 + 2 * biased + 1  # the recurrent product is read, then every sum, to be activated
    return Parts(
        (gates * joined + states * _STATE_READS) * unit_bytes,
        (gates * (joined + 1) + states * _STATE_WRITES) * unit_bytes,
        steps * (2 * biased + gates + states * _STATE_KERNELS),
    )
