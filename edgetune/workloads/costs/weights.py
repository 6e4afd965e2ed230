"""Which tensors of a graph are weights: what a network has learnt, as against settings of operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from edgetune.workloads.costs.node import GraphTensor, OperatorNode

if TYPE_CHECKING:
    import onnx

_RUNNING_STATISTICS = {"BatchNormalization": (3, 4)}
"""Inputs that look like weights and that training updates without a gradient."""
_MAKERS = ("Constant", "ConstantOfShape")
_OPERANDS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "PRelu"), (1, 2)),
    **dict.fromkeys(("BatchNormalization", "GroupNormalization", "InstanceNormalization"), (1, 2)),
    "LayerNormalization": (1, 2),
    "MatMul": (0, 1),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), (1, 2, 3)),
}
"""Inputs that are weights where they are constant, by operator."""
_ARGUMENTS: Mapping[str, tuple[int, ...]] = {
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "Pad": (1, 2, 3),
    "Clip": (1, 2),
    "Dropout": (1, 2),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "ConvInteger": (2, 3),
    "MatMulInteger": (2, 3),
}
"""Inputs that configure an operator: scales, sizes, limits, zero points."""


def parameters_of(
    graph: onnx.GraphProto, nodes: Sequence[OperatorNode], tensors: Mapping[str, GraphTensor]
) -> tuple[GraphTensor, ...]:
    """Return the trainable weights: initialisers of more than one element that arithmetic reads as numbers.

    Left out: running statistics, integer tensors that say where or how many, and single numbers, which are the
    constants of formulas (sqrt 2, epsilon) rather than weights.
    """
    read = _read_as_numbers(nodes)
    return _of_numbers(tensors[weight.name] for weight in graph.initializer if weight.name in read)


def stored_otherwise(
    graph: onnx.GraphProto, nodes: Sequence[OperatorNode], tensors: Mapping[str, GraphTensor]
) -> tuple[GraphTensor, ...]:
    """Return the weights that are no dense initialisers, which training leaves as they are.

    These are sparse initialisers, with all of their elements since a runtime unpacks them, and what ``Constant`` and
    ``ConstantOfShape`` make where an operator takes weights (see ``_OPERANDS``), directly or through other operators
    on constants. Elsewhere such a constant is a mask or a first state.
    """
    read = _read_as_numbers(nodes)
    sparse = [tensors[each.values.name] for each in graph.sparse_initializer if each.values.name in read]
    made: dict[str, GraphTensor] = {}  # by the name of a constant, what it was made from
    found: dict[str, GraphTensor] = {}
    for node in nodes:
        for place in _OPERANDS.get(node.op, ()) if not node.domain else ():
            operand = node.optional(place)
            if operand is not None and operand.name in made:
                source = made[operand.name]
                found[source.name] = source
        source_of = node.optional(0)
        for output in node.outputs:
            if output is None or not output.constant:
                continue
            if node.op in _MAKERS:
                made[output.name] = output
            elif source_of is not None and source_of.name in made:
                made[output.name] = made[source_of.name]
    return _of_numbers((*sparse, *found.values()))


def _read_as_numbers(nodes: Sequence[OperatorNode]) -> set[str]:
    """Return the names of the tensors that an operator reads other than as a setting or a running statistic."""
    read: set[str] = set()
    for node in nodes:
        skipped = (*_RUNNING_STATISTICS.get(node.op, ()), *_ARGUMENTS.get(node.op, ()))
        read.update(t.name for i, t in enumerate(node.inputs) if t is not None and i not in skipped)
    return read


def _of_numbers(tensors: Iterable[GraphTensor]) -> tuple[GraphTensor, ...]:
    return tuple(
        t
        for t in tensors
        if t.dtype.startswith(("float", "bfloat", "int8", "uint8", "int4", "uint4"))
        and t.shape is not None
        and t.elements > 1
    )
