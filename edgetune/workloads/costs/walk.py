"""Conversion of an ONNX graph with fixed shapes to nodes of the cost formulas, and of their costs to rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgetune.artifacts.ops import OpRow, Phase
from edgetune.errors import InputError
from edgetune.workloads import graphs, shapes
from edgetune.workloads.control_flow import CONTROL_FLOW, Body, EnclosingGraph, bodies, is_settled
from edgetune.workloads.costs.formulas.movement import EXPANDED
from edgetune.workloads.costs.node import (
    FLOAT_BYTES,
    FLOAT_PRECISIONS,
    Cost,
    GraphTensor,
    OperatorNode,
    collapse,
    precision_of,
)
from edgetune.workloads.costs.table import cost_of
from edgetune.workloads.costs.weights import as_run, parameters_of, stored_otherwise
from edgetune.workloads.lazy import onnx
from edgetune.workloads.model_storage import HINT, refuse_malformed
from edgetune.workloads.observed import NOTHING, Observation, path_of

_SHAPE_OF = ("Shape", "Size")
_DFT_AXIS, _DFT_AXIS_OPERAND = 2, 20
"""The operand with the axis of a ``DFT``, and the first opset that has it."""


@dataclass(frozen=True, slots=True)
class Costed:
    """A node and the cost of its forward pass."""

    node: OperatorNode
    cost: Cost


@dataclass(frozen=True, slots=True)
class CostGraph:
    """The operators and weights of a network, as input of the cost formulas.

    Args:
        nodes: Operators in the order of the graph, activation chains collapsed.
        parameters: Trainable weights, in the graph's order.
        weights: The trainable weights and those of ``stored_otherwise``.
        quantised: Number of operators between quantisation nodes that became 8-bit kernels, see ``weights.as_run``.
        settled: Whether the graph or a run determines which bodies of control flow run and how often.
    """

    nodes: tuple[OperatorNode, ...]
    parameters: tuple[GraphTensor, ...]
    weights: tuple[GraphTensor, ...]
    quantised: int = 0
    settled: bool = True


def read_graph(
    model: onnx.ModelProto, *, precision: str | None = None, training: bool = False, observed: Observation = NOTHING
) -> CostGraph:
    """Return the operators and parameters of a model whose dimensions are fixed.

    Args:
        model: A result of ``fix_dimensions``.
        precision: Storage of every floating-point tensor, a key of ``FLOAT_PRECISIONS``; other tensors keep their type.
            ``None`` for the types that the graph declares.
        training: See ``OperatorNode``.
        observed: Observation of a run of the network: shapes, and runs of loops and branches.

    Raises:
        InputError: unknown precision.
    """
    if precision is not None and precision not in FLOAT_PRECISIONS:
        raise InputError(f"unknown precision {precision!r}", f"known: {', '.join(FLOAT_PRECISIONS)}")
    with refuse_malformed("the graph"):
        tensors = _tensors(model.graph, precision)
        reader = _Reader(precision, training)
        nodes = reader.nodes(model, tensors, _Scope("", 1, observed))
        outputs = frozenset(reader.outputs)
        run, quantised = (nodes, 0) if training else as_run(nodes, outputs)
        parameters = parameters_of(model.graph, nodes, tensors)
        weights = (*parameters, *stored_otherwise(model.graph, nodes, tensors))
        return CostGraph(tuple(collapse(run, outputs)), parameters, weights, quantised, reader.settled)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The scope of a graph: prefix of its names, how often it runs, and its observation."""

    prefix: str
    repeats: int
    seen: Observation


@dataclass(slots=True)
class _Reader:
    """Reads a graph and, inside its control flow, the bodies that run.

    Args:
        precision, training: As for ``read_graph``.
        outputs: Names of outputs of the graph and of the bodies read so far.
        settled: See ``CostGraph``.
    """

    precision: str | None
    training: bool
    outputs: set[str] = field(default_factory=set)
    settled: bool = True

    def nodes(self, model: onnx.ModelProto, tensors: dict[str, GraphTensor], scope: _Scope) -> list[OperatorNode]:
        """Return the operators of a graph in order; those of a body follow its operator."""
        found: list[OperatorNode] = []
        around: EnclosingGraph | None = None
        for proto, name in zip(model.graph.node, unique_names(model.graph.node), strict=True):
            node = self._node(proto, scope.prefix + name, tensors, scope)
            if proto.op_type == "DFT":
                node = replace(node, attributes={**node.attributes, "axis": _dft_axis(proto, model)})
            if proto.op_type in CONTROL_FLOW and not proto.domain:
                around = around or shapes.surroundings(model, scope.seen)
                self.settled &= bool(scope.seen) or is_settled(proto, around)
                inner = self._body(proto, bodies(proto, around), node, tensors, scope)
                if inner is not None:
                    found += [replace(node, attributes={EXPANDED: True}), *inner]
                    continue
            found.append(node)
        self.outputs |= {tensors[value.name].name for value in model.graph.output if value.name in tensors}
        return found

    def _node(self, proto: onnx.NodeProto, name: str, tensors: dict[str, GraphTensor], scope: _Scope) -> OperatorNode:
        inputs = tuple(tensors.get(i) or _unknown(i) if i else None for i in proto.input)
        constant = proto.op_type in (*_SHAPE_OF, "Constant") or (
            # random operators are no constants, nor is control flow, whose bodies may read other tensors
            all(tensor is None or tensor.constant for tensor in inputs)
            and bool(proto.input)
            and not graphs.bodies(proto)
            and not proto.op_type.startswith("Random")
        )
        outputs = tuple(_output(tensors, o, constant) if o else None for o in proto.output)
        if constant and proto.op_type == "DequantizeLinear":
            outputs = tuple(_kept_packed(tensors, o, inputs) for o in proto.output)
        domain, attributes = str(proto.domain), graphs.attributes(proto)
        node = OperatorNode(name, proto.op_type, inputs, outputs, attributes, self.training, domain, scope.repeats)
        if not scope.prefix and proto.op_type == "Reshape":  # a body that does not run may contradict itself
            _check_reshape(node)
        return node

    def _body(
        self,
        proto: onnx.NodeProto,
        found: Sequence[Body],
        node: OperatorNode,
        tensors: Mapping[str, GraphTensor],
        scope: _Scope,
    ) -> list[OperatorNode] | None:
        """Return the operators of the bodies that ran; without a run, of the costliest; ``None`` if none is known."""
        choices = []
        for body in found:
            repeats = scope.repeats * body.repeats if body.runs is None else body.runs
            prefix = f"{node.name}/{body.name}/" if scope.seen and len(found) > 1 else f"{node.name}/"
            own = {
                name: tensors[name] if name in body.outer and name in tensors else replace(tensor, name=prefix + name)
                for name, tensor in _tensors(body.model.graph, self.precision).items()
            }
            choices.append(self.nodes(body.model, own, _Scope(prefix, repeats, scope.seen.body(proto, body.name))))
        if scope.seen:
            ran = path_of(scope.seen.prefix, proto) in scope.seen.runs
            return [each for choice in choices for each in choice] if choices or ran else None
        return max(choices, key=_work) if choices else None


def _dft_axis(proto: onnx.NodeProto, model: onnx.ModelProto) -> int | None:
    """Return the axis of a ``DFT``, an attribute before opset 20 and an operand since; ``None`` if it is computed."""
    opset = next((int(each.version) for each in model.opset_import if each.domain in ("", "ai.onnx")), 1)
    if opset < _DFT_AXIS_OPERAND:
        return int(graphs.attributes(proto).get("axis", 1))
    if len(proto.input) <= _DFT_AXIS or not proto.input[_DFT_AXIS]:
        return -2
    axis = shapes.small_constants(model.graph).get(proto.input[_DFT_AXIS])
    return None if axis is None else int(axis.ravel()[0])


def _check_reshape(node: OperatorNode) -> None:
    """Refuse a reshape that changes the number of elements: shape inference takes a size built in as it is written.

    Raises:
        InputError: the network cannot run with these sizes.
    """
    shapes_known = [tensor for tensor in (*node.inputs[:1], *node.outputs[:1]) if tensor and tensor.shape is not None]
    if len({tensor.elements for tensor in shapes_known}) > 1:
        before, after = shapes_known
        raise InputError(
            f"the network cannot run at this size: {node.name!r} (Reshape) has a shape built in, {after}, and gets "
            f"{before}",
            "give the batch size and the --dim that it was exported with, or export it with these dimensions open",
        )


def _work(nodes: Sequence[OperatorNode]) -> tuple[int, int]:
    """Return FLOP and bytes of the nodes, to compare branches."""
    costs = [item.cost for item in cost_nodes(nodes)]
    flops = sum(2 * cost.macs + cost.flops_other for cost in costs)
    return flops, sum(cost.bytes_moved for cost in costs)


def _kept_packed(
    tensors: dict[str, GraphTensor], name: str, inputs: Sequence[GraphTensor | None]
) -> GraphTensor | None:
    """Return a quantised weight as stored, with its scales: engines unpack it inside the product that reads it.

    Args:
        tensors: Tensors of the graph; the weight is replaced there.
        name: Name of the weight.
        inputs: Inputs of its ``DequantizeLinear``: stored values, scales, zero points. A scalar scale costs no bytes.
    """
    tensor, (stored, *scaling) = tensors[name], inputs
    if stored is not None:
        scales_bytes = sum(each.size_bytes for each in scaling if each is not None and each.shape)
        tensor = replace(tensor, dtype=stored.dtype, item_bytes=stored.item_bytes, scales_bytes=scales_bytes)
        tensors[name] = tensor
    return tensor


def cost_nodes(nodes: Sequence[OperatorNode]) -> list[Costed]:
    """Return each node with its cost.

    Raises:
        InputError: a formula needs a shape that is unknown, or returns a negative amount.
    """
    costed = [Costed(node, cost_of(node)) for node in nodes]
    for node, cost in ((item.node, item.cost) for item in costed):
        amounts = (cost.macs, cost.flops_other, cost.bytes_read, cost.bytes_written, cost.weight_bytes)
        if min(amounts) < 0:  # the shapes of the operator's tensors contradict each other
            listed = " and ".join(map(str, (*node.reads, *node.makes)))
            raise InputError(
                f"operator {node.name!r} ({node.op}) would cost {min(amounts)}: its shapes contradict, {listed}", HINT
            )
    return costed


def to_row(node: OperatorNode, cost: Cost, phase: Phase = "forward", suffix: str = "") -> OpRow:
    """Return the table's row of one node in one phase; ``suffix`` distinguishes several rows of a node."""
    return OpRow(
        name=node.name + suffix,
        op=node.op,
        op_class=cost.op_class,
        phase=phase,
        ledger=cost.ledger,
        inputs=tuple(map(str, node.reads)),
        outputs=tuple(map(str, node.makes)),
        dtype=node.makes[0].dtype if node.makes else "",
        macs=cost.macs,
        flops=2 * cost.macs + cost.flops_other,
        flops_other=cost.flops_other,
        bytes_read=cost.bytes_read,
        bytes_written=cost.bytes_written,
        weight_bytes=cost.weight_bytes,
        channels_in=cost.channels_in,
        channels_out=cost.channels_out,
        kernels=cost.kernels,
        precision=precision_of(node),
    )


def _unknown(name: str) -> GraphTensor:
    return GraphTensor(name, None, "", 0)


def _output(tensors: dict[str, GraphTensor], name: str, constant: bool) -> GraphTensor:
    """Return an output's tensor; record in ``tensors`` whether it is constant."""
    tensor = tensors.get(name) or _unknown(name)
    if constant:
        tensor = replace(tensor, constant=True)
    tensors[name] = tensor
    return tensor


def _tensors(graph: onnx.GraphProto, precision: str | None) -> dict[str, GraphTensor]:
    found: dict[str, GraphTensor] = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if not kind.elem_type:
            continue
        found[value.name] = GraphTensor(value.name, graphs.known_shape(value), *_storage(kind.elem_type, precision))
    for weight in graph.initializer:
        shape = tuple(int(size) for size in weight.dims)
        found[weight.name] = GraphTensor(weight.name, shape, *_storage(weight.data_type, precision), constant=True)
    for sparse in graph.sparse_initializer:
        shape = tuple(int(size) for size in sparse.dims)
        storage = _storage(sparse.values.data_type, precision)
        found[sparse.values.name] = GraphTensor(sparse.values.name, shape, *storage, constant=True)
    return found


def _storage(elem_type: int, precision: str | None) -> tuple[str, int]:
    """Return name and bytes of an ONNX element type; of floats wider than 8 bits at ``precision``, if given."""
    name = _LONG_NAMES.get(elem_type) or onnx.TensorProto.DataType.Name(elem_type).lower()
    if name in FLOAT_BYTES:
        wide = FLOAT_BYTES[name] > 1
        return FLOAT_PRECISIONS[precision] if wide and precision is not None else (name, FLOAT_BYTES[name])
    return name, _INTEGER_BYTES.get(name, 1)


_LONG_NAMES: Mapping[int, str] = {1: "float32", 11: "float64"}
"""Names of ONNX's FLOAT and DOUBLE."""


_INTEGER_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("int64", "uint64", "complex64", "string"), 8),
    **dict.fromkeys(("int32", "uint32"), 4),
    **dict.fromkeys(("int16", "uint16"), 2),
    "complex128": 16,
}
"""Bytes of the types that are not floating-point; 1 if not listed (bool, int8, uint8)."""


def unique_names(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """Return a unique name per node: its own, or ``Conv_12`` by position, with ``#2`` if the name is taken."""
    taken: set[str] = set()
    names = []
    for index, node in enumerate(nodes):
        base = node.name or f"{node.op_type}_{index}"
        name, copy = base, 1
        while name in taken:
            copy += 1
            name = f"{base}#{copy}"
        taken.add(name)
        names.append(name)
    return names
