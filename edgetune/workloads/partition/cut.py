"""The cut of a graph into pieces: one begins at each operator that reads a kernel, a matrix or a table.

      image                        pieces
        |
      Conv W1 ------------.        0   Conv, Relu
      Relu                |
        |                 |
      Conv W2 Relu        |        1   Conv, Relu
        |                 |
      Conv W3             |        2   Conv, Add, Relu: an operator without weights goes where its last input is made
      Add <---------------'
      Relu                         so each piece reads only from pieces before it, whatever branches there are
        |
      Gemm W4                      3   Gemm

Vectors (biases, scales, statistics) start no piece. Operators before the first operator with weights join its piece.
Operators on constants alone are repeated in every piece that reads their outputs.

Splitting of fully connected layers and tables that are too large for the memory, by their outputs.

    y = x W + b   with W of 9216 x 4096        151 MB at once
    y = [x W1 + b1, x W2 + b2, ... x W5 + b5]  30 MB at a time: each output is the same sum as before

An embedding table is split in the same way, by its columns. Each part becomes a layer of its own; the last one
concatenates their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import onnx
from onnx import helper, numpy_helper

from edgetune.errors import InputError
from edgetune.workloads.graphs import attributes, constant_nodes, needed_nodes, nested_nodes, reads
from edgetune.workloads.partition.optimised import StoredGraph, bytes_of


@dataclass(frozen=True, slots=True)
class CutLayer:
    """A piece with its inputs, outputs and memory.

    Args:
        name: Name of the operator that starts the piece.
        kind: Kind of that operator.
        nodes: Its operators.
        weights: Names of the weights that it reads.
        inputs: Names of the network's inputs and of other layers' outputs that it reads.
        outputs: Names of its tensors that other layers read or the network outputs.
        after: Indices of the layers that compute its inputs, ascending.
        output_bytes: Bytes of its outputs.
        scratch_bytes: Peak bytes of its internal tensors, without the workspaces of kernels.
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


def cut_layers(graph: StoredGraph, *, whole: bool = False) -> tuple[CutLayer, ...]:
    """Return the pieces of a graph in topological order, or with ``whole`` the graph as one piece.

    Raises:
        InputError: the size of an output of the network is unknown.
    """
    static, nodes = static_nodes(graph), tuple(graph.model.graph.node)
    whole_piece: Piece = (graph.model.graph.name or "whole", "other", nodes)
    pieces = (whole_piece,) if whole else _cut(graph, static)
    makers = {
        name: index
        for index, (_, _, own) in enumerate(pieces)
        for node in own
        for name in node.output
        if name and name not in static
    }
    wanted = {value.name: {-1} for value in graph.model.graph.output}
    for index, (_, _, own) in enumerate(pieces):
        for name in {name for node in own for name in reads(node)}:
            wanted.setdefault(name, set()).add(index)
    arguments = {value.name for value in graph.model.graph.input} - {*graph.weights, *graph.constants}
    layers = []
    for index, (first, kind, own) in enumerate(pieces):
        used = list(dict.fromkeys(name for node in own for name in reads(node)))
        inputs = [name for name in used if name in arguments or makers.get(name, index) != index]
        made = [name for node in own for name in node.output if makers.get(name) == index]
        outputs = [name for name in made if wanted.get(name, set()) - {index}]
        sizes = {name: bytes_of(graph.sized(name)) for name in outputs}
        if unknown := [name for name, size in sizes.items() if size is None]:
            raise InputError(
                f"the size of output {unknown[0]!r} depends on the data, or is not a tensor: no memory can be set "
                "aside for it",
                "a run shows it: edgetune schedule prepare --inputs FILE.npz; or export it without this output",
            )
        layers.append(
            CutLayer(
                first, kind, own, tuple(weights_of(used, graph, static)), tuple(inputs),
                tuple(outputs), tuple(sorted({makers[name] for name in inputs if name in makers})),
                sum(size or 0 for size in sizes.values()), _scratch_bytes(own, graph, set(inputs + outputs)),
            )
        )  # fmt: skip
    return tuple(layers)


def layer_model(layer: CutLayer, graph: StoredGraph) -> onnx.ModelProto:
    """Return the graph of a layer as a model that contains its constants; its inputs are the layer's, then weights."""
    made = {name for node in layer.nodes for name in node.output}
    used = list(dict.fromkeys(name for node in layer.nodes for name in reads(node)))
    weights = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(graph.weights[name].dtype), graph.weights[name].shape
        )
        for name in layer.weights
    ]
    model = onnx.ModelProto(ir_version=graph.model.ir_version, producer_name="edgetune")
    domains = {"", *("" if node.domain == "ai.onnx" else node.domain for node in nested_nodes(layer.nodes))}
    model.opset_import.extend(entry for entry in graph.model.opset_import if entry.domain in domains)
    model.graph.name = layer.name or "layer"
    model.graph.node.extend(layer.nodes)
    model.graph.input.extend([*(graph.values[name] for name in layer.inputs), *weights])
    model.graph.output.extend(graph.values[name] for name in layer.outputs)
    model.graph.initializer.extend(graph.constants[name] for name in used if name in graph.constants)
    sparse = {tensor.values.name: tensor for tensor in graph.model.graph.sparse_initializer}
    model.graph.sparse_initializer.extend(sparse[name] for name in used if name in sparse and name not in made)
    return model


def _scratch_bytes(nodes: tuple[onnx.NodeProto, ...], graph: StoredGraph, outside: set[str]) -> int:
    """Return the peak bytes of tensors that only the piece itself computes and reads; unknown sizes count 0."""
    last = {name: index for index, node in enumerate(nodes) for name in reads(node)}
    alive: dict[str, int] = {}
    most = 0
    for index, node in enumerate(nodes):
        for name in node.output:
            if name in last and name not in outside:
                alive[name] = graph.nbytes(name) or 0
        most = max(most, sum(alive.values()))
        for name in [name for name in alive if last[name] <= index]:
            del alive[name]
    return most


Kind = Literal["conv", "fc", "other"]

_CONV = "Conv ConvTranspose FusedConv NhwcFusedConv QLinearConv ConvInteger DeformConv NhwcConv"
_FC = (
    "Gemm MatMul FusedGemm FusedMatMul QGemm QLinearMatMul MatMulInteger DynamicQuantizeMatMul MatMulIntegerToFloat "
    "MatMulNBits GemmFloat8 FusedMatMulActivation"
)
_KINDS: dict[str, Kind] = {**dict.fromkeys(_CONV.split(), "conv"), **dict.fromkeys(_FC.split(), "fc")}


Piece = tuple[str, Kind, tuple[onnx.NodeProto, ...]]
"""Name and kind of the operator that starts a layer, and its operators in the order of the graph."""


def _cut(graph: StoredGraph, static: dict[str, onnx.NodeProto]) -> tuple[Piece, ...]:
    groups: list[list[onnx.NodeProto]] = [[]]
    starts: list[onnx.NodeProto | None] = [None]
    made: dict[str, int] = {}
    for node in graph.model.graph.node:
        if any(name in static for name in node.output):
            continue
        weights = (graph.weights[name] for name in weights_of(reads(node), graph, static))
        if any(sum(size > 1 for size in weight.shape) > 1 for weight in weights):  # more than a vector
            if starts[-1] is not None:
                groups.append([])
                starts.append(None)
            starts[-1] = node
            index = len(groups) - 1
        else:
            index = max((made[name] for name in reads(node) if name in made), default=0)
        groups[index].append(node)
        made.update(dict.fromkeys(node.output, index))
    return tuple(_piece(groups[first:last], starts[first:last], static) for first, last in _spans(graph, groups, made))


def static_nodes(graph: StoredGraph) -> dict[str, onnx.NodeProto]:
    """Return the operators that depend on constants alone, by the names of their outputs.

    Random operators and those that compute an output of the network are left out, since they must not be repeated.
    """
    outputs = {value.name for value in graph.model.graph.output}

    def varies(node: onnx.NodeProto) -> bool:
        random = node.op_type.startswith("Random") or node.op_type in ("Bernoulli", "Multinomial")
        return random or not outputs.isdisjoint(node.output)

    static = constant_nodes(graph.model.graph.node, {*graph.weights, *graph.constants}, varies=varies)
    return {name: node for node in static for name in node.output if name}


def weights_of(names: Iterable[str], graph: StoredGraph, static: dict[str, onnx.NodeProto]) -> list[str]:
    """Return the weights among ``names`` and those that static tensors among them are computed from; each once."""
    found: dict[str, None] = {}
    for name in names:
        if name in graph.weights:
            found[name] = None
        elif name in static:
            found.update(dict.fromkeys(weights_of(reads(static[name]), graph, static)))
    return list(found)


def _spans(graph: StoredGraph, groups: list[list[onnx.NodeProto]], made: dict[str, int]) -> list[tuple[int, int]]:
    """Return first and end of the groups that form each piece.

    Groups are joined across values that no memory can be reserved for: sequences, and tensors of data-dependent size.
    """
    joined: set[int] = set()
    for index, group in enumerate(groups):
        for name in (name for node in group for name in reads(node) if made.get(name, index) != index):
            if graph.nbytes(name) is None:
                joined.update(range(made[name], index))
    ends = [index + 1 for index in range(len(groups)) if index not in joined]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _piece(
    groups: list[list[onnx.NodeProto]], starts: list[onnx.NodeProto | None], static: dict[str, onnx.NodeProto]
) -> Piece:
    nodes = [node for group in groups for node in group]
    first = next((node for node in starts if node is not None), nodes[0])
    kinds = {_KINDS.get(node.op_type, "other") for node in starts if node is not None}
    wanted = {name for node in nodes for name in reads(node)}
    needed = needed_nodes(list({id(node): node for node in static.values()}.values()), wanted)
    name = first.name or next(name for name in first.output if name)
    return name, kinds.pop() if len(kinds) == 1 else "other", (*needed, *nodes)


_MATRIX_INPUT = {"Gemm": 1, "FusedGemm": 1, "MatMul": 1, "Gather": 0}
"""The input of each operator that is the matrix; its columns (rows if transposed) are the outputs."""
_STEP = 16
"""Outputs per part are a multiple of this where possible: kernels compute whole vector registers."""


def split_rows(graph: StoredGraph, most_bytes: int) -> StoredGraph:
    """Return a graph in which no fully connected layer or table has a stored matrix of more than ``most_bytes``.

    Each part has at least one output, however small ``most_bytes`` is.
    """
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    split = _Split(replace(graph, model=model), most_bytes)
    nodes = [part for node in graph.model.graph.node for part in split.parts(node)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return StoredGraph(model, split.weights, split.constants, split.values)


class _Split:
    """The tensors of a graph, with those of the parts created so far."""

    def __init__(self, graph: StoredGraph, most_bytes: int) -> None:
        self.weights, self.constants, self.values = dict(graph.weights), dict(graph.constants), dict(graph.values)
        self.most_bytes = most_bytes
        self._graph = graph

    def parts(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Return the nodes that replace ``node``: itself if it is small enough or cannot be split."""
        place = _MATRIX_INPUT.get(node.op_type)
        weight = None if place is None else self.weights.get(node.input[place])
        if place is None or weight is None or weight.ndim != 2 or weight.nbytes <= self.most_bytes:
            return [node]
        bias = node.input[2] if len(node.input) > 2 else ""
        settings = attributes(node)
        if self._graph.nbytes(node.output[0]) is None or settings.get("axis", 0) not in (0, -2):
            return [node]
        if bias and self._constant(bias) is None:
            return [node]
        axis = 0 if settings.get("transB") else 1
        width, output, name = weight.shape[axis], node.output[0], node.name or node.output[0]
        parts = []
        for first, end in _bounds(width, weight.nbytes, self.most_bytes):
            suffix = f"/outputs-{first}-{end}"
            part = helper.make_node("", [], [])
            part.CopyFrom(node)
            part.name, part.output[0] = name + suffix, output + suffix
            part.input[place] = self._slice(node.input[place], axis, first, end)
            if bias and self._constant(bias).shape[-1:] == (width,):
                part.input[2] = self._slice(bias, -1, first, end)
            self.values[part.output[0]] = self._narrowed(output, part.output[0], end - first)
            parts.append(part)
        last = len(self.values[output].type.tensor_type.shape.dim) - 1
        made = [part.output[0] for part in parts]
        return [*parts, helper.make_node("Concat", made, [output], name=f"{name}/join", axis=last)]

    def _constant(self, name: str) -> Any:
        """Return the values of a weight or constant; ``None`` for a computed tensor."""
        if name in self.constants:
            return numpy_helper.to_array(self.constants[name])
        return self.weights.get(name)

    def _slice(self, name: str, axis: int, first: int, end: int) -> str:
        """Store a part of a weight or constant and return its name; operators that share a tensor share its parts."""
        part = f"{name}/outputs-{first}-{end}"
        array = self._constant(name)
        sliced = array[first:end] if axis == 0 or array.ndim == 1 else array[..., first:end]
        if name in self.constants:
            self.constants[part] = numpy_helper.from_array(sliced.copy(), part)
        else:
            self.weights[part] = sliced
        return part

    def _narrowed(self, whole: str, part: str, width: int) -> onnx.ValueInfoProto:
        value = onnx.ValueInfoProto()
        value.CopyFrom(self.values[whole])
        value.name = part
        value.type.tensor_type.shape.dim[-1].dim_value = width
        return value


def _bounds(width: int, weight_bytes: int, most_bytes: int) -> list[tuple[int, int]]:
    """Return first and end of the outputs of each part: nearly equal, in multiples of the step, within the limit."""
    most = max(1, most_bytes * width // weight_bytes)
    if most > _STEP:
        most -= most % _STEP
    even = math.ceil(width / math.ceil(width / most))
    step = min(most, math.ceil(even / _STEP) * _STEP)
    return [(first, min(first + step, width)) for first in range(0, width, step)]
