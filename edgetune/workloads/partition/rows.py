"""Splitting of fully connected layers and tables that are too large for the memory, by their outputs.

    y = x W + b   with W of 9216 x 4096        151 MB at once
    y = [x W1 + b1, x W2 + b2, ... x W5 + b5]  30 MB at a time: each output is the same sum as before

An embedding table is split in the same way, by its columns. Each part becomes a layer of its own; the last one
concatenates their outputs.
"""

import math
from dataclasses import replace
from typing import Any

import onnx
from onnx import helper, numpy_helper

from edgetune.workloads.graphs import attributes
from edgetune.workloads.partition.optimised import StoredGraph

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
