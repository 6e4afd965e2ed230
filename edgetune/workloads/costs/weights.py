"""The weights of a graph, and the replacement of quantised operators by the 8-bit kernels that run them.

Weights are learnt, unlike settings of operators.

A quantised network is often exported as floats with ``DequantizeLinear`` before each operator and ``QuantizeLinear``
behind it (QDQ). A runtime replaces

    int8 -> DequantizeLinear -> Conv, Relu -> QuantizeLinear -> int8        by        int8 -> QLinearConv -> int8

``as_run`` does the same before costs are computed. Source of the replacements: ONNX Runtime, "Quantize ONNX Models",
and its QDQ selectors (``qdq_selector_action_transformer.cc``). They require that all data of an operator comes from
``DequantizeLinear`` and, except for matrix products, goes to ``QuantizeLinear`` alone. TensorRT's "Explicit
Quantization" does the same. ONNX Runtime replaces all 8-bit values on ARM, unsigned ones on x86, none on CUDA alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgetune.workloads.costs.node import GraphTensor, OperatorNode, makers_of, readers_of
from edgetune.workloads.lazy import onnx

_RUNNING_STATISTICS = {"BatchNormalization": (3, 4)}
"""Inputs that training updates without a gradient; they are no parameters."""
_MAKERS = ("Constant", "ConstantOfShape")
_OPERANDS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "PRelu"), (1, 2)),
    **dict.fromkeys(("BatchNormalization", "GroupNormalization", "InstanceNormalization"), (1, 2)),
    "LayerNormalization": (1, 2),
    "MatMul": (0, 1),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), (1, 2, 3)),
}
"""Inputs that are weights if they are constant, by operator."""
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

    Left out are running statistics, integer tensors (indices and sizes), and single numbers, which are constants of
    formulas (sqrt 2, epsilon).
    """
    read = _read_as_numbers(nodes)
    return _of_numbers(tensors[weight.name] for weight in graph.initializer if weight.name in read)


def stored_otherwise(
    graph: onnx.GraphProto, nodes: Sequence[OperatorNode], tensors: Mapping[str, GraphTensor]
) -> tuple[GraphTensor, ...]:
    """Return the weights that are no dense initialisers, which training does not change.

    These are sparse initialisers, with all elements since a runtime unpacks them, and outputs of ``Constant`` and
    ``ConstantOfShape`` that an operator reads as weights (see ``_OPERANDS``), directly or through other operators
    on constants. Elsewhere such a constant is a mask or an initial state.
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
        for output in (output for output in node.makes if output.constant):
            if node.op in _MAKERS:
                made[output.name] = output
            elif source_of is not None and source_of.name in made:
                made[output.name] = made[source_of.name]
    return _of_numbers((*sparse, *found.values()))


def _read_as_numbers(nodes: Sequence[OperatorNode]) -> set[str]:
    """Return the names of the tensors that some operator reads as numbers: no settings, no running statistics."""
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


_BYTES = frozenset(("int8", "uint8"))
_CONTRIB = "com.microsoft"
_CLAMPS = frozenset(("Relu", "Clip"))
"""Activations that the saturating quantisation of the result includes."""
_PRODUCTS: Mapping[str, tuple[str, str]] = {
    "Conv": ("QLinearConv", ""),
    "MatMul": ("QLinearMatMul", ""),
    "Gemm": ("QGemm", _CONTRIB),
}
_ELEMENTWISE = ("Add", "Mul", "LeakyRelu", "Sigmoid", "Softmax", "AveragePool", "GlobalAveragePool")
_MOVES = (
    "Concat", "Split", "MaxPool", "Max", "Min", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Resize",
    "Gather", "Slice", "Tile", "Expand", "DepthToSpace", "Pad",
)  # fmt: skip
_DATA_INPUTS: Mapping[str, int] = dict.fromkeys(
    ("Reshape", "Squeeze", "Unsqueeze", "Resize", "Gather", "Slice", "Tile", "Expand", "Pad", "Split"), 1
)
"""Number of data inputs of operators whose further inputs are indices or sizes and never quantised."""


def as_run(nodes: Sequence[OperatorNode], outputs: frozenset[str]) -> tuple[list[OperatorNode], int]:
    """Return the operators with quantised ones replaced by 8-bit kernels, and the number of those.

    Args:
        nodes: Operators in the order of the graph.
        outputs: Names of outputs, which are never removed.
    """
    graph = _Graph(nodes, outputs, readers_of(nodes), makers_of(nodes))
    for index, node in enumerate(nodes):
        if not node.domain and (node.op in _PRODUCTS or node.op in _ELEMENTWISE or node.op in _MOVES):
            graph.replace(index)
    return graph.kept(), len(graph.replaced)


@dataclass(slots=True)
class _Graph:
    nodes: Sequence[OperatorNode]
    outputs: frozenset[str]
    readers: dict[str, list[int]]
    makers: dict[str, int]
    replaced: dict[int, OperatorNode] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)

    def replace(self, index: int) -> None:
        """Replace a node by its 8-bit kernel if it is between quantisation nodes."""
        node = self.nodes[index]
        count = _DATA_INPUTS.get(node.op, len(node.inputs))
        given = node.inputs[:count]
        data = [None if tensor is None else self._stored(tensor) for tensor in given]
        if not data or any(found is None and given[place] is not None for place, found in enumerate(data)):
            return
        behind = self._behind(index)
        if behind is None and node.op not in ("MatMul", "Gemm"):
            return
        kernel = _kernel(node, data, None if behind is None else self.nodes[behind[-1]])
        self.replaced[index if behind is None else behind[-1]] = kernel
        self.dropped |= {index, *(behind or ())}

    def _stored(self, tensor: GraphTensor) -> tuple[OperatorNode, GraphTensor] | None:
        """Return the ``DequantizeLinear`` of a tensor and its quantised input; ``None`` if not from 8 or 32 bits."""
        maker = self.makers.get(tensor.name)
        if maker is None or self.nodes[maker].op != "DequantizeLinear":
            return None
        stored = self.nodes[maker].x
        return (self.nodes[maker], stored) if stored.dtype in _BYTES or stored.dtype == "int32" else None

    def _behind(self, index: int) -> list[int] | None:
        """Return the nodes behind one up to the ``QuantizeLinear``, included, that alone reads the result."""
        found: list[int] = []
        while True:
            made = self.nodes[found[-1] if found else index].makes
            if len(made) != 1 or made[0].name in self.outputs:
                return None
            reading = self.readers.get(made[0].name, [])
            if len(reading) != 1:
                return None
            found.append(reading[0])
            op = self.nodes[reading[0]].op
            if op == "QuantizeLinear":
                return found
            if op not in _CLAMPS or self.nodes[index].op not in _PRODUCTS or len(found) > 1:
                return None

    def kept(self) -> list[OperatorNode]:
        """Return the remaining nodes; a ``DequantizeLinear`` without readers is removed."""
        left = [(index, node) for index, node in enumerate(self.nodes) if index not in self.dropped]
        read = {tensor.name for _, node in left for tensor in node.reads} | self.outputs
        unread = {
            index
            for index, node in left
            if node.op == "DequantizeLinear" and not node.y.constant and node.y.name not in read
            if self.readers.get(node.y.name)  # which all became 8-bit kernels
        }
        kept = {index: node for index, node in left if index not in unread} | self.replaced
        return [kept[index] for index in sorted(kept)]


def _kernel(
    node: OperatorNode, data: Sequence[tuple[OperatorNode, GraphTensor] | None], quantise: OperatorNode | None
) -> OperatorNode:
    """Return the 8-bit kernel that replaces a node, its ``DequantizeLinear`` inputs and its ``QuantizeLinear``."""
    outputs = node.outputs if quantise is None else quantise.outputs
    if node.op not in _PRODUCTS:
        rest = node.inputs[len(data) :]
        inputs = (*(None if found is None else found[1] for found in data), *rest)
        return replace(node, inputs=inputs, outputs=outputs)
    op, domain = _PRODUCTS[node.op]
    rounding = (None, None) if quantise is None else (quantise.input(1), quantise.optional(2))
    first, second = (
        (stored, unpacking.optional(1), unpacking.optional(2))
        for unpacking, stored in (found for found in data[:2] if found is not None)  # a product has both operands
    )
    bias = data[2][1] if len(data) > 2 and data[2] is not None else None
    inputs = {
        "QLinearConv": (*first, *second, *rounding, bias),
        "QLinearMatMul": (*first, *second, *rounding),
        "QGemm": (*first, *second, bias, *rounding),
    }[op]
    if op == "QLinearMatMul" and quantise is None:
        (a, a_scale, a_zero), (b, b_scale, b_zero) = first, second
        op, domain, inputs = "MatMulIntegerToFloat", _CONTRIB, (a, b, a_scale, b_scale, a_zero, b_zero)
    return replace(node, op=op, domain=domain, inputs=inputs, outputs=outputs)
