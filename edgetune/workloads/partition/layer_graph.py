"""The graph of one layer: its operators, with weights and the outputs of other layers as inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.errors import InputError
from edgetune.workloads.partition.cut import Kind, LayerNodes, static_nodes, weights_of
from edgetune.workloads.partition.optimised import bodies
from edgetune.workloads.partition.stored_graph import StoredGraph, reads

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True)
class CutLayer:
    """A piece with its edges.

    Args:
        name: Of the operator that starts it.
        kind: What that operator is.
        nodes: Its operators.
        weights: Names of the weights that it reads.
        inputs: Names of the network's inputs and of other layers' outputs that it reads.
        outputs: Names of what it makes and others, or the network's caller, read.
        after: Indices of the layers that make its inputs, ascending.
        output_bytes: What its outputs take.
        scratch_bytes: The most that tensors inside it take at once, kernels' own workspaces not counted.
    """

    name: str
    kind: Kind
    nodes: tuple[onnx.NodeProto, ...]
    weights: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    after: tuple[int, ...]
    output_bytes: int
    scratch_bytes: int


def cut_layers(pieces: tuple[LayerNodes, ...], graph: StoredGraph) -> tuple[CutLayer, ...]:
    """Return the pieces with what each reads and makes.

    Raises:
        InputError: an output of the network whose size depends on the data.
    """
    static = static_nodes(graph)
    makers = {
        name: index
        for index, piece in enumerate(pieces)
        for node in piece.nodes
        for name in node.output
        if name and name not in static
    }
    wanted = {value.name: {-1} for value in graph.model.graph.output}
    for index, piece in enumerate(pieces):
        for name in {name for node in piece.nodes for name in reads(node)}:
            wanted.setdefault(name, set()).add(index)
    arguments = {value.name for value in graph.model.graph.input} - {*graph.weights, *graph.constants}
    layers = []
    for index, piece in enumerate(pieces):
        used = list(dict.fromkeys(name for node in piece.nodes for name in reads(node)))
        inputs = [name for name in used if name in arguments or makers.get(name, index) != index]
        made = [name for node in piece.nodes for name in node.output if makers.get(name) == index]
        outputs = [name for name in made if wanted.get(name, set()) - {index}]
        layers.append(
            CutLayer(
                piece.name, piece.kind, piece.nodes, tuple(weights_of(used, graph, static)), tuple(inputs),
                tuple(outputs), tuple(sorted({makers[name] for name in inputs if name in makers})),
                sum(_known_bytes(graph, name) for name in outputs), _scratch_bytes(piece, graph, set(inputs + outputs)),
            )
        )  # fmt: skip
    return tuple(layers)


def layer_model(layer: CutLayer, graph: StoredGraph) -> onnx.ModelProto:
    """Return the graph of a layer as a model of its own; constants are inside, weights are inputs.

    Its inputs are first those of the layer, then its weights.
    """
    import onnx
    from onnx import helper

    made = {name for node in layer.nodes for name in node.output}
    used = list(dict.fromkeys(name for node in layer.nodes for name in reads(node)))
    weights = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(graph.weights[name].dtype), graph.weights[name].shape
        )
        for name in layer.weights
    ]
    model = onnx.ModelProto(ir_version=graph.model.ir_version, producer_name="edgetune")
    domains = _domains(layer.nodes)
    model.opset_import.extend(entry for entry in graph.model.opset_import if entry.domain in domains)
    model.graph.name = layer.name or "layer"
    model.graph.node.extend(layer.nodes)
    model.graph.input.extend([*(graph.values[name] for name in layer.inputs), *weights])
    model.graph.output.extend(graph.values[name] for name in layer.outputs)
    model.graph.initializer.extend(graph.constants[name] for name in used if name in graph.constants)
    sparse = {tensor.values.name: tensor for tensor in graph.model.graph.sparse_initializer}
    model.graph.sparse_initializer.extend(sparse[name] for name in used if name in sparse and name not in made)
    return model


def _domains(nodes: tuple[onnx.NodeProto, ...]) -> set[str]:
    """Return the operator sets that nodes and their bodies use; the standard one always."""
    found = {""}
    for node in nodes:
        found.add("" if node.domain == "ai.onnx" else node.domain)
        for body in bodies(node):
            found |= _domains(tuple(body.node))
    return found


def _known_bytes(graph: StoredGraph, name: str) -> int:
    size_bytes = graph.output_bytes(name)
    if size_bytes is None:
        raise InputError(
            f"the size of output {name!r} depends on the data, or is not a tensor: no memory can be set aside for it",
            f"say how large it gets: edgetune schedule prepare --dim '{name}:0=100', or export without this output",
        )
    return size_bytes


def _scratch_bytes(piece: LayerNodes, graph: StoredGraph, outside: set[str]) -> int:
    """Return the most that tensors made and read only inside a piece take at once; unknown sizes count nothing."""
    last = {name: index for index, node in enumerate(piece.nodes) for name in reads(node)}
    alive: dict[str, int] = {}
    most = 0
    for index, node in enumerate(piece.nodes):
        for name in node.output:
            if name in last and name not in outside:
                alive[name] = graph.nbytes(name) or 0
        most = max(most, sum(alive.values()))
        for name in [name for name in alive if last[name] <= index]:
            del alive[name]
    return most
